"""The conditions that trigger alerts about the home as a whole or about single nights.

The view `ops.attention` has the problems that the warehouse knows. This module adds the problems
that depend on the clock, on the settings or on files outside the warehouse.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import date, datetime, timedelta

from assets.monitoring.alerts import FAILURE, INFO, WARNING, Alert
from assets.monitoring.staleness import GRACE, published_books
from assets.monitoring.switches import Switches, switch_alerts, tick_of
from assets.nightbook import Nightbook
from assets.publishing import shelf
from assets.publishing.pending_decisions import unpublished_snapshots
from pipelines.landing import snapshots
from pipelines.landing.lock import acquire_if_free
from pipelines.landing.night_folders import snapshot_time
from pipelines.landing.snapshots import Snapshot
from pipelines.maintenance.verify import missing_landings
from pipelines.schedule import is_due
from warehouse.contract.model import first_lines, left_out
from warehouse.contract.states import COMPLETE, HELD
from warehouse.query.read import run as ask
from warehouse.reconcile.model import Result, Run
from warehouse.reconcile.record.record import Record, records_of
from warehouse.reconcile.terms import NotReconciled
from warehouse.sql.catalog import ops_views
from warehouse.storage.layout import Layout

LOOK_BACK = timedelta(days=7)
MAX_SHOWN = 5
KINDS = {"error": FAILURE, "warning": WARNING, "info": INFO}
"""The kind of an alert for each severity in the view `ops.attention`."""


def find_alerts(
    nightbook: Nightbook, *, patience: timedelta = GRACE, dagster: Switches | None = None
) -> list[Alert]:
    """Return the alerts about the schedule, the nights, the newest book and the reconciliation.

    `patience` is the time that a run may take to publish an accepted night. If `dagster` is None,
    the state of the schedule and the sensors is read from the home. The commands do not name the
    home (see `spell_alerts`).
    """
    layout, now = nightbook.layout, nightbook.now()
    today = now.astimezone(nightbook.settings().timezone).date()
    nights = snapshots.landed_snapshots(layout)
    return [
        *switch_alerts(nightbook, dagster),
        *night_alerts(nightbook, nights, today, patience),
        *_warehouse_alerts(layout, nights, now - LOOK_BACK),
        *_ledger_alerts(layout),
    ]


def night_alerts(
    nightbook: Nightbook, nights: list[Snapshot], today: date, patience: timedelta
) -> Iterator[Alert]:
    """Yield the alerts about nights that need attention and about dates missed in the last week."""
    layout, now = nightbook.layout, nightbook.now()
    yield from _held_alerts(layout, nights)
    yield from _gap_alerts(nightbook, nights, today)
    yield from _killed_alerts(layout, nights)
    yield from _unjudged_alerts(nightbook, nights, today)
    yield from _unpublished_alerts(layout, nights, now - patience)
    yield from _unshelved_alerts(nightbook, nights, now - patience)
    yield from _missing_alerts(layout)


def late_alert(nightbook: Nightbook) -> Alert | None:
    """Return an alert if today's night is overdue and nothing has landed."""
    settings, layout, now = nightbook.settings(), nightbook.layout, nightbook.now()
    today = now.astimezone(settings.timezone).date()
    tick = tick_of(settings, today)
    dates = [snapshot.snapshot_date for snapshot in snapshots.landed_snapshots(layout)]
    if tick is None or not dates or today in dates:
        return None
    if now < tick + timedelta(seconds=settings.deadline) + GRACE:
        return None
    return Alert(
        cause=f"late:{today}",
        title=f"no book for {today} yet",
        words=f"It was due at {tick:%H:%M} ({settings.timezone}), but nothing has landed since: no "
        "run has started, or none has completed. The night can still be read until midnight.",
        see=str(layout.home),
        command="nightbook run",
        kind=FAILURE,
    )


def book_line(nightbook: Nightbook, day: date | str) -> list[str]:
    """Return one line that says whether a date has a book, or no line if `day` is not a date."""
    try:
        wanted = date.fromisoformat(str(day))
    except ValueError:
        return []
    book = snapshots.books(snapshots.landed_snapshots(nightbook.layout)).get(wanted)
    if book is None:
        return [f"{wanted} has no book yet."]
    return [f"{wanted} has a book: snapshot {book.snapshot_id}."]


