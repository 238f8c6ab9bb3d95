"""`nightbook snapshots`: every landed night, its state, and why."""

import argparse
import textwrap
from collections.abc import Sequence

from assets.console.terminal import count_of, command_for, width
from assets.nightbook import Nightbook
from pipelines.lake import lessons
from pipelines.landing import snapshots
from pipelines.landing.snapshots import Snapshot
from warehouse.text import printable

A_PERSON_MUST_DECIDE = 3


def run(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    """List the nights, newest last; exit code 3 while one of them waits for a decision."""
    known = snapshots.landed_snapshots(nightbook.layout)
    if not known:
        print(
            f"No night has been landed in {nightbook.layout.home} yet. "
            f"Take one: {command_for(nightbook.layout)} run (or try: nightbook demo)"
        )
        return 0
    if arguments.lessons:
        return _lessons(known)
    books = {one.snapshot_id for one in snapshots.books(known).values()}
    print(f"{nightbook.layout.home}\n")
    print(f"{'date':<12}{'snapshot':<18}{'state':<10}{'':<12}decided")
    for one in known:
        place = "book" if one.snapshot_id in books else _superseded_words(one)
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
    in_force = [one for one in lessons.all_lessons(known) if one.taken_back is None]
    if in_force:
        count = count_of(len({one.name for one in in_force}), "thing")
        print(
            f"\nKnown to be harmless: {count}. List: {command_for(nightbook.layout)} snapshots --lessons"
        )
    held = [one.snapshot_id for one in known if one.state == snapshots.HELD]
    if held:
        print(f"\nDecide: {command_for(nightbook.layout)} accept {held[-1]} --why '...'   (or reject)")
    return A_PERSON_MUST_DECIDE if held else 0


def _superseded_words(one: snapshots.Snapshot) -> str:
    return "superseded" if one.state == snapshots.ACCEPTED else ""


def _lessons(known: Sequence[Snapshot]) -> int:
    """List what is known to be harmless, who taught it, and what was taken back."""
    taught = lessons.all_lessons(known)
    if not taught:
        print("Nothing was accepted yet that later nights are let through for.")
    for lesson in taught:
        state = "taken back" if lesson.taken_back else "in force"
        made = lesson.taken_back or lesson.taught
        at = made.at[:16].replace("T", " ")
        print(
            f"{lesson.name}  {state:<12}{lesson.snapshot.snapshot_id}  {at} by {printable(made.by)}"
        )
        words = printable(lesson.reason.words)
        print(textwrap.fill(words, width(), initial_indent=" " * 10, subsequent_indent=" " * 12))
    if any(lesson.taken_back is None for lesson in taught):
        print("\nTake one back: nightbook reject LESSON --why '...'")
    return 0
