"""Commands that change past nights: `accept`, `reject`, `rebuild`, `shelve` and `publish`."""

import re
import sys
from datetime import date

import click
from click import argument, option

from assets.commands.report import write_report
from assets.console.command import HomeCommand
from assets.console.completion import HELD, SNAPSHOTS, complete_from
from assets.console.invocation import command_for, user_name
from assets.console.parameters import Choice, Decorator, dry_run_options, flag
from assets.console.rows import print_lines, print_records
from assets.console.terminal import is_terminal
from assets.home.rehearsal import ROWS, Change, changes, rehearsing, state_changes
from assets.home.writer_lock import writing, writing_with_progress
from assets.nightbook import Nightbook
from assets.publishing import publish, shelf
from assets.publishing.publish import SPARK
from pipelines import night
from pipelines.lake import lessons
from pipelines.landing import snapshots
from pipelines.landing.snapshots import Snapshot
from warehouse.contract import states
from warehouse.contract.model import count_of, first_lines
from warehouse.database.publication import Published
from warehouse.query.formats import printable
from warehouse.report.build import LATEST, ReportFailed
from warehouse.storage.layout import Layout

MAX_SHOWN = 40
ACCEPT_EXAMPLES = """\
Examples:
  nightbook accept 20261120T021500Z --dry-run
  nightbook accept 20261120T021500Z --why 'the fund was closed'"""
COLUMNS = ("date", "what", "name", "is_custom_asset", "before", "after")
NOTHING = "none"
_LESSON = re.compile(r"[0-9a-f]{8}")


def why_option(condition: str) -> Decorator:
    """Declare `--why`, which is required to reverse a decision and to accept a loss of money."""
    help_text = f"Reason for the decision. Required if {condition}"
    return click.option("--why", default="", help=help_text)


@click.command(cls=HomeCommand, writes=True, epilog=ACCEPT_EXAMPLES)
@argument(
    "snapshot_id",
    metavar="ID",
    shell_complete=complete_from(HELD),
    help="Snapshot to accept, for example 20261120T021500Z",
)
@why_option("money may be missing, or the snapshot is currently rejected")
@dry_run_options()
def accept_command(
    nightbook: Nightbook, *, snapshot_id: str, why: str, dry_run: bool, output_format: str | None
) -> int:
    """Accept a held snapshot and publish it as the book of its date.

    If you accept a snapshot, nightbook remembers the reasons for the hold as lessons. It then also
    accepts other nights that are held only for these reasons, unless the problem becomes much
    larger. `nightbook snapshots --lessons` lists all lessons, and `nightbook reject LESSON` revokes
    a lesson.
    """
    if dry_run:
        return _rehearse_accept(nightbook, snapshot_id, why, output_format)
    return _decide(nightbook, snapshot_id, states.ACCEPTED, why)


@click.command(cls=HomeCommand, writes=True)
@argument(
    "name",
    metavar="ID",
    shell_complete=complete_from(SNAPSHOTS),
    help="Snapshot or lesson to reject, for example 20261120T021500Z or 1f0a2b3c",
)
@why_option("the snapshot is currently accepted")
def reject_command(nightbook: Nightbook, *, name: str, why: str) -> int:
    """Reject a snapshot, or revoke a lesson.

    If you reject an accepted snapshot, the previous book of its date is restored.
    """
    if _LESSON.fullmatch(name):
        return _revoke_lesson(nightbook, name, why)
    return _decide(nightbook, name, states.REJECTED, why)


@click.command(cls=HomeCommand, writes=True)
@flag("--from-landing", help="Rebuild the lake too, from the stored API responses")
@option(
    "--engine",
    type=Choice([SPARK]),
    help="Rebuild the lake too, on the cluster that Spark's own configuration names",
)
@dry_run_options()
def rebuild_command(
    nightbook: Nightbook,
    *,
    from_landing: bool,
    engine: str | None,
    dry_run: bool,
    output_format: str | None,
) -> int:
    """Rebuild the warehouse from the lake or the landing folder.

    By default, rebuilds only the warehouse, from the tables in the lake. This does not call the API
    or change any decision.
    """
    # If Spark is used, the lake is rebuilt too, because Spark flattens nights from the landing
    # folder.
    is_lake_included = from_landing or engine is not None
    if dry_run:
        with rehearsing(nightbook) as rehearsal:
            _rebuild(rehearsal, engine, from_landing=is_lake_included)
            print_changes(nightbook.layout, rehearsal.layout, output_format)
        return 0
    with writing_with_progress(nightbook, "rebuilding") as reporting:
        published = _rebuild(reporting, engine, from_landing=is_lake_included)
    source = "the landing folder" if is_lake_included else "the lake"
    passed = sum(check.is_ok for check in published.checks)
    nights = count_of(len(published.loaded), "night")
    print(
        f"Rebuilt from {source}{' on Spark' * (engine == SPARK)}: {nights}, {passed} of "
        f"{len(published.checks)} checks passed.\n  {published.database}"
    )
    return 0


