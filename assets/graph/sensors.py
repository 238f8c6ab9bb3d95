"""The nightly schedule, and the sensors that send alerts."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

import dagster as dg

from assets.console.errors import BUSY
from assets.console.invocation import full_command
from assets.graph.decision import TO_FILL_IN
from assets.graph.reports import TIES_OUT
from assets.graph.step import (
    DECIDE,
    PARTITION,
    failure_command,
    failure_message,
    parse_date,
    run_config,
)
from assets.graph.warehouse import DECISION
from assets.home.demo import is_demo
from assets.home.instance import DIED
from assets.monitoring import metrics
from assets.monitoring.alerts import (
    FAILURE,
    INFO,
    WARNING,
    Alert,
    Send,
    send_alerts,
    send_by_apprise,
)
from assets.monitoring.conditions import book_line, find_alerts, late_alert
from assets.monitoring.metrics import Get, plain_get, send_heartbeat
from assets.monitoring.switches import night_of, tick_of
from assets.nightbook import Nightbook
from pipelines import night
from pipelines.landing import snapshots
from warehouse.contract import states

NIGHTLY = "nightly"
LONGEST_RUN = 2 * 3600
LOGGED = run_config("INFO")


# Run all steps in one process, because a process for each step would cost seconds.
NIGHTLY_JOB = dg.define_asset_job(
    NIGHTLY,
    selection=dg.AssetSelection.all() - dg.AssetSelection.assets(DECISION),
    executor_def=dg.in_process_executor,
    tags={"dagster/max_runtime": str(LONGEST_RUN)},
    config=LOGGED,
    description="Build tonight's book: pull, land, flatten, judge, publish and report.",
)
DECIDE_JOB = dg.define_asset_job(
    DECIDE,
    selection=dg.AssetSelection.groups("published", "views") | dg.AssetSelection.all_asset_checks(),
    executor_def=dg.in_process_executor,
    tags={"dagster/max_runtime": str(LONGEST_RUN)},
    config=LOGGED | {"ops": {DECISION.path[0]: {"config": TO_FILL_IN}}},
    description="Accept or reject a held night, with your name and a reason. The run then updates "
    "the warehouse, workbook, report, reconciliation and checks. The partition is the night.",
)


def nightly_schedule(nightbook: Nightbook) -> dg.ScheduleDefinition:
    """Return the schedule from the settings `NIGHTBOOK_SCHEDULE` and `NIGHTBOOK_TIMEZONE`.

    The schedule is on by default, except in a demo.
    """
    # Dagster does not catch up on a missed tick, because the API returns only current data. If the
    # earlier ticks of a date failed, a later tick on the same date pulls the night. Otherwise, the
    # later tick does nothing.
    settings = nightbook.settings()

    @dg.schedule(
        job=NIGHTLY_JOB,
        cron_schedule=settings.schedule,
        execution_timezone=str(settings.timezone),
        default_status=dg.DefaultScheduleStatus.STOPPED
        if is_demo(nightbook.layout)
        else dg.DefaultScheduleStatus.RUNNING,
        description="Starts the night of the current date, unless that date already has one.",
    )
    def nightly_schedule(
        context: dg.ScheduleEvaluationContext,
    ) -> dg.RunRequest | dg.SkipReason:
        tick = context.scheduled_execution_time.astimezone(settings.timezone)
        if (snapshot := night_of(nightbook, tick.date())) is not None:
            return dg.SkipReason(
                f"This date already has a night: {snapshot.snapshot_id} is {snapshot.state}."
            )
        return dg.RunRequest(
            run_key=tick.isoformat(), partition_key=tick.date().isoformat(), run_config=LOGGED
        )

    return nightly_schedule


WILL_RETRY = "dagster/will_retry"
SCHEDULED = "dagster/schedule_name"
FROM_UI, BACKFILL = "dagster/from_ui", "dagster/backfill"
"""Tags of runs that a person started in Dagster's UI."""
ASSET_JOB = "__ASSET_JOB"
"""Name of Dagster's job for assets and checks that a person selected."""
TICK = "nightbook/tick"
"""Tag of a run started by cron. Later runs may follow on the same date."""
UNTIL_JUDGED = {"pull", "flatten_portfolios", "flatten_venues", "warehouse"}
LONGEST = 600
CHECKED = dg.DagsterEventType.ASSET_CHECK_EVALUATION


