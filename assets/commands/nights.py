"""The commands that change past nights: `accept`, `reject`, `rebuild` and `shelve`."""

import re
from datetime import date

from assets.console.invocation import command_for, full_command, program_version, user_name
from assets.console.rows import print_records
from assets.home.rehearsal import ROWS, Change, changes, rehearsing, state_changes
from assets.home.writer_lock import writing, writing_aloud
from assets.nightbook import Nightbook
from assets.publishing import publish, shelf
from assets.publishing import publish as decision
from assets.publishing import shelf as open_tables
from assets.publishing.publish import SPARK, rebuild, rebuild_on_spark
from assets.publishing.shelf import (
    ask_shelf,
    fetch_and_publish,
    register_after_deciding,
    shelf_of,
    shelve_after_deciding,
)
from pipelines import night
from pipelines.lake import lessons
from pipelines.landing import snapshots
from pipelines.landing.snapshots import Snapshot
from warehouse.contract import states
from warehouse.contract.model import count_of, first_lines
from warehouse.database.publish import Published
from warehouse.query.printable import printable
from warehouse.report.build import LATEST, ReportFailed, write_report
from warehouse.storage.layout import Layout


def shelve(nightbook: Nightbook) -> int:
    """Shelve what is not on the shelf; each night run does it by itself."""
    address = shelf.require_shelf(nightbook, "shelve")
    with writing_aloud(nightbook, "shelving") as heard:
        nights, registered = shelf.shelve(heard), open_tables.register(heard)
    if registered:
        print(f"{count_of(len(registered), 'night')} registered as Iceberg tables.")
    if nights:
        print(f"{count_of(len(nights), 'night')} shelved, to {nights[-1]}: {address.url}")
    else:
        print(f"Every judged night is on the shelf as it is here: {address.url}")
    return 0


def publish_fetched(nightbook: Nightbook, *, with_landing: bool) -> int:
    """Make or refresh the warehouse of this home from the shelf."""
    address = shelf.require_shelf(nightbook, "publish")
    with writing_aloud(nightbook, "fetching") as heard:
        fetched = fetch_and_publish(heard, with_landing=with_landing)
    count = count_of(fetched.result.on_shelf, "night")
    if fetched.published is None:
        print(f"{address.url}: {count}, all of them here already.")
        return 0
    new = len(fetched.result.fetched)
    print(f"{address.url}: {count}, {new} of them new or changed.\n  {nightbook.layout.database}")
    print(f"Questions: {command_for(nightbook.layout)} query 'from holdings_by_asset'")
    return 0


SHOWN = 40
COLUMNS = ("date", "what", "name", "is_custom_asset", "before", "after")
NOTHING = "none"


def print_changes(before: Layout, after: Layout, form: str | None) -> None:
    """Print what differs between a home and its rehearsal: states, rows, exact totals."""
    states, differences = state_changes(before, after), changes(before, after)
    if form:
        print_records(form, COLUMNS, [*states, *differences])
        return
    print("Nothing was written. What it would change:")
    for state in states:
        print(f"  {state.date}  snapshot {state.name}: {state.before or NOTHING} -> {state.after}")
    lines = list(map(_line, differences))
    for line in first_lines(lines, SHOWN, "change", "--format csv lists them all"):
        print(f"  {line}")
    if not differences:
        print("  no row and no total of any night")


def _line(change: Change) -> str:
    """Return a change on one line; rows that change in content alone say so."""
    before, after = change.before or NOTHING, change.after or NOTHING
    values = "other content" if before == after else f"{before} -> {after}"
    if change.what == ROWS:
        return f"{change.date}  rows of {change.name}: {values}"
    custom = " (custom)" if change.is_custom_asset else ""
    return printable(f"{change.date}  total of {change.name}{custom}: {values}")


_LESSON = re.compile(r"[0-9a-f]{8}")


def accept(
    nightbook: Nightbook,
    *,
    snapshot_id: str,
    why: str,
    dry_run: bool = False,
    form: str | None = None,
) -> int:
    """Accept a night and publish; prints what the book of its date is now."""
    if dry_run:
        return _rehearse(nightbook, snapshot_id, why, form)
    return _decide(nightbook, snapshot_id, states.ACCEPTED, why)