@click.command(cls=HomeCommand, writes=True)
def shelve_command(nightbook: Nightbook) -> int:
    """Upload finished nights to the object store.

    Every nightly run also uploads its night.
    """
    address = shelf.require_shelf(nightbook, "shelve")
    with writing_with_progress(nightbook, "shelving") as reporting:
        nights, registered = shelf.shelve(reporting), shelf.register(reporting)
    if registered:
        print(f"{count_of(len(registered), 'night')} registered as Iceberg tables.")
    if nights:
        print(f"{count_of(len(nights), 'night')} shelved, to {nights[-1]}: {address.url}")
    else:
        print(f"Every judged night is already on the shelf: {address.url}")
    return 0


@click.command(cls=HomeCommand, needs_home=False, writes=True)
@flag("--with-landing", help="Download the API responses too")
def publish_command(nightbook: Nightbook, *, with_landing: bool) -> int:
    """Build this home's warehouse from the object store."""
    address = shelf.require_shelf(nightbook, "publish")
    with writing_with_progress(nightbook, "fetching") as reporting:
        result, is_published = shelf.fetch_and_publish(reporting, with_landing=with_landing)
    count = count_of(result.on_shelf, "night")
    if not is_published:
        print(f"{address.url}: {count}, all of them already in this home.")
        return 0
    new = len(result.nights)
    print(f"{address.url}: {count}, {new} of them new or changed.\n  {nightbook.layout.database}")
    print(f"Query: {command_for(nightbook.layout)} query 'from holdings_by_asset'")
    return 0


def print_changes(before: Layout, after: Layout, output_format: str | None) -> None:
    """Print the changes that a command would make: snapshot states, row counts and exact totals."""
    states, differences = state_changes(before, after), changes(before, after)
    if output_format:
        print_records(output_format, COLUMNS, [*states, *differences])
        return
    print("Nothing was written. The command would make these changes:")
    for state in states:
        print(f"  {state.date}  snapshot {state.name}: {state.before or NOTHING} -> {state.after}")
    lines = list(map(_change_line, differences))
    print_lines(first_lines(lines, MAX_SHOWN, "change", "--format csv lists all of them"))
    if not differences:
        print("  no changes to rows or totals")


def _rebuild(nightbook: Nightbook, engine: str | None, *, from_landing: bool) -> Published:
    if engine == SPARK:
        return publish.rebuild_on_spark(nightbook)
    return publish.rebuild(nightbook, from_landing=from_landing)


def _change_line(change: Change) -> str:
    """Format a change in a table's rows or in an asset's total as one line."""
    before, after = change.before or NOTHING, change.after or NOTHING
    values = "different content" if before == after else f"{before} -> {after}"
    if change.what == ROWS:
        return f"{change.date}  rows of {change.name}: {values}"
    custom = " (custom)" if change.is_custom_asset else ""
    return printable(f"{change.date}  total of {change.name}{custom}: {values}")


def _rehearse_accept(
    nightbook: Nightbook, snapshot_id: str, why: str, output_format: str | None
) -> int:
    """Accept a night in a temporary copy of the home, and print what would change."""
    before = snapshots.find(nightbook.layout, snapshot_id)
    if before.state == states.HELD:
        why = why or "rehearsal"
    with rehearsing(nightbook) as rehearsal:
        is_open = snapshots.require_decidable(before, states.ACCEPTED, why=why)
        after = _record(rehearsal, snapshot_id, states.ACCEPTED, why) if is_open else before
        print_changes(nightbook.layout, rehearsal.layout, output_format)
    if not output_format and after.state == states.ACCEPTED:
        _print_lessons(after)
    return 0 if after.state == states.ACCEPTED else 1


def _decide(nightbook: Nightbook, snapshot_id: str, state: str, why: str) -> int:
    layout = nightbook.layout
    shelf_error = None
    if shelf.shelf_of(nightbook) is not None:
        # Read the decisions on the shelf first, because a person may already have decided about
        # this night on a different machine.
        with writing(nightbook, f"reading decisions about {snapshot_id} from the shelf"):
            shelf_error = shelf.ask_shelf(nightbook)
    before = snapshots.find(layout, snapshot_id)
    why = why or _ask_reason(before, state)
    if not snapshots.require_decidable(before, state, why=why):
        return _finish_decision(nightbook, before)
    held = {
        snapshot.snapshot_id
        for snapshot in snapshots.landed_snapshots(layout)
        if snapshot.state == states.HELD
    }
    snapshot = _record(nightbook, snapshot_id, state, why, shelf_error)
    print(f"{snapshot.snapshot_id} is {snapshot.state}. {_book(layout, snapshot)}")
    if snapshot.state == states.HELD and snapshot.decision:
        print_lines(snapshot.decision.reasons)
    if snapshot.state != state:
        return 1
    if snapshot.state == states.ACCEPTED:
        _print_lessons(snapshot)
        _print_released_nights(layout, held - {snapshot.snapshot_id})
        print(_next_command(nightbook, snapshot.snapshot_date))
    else:
        _print_withdrawn(layout, before, snapshot)
    _renew_report(nightbook)
    return 0


