"""`nightbook accept ID` and `nightbook reject ID`: a person decides on a night, or on a lesson."""

import argparse
import re
from datetime import date

from assets.console.terminal import command_for, count_of
from assets.console.user import me
from assets.home.writer_lock import writing
from assets.nightbook import Nightbook
from assets.publishing import lost_decisions, publish, withdrawal
from pipelines import night
from pipelines.lake import lessons, placement
from pipelines.landing import snapshots
from pipelines.landing.snapshots import Snapshot
from warehouse.query.printable import printable
from warehouse.storage.layout import Layout

STATES = {"accept": snapshots.ACCEPTED, "reject": snapshots.REJECTED}
_LESSON = re.compile(r"[0-9a-f]{8}")


def run(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    """Record the decision and publish; says what the book of the date is now."""
    if arguments.command == "reject" and _LESSON.fullmatch(arguments.snapshot):
        return _take_back(arguments, nightbook)
    layout, state = nightbook.layout, STATES[arguments.command]
    before = snapshots.find(layout, arguments.snapshot)
    if not snapshots.require_decidable(before, state, why=arguments.why):
        return _again(nightbook, before)
    waiting = {
        snapshot_.snapshot_id
        for snapshot_ in snapshots.landed_snapshots(layout)
        if snapshot_.state == snapshots.HELD
    }
    snapshot = _decide(arguments, nightbook)
    print(f"{snapshot.snapshot_id} is {snapshot.state}. {_book(layout, snapshot)}")
    held = snapshot.decision if snapshot.state == snapshots.HELD else None
    for reason in held.reasons if held else ():
        print(f"  {printable(reason)}")
    if snapshot.state != state:
        return 1
    if snapshot.state == snapshots.ACCEPTED:
        _tell_lessons(snapshot)
        _tell_let_through(layout, waiting - {snapshot.snapshot_id})
        print(_next(nightbook, snapshot.snapshot_date))
    else:
        _tell_withdrawn(layout, before, snapshot)
    return 0


def _again(nightbook: Nightbook, snapshot: Snapshot) -> int:
    """What is so already is done: but for what a command left that died after deciding."""
    layout, decision = nightbook.layout, snapshot.decision
    if decision is not None and (
        snapshot.snapshot_id in lost_decisions.untold(layout)
        or withdrawal.is_without_note(layout, decision)
    ):
        with writing(nightbook, f"publishing {snapshot.snapshot_id}"):
            withdrawal.mark(layout, snapshot, decision)
            publish.remake(nightbook)
    print(f"{snapshot.snapshot_id} is {snapshot.state} already: nothing was to be decided.")
    print(_book(layout, snapshot))
    return 0


def _decide(arguments: argparse.Namespace, nightbook: Nightbook) -> Snapshot:
    """Decide as the writer, publish, and mark what was made of a night that is taken back."""
    layout, now = nightbook.layout, nightbook.now()
    with writing(nightbook, f"{arguments.command} {arguments.snapshot}"):
        publish.remake(nightbook)
        before = snapshots.find(layout, arguments.snapshot)
        is_taken_back = before.state == snapshots.ACCEPTED
        snapshot = snapshots.decide_by_hand(
            layout,
            arguments.snapshot,
            STATES[arguments.command],
            by=me(),
            at=now,
            why=arguments.why,
            withdrawn=withdrawal.made_of(layout, before) if is_taken_back else (),
        )
        lessons.let_through(layout, at=now)
        if is_taken_back and snapshot.decision is not None:
            withdrawal.mark(layout, snapshot, snapshot.decision)
        placement.settle(layout)
        publish.refresh(nightbook)
    return snapshots.find(layout, arguments.snapshot)


def _book(layout: Layout, snapshot: Snapshot) -> str:
    book = snapshots.books(snapshots.landed_snapshots(layout)).get(snapshot.snapshot_date)
    is_now = f"its book is {book.snapshot_id}" if book else "it has no book: a gap"
    return f"{snapshot.snapshot_date}: {is_now}."


def _tell_lessons(snapshot: Snapshot) -> None:
    """What accepting it has taught, and how each is taken back."""
    taught = [lesson_ for lesson_ in lessons.all_lessons([snapshot]) if lesson_.taken_back is None]
    if taught:
        print("Known to be harmless from now on; nightbook reject LESSON takes it back:")
    for lesson in taught:
        print(f"  {lesson.name}  {printable(lesson.reason.words)}")


def _tell_let_through(layout: Layout, waiting: set[str]) -> None:
    """Which other nights waited for the same, and wait no more."""
    for other in snapshots.landed_snapshots(layout):
        if other.snapshot_id in waiting and other.state == snapshots.ACCEPTED:
            print(f"{other.snapshot_id} waited for the same: it is accepted as well.")


def _tell_withdrawn(layout: Layout, before: Snapshot, snapshot: Snapshot) -> None:
    """What was made of a night that is taken back, and what it had taught."""
    gone = [lesson_ for lesson_ in lessons.all_lessons([before]) if lesson_.taken_back is None]
    for lesson in gone:
        print(f"No longer known to be harmless: {lesson.name} {printable(lesson.reason.words)}")
    files = snapshot.decision.withdrawn if snapshot.decision else ()
    if files:
        files_words = count_of(len(files), "file")
        print(f"{files_words} made of it, each marked by a note beside it (and in ops.withdrawn):")
    for file in files:
        print(f"  {printable(str(layout.home / file))}")


def _take_back(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    """Let what was known to be harmless hold nights again."""
    layout, now = nightbook.layout, nightbook.now()
    name = arguments.snapshot
    with writing(nightbook, f"reject {name}"):
        publish.remake(nightbook)
        gone = lessons.take_back(layout, name, by=me(), at=now, why=arguments.why)
        publish.refresh(nightbook)
    print(f"{name} is taken back, it holds a night again: {printable(gone[-1].reason.words)}")
    return 0


def _next(nightbook: Nightbook, day: date) -> str:
    """What makes the workbook of a night that was accepted.

    Of a past date the job can be run again, from its bytes. Today it would pull anew, and what it
    reads would take the place of the book that was accepted.
    """
    program = command_for(nightbook.layout)
    if day == night.business_date(nightbook.settings(), nightbook.now()):
        return f"Its workbook: {program} export --as-of {day}"
    return f"Its workbook, and the check in Dagster: {program} run --date {day}"