def failure_alert(
    nightbook: Nightbook, run: dg.DagsterRun, events: Iterable[dg.DagsterEvent], message: str
) -> Alert | None:
    """Return the alert for a failed run, or None if the failure is reported elsewhere."""
    # Send an alert even if Dagster retries the run, because the next attempt is a separate run. If
    # a later tick can still pull the night, send only one alert with low priority about the retry.
    layout, failures = nightbook.layout, list(events)
    day = run.tags.get(PARTITION, "")
    steps = {event.step_key for event in failures}
    if steps and not steps & UNTIL_JUDGED and _is_held(nightbook, day):
        return None
    commands = [failure_command(event) for event in failures]
    if commands and set(commands) == {BUSY}:
        return None  # Another run is pulling the night, and it reports its own result.
    messages = [text for event in failures if (text := failure_message(event))]
    will_retry = run.tags.get(WILL_RETRY) == "true"
    after = "Dagster will retry it automatically." if will_retry else "It will not be retried."
    lines = dict.fromkeys(messages or [message or "The run did not record a reason."])
    if (tick := _next_tick(nightbook, run, day)) is not None:
        return _retry_alert(nightbook, day, tick, [line[:LONGEST] for line in lines])
    lines |= dict.fromkeys(book_line(nightbook, day))
    shortened = [line[:LONGEST] for line in lines]
    if _is_by_hand(run):
        title = f"a run that was started in Dagster failed ({day or 'without a night'})"
        command, kind = "status", INFO
    else:
        title = f"the run of {day or run.job_name} failed"
        command, kind = next(filter(None, commands), "run"), WARNING if will_retry else FAILURE
        shortened.append(after)
    return Alert(
        cause=f"failed:{run.run_id}",
        title=title,
        words="\n".join(shortened),
        see=f"run {run.run_id} in nightbook dev; {layout.home}",
        command=full_command(layout, command),
        happened=True,
        kind=kind,
    )


def _is_by_hand(run: dg.DagsterRun) -> bool:
    """Return whether a person started the run in Dagster's UI, which also shows its result."""
    return bool({FROM_UI, BACKFILL} & run.tags.keys()) or run.job_name in (ASSET_JOB, DECIDE)


def _next_tick(nightbook: Nightbook, run: dg.DagsterRun, day: str) -> datetime | None:
    """Return the time of the next scheduled attempt for a run's date, or None if there is none."""
    parsed = parse_date(day) if {SCHEDULED, TICK} & run.tags.keys() else None
    if parsed is None or night_of(nightbook, parsed):
        return None
    return tick_of(nightbook.settings(), parsed, nightbook.now())


def _retry_alert(nightbook: Nightbook, day: str, tick: datetime, lines: list[str]) -> Alert:
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


def death_alert(
    nightbook: Nightbook, instance: dg.DagsterInstance, run: dg.DagsterRun
) -> Alert | None:
    """Return the alert for a run that was closed because its process no longer exists."""
    return failure_alert(nightbook, instance.get_run_by_id(run.run_id) or run, (), DIED)


def reconciliation_alerts(
    nightbook: Nightbook, run: dg.DagsterRun, events: Iterable[dg.DagsterEvent]
) -> Iterator[Alert]:
    """Yield an alert if a ledger in the inbox could not be compared with the book."""
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
                words=check.description or "The check did not record a reason.",
                see=str(layout.home / "reconcile" / "inbox"),
                command=full_command(layout, "reconcile", "run"),
                happened=True,
            )


def _is_held(nightbook: Nightbook, day: str) -> bool:
    layout = nightbook.layout
    if (parsed := parse_date(day)) is None:
        return False
    manifest = night.taken_on(layout, parsed) or night.landed_on(layout, parsed)
    return (
        manifest is not None and snapshots.find(layout, manifest.snapshot_id).state == states.HELD
    )


AFTER_A_RUN, BETWEEN = 30, 300
Log = Callable[[str], object]


def sensors(nightbook: Nightbook) -> list[dg.SensorDefinition]:
    """Return the three sensors: for failed runs, for successful runs, and for all other problems.

    They are on by default, except in a demo.
    """
    status = (
        dg.DefaultSensorStatus.STOPPED
        if is_demo(nightbook.layout)
        else dg.DefaultSensorStatus.RUNNING
    )
    return [
        _failure_sensor(nightbook, status),
        _success_sensor(nightbook, status),
        _watch(nightbook, status),
    ]


