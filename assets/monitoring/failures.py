"""Alerts about failed runs of a night and about ledgers that could not be compared."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from assets.console.errors import BUSY
from assets.console.invocation import full_command
from assets.monitoring.alerts import FAILURE, INFO, WARNING, Alert, store_events
from assets.monitoring.conditions import book_line
from assets.monitoring.switches import night_of, tick_of
from assets.night.reports import TIES_OUT
from assets.night.results import AssetCheck
from assets.night.run_log import DIED, LoggedRun
from assets.night.step import StepFailure
from assets.nightbook import DEFAULT_EVENT, EventCallback, Nightbook
from assets.publishing import shelf
from pipelines.landing import snapshots

MAX_CHARACTERS = 600
RETRY, NO_RETRY = "Dagster will retry it automatically.", "It will not be retried."


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRun:
    """A failed run. `day` is None if the run had no night, and `name` is the name of its job.

    `is_by_hand` is true if a person started the run in Dagster, which also shows its result.
    `is_tick` is true if the schedule or cron started it, so a later tick may follow. `location`
    says where the run can be looked at.
    """

    run_id: str
    day: date | None
    failures: Sequence[StepFailure]
    reason: str = ""
    name: str = ""
    location: str = ""
    is_tick: bool = False
    is_by_hand: bool = False
    will_retry: bool = False


def failure_alert(nightbook: Nightbook, run: FailedRun) -> Alert | None:
    """Return the alert for a failed run, or None if the failure is reported elsewhere."""
    # Send an alert even if Dagster retries the run, because the next attempt is a separate run. If
    # a later tick can still pull the night, send only one alert with low priority about the retry.
    layout, day = nightbook.layout, run.day
    commands = [failure.command for failure in run.failures]
    if commands and set(commands) == {BUSY}:
        return None  # Another run is pulling the night, and it reports its own result.
    messages = [failure.message for failure in run.failures if failure.message]
    lines = dict.fromkeys(messages or [run.reason or "The run did not record a reason."])
    if day is not None and (tick := _next_tick(nightbook, run, day)) is not None:
        return _retry_alert(nightbook, day, tick, [line[:MAX_CHARACTERS] for line in lines])
    lines |= dict.fromkeys(book_line(nightbook, day) if day else [])
    shortened = [line[:MAX_CHARACTERS] for line in lines]
    if run.is_by_hand:
        title = f"a run that was started in Dagster failed ({day or 'without a night'})"
        command, kind = "status", INFO
    else:
        title = f"the run of {day or run.name} failed"
        command = next(filter(None, commands), "run")
        kind = WARNING if run.will_retry else FAILURE
        shortened.append(RETRY if run.will_retry else NO_RETRY)
    return Alert(
        cause=f"failed:{run.run_id}",
        title=title,
        words="\n".join(shortened),
        see="; ".join(filter(None, [run.location, str(layout.home)])),
        command=full_command(layout, command),
        happened=True,
        kind=kind,
    )


def run_alerts(nightbook: Nightbook, run: LoggedRun) -> list[Alert]:
    """Return the alerts about a run by a command."""
    failed = FailedRun(
        run_id=run.run_id,
        day=run.day,
        failures=run.failures,
        reason=DIED if run.is_dead else "",
        is_tick=run.is_tick,
    )
    failure = failure_alert(nightbook, failed) if run.failures or run.is_dead else None
    checks = [result for result in run.results if isinstance(result, AssetCheck)]
    return [*filter(None, [failure]), *reconciliation_alerts(nightbook, run.day, checks)]


def reconciliation_alerts(
    nightbook: Nightbook, day: date | str, checks: Iterable[AssetCheck]
) -> Iterator[Alert]:
    """Yield an alert if a ledger in the inbox could not be compared with the book."""
    layout = nightbook.layout
    for check in checks:
        if check.check == TIES_OUT and check.is_error:
            yield Alert(
                cause=f"unreconciled:{day}",
                title=f"the book of {day} was not reconciled",
                words=check.description or "The check did not record a reason.",
                see=str(layout.home / "reconcile" / "inbox"),
                command=full_command(layout, "reconcile", "run"),
                happened=True,
            )


def _next_tick(nightbook: Nightbook, run: FailedRun, day: date) -> datetime | None:
    """Return the time of the next scheduled attempt for a run's date, or None if there is none."""
    if not run.is_tick or night_of(nightbook, day):
        return None
    return tick_of(nightbook.settings(), day, nightbook.now())


def _retry_alert(nightbook: Nightbook, day: date, tick: datetime, lines: list[str]) -> Alert:
    layout = nightbook.layout
    retry = f"The next attempt is at {tick:%H:%M} ({nightbook.settings().timezone})."
    return Alert(
        cause=f"trying:{day}",
        title=f"the night of {day} has not been pulled yet and will be retried",
        words="\n".join(
            [retry, *lines, "You will get another alert only if the last attempt fails."]
        ),
        see=str(layout.home),
        command=full_command(layout, "status"),
        happened=True,
        kind=INFO,
    )


def with_merge_alerts(nightbook: Nightbook, tell: EventCallback) -> EventCallback:
    """Wrap a progress callback so that it also stores an alert if two machines decided."""

    def log(
        message: str, *, event: str = DEFAULT_EVENT, level: str = INFO, snapshot: str = ""
    ) -> None:
        tell(message, event=event, level=level, snapshot=snapshot)
        if event == shelf.MERGED and level == WARNING:
            store_events(nightbook, [_merged_alert(nightbook, snapshot, message)])

    return log


def _merged_alert(nightbook: Nightbook, snapshot_id: str, message: str) -> Alert:
    """Return the alert about a night on which two machines made decisions."""
    layout = nightbook.layout
    decision = snapshots.find(layout, snapshot_id).decision
    return Alert(
        cause=f"merged:{snapshot_id}:{decision.token[:8] if decision else ''}",
        title=f"two machines made decisions on night {snapshot_id}",
        words=message,
        see=str(layout.database),
        command=full_command(layout, "snapshots"),
        happened=True,
    )