def _ask_reason(snapshot: Snapshot, state: str) -> str:
    """Ask why to accept a night in which money may be missing. Return "" without a terminal."""
    if state != states.ACCEPTED or not snapshot.loss or not (is_terminal() and sys.stdin.isatty()):
        return ""
    print(f"Money may be missing in {snapshot.snapshot_id}: {printable(snapshot.loss)}")
    try:
        return input("Reason for accepting it (Enter stops): ").strip()
    except EOFError:
        return ""


def _finish_decision(nightbook: Nightbook, snapshot: Snapshot) -> int:
    """Publish a decision that an earlier command recorded before it was killed.

    Print the state of the night and its book. No new decision is made.
    """
    layout = nightbook.layout
    if publish.is_unfinished(layout, snapshot):
        with writing(nightbook, f"publishing {snapshot.snapshot_id}"):
            publish.finish(nightbook, snapshot)
    print(f"{snapshot.snapshot_id} is already {snapshot.state}, so nothing was decided.")
    print(_book(layout, snapshot))
    return 0


def _record(
    nightbook: Nightbook,
    snapshot_id: str,
    state: str,
    why: str,
    shelf_error: Exception | None = None,
) -> Snapshot:
    verb = "accept" if state == states.ACCEPTED else "reject"
    with writing(nightbook, f"{verb} {snapshot_id}"):
        snapshot = publish.decide(nightbook, snapshot_id, state, by=user_name(), why=why)
        shelf.share_decision(nightbook, shelf_error)
        return snapshot


def _revoke_lesson(nightbook: Nightbook, name: str, why: str) -> int:
    """Revoke a lesson, so that nights are held for its reason again."""
    layout, now = nightbook.layout, nightbook.now()
    with writing(nightbook, f"reject {name}"):
        shelf_error = shelf.ask_shelf(nightbook)
        publish.publish_pending(nightbook)
        revoked = lessons.take_back(layout, name, by=user_name(), at=now, why=why)
        publish.refresh(nightbook)
        shelf.share_decision(nightbook, shelf_error)
    print(
        f"{name} was revoked. From now on, nights are held for this reason: "
        f"{printable(revoked[-1].reason.words)}"
    )
    return 0


def _renew_report(nightbook: Nightbook) -> None:
    """Update the latest report, which still asks for the decision that was just made."""
    if not (nightbook.layout.reports / LATEST).exists():
        return
    try:
        file = write_report(nightbook)
    except (OSError, ReportFailed) as error:
        print(f"The report could not be updated: {error} The decision is recorded.")
        return
    print(f"The report was updated: {file}")


def _book(layout: Layout, snapshot: Snapshot) -> str:
    book = snapshots.books(snapshots.landed_snapshots(layout)).get(snapshot.snapshot_date)
    state = f"its book is {book.snapshot_id}" if book else "it has no book, so it is a gap"
    return f"{snapshot.snapshot_date}: {state}."


def _lessons_in_force(snapshot: Snapshot) -> list[lessons.Lesson]:
    return [lesson for lesson in lessons.all_lessons([snapshot]) if lesson.taken_back is None]


def _print_lessons(snapshot: Snapshot) -> None:
    """Print the lessons from an accepted night, and how to revoke a lesson.

    A lesson is a reason for which nights are no longer held.
    """
    if taught := _lessons_in_force(snapshot):
        print("Known to be harmless from now on (to revoke one: nightbook reject LESSON):")
        print_lines(f"{lesson.name}  {lesson.reason.words}" for lesson in taught)


def _print_released_nights(layout: Layout, held: set[str]) -> None:
    """Print other nights that were held for the same reasons and are now accepted too."""
    for snapshot in snapshots.landed_snapshots(layout):
        if snapshot.snapshot_id in held and snapshot.state == states.ACCEPTED:
            print(f"{snapshot.snapshot_id} was held for the same reasons and is accepted too.")


def _print_withdrawn(layout: Layout, before: Snapshot, snapshot: Snapshot) -> None:
    """Print the lessons that no longer apply and the files made from a rejected night."""
    lost = (f"{lesson.name} {lesson.reason.words}" for lesson in _lessons_in_force(before))
    print_lines(lost, "No longer known to be harmless: ")
    files = snapshot.decision.withdrawn if snapshot.decision else ()
    if files:
        count = count_of(len(files), "file")
        print(f"Wrote a note next to {count} made from this night (see ops.withdrawn):")
    print_lines(layout.home / file for file in files)


def _next_command(nightbook: Nightbook, day: date) -> str:
    """Return the command that writes the workbook for an accepted night."""
    program = command_for(nightbook.layout)
    # A job for a past date uses the stored responses. A run for today would call the API again, and
    # the new snapshot would replace the accepted book.
    if day == night.business_date(nightbook.settings(), nightbook.now()):
        return f"To create its workbook: {program} export --as-of {day}"
    return f"To create its workbook and update the check in Dagster: {program} run --date {day}"