def unread_dates(nightbook: Nightbook, nights: list[Snapshot], today: date) -> list[date]:
    """Return the scheduled dates from the first night to yesterday for which nothing was landed."""
    landed, settings = {snapshot.snapshot_date for snapshot in nights}, nightbook.settings()
    first = min(landed, default=today)
    days = (first + timedelta(days=number) for number in range((today - first).days))
    return [day for day in days if day not in landed and is_due(settings.schedule, day)]


def _held_alerts(layout: Layout, nights: list[Snapshot]) -> Iterator[Alert]:
    """Yield an alert for each held night that the warehouse does not show as held yet."""
    unpublished = unpublished_snapshots(layout, nights)
    for snapshot in nights:
        if snapshot.state == HELD and snapshot.snapshot_id in unpublished:
            reasons = snapshot.decision.reasons if snapshot.decision else ()
            about = f"Snapshot {snapshot.snapshot_id} is waiting for your decision."
            yield Alert(
                cause=f"held:{snapshot.snapshot_id}",
                title=f"the night of {snapshot.snapshot_date} is held",
                words=f"{about}\nThe warehouse does not show it yet.\n{'; '.join(reasons)}",
                see=str(snapshot.folder),
                command=f"nightbook accept {snapshot.snapshot_id} --dry-run",
                waits=True,
            )


def _gap_alerts(nightbook: Nightbook, nights: list[Snapshot], today: date) -> Iterator[Alert]:
    """Yield an alert for each scheduled date of the last week for which nothing was landed."""
    for day in unread_dates(nightbook, nights, today):
        if day >= today - LOOK_BACK:
            yield Alert(
                cause=f"gap:{day}",
                title=f"{day} was not read",
                words=f"No snapshot was landed for {day}. The API returns only the current "
                "holdings, so the date remains a gap (see ops.gaps).",
                see=str(nightbook.layout.landing),
                command="nightbook status",
                kind=FAILURE,
            )


def _killed_alerts(layout: Layout, nights: list[Snapshot]) -> Iterator[Alert]:
    """Yield an alert for each date on which a killed run left a folder but no snapshot."""
    with acquire_if_free(layout.pull_lock) as is_nobody_pulling:
        folders = list(layout.landing.glob("*/.*.pulling")) if is_nobody_pulling else []
    landed = {str(snapshot.snapshot_date) for snapshot in nights}
    for day in sorted({folder.parent.name for folder in folders} - landed):
        yield Alert(
            cause=f"killed:{day}",
            title=f"the run that read {day} was killed",
            words=f"It landed no snapshot, so {day} has no book. The API returns only the current "
            "holdings, so the date can be read only until midnight.",
            see=str(layout.landing / day),
            command="nightbook run",
            kind=FAILURE,
        )


def _unjudged_alerts(nightbook: Nightbook, nights: list[Snapshot], today: date) -> Iterator[Alert]:
    """Yield an alert for each landed night that is still not judged after its run's deadline."""
    now = nightbook.now()
    patience = timedelta(seconds=nightbook.settings().deadline) + GRACE
    for snapshot in nights:
        if snapshot.state != COMPLETE or now < snapshot_time(snapshot.snapshot_id) + patience:
            continue
        day = snapshot.snapshot_date
        yield Alert(
            cause=f"unfinished:{snapshot.snapshot_id}",
            title=f"the night of {day} was landed but not judged",
            words=f"Snapshot {snapshot.snapshot_id} is not a book, because the run that landed it "
            "did not finish, or its decision was lost. Its data is complete, and the next run "
            "judges and publishes it.",
            see=str(snapshot.folder),
            command="nightbook run" if day == today else f"nightbook run --date {day}",
            waits=True,
        )


def _unpublished_alerts(
    layout: Layout, nights: list[Snapshot], before: datetime
) -> Iterator[Alert]:
    """Yield one alert about books that were accepted before the given time but never published."""
    _, missing = published_books(layout, nights)
    if old := _decided_before(missing, before):
        yield Alert(
            cause=f"unpublished:{old[-1].snapshot_id}:{len(old)}",
            title=f"{_days(snapshot.snapshot_date for snapshot in old)} accepted but "
            "not in the warehouse",
            words="The warehouse shows an older book, because the run that accepted "
            f"{old[-1].snapshot_id} did not publish it. All data is complete, so it can be "
            "rebuilt.",
            see=str(layout.database),
            command="nightbook rebuild",
            kind=FAILURE,
            waits=True,
        )