def _rehearse(nightbook: Nightbook, snapshot_id: str, why: str, form: str | None) -> int:
    """Accept a night on a copy of the home, and print what that changes."""
    before = snapshots.find(nightbook.layout, snapshot_id)
    with rehearsing(nightbook) as rehearsal:
        is_open = snapshots.require_decidable(before, states.ACCEPTED, why=why)
        after = _record(rehearsal, snapshot_id, states.ACCEPTED, why) if is_open else before
        print_changes(nightbook.layout, rehearsal.layout, form)
    if not form and after.state == states.ACCEPTED:
        _print_lessons(after)
    return 0 if after.state == states.ACCEPTED else 1


def reject(nightbook: Nightbook, *, name: str, why: str) -> int:
    """Reject a night and publish, or take back what an accepted one taught."""
    if _LESSON.fullmatch(name):
        return _take_back(nightbook, name, why)
    return _decide(nightbook, name, states.REJECTED, why)


def _decide(nightbook: Nightbook, snapshot_id: str, state: str, why: str) -> int:
    layout = nightbook.layout
    unreached = _ask_shelf(nightbook, snapshot_id)
    before = snapshots.find(layout, snapshot_id)
    if not snapshots.require_decidable(before, state, why=why):
        return _decided_already(nightbook, before)
    held = {
        snapshot.snapshot_id
        for snapshot in snapshots.landed_snapshots(layout)
        if snapshot.state == states.HELD
    }
    snapshot = _record(nightbook, snapshot_id, state, why, unreached)
    print(f"{snapshot.snapshot_id} is {snapshot.state}. {_book(layout, snapshot)}")
    if snapshot.state == states.HELD and snapshot.decision:
        for reason in snapshot.decision.reasons:
            print(f"  {printable(reason)}")
    if snapshot.state != state:
        return 1
    if snapshot.state == states.ACCEPTED:
        _print_lessons(snapshot)
        _print_let_through(layout, held - {snapshot.snapshot_id})
        print(_next_command(nightbook, snapshot.snapshot_date))
    else:
        _print_withdrawn(layout, before, snapshot)
    _renew_report(nightbook)
    return 0


def _ask_shelf(nightbook: Nightbook, name: str) -> Exception | None:
    """Look what other machines decided; returns the reason if the shelf cannot be asked."""
    if shelf_of(nightbook) is None:
        return None
    with writing(nightbook, f"asking the shelf about {name}"):
        return ask_shelf(nightbook)


def _renew_report(nightbook: Nightbook) -> None:
    """Write this morning's report again, if there is one: it still asks for the decision."""
    layout, settings = nightbook.layout, nightbook.settings()
    if not (layout.reports / LATEST).exists():
        return
    try:
        file = write_report(
            layout.database,
            layout.reports,
            now=nightbook.now().astimezone(settings.timezone),
            program_version=program_version(),
            pinned=settings.pinned_assets,
            command=full_command(layout),
        )
    except (OSError, ReportFailed) as error:
        print(f"The report could not be written again: {error} The decision stands.")
        return
    print(f"The report says so too: {file}")


def _decided_already(nightbook: Nightbook, snapshot: Snapshot) -> int:
    """Decide nothing, but finish what a command left that died after deciding."""
    layout = nightbook.layout
    if decision.is_unfinished(layout, snapshot):
        with writing(nightbook, f"publishing {snapshot.snapshot_id}"):
            decision.finish(nightbook, snapshot)
    print(f"{snapshot.snapshot_id} is {snapshot.state} already: nothing was to be decided.")
    print(_book(layout, snapshot))
    return 0


def _record(
    nightbook: Nightbook,
    snapshot_id: str,
    state: str,
    why: str,
    unreached: Exception | None = None,
) -> Snapshot:
    verb = "accept" if state == states.ACCEPTED else "reject"
    with writing(nightbook, f"{verb} {snapshot_id}"):
        snapshot = decision.decide(nightbook, snapshot_id, state, by=user_name(), why=why)
        shelve_after_deciding(nightbook, unreached)
        register_after_deciding(nightbook)
        return snapshot