def _failure_sensor(nightbook: Nightbook, status: dg.DefaultSensorStatus) -> dg.SensorDefinition:
    @dg.run_failure_sensor(
        name="night_failed",
        minimum_interval_seconds=AFTER_A_RUN,
        default_status=status,
        # Monitor all code locations, because a run from the command line does not belong to any
        # location.
        monitor_all_code_locations=True,
        description="After a failed run, sends alerts about the run and all other problems.",
    )
    def watch_failures(context: dg.RunFailureSensorContext) -> None:
        events, message = context.get_step_failure_events(), context.failure_event.message or ""
        alert = failure_alert(nightbook, context.dagster_run, events, message)
        look(nightbook, context.log.warning, [alert] if alert else [])

    return watch_failures


def _success_sensor(nightbook: Nightbook, status: dg.DefaultSensorStatus) -> dg.SensorDefinition:
    @dg.run_status_sensor(
        run_status=dg.DagsterRunStatus.SUCCESS,
        name="night_succeeded",
        minimum_interval_seconds=AFTER_A_RUN,
        default_status=status,
        monitor_all_code_locations=True,
        description="After a successful run, sends alerts for open problems, writes the metrics "
        "and sends the heartbeat.",
    )
    def watch_successes(context: dg.RunStatusSensorContext) -> None:
        logs = context.instance.all_logs(context.dagster_run.run_id, of_type=CHECKED)
        events = [log.dagster_event for log in logs if log.dagster_event]
        alerts = list(reconciliation_alerts(nightbook, context.dagster_run, events))
        look(nightbook, context.log.warning, alerts)

    return watch_successes


def _watch(nightbook: Nightbook, status: dg.DefaultSensorStatus) -> dg.SensorDefinition:
    @dg.sensor(
        name="watch",
        minimum_interval_seconds=BETWEEN,
        default_status=status,
        description="Sends alerts about problems outside a run, such as a night that never began.",
    )
    def watch(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        settings, now = nightbook.settings(), nightbook.now()
        today = now.astimezone(settings.timezone).date()
        tags = {PARTITION: today.isoformat()}
        has_run = context.instance.get_runs(dg.RunsFilter(tags=tags), limit=1)
        missing = None if has_run else late_alert(nightbook)
        look(nightbook, context.log.warning, [missing] if missing else [])
        return dg.SkipReason("Checked for problems. This sensor starts no runs.")

    return watch


def look(
    nightbook: Nightbook,
    log: Log,
    first: Sequence[Alert] = (),
    send: Send = send_by_apprise,
    get: Get = plain_get,
) -> None:
    """Send alerts, write the metrics and send the heartbeat. A failure does not stop the others."""
    alerts = list(first)
    try:
        alerts += find_alerts(nightbook)
    except Exception as error:  # noqa: BLE001 - the operator must learn that checking failed
        alerts.append(_blind_alert(nightbook, error))
    outcome = send_alerts(nightbook, alerts, send)
    for channel in outcome.dead:
        log(f"{channel} in NIGHTBOOK_ALERTS did not accept a message")
    for alert in outcome.unsent:
        log(f"not sent yet, because no channel accepted it: {alert.title}")
    for alert in outcome.dropped:
        log(f"dropped, because no channel accepted it for a week: {alert.title}")
    try:
        metrics.write(nightbook)
    except Exception as error:  # noqa: BLE001 - a full disk must not stop the heartbeat
        log(f"the metrics were not written: {error}")
    try:
        if send_heartbeat(nightbook, get) is False:
            log("NIGHTBOOK_HEARTBEAT did not respond, so the next check will try again")
    except Exception as error:  # noqa: BLE001 - the missing heartbeat itself raises the alarm
        log(f"the heartbeat was not sent: {type(error).__name__}")


def _blind_alert(nightbook: Nightbook, error: Exception) -> Alert:
    layout = nightbook.layout
    return Alert(
        cause=f"blind:{type(error).__name__}:{nightbook.now().date()}",
        title="nightbook cannot check this home for problems",
        words=str(error),
        see=str(layout.home),
        command=full_command(layout, "doctor"),
        kind=FAILURE,
    )
