"""`nightbook accept ID` and `nightbook reject ID`: a person decides on a held night."""

import argparse
import getpass
import os

from assets import publishing
from assets.commands.terminal import typed
from assets.resources import Nightbook
from pipelines import lake, snapshots
from pipelines.writer import the_writer

STATES = {"accept": snapshots.ACCEPTED, "reject": snapshots.REJECTED}


def run(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    """Record the decision and publish; says what the book of the date is now."""
    layout, now = nightbook.layout, nightbook.now()
    with the_writer(layout, f"{arguments.command} {arguments.snapshot}", now):
        publishing.remake(nightbook)
        snapshots.decide_by_hand(
            layout,
            arguments.snapshot,
            STATES[arguments.command],
            by=_who(),
            at=now,
            why=arguments.why,
        )
        lake.settle(layout)
        publishing.refresh(nightbook)
    snapshot = snapshots.find(layout, arguments.snapshot)
    book = snapshots.books(snapshots.landed(layout)).get(snapshot.snapshot_date)
    is_now = f"its book is {book.snapshot_id}" if book else "it has no book: a gap"
    print(f"{snapshot.snapshot_id} is {snapshot.state}. {snapshot.snapshot_date}: {is_now}.")
    held = snapshot.decision if snapshot.state == snapshots.HELD else None
    for reason in held.reasons if held else ():
        print(f"  {reason}")
    if snapshot.state != STATES[arguments.command]:
        return 1
    if snapshot.state == snapshots.ACCEPTED:
        day = snapshot.snapshot_date
        print(f"Its workbook, and the check in Dagster: {typed(layout)} run --date {day}")
    return 0


def _who() -> str:
    """The user who decides; a container may have no name for it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"