def _book(layout: Layout, snapshot: Snapshot) -> str:
    book = snapshots.books(snapshots.landed_snapshots(layout)).get(snapshot.snapshot_date)
    is_now = f"its book is {book.snapshot_id}" if book else "it has no book: a gap"
    return f"{snapshot.snapshot_date}: {is_now}."


def _lessons_in_force(snapshot: Snapshot) -> list[lessons.Lesson]:
    return [lesson for lesson in lessons.all_lessons([snapshot]) if lesson.taken_back is None]


def _print_lessons(snapshot: Snapshot) -> None:
    """Print what accepting a night has taught, and how each lesson is taken back."""
    if taught := _lessons_in_force(snapshot):
        print("Known to be harmless from now on; nightbook reject LESSON takes it back:")
        for lesson in taught:
            print(f"  {lesson.name}  {printable(lesson.reason.words)}")


def _print_let_through(layout: Layout, held: set[str]) -> None:
    """Print which other nights were held for the same, and are accepted with it."""
    for snapshot in snapshots.landed_snapshots(layout):
        if snapshot.snapshot_id in held and snapshot.state == states.ACCEPTED:
            print(f"{snapshot.snapshot_id} waited for the same: it is accepted as well.")


def _print_withdrawn(layout: Layout, before: Snapshot, snapshot: Snapshot) -> None:
    """Print what was made of a night that is taken back, and what it had taught."""
    for lesson in _lessons_in_force(before):
        print(f"No longer known to be harmless: {lesson.name} {printable(lesson.reason.words)}")
    files = snapshot.decision.withdrawn if snapshot.decision else ()
    if files:
        count = count_of(len(files), "file")
        print(f"{count} made of it, each marked by a note beside it (and in ops.withdrawn):")
    for file in files:
        print(f"  {printable(str(layout.home / file))}")


def _take_back(nightbook: Nightbook, name: str, why: str) -> int:
    """Let what was known to be harmless hold nights again."""
    layout, now = nightbook.layout, nightbook.now()
    with writing(nightbook, f"reject {name}"):
        unreached = ask_shelf(nightbook)
        publish.restore_lake(nightbook)
        lessons_taken_back = lessons.take_back(layout, name, by=user_name(), at=now, why=why)
        publish.refresh(nightbook)
        shelve_after_deciding(nightbook, unreached)
        register_after_deciding(nightbook)
    reason = printable(lessons_taken_back[-1].reason.words)
    print(f"{name} is taken back, it holds a night again: {reason}")
    return 0


def _next_command(nightbook: Nightbook, day: date) -> str:
    """Return what to type for the workbook of a night that was accepted."""
    program = command_for(nightbook.layout)
    # The job of a past date can run again, from its bytes. Today's would pull anew, and what it
    # reads would take the place of the book that was accepted.
    if day == night.business_date(nightbook.settings(), nightbook.now()):
        return f"Its workbook: {program} export --as-of {day}"
    return f"Its workbook, and the check in Dagster: {program} run --date {day}"


def rebuild_nights(
    nightbook: Nightbook,
    *,
    from_landing: bool,
    engine: str | None = None,
    dry_run: bool = False,
    form: str | None = None,
) -> int:
    """Make everything again, offline; decisions stay as they were made."""
    is_all = from_landing or engine is not None  # what Spark flattens is the landing zone
    if dry_run:
        with rehearsing(nightbook) as rehearsal:
            _rebuild(rehearsal, engine, from_landing=is_all)
            print_changes(nightbook.layout, rehearsal.layout, form)
        return 0
    with writing_aloud(nightbook, "rebuilding") as heard:
        published = _rebuild(heard, engine, from_landing=is_all)
    source = "the landing zone" if is_all else "the lake"
    passed = sum(check.is_ok for check in published.checks)
    nights = count_of(len(published.loaded), "night")
    print(
        f"Rebuilt from {source}{' on Spark' * (engine == SPARK)}: {nights}, {passed} of "
        f"{len(published.checks)} checks passed.\n  {published.database}"
    )
    return 0


def _rebuild(nightbook: Nightbook, engine: str | None, *, from_landing: bool) -> Published:
    if engine == SPARK:
        return rebuild_on_spark([nightbook])[0]
    return rebuild(nightbook, from_landing=from_landing)
