"""`nightbook status`: last night, the book, the next night, alerts and problems, in five lines."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import click

from assets.console.command import HomeCommand
from assets.console.exit_codes import A_PERSON_MUST_DECIDE, DONE, FAILED
from assets.console.parameters import format_option
from assets.console.rows import print_rows
from assets.console.terminal import GREEN, RED, YELLOW, paint
from assets.home.demo import is_demo
from assets.monitoring.alerts import FAILURE, Alert, spell_alerts
from assets.monitoring.conditions import find_alerts, late_alert, unread_dates
from assets.monitoring.staleness import published_books
from assets.monitoring.switches import SCHEDULE, Switches, next_night, read_switches, start_alert
from assets.night.run_log import LoggedRun, newest_runs
from assets.nightbook import Nightbook
from pipelines.landing import snapshots
from pipelines.landing.snapshots import Snapshot
from pipelines.settings import Settings
from warehouse.contract.model import count_of
from warehouse.query.formats import printable
from warehouse.storage.layout import Layout

DECISION_CAUSES = ("held:", "breaks:", "breaks-old:", "incomplete:")
COLUMNS = (
    *("last_night", "last_snapshot_id", "last_state", "book", "book_snapshot_id"),
    *("nights", "unpublished", "dates_not_read", "next_night", "daemon_seen", "channels"),
    *("has_heartbeat", "wrong", "failed_night", "failed_reason"),
)
ENDED_EARLY = "the run ended before it had read the night, because it was stopped or killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeStatus:
    """A home's status: nights, books, the next run and problems."""

    settings: Settings
    last: Snapshot | None
    failed: LoggedRun | None
    """The newest run, if it did not land the night that it should have read."""
    books: Sequence[Snapshot]
    unpublished: int
    gaps: int
    tick: datetime
    dagster: Switches
    alerts: Sequence[Alert]

    @property
    def exit_code(self) -> int:
        """The exit code: 3 if a night or a break waits for a person, 1 for other problems."""
        if any(alert.cause.startswith(DECISION_CAUSES) for alert in self.alerts):
            return A_PERSON_MUST_DECIDE
        return FAILED if self.alerts else DONE


@click.command(cls=HomeCommand, prints_result=True)
@format_option()
def status_command(nightbook: Nightbook, *, output_format: str | None) -> int:
    """Show last night, the current book, the next run and any problems."""
    status = _read_status(nightbook)
    if output_format:
        print_rows(output_format, COLUMNS, [_row(status)])
    else:
        _print_status(status, nightbook.layout, nightbook.now())
    return status.exit_code


def _read_status(nightbook: Nightbook) -> HomeStatus:
    settings, layout, now = nightbook.settings(), nightbook.layout, nightbook.now()
    nights = snapshots.landed_snapshots(layout)
    books, unpublished = published_books(layout, nights)
    dagster = read_switches(layout)
    missing = [late_alert(nightbook), start_alert(nightbook, dagster)]
    alerts = find_alerts(nightbook, patience=timedelta(), dagster=dagster)
    return HomeStatus(
        settings=settings,
        last=nights[-1] if nights else None,
        failed=_failed_run(layout, nights),
        books=books,
        unpublished=len(unpublished),
        gaps=len(unread_dates(nightbook, nights, now.astimezone(settings.timezone).date())),
        tick=next_night(nightbook),
        dagster=dagster,
        alerts=spell_alerts(layout, [*filter(None, missing), *alerts]),
    )


def _row(status: HomeStatus) -> tuple[object, ...]:
    last, book = status.last, status.books[-1] if status.books else None
    is_off = SCHEDULE in status.dagster.off
    names = ("cause", "title", "command")
    wrong = [{name: getattr(alert, name) for name in names} for alert in status.alerts]
    return (
        *((last.snapshot_date, last.snapshot_id, last.state) if last else (None, None, None)),
        *((book.snapshot_date, book.snapshot_id) if book else (None, None)),
        *(len(status.books), status.unpublished, status.gaps),
        *(None if is_off else status.tick, status.dagster.seen),
        *(len(status.settings.alerts), bool(status.settings.heartbeat), wrong),
        *((status.failed.day, _reason(status.failed)) if status.failed else (None, None)),
    )


def _print_status(status: HomeStatus, layout: Layout, now: datetime) -> None:
    settings, dagster, alerts = status.settings, status.dagster, status.alerts
    first = "none yet. Pull the first one: nightbook run"
    nothing = "the landing folder is empty" if layout.database.exists() else first
    last = _line(status.last) if status.last else nothing
    if status.failed is not None:
        reason = printable(_reason(status.failed))
        print(f"last night  {paint(f'{status.failed.day} was not read: {reason}', RED)}")
        print(f"            the night before it: {last}")
    else:
        print(f"last night  {last}")
    counts = f"; {count_of(len(status.books), 'night')} in total"
    if status.unpublished:
        counts += f", {count_of(status.unpublished, 'book')} not published"
    counts += f", {count_of(status.gaps, 'date')} not read (ops.gaps)" if status.gaps else ""
    print(f"book        {_line(status.books[-1]) if status.books else 'none yet'}{counts}")
    due = f"{status.tick:%Y-%m-%d %H:%M} {settings.timezone}, {dagster.daemon(now)}"
    is_off = SCHEDULE in dagster.off or (is_demo(layout) and not dagster.is_on)
    print(f"next        {'only by hand, because the schedule is off' if is_off else due}")
    missing = "no dead-man's switch: set NIGHTBOOK_HEARTBEAT"
    switch = "and a dead-man's switch" if settings.heartbeat else missing
    print(f"alerts      {count_of(len(settings.alerts), 'channel')}; {switch}")
    problems = Counter((alert.title, alert.command, alert.kind) for alert in alerts)
    lines = [
        (printable(title) + (f" ({count} times)" if count > 1 else ""), command, kind)
        for (title, command, kind), count in problems.items()
    ]
    titles = [paint(title, RED if kind == FAILURE else YELLOW) for title, _, kind in lines]
    print(f"problems    {'; '.join(titles) or paint('none', GREEN)}")
    for title, command, _ in lines:
        print(f"            {title}: {printable(command)}")


def _failed_run(layout: Layout, nights: Sequence[Snapshot]) -> LoggedRun | None:
    """Return the newest run by a command if it has ended, and its night is not there."""
    newest = next(newest_runs(layout), None)
    if newest is None or newest.is_alive:
        return None
    return None if any(night.snapshot_date >= newest.day for night in nights) else newest


def _reason(run: LoggedRun) -> str:
    """Return why a run did not read its night, as one sentence."""
    message = next((failure.message for failure in run.failures), ENDED_EARLY)
    return message.partition("\n")[0].partition(". ")[0].rstrip(".")


def _line(snapshot: Snapshot) -> str:
    return f"{snapshot.snapshot_date}, snapshot {snapshot.snapshot_id}, {snapshot.state}"
