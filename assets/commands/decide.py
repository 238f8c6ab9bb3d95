"""`nightbook accept ID` and `nightbook reject ID`: a person decides on a held night."""

import argparse
from datetime import date

from assets import publishing
from assets.commands.terminal import typed
from assets.commands.who import me
from assets.resources import Nightbook
from assets.writing import writing
from pipelines import lake, night, snapshots
from warehouse.printable import printable

STATES = {"accept": snapshots.ACCEPTED, "reject": snapshots.REJECTED}


def run(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    """Record the decision and publish; says what the book of the date is now."""
    layout, now = nightbook.layout, nightbook.now()
    with writing(nightbook, f"{arguments.command} {arguments.snapshot}"):
        publishing.remake(nightbook)
        snapshots.decide_by_hand(
            layout,
            arguments.snapshot,
            STATES[arguments.command],
            by=me(),
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
        print(f"  {printable(reason)}")
    if snapshot.state != STATES[arguments.command]:
        return 1
    if snapshot.state == snapshots.ACCEPTED:
        print(_next(nightbook, snapshot.snapshot_date))
    return 0


def _next(nightbook: Nightbook, day: date) -> str:
    """What makes the workbook of a night that was accepted.

    Of a past date the job can be run again, from its bytes. Today it would pull anew, and what it
    reads would take the place of the book that was accepted.
    """
    program = typed(nightbook.layout)
    if day == night.business_date(nightbook.settings(), nightbook.now()):
        return f"Its workbook: {program} export --as-of {day}"
    return f"Its workbook, and the check in Dagster: {program} run --date {day}"
