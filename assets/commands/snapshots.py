"""`nightbook snapshots`: every landed night, its state, and why."""

import textwrap
from collections.abc import Sequence

from assets.console.invocation import command_for
from assets.console.terminal import width
from assets.nightbook import Nightbook
from pipelines.lake import lessons
from pipelines.landing import snapshots
from pipelines.landing.snapshots import Snapshot
from warehouse.contract import states
from warehouse.contract.wording import count_of
from warehouse.query.printable import printable

A_PERSON_MUST_DECIDE = 3


def run(nightbook: Nightbook, *, are_lessons: bool) -> int:
    """List the nights, newest last; exit code 3 while one of them waits for a decision."""
    nights = snapshots.landed_snapshots(nightbook.layout)
    if not nights:
        print(
            f"No night has been landed in {nightbook.layout.home} yet. "
            f"Take one: {command_for(nightbook.layout)} run (or try: nightbook demo)"
        )
        return 0
    if are_lessons:
        return _lessons(nights)
    books = {snapshot.snapshot_id for snapshot in snapshots.books(nights).values()}
    print(f"{nightbook.layout.home}\n")
    print(f"{'date':<12}{'snapshot':<18}{'state':<10}{'':<12}decided")
    for snapshot in nights:
        place = "book" if snapshot.snapshot_id in books else _superseded_words(snapshot)
        by = (
            f"{snapshot.decision.at[:16].replace('T', ' ')} by {snapshot.decision.by}"
            if snapshot.decision
            else ""
        )
        print(
            f"{snapshot.snapshot_date!s:<12}{snapshot.snapshot_id:<18}{snapshot.state:<10}{place:<12}{printable(by)}"
        )
        for reason in snapshot.decision.reasons if snapshot.decision else ():
            print(
                textwrap.fill(
                    printable(reason),
                    width(),
                    initial_indent=" " * 12,
                    subsequent_indent=" " * 14,
                )
            )
    in_force = [lesson for lesson in lessons.all_lessons(nights) if lesson.taken_back is None]
    if in_force:
        count = count_of(len({lesson.name for lesson in in_force}), "thing")
        print(
            f"\nKnown to be harmless: {count}. "
            f"List: {command_for(nightbook.layout)} snapshots --lessons"
        )
    held = [snapshot.snapshot_id for snapshot in nights if snapshot.state == states.HELD]
    if held:
        print(
            f"\nDecide: {command_for(nightbook.layout)} accept {held[-1]} --why '...'   (or reject)"
        )
    return A_PERSON_MUST_DECIDE if held else 0


def _superseded_words(snapshot: snapshots.Snapshot) -> str:
    return "superseded" if snapshot.state == states.ACCEPTED else ""


def _lessons(nights: Sequence[Snapshot]) -> int:
    """List what is known to be harmless, who taught it, and what was taken back."""
    taught = lessons.all_lessons(nights)
    if not taught:
        print("Nothing was accepted yet that later nights are let through for.")
    for lesson in taught:
        state = "taken back" if lesson.taken_back else "in force"
        decision = lesson.taken_back or lesson.taught
        at = decision.at[:16].replace("T", " ")
        by = f"{at} by {printable(decision.by)}"
        print(f"{lesson.name}  {state:<12}{lesson.snapshot.snapshot_id}  {by}")
        reason = printable(lesson.reason.words)
        print(textwrap.fill(reason, width(), initial_indent=" " * 10, subsequent_indent=" " * 12))
    if any(lesson.taken_back is None for lesson in taught):
        print("\nTake one back: nightbook reject LESSON --why '...'")
    return 0
