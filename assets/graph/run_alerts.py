"""The alerts of a failed run, and of a reconciliation that could not be made."""

from collections.abc import Iterable, Iterator
from datetime import date, datetime

import dagster as dg

from assets.console.errors import BUSY
from assets.console.invocation import full_command
from assets.graph.partitions import PARTITION
from assets.graph.published.reports import TIES_OUT
from assets.graph.step import DECIDE, failure_command, failure_message
from assets.home.instance import DIED
from assets.monitoring.alerts import FAILURE, INFO, WARNING, Alert
from assets.monitoring.due import next_try, night_of
from assets.monitoring.night_conditions import book_line
from assets.nightbook import Nightbook
from pipelines import night
from pipelines.landing import snapshots
from warehouse.contract import states

WILL_RETRY = "dagster/will_retry"
SCHEDULED = "dagster/schedule_name"
FROM_UI, BACKFILL = "dagster/from_ui", "dagster/backfill"
"""Tags of runs that a person started in Dagster's UI."""
ASSET_JOB = "__ASSET_JOB"
"""The job of assets and checks that a person selected."""
TICK = "nightbook/tick"
"""The tag of a run that cron began: there are later ones on the same date."""
UNTIL_JUDGED = {"pull", "flatten_portfolios", "flatten_venues", "warehouse"}
LONGEST = 600
CHECKED = dg.DagsterEventType.ASSET_CHECK_EVALUATION


def failure_alert(
    nightbook: Nightbook, run: dg.DagsterRun, events: Iterable[dg.DagsterEvent], message: str
) -> Alert | None:
    """Return the alert of a failed run; None where all it did was to leave its night held."""
    # A run that Dagster tries again by itself has an alert too: the next attempt is another run.
    # While a later tick of the date can still take it, one quiet alert says so.
    layout, failures = nightbook.layout, list(events)
    day = run.tags.get(PARTITION, "")
    steps = {event.step_key for event in failures}
    if steps and not steps & UNTIL_JUDGED and _is_held(nightbook, day):
        return None
    commands = [failure_command(event) for event in failures]
    if commands and set(commands) == {BUSY}:
        return None  # another run is taking the night, and tells how it ends
    words = [words for event in failures if (words := failure_message(event))]
    again = run.tags.get(WILL_RETRY) == "true"
    after = "It is tried again by itself." if again else "It is not tried again by itself."
    lines = dict.fromkeys(words or [message or "It does not say why."])
    if (tick := _next_try(nightbook, run, day)) is not None:
        return _trying_alert(nightbook, day, tick, [line[:LONGEST] for line in lines])
    lines |= dict.fromkeys(book_line(nightbook, day))
    if _is_by_hand(run):
        return Alert(
            cause=f"failed:{run.run_id}",
            title=f"a run that was started in Dagster failed ({day or 'of no night'})",
            words="\n".join(line[:LONGEST] for line in lines),
            see=f"run {run.run_id} in nightbook dev; {layout.home}",
            command=full_command(layout, "status"),
            happened=True,
            kind=INFO,
        )
    return Alert(
        cause=f"failed:{run.run_id}",
        title=f"the run of {day or run.job_name} failed",
        words="\n".join([*(line[:LONGEST] for line in lines), after]),
        see=f"run {run.run_id} in nightbook dev; {layout.home}",
        command=full_command(layout, next(filter(None, commands), "run")),
        happened=True,
        kind=WARNING if again else FAILURE,
    )


def _is_by_hand(run: dg.DagsterRun) -> bool:
    """Whether a person started a run in Dagster's UI, and so can see there how it ended."""
    return bool({FROM_UI, BACKFILL} & run.tags.keys()) or run.job_name in (ASSET_JOB, DECIDE)


def _next_try(nightbook: Nightbook, run: dg.DagsterRun, day: str) -> datetime | None:
    """Return when the schedule takes up the date of a run again; None where it does not."""
    if not {SCHEDULED, TICK} & run.tags.keys():
        return None
    try:
        date_ = date.fromisoformat(day)
    except ValueError:
        return None
    return None if night_of(nightbook, date_) else next_try(nightbook, date_)


def _trying_alert(nightbook: Nightbook, day: str, tick: datetime, lines: list[str]) -> Alert:
    layout = nightbook.layout
    again = f"It is tried again at {tick:%H:%M} ({nightbook.settings().timezone})."
    return Alert(
        cause=f"trying:{day}",
        title=f"{day} is not read yet, and is tried again",
        words="\n".join(
            [again, *lines, "You are told once more only if the last try of it fails."]
        ),
        see=str(layout.home),
        command=full_command(layout, "status"),
        happened=True,
        kind=INFO,
    )


def death_alert(
    nightbook: Nightbook, instance: dg.DagsterInstance, run: dg.DagsterRun
) -> Alert | None:
    """Return the alert of a run that was closed because its process is gone."""
    return failure_alert(nightbook, instance.get_run_by_id(run.run_id) or run, (), DIED)


def reconciliation_alerts(
    nightbook: Nightbook, run: dg.DagsterRun, events: Iterable[dg.DagsterEvent]
) -> Iterator[Alert]:
    """Yield an alert where a ledger lies in the inbox and could not be compared."""
    layout, day = nightbook.layout, run.tags.get(PARTITION, "")
    for event in events:
        if event.event_type is not CHECKED:
            continue
        check = event.asset_check_evaluation_data
        is_error = check.severity is dg.AssetCheckSeverity.ERROR
        if check.check_name == TIES_OUT and not check.passed and is_error:
            yield Alert(
                cause=f"unreconciled:{day}",
                title=f"the book of {day} was not reconciled",
                words=check.description or "It does not say why.",
                see=str(layout.home / "reconcile" / "inbox"),
                command=full_command(layout, "reconcile", "run"),
                happened=True,
            )


def _is_held(nightbook: Nightbook, day: str) -> bool:
    layout = nightbook.layout
    try:
        date_ = date.fromisoformat(day)
    except ValueError:
        return False
    manifest = night.taken_on(layout, date_) or night.landed_on(layout, date_)
    return (
        manifest is not None and snapshots.find(layout, manifest.snapshot_id).state == states.HELD
    )
