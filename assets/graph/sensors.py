"""After a night: what Dagster saw becomes alerts, metrics and the sign of life.

Three sensors do the same looking: after a failed run, after a good one, and every few minutes for
what no run tells (a night that never began, a decision by hand, a channel that was dead).
"""

from collections.abc import Callable, Sequence

import dagster as dg

from assets.console.invocation import full_command
from assets.graph.partitions import PARTITION
from assets.graph.run_alerts import CHECKED, failure_alert, reconciliation_alerts
from assets.home.demo import is_demo
from assets.monitoring import metrics
from assets.monitoring.alerts import FAILURE, Alert, Send, send_alerts, send_by_apprise
from assets.monitoring.conditions import find_alerts
from assets.monitoring.heartbeat import Get, plain_get, send_heartbeat
from assets.monitoring.night_conditions import late_alert
from assets.monitoring.switches import Switches
from assets.nightbook import Nightbook

AFTER_A_RUN, BETWEEN = 30, 300
Log = Callable[[str], object]


def sensors(nightbook: Nightbook) -> list[dg.SensorDefinition]:
    """Return all three; they run unless this home is a demo."""
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
        monitor_all_code_locations=True,  # a run from the command line belongs to no location
        description="Tells of a failed run, once, and of everything else that is wrong.",
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
        description="After a good run: what is still wrong, the metrics, the sign of life.",
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
        description="Tells what no run tells: a night that never began, a decision by hand.",
    )
    def watch(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        settings, now = nightbook.settings(), nightbook.now()
        today = now.astimezone(settings.timezone).date()
        tags = {PARTITION: today.isoformat()}
        has_run = context.instance.get_runs(dg.RunsFilter(tags=tags), limit=1)
        missing = None if has_run else late_alert(nightbook)
        look(nightbook, context.log.warning, [missing] if missing else [])
        return dg.SkipReason("Looked; there is nothing to run.")

    return watch


def look(
    nightbook: Nightbook,
    log: Log,
    first: Sequence[Alert] = (),
    send: Send = send_by_apprise,
    get: Get = plain_get,
    *,
    dagster: Switches | None = None,
) -> None:
    """Tell what is wrong, write the metrics, give the sign of life; none of them stops another."""
    # `dagster` is how the switches stand, where they were looked at already.
    alerts = list(first)
    try:
        alerts += find_alerts(nightbook, dagster=dagster)
    except Exception as error:  # noqa: BLE001 - an operator must hear that nobody can look
        alerts.append(_blind_alert(nightbook, error))
    outcome = send_alerts(nightbook, alerts, send)
    for channel in outcome.dead:
        log(f"{channel} of NIGHTBOOK_ALERTS did not take a message")
    for alert in outcome.unsent:
        log(f"not told yet, no channel took it: {alert.title}")
    for alert in outcome.dropped:
        log(f"told no more, no channel took it for a week: {alert.title}")
    try:
        metrics.write(nightbook)
    except Exception as error:  # noqa: BLE001 - a full disk must not cost the sign of life
        log(f"the metrics were not written: {error}")
    try:
        if send_heartbeat(nightbook, get) is False:
            log("NIGHTBOOK_HEARTBEAT did not answer; it is tried again at the next look")
    except Exception as error:  # noqa: BLE001 - whatever it is, a missing beat is what tells
        log(f"the heartbeat was not given: {type(error).__name__}")


def _blind_alert(nightbook: Nightbook, error: Exception) -> Alert:
    layout = nightbook.layout
    return Alert(
        cause=f"blind:{type(error).__name__}:{nightbook.now().date()}",
        title="the home cannot be looked at",
        words=str(error),
        see=str(layout.home),
        command=full_command(layout, "doctor"),
        kind=FAILURE,
    )
