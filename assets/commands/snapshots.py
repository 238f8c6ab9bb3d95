"""`nightbook snapshots`: every landed night, its state, and why."""

import argparse
import textwrap

from assets.commands.terminal import typed, width
from assets.resources import Nightbook
from pipelines import snapshots
from warehouse.printable import printable

A_PERSON_MUST_DECIDE = 3


def run(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    """List the nights, newest last; exit code 3 while one of them waits for a decision."""
    del arguments
    known = snapshots.landed(nightbook.layout)
    if not known:
        print(
            f"No night has been landed in {nightbook.layout.home} yet. "
            "Take one: nightbook run (or try: nightbook demo)"
        )
        return 0
    books = {one.snapshot_id for one in snapshots.books(known).values()}
    print(f"{nightbook.layout.home}\n")
    print(f"{'date':<12}{'snapshot':<18}{'state':<10}{'':<12}decided")
    for one in known:
        place = "book" if one.snapshot_id in books else _superseded(one)
        by = (
            f"{one.decision.at[:16].replace('T', ' ')} by {one.decision.by}" if one.decision else ""
        )
        print(
            f"{one.snapshot_date!s:<12}{one.snapshot_id:<18}{one.state:<10}{place:<12}{printable(by)}"
        )
        for reason in one.decision.reasons if one.decision else ():
            print(
                textwrap.fill(
                    printable(reason),
                    width(),
                    initial_indent=" " * 12,
                    subsequent_indent=" " * 14,
                )
            )
    held = [one.snapshot_id for one in known if one.state == snapshots.HELD]
    if held:
        print(f"\nDecide: {typed(nightbook.layout)} accept {held[-1]} --why '...'   (or reject)")
    return A_PERSON_MUST_DECIDE if held else 0


def _superseded(one: snapshots.Snapshot) -> str:
    return "superseded" if one.state == snapshots.ACCEPTED else ""
