"""`nightbook snapshots`: list every landed night with its state and reasons."""

import textwrap
from collections.abc import Sequence

import click

from assets.console.command import HomeCommand
from assets.console.exit_codes import A_PERSON_MUST_DECIDE
from assets.console.invocation import command_for
from assets.console.parameters import flag, format_option
from assets.console.rows import print_rows
from assets.console.terminal import YELLOW, paint, width
from assets.nightbook import Nightbook
from pipelines.lake import lessons
from pipelines.landing import snapshots
from pipelines.landing.snapshots import Snapshot
from warehouse.contract import states
from warehouse.contract.model import count_of
from warehouse.query.formats import printable

COLUMNS = ("date", "snapshot_id", "state", "is_book", "decided_at", "decided_by", "reasons")
LESSON_COLUMNS = ("lesson", "is_in_force", "snapshot_id", "decided_at", "decided_by", "reason")


@click.command(cls=HomeCommand, prints_result=True)
@flag("--lessons", "are_lessons", help="List all lessons instead of the nights")
@format_option()
def snapshots_command(nightbook: Nightbook, *, are_lessons: bool, output_format: str | None) -> int:
    """List every night with its state and the reason."""
    # The newest night is last. Return 3 if any night is waiting for a decision.
    nights = snapshots.landed_snapshots(nightbook.layout)
    if output_format:
        (_print_lesson_rows if are_lessons else _print_rows)(output_format, nights)
    elif not nights:
        print(
            f"{nightbook.layout.home} has no nights yet. Pull the first one: "
            f"{command_for(nightbook.layout)} run (or try: nightbook demo)"
        )
    elif are_lessons:
        _print_lessons(nights)
    else:
        _print_nights(nightbook, nights)
    is_held = any(snapshot.state == states.HELD for snapshot in nights)
    return A_PERSON_MUST_DECIDE if is_held and not are_lessons else 0


def _print_rows(output_format: str, nights: list[Snapshot]) -> None:
    books = {snapshot.snapshot_id for snapshot in snapshots.books(nights).values()}
    rows = []
    for snapshot in nights:
        decision, is_book = snapshot.decision, snapshot.snapshot_id in books
        decided = (decision.at, decision.by, decision.reasons) if decision else (None, None, ())
        rows.append(
            (snapshot.snapshot_date, snapshot.snapshot_id, snapshot.state, is_book, *decided)
        )
    print_rows(output_format, COLUMNS, rows)


def _print_nights(nightbook: Nightbook, nights: list[Snapshot]) -> None:
    books = {snapshot.snapshot_id for snapshot in snapshots.books(nights).values()}
    print(f"{nightbook.layout.home}\n")
    print(f"{'date':<12}{'snapshot':<18}{'state':<10}{'':<12}decided")
    for snapshot in nights:
        _print_night(snapshot, is_book=snapshot.snapshot_id in books)
    in_force = [lesson for lesson in lessons.all_lessons(nights) if lesson.taken_back is None]
    if in_force:
        count = count_of(len({lesson.name for lesson in in_force}), "lesson")
        print(
            f"\nKnown to be harmless: {count}. "
            f"List: {command_for(nightbook.layout)} snapshots --lessons"
        )
    held = [snapshot.snapshot_id for snapshot in nights if snapshot.state == states.HELD]
    if held:
        print(
            f"\nDecide: {command_for(nightbook.layout)} accept {held[-1]} --why '...'   (or reject)"
        )


def _print_night(snapshot: Snapshot, *, is_book: bool) -> None:
    decision = snapshot.decision
    is_superseded = snapshot.state == states.ACCEPTED and not is_book
    use = "book" if is_book else "superseded" * is_superseded
    by = f"{decision.at[:16].replace('T', ' ')} by {decision.by}" if decision else ""
    state = f"{snapshot.state:<10}"
    state = paint(state, YELLOW) if snapshot.state == states.HELD else state
    start = f"{snapshot.snapshot_date!s:<12}{snapshot.snapshot_id:<18}"
    print(f"{start}{state}{use:<12}{printable(by)}")
    for reason in decision.reasons if decision else ():
        print(
            textwrap.fill(
                printable(reason), width(), initial_indent=" " * 12, subsequent_indent=" " * 14
            )
        )


def _print_lesson_rows(output_format: str, nights: list[Snapshot]) -> None:
    rows = []
    for lesson in lessons.all_lessons(nights):
        decision = lesson.taken_back or lesson.taught
        start = (lesson.name, lesson.taken_back is None, lesson.snapshot.snapshot_id)
        rows.append((*start, decision.at, decision.by, lesson.reason.words))
    print_rows(output_format, LESSON_COLUMNS, rows)


def _print_lessons(nights: Sequence[Snapshot]) -> None:
    """List the lessons, each with the user who accepted the night or revoked the lesson."""
    taught = lessons.all_lessons(nights)
    if not taught:
        print("There are no lessons yet.")
    for lesson in taught:
        state = "revoked" if lesson.taken_back else "in force"
        decision = lesson.taken_back or lesson.taught
        at = decision.at[:16].replace("T", " ")
        by = f"{at} by {printable(decision.by)}"
        print(f"{lesson.name}  {state:<12}{lesson.snapshot.snapshot_id}  {by}")
        reason = printable(lesson.reason.words)
        print(textwrap.fill(reason, width(), initial_indent=" " * 10, subsequent_indent=" " * 12))
    if any(lesson.taken_back is None for lesson in taught):
        print("\nRevoke one: nightbook reject LESSON --why '...'")
