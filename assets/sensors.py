"""After a night: what Dagster saw becomes alerts, metrics and the sign of life.

Three sensors do the same looking: after a failed run, after a good one, and every few minutes for
what no run tells (a night that never began, a decision by hand, a channel that was dead).
"""

from collections.abc import Callable
from datetime import date

import dagster as dg

from assets import metrics
from assets.alerts import Alert, Send, by_apprise, command, tell
from assets.concerns import concerns, late
from assets.demo_home import is_demo
from assets.heartbeat import Get, beat, plain_get
from assets.resources import Nightbook
from pipelines import snapshots

AFTER_A_RUN, BETWEEN = 30, 300
WILL_RETRY = "dagster/will_retry"
PARTITION = "dagster/partition"
UNTIL_JUDGED = {"pull", "flatten_portfolios", "flatten_venues", "warehouse"}
LONGEST = 600
Log = Callable[[str], object]


def sensors(nightbook: Nightbook) -> list[dg.SensorDefinition]:
    """All three; running unless this home is a demo."""
    status = (
        dg.DefaultSensorStatus.STOPPED
        if is_demo(nightbook.layout)
        else dg.DefaultSensorStatus.RUNNING
    )
    return [
        _night_failed(nightbook, status),
        _night_succeeded(nightbook, status),
        _watch(nightbook, status),
    ]


def _night_failed(nightbook: Nightbook, status: dg.DefaultSensorStatus) -> dg.SensorDefinition:
    @dg.run_failure_sensor(
        name="night_failed",
        minimum_interval_seconds=AFTER_A_RUN,
        default_status=status,
        monitor_all_code_locations=True,  # a run from the command line belongs to no location
        description="Tells of a failed run, once, and of everything else that is wrong.",
    )
    def night_failed(context: dg.RunFailureSensorContext) -> None:
        look(nightbook, context.log.warning, failed(nightbook, context))

    return night_failed


def _night_succeeded(nightbook: Nightbook, status: dg.DefaultSensorStatus) -> dg.SensorDefinition:
    @dg.run_status_sensor(
        run_status=dg.DagsterRunStatus.SUCCESS,
        name="night_succeeded",
        minimum_interval_seconds=AFTER_A_RUN,
        default_status=status,
        monitor_all_code_locations=True,
        description="After a good run: what is still wrong, the metrics, the sign of life.",
    )
    def night_succeeded(context: dg.RunStatusSensorContext) -> None:
        look(nightbook, context.log.warning)

    return night_succeeded


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
        missing = None if has_run else late(nightbook)
        look(nightbook, context.log.warning, missing)
        return dg.SkipReason("Looked; there is nothing to run.")

    return watch


def look(
    nightbook: Nightbook,
    log: Log,
    first: Alert | None = None,
    send: Send = by_apprise,
    get: Get = plain_get,
) -> None:
    """Tell what is wrong, write the metrics, give the sign of life; none of them stops another."""
    found = [first] if first else []
    try:
        found += concerns(nightbook)
    except Exception as error:  # noqa: BLE001 - an operator must hear that nobody can look
        found.append(_blind(nightbook, error))
    told = tell(nightbook, found, send)
    for channel in told.dead:
        log(f"{channel} of NIGHTBOOK_ALERTS did not take a message")
    for alert in told.unsent:
        log(f"not told yet, no channel took it: {alert.title}")
    try:
        metrics.write(nightbook)
    except Exception as error:  # noqa: BLE001 - a full disk must not cost the sign of life
        log(f"the metrics were not written: {error}")
    try:
        if beat(nightbook, get) is False:
            log("NIGHTBOOK_HEARTBEAT did not answer; it is tried again at the next look")
    except Exception as error:  # noqa: BLE001 - whatever it is, a missing beat is what tells
        log(f"the heartbeat was not given: {type(error).__name__}")


def _blind(nightbook: Nightbook, error: Exception) -> Alert:
    layout = nightbook.layout
    return Alert(
        f"blind:{type(error).__name__}:{nightbook.now().date()}",
        "the home cannot be looked at",
        str(error),
        str(layout.home),
        command(layout, "doctor"),
    )


def failed(nightbook: Nightbook, context: dg.RunFailureSensorContext) -> Alert | None:
    """What to tell of a failed run; nothing where all it did was to leave its night held.

    A run that Dagster tries again by itself is told too, once: the next attempt is another run.
    """
    run, layout = context.dagster_run, nightbook.layout
    events = context.get_step_failure_events()
    day = run.tags.get(PARTITION, "")
    steps = {event.step_key for event in events}
    if steps and not steps & UNTIL_JUDGED and _is_held(nightbook, day):
        return None
    words = [said for event in events if (said := _said(event))]
    words = words or [context.failure_event.message or "It does not say why."]
    again = run.tags.get(WILL_RETRY) == "true"
    after = "It is tried again by itself." if again else "It is not tried again by itself."
    return Alert(
        f"failed:{run.run_id}",
        f"the run of {day or run.job_name} failed",
        "\n".join([*(str(one)[:LONGEST] for one in dict.fromkeys(words)), after]),
        f"run {run.run_id} in nightbook dev; {layout.home}",
        command(layout, "run"),
    )


def _is_held(nightbook: Nightbook, day: str) -> bool:
    try:
        on = [
            one
            for one in snapshots.landed(nightbook.layout)
            if one.snapshot_date == date.fromisoformat(day)
        ]
    except ValueError:
        return False
    return bool(on) and on[-1].state == snapshots.HELD


def _said(event: dg.DagsterEvent) -> str | None:
    failure = event.step_failure_data
    said = failure.user_failure_data
    if said is not None and said.description:
        return str(said.description)
    error = failure.error and (failure.error.cause or failure.error)
    return f"{event.step_key}: {error.message.strip()}" if error else None
