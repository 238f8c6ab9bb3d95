"""A look at the home: alerts about all problems, the metrics, and the heartbeat."""

from collections.abc import Callable, Sequence

from assets.console.invocation import full_command
from assets.monitoring import metrics
from assets.monitoring.alerts import (
    FAILURE,
    Alert,
    Send,
    send_alerts,
    send_by_apprise,
    store_events,
)
from assets.monitoring.conditions import find_alerts
from assets.monitoring.delivery import deliver_book
from assets.monitoring.failures import run_alerts
from assets.monitoring.metrics import Get, request_heartbeat, send_heartbeat
from assets.night.run_log import add_report, newest_runs
from assets.nightbook import Nightbook

Log = Callable[[str], object]


def look(
    nightbook: Nightbook,
    log: Log,
    first: Sequence[Alert] = (),
    send: Send = send_by_apprise,
    get: Get = request_heartbeat,
) -> None:
    """Send alerts, write the metrics and send the heartbeat. A failure does not stop the others."""
    alerts = list(first)
    try:
        alerts += report_runs(nightbook)
        alerts += find_alerts(nightbook)
        alerts += deliver_book(nightbook)
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


def report_runs(nightbook: Nightbook) -> list[Alert]:
    """Store and return the alerts about runs by commands that no earlier look has reported."""
    runs = [run for run in newest_runs(nightbook.layout) if not (run.is_alive or run.is_reported)]
    alerts = [alert for run in runs for alert in run_alerts(nightbook, run)]
    # Store the alerts before the runs are marked, because later looks do not report them again.
    store_events(nightbook, alerts)
    for run in runs:
        add_report(run)
    return alerts


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
