"""The nightly schedule, and the sensors that send alerts."""

from collections.abc import Iterable, Sequence

import dagster as dg

from assets.graph.decision import TO_FILL_IN
from assets.graph.record import copy_runs, report_state, result_of
from assets.graph.step import (
    DECIDE,
    PARTITION,
    failure_command,
    failure_message,
    run_config,
)
from assets.graph.warehouse import DECISION
from assets.home.demo import is_demo
from assets.monitoring.alerts import Alert
from assets.monitoring.conditions import late_alert
from assets.monitoring.failures import FailedRun, failure_alert, reconciliation_alerts
from assets.monitoring.inspection import look
from assets.monitoring.switches import night_of
from assets.night.run_log import DIED, newest_runs
from assets.night.step import StepFailure, parse_date
from assets.nightbook import Nightbook

NIGHTLY = "nightly"
LONGEST_RUN = 2 * 3600
LOGGED = run_config("INFO")
WILL_RETRY = "dagster/will_retry"
SCHEDULED = "dagster/schedule_name"
FROM_UI, BACKFILL = "dagster/from_ui", "dagster/backfill"
"""Tags of runs that a person started in Dagster's UI."""
ASSET_JOB = "__ASSET_JOB"
"""Name of Dagster's job for assets and checks that a person selected."""
CHECKED = dg.DagsterEventType.ASSET_CHECK_EVALUATION
AFTER_A_RUN, BETWEEN = 30, 300  # seconds between two ticks of a sensor
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


def run_alert(
    nightbook: Nightbook, run: dg.DagsterRun, events: Iterable[dg.DagsterEvent], reason: str
) -> Alert | None:
    """Return the alert for a failed run of Dagster, or None if it is reported elsewhere."""
    failed = FailedRun(
        run_id=run.run_id,
        day=parse_date(run.tags.get(PARTITION, "")),
        failures=[
            StepFailure(
                step=event.step_key or "",
                message=failure_message(event),
                command=failure_command(event),
            )
            for event in events
        ],
        reason=reason,
        name=run.job_name,
        location=f"run {run.run_id} in nightbook dev",
        is_tick=SCHEDULED in run.tags,
        is_by_hand=bool({FROM_UI, BACKFILL} & run.tags.keys())
        or run.job_name in (ASSET_JOB, DECIDE),
        will_retry=run.tags.get(WILL_RETRY) == "true",
    )
    return failure_alert(nightbook, failed)


def death_alert(
    nightbook: Nightbook, instance: dg.DagsterInstance, run: dg.DagsterRun
) -> Alert | None:
    """Return the alert for a run that was closed because its process no longer exists."""
    return run_alert(nightbook, instance.get_run_by_id(run.run_id) or run, (), DIED)


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


def _look(
    nightbook: Nightbook,
    context: dg.SensorEvaluationContext | dg.RunStatusSensorContext,
    alerts: Sequence[Alert],
) -> None:
    """Look for problems, send alerts, and report to commands that the daemon is running."""
    # Report from each sensor, because somebody may have turned off one of them.
    report_state(nightbook.layout, context.instance, nightbook.now())
    look(nightbook, context.log.warning, alerts)


def _failure_sensor(nightbook: Nightbook, status: dg.DefaultSensorStatus) -> dg.SensorDefinition:
    @dg.run_failure_sensor(
        name="night_failed",
        minimum_interval_seconds=AFTER_A_RUN,
        default_status=status,
        # Monitor all code locations, because a location's name depends on how Dagster was started.
        monitor_all_code_locations=True,
        description="After a failed run, sends alerts about the run and all other problems.",
    )
    def watch_failures(context: dg.RunFailureSensorContext) -> None:
        events, message = context.get_step_failure_events(), context.failure_event.message or ""
        alert = run_alert(nightbook, context.dagster_run, events, message)
        _look(nightbook, context, [alert] if alert else [])

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
        checks = [result_of(event.asset_check_evaluation_data) for event in events]
        day = context.dagster_run.tags.get(PARTITION, "")
        _look(nightbook, context, list(reconciliation_alerts(nightbook, day, checks)))

    return watch_successes


def _watch(nightbook: Nightbook, status: dg.DefaultSensorStatus) -> dg.SensorDefinition:
    @dg.sensor(
        name="watch",
        minimum_interval_seconds=BETWEEN,
        default_status=status,
        description="Sends alerts about problems outside a run, such as a night that never began.",
    )
    def watch(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        today = nightbook.now().astimezone(nightbook.settings().timezone).date()
        tags = {PARTITION: today.isoformat()}
        has_run = bool(context.instance.get_runs(dg.RunsFilter(tags=tags), limit=1))
        has_run |= any(run.day == today for run in newest_runs(nightbook.layout))
        missing = None if has_run else late_alert(nightbook)
        _look(nightbook, context, [missing] if missing else [])
        copy_runs(nightbook.layout, context.instance)
        return dg.SkipReason("Checked for problems. This sensor starts no runs.")

    return watch