def _unshelved_alerts(
    nightbook: Nightbook, nights: list[Snapshot], before: datetime
) -> Iterator[Alert]:
    """Yield one alert about nights that were decided before the given time but not shelved."""
    if old := _decided_before(shelf.waiting_nights(nightbook, nights), before):
        yield Alert(
            cause=f"unshelved:{old[-1].snapshot_id}:{len(old)}",
            title=f"{_days(snapshot.snapshot_id for snapshot in old)} not on the shelf",
            words="Other machines cannot see these nights or their decisions. In this home, they "
            "are complete and published. The next run uploads them, or reports why it cannot.",
            see=str(nightbook.layout.home),
            command="nightbook shelve",
            kind=FAILURE,
            waits=True,
        )


def _missing_alerts(layout: Layout) -> Iterator[Alert]:
    """Yield one alert about nights in the lake or warehouse whose landing folders are missing."""
    nights = [damage.night or "" for damage in missing_landings(layout)]
    if nights:
        yield Alert(
            cause=f"gone:{nights[-1]}:{len(nights)}",
            title=f"{_days(nights)} missing from the landing folder",
            words="They are in the lake or the warehouse, but their API responses are missing. The "
            "API keeps no history, so restore them from a backup (nightbook --home NEW restore "
            "FILE).",
            see=str(layout.landing),
            command="nightbook verify",
            kind=FAILURE,
            waits=True,
        )


def _warehouse_alerts(layout: Layout, nights: list[Snapshot], since: datetime) -> Iterator[Alert]:
    """Yield the alerts about the problems in the view `ops.attention`.

    Skip books that were rejected before `since`, and nights whose published state is out of date.
    """
    if not layout.database.exists():
        return
    outdated = unpublished_snapshots(layout, nights)
    outdated |= {night.snapshot_id for night in nights if night.state == COMPLETE}
    old = {night.snapshot_id for night in _decided_before(nights, since)}
    # Run the query of the view instead of the view, because a file that an older version published
    # has no such view.
    [query] = (view.sql for view in ops_views() if view.name == "attention")
    found = ask(layout.database, query)
    for values in found.rows:
        row = dict(zip(found.columns, values, strict=True))
        is_old = row["code"] == "taken back" and row["snapshot_id"] in old
        if row["snapshot_id"] not in outdated and not is_old:
            yield Alert(
                cause=row["cause"],
                title=row["title"],
                words=row["message"],
                see=str(layout.home / row["file"] if row["file"] else layout.database),
                command=row["command"],
                kind=KINDS[row["severity"]],
                waits=row["code"] == "held",
            )


def _ledger_alerts(layout: Layout) -> Iterator[Alert]:
    """Yield the alerts about parts of the inbox that the latest reconciliation did not compare."""
    for record in records_of(layout.home):
        with suppress(NotReconciled):
            if result := record.result_before(date.max):
                yield from _alerts_of_run(record, result)


def _alerts_of_run(record: Record, result: Run) -> Iterator[Alert]:
    about = f"Book against {record.reconciliation}, {result.day}:"
    suffix, option = record.option.replace(" --", ":"), record.option
    command = f"nightbook reconcile status{option}"
    undelivered = result.counts.get(Result.NOT_DELIVERED.value, 0)
    if result.unread:
        yield Alert(
            cause=f"unread:{result.day}{suffix}",
            title="not everything in the inbox was read",
            words="\n".join((about, *first_lines(result.unread, MAX_SHOWN))),
            see=str(record.inbox),
            command=command,
        )
    if result.rejected or undelivered:
        yield Alert(
            cause=f"incomplete:{result.day}{suffix}",
            title="part of the ledger could not be compared",
            words=f"{about} unreadable rows: {result.rejected}; keys of portfolios that the API "
            f"did not deliver: {undelivered}. The other rows were compared.",
            see=str(record.out / result.day.isoformat()),
            command=command,
        )


def _decided_before(nights: list[Snapshot], before: datetime) -> list[Snapshot]:
    return [
        night
        for night in nights
        if night.decision and datetime.fromisoformat(night.decision.at) <= before
    ]


def _days(nights: Iterable[object]) -> str:
    """Format nights as the subject and verb of a sentence, for example `the night ID is`."""
    names = list(map(str, nights))
    if len(names) == 1:
        return f"the night {names[0]} is"
    return f"{len(names)} nights ({', '.join(names[-MAX_SHOWN:])}{left_out(names, MAX_SHOWN)}) are"
