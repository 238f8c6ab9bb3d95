"""Execution of the nightly job in this process, recorded in Dagster like a run of the daemon."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

import dagster as dg

from assets.definitions import assemble
from assets.graph.sensors import NIGHTLY, TICK, death_alert, failure_alert, reconciliation_alerts
from assets.graph.step import failure_message, run_config
from assets.graph.warehouse import WAREHOUSE
from assets.home.instance import (
    NO_CAPTURED_OUTPUT,
    PROCESS,
    DagsterExecutionInterruptedError,
    alive,
    close_dead_runs,
    open_instance,
    quiet,
)
from assets.home.writer_lock import RunLock
from assets.monitoring.alerts import Alert, store_events
from assets.nightbook import WARNING, Nightbook
from assets.runs import records
from assets.runs.records import RecordAway, is_away, reaching_record

SILENT = run_config("CRITICAL")


@dataclass(frozen=True, slots=True, kw_only=True)
class NightRun:
    """The result of a nightly run.

    `is_judged` is true if the guards judged the night. `failures` contains the messages from
    failed steps, and `trace` the stack trace of the first unexpected failure. `alerts` are about
    this run, and about earlier runs whose processes died.
    """

    success: bool
    is_judged: bool
    failures: tuple[str, ...]
    trace: str
    run_id: str
    alerts: tuple[Alert, ...] = ()


def run_night(
    nightbook: Nightbook, day: date, run_id: str | None = None, *, is_tick: bool = False
) -> NightRun:
    """Run the nightly job for one date in this process, and record it in Dagster.

    If Dagster's record cannot be reached or fails during the run, the night is pulled without it.
    `is_tick` is true if cron started the run instead of the schedule.
    """
    tags = {TICK: "cron"} if is_tick else {}
    try:
        return _run_with_record(nightbook, day, run_id, tags)
    except RecordAway as away:
        return _run_without_record(nightbook, day, away, tags)


def _run_with_record(
    nightbook: Nightbook, day: date, run_id: str | None, tags: dict[str, str]
) -> NightRun:
    layout = nightbook.layout
    with contextlib.ExitStack() as stack:
        with reaching_record(layout):
            instance = stack.enter_context(open_instance(layout, NO_CAPTURED_OUTPUT))
            dead = close_dead_runs(layout, instance, launched=False)
            records.record_stored_events(layout, instance)
        name = stack.enter_context(alive(layout))
        deaths = [alert for run in dead if (alert := death_alert(nightbook, instance, run))]
        # Store the alerts about dead runs immediately. The dead runs are closed now, so no later
        # run would find them.
        store_events(nightbook, deaths)
        # If a database fails during the run, Dagster cannot record the run. In that case, raise
        # `RecordAway`, so that the caller reruns the job without Dagster's record.
        try:
            result = _execute(nightbook, day, instance, run_id, tags | {PROCESS: name})
        except Exception as error:
            if is_away(error):
                raise RecordAway(layout, error) from error
            raise
        return _night_run(nightbook, result, deaths)


def _run_without_record(
    nightbook: Nightbook, day: date, away: RecordAway, tags: dict[str, str]
) -> NightRun:
    """Run the nightly job with a record in memory. A later run copies the events to Dagster."""
    if nightbook.tell is not None:
        message = (
            f"Dagster's database cannot be reached ({away.why}), so this run is not recorded there "
            "yet"
        )
        nightbook.tell(message, event="unrecorded", level=WARNING)
    RunLock.release_all()
    with quiet(), dg.DagsterInstance.ephemeral() as instance:
        result = _execute(nightbook, day, instance, None, tags)
        with contextlib.suppress(OSError):  # ignore a full disk here, because the steps report it
            records.store_events(nightbook.layout, day.isoformat(), result)
        alert = records.record_away_alert(nightbook, away.why, is_taken=result.success)
        return _night_run(nightbook, result, [alert])


def _execute(
    nightbook: Nightbook,
    day: date,
    instance: dg.DagsterInstance,
    run_id: str | None,
    tags: dict[str, str],
) -> dg.ExecuteInProcessResult:
    job = assemble(nightbook).resolve_job_def(NIGHTLY)
    with _restoring_sigterm():
        return job.execute_in_process(
            partition_key=day.isoformat(),
            instance=instance,
            raise_on_error=False,
            run_config=SILENT,
            tags=tags,
            run_id=run_id,
        )


@contextlib.contextmanager
def _restoring_sigterm() -> Iterator[None]:
    """Restore the handler for SIGTERM after the block, because Dagster replaces it.

    Dagster uses the SIGINT handler for SIGTERM. A shell's background job ignores SIGINT, so SIGTERM
    could not end such a job.
    """
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        is_main = threading.current_thread() is threading.main_thread()
        # If the handler is None, it was not set from Python, so it cannot be restored.
        if is_main and handler is not None:
            signal.signal(signal.SIGTERM, handler)


def _night_run(
    nightbook: Nightbook, result: dg.ExecuteInProcessResult, alerts: list[Alert]
) -> NightRun:
    alerts = [*alerts, *_alerts(nightbook, result)]
    if any(map(_is_interrupted, result.all_events)):
        raise KeyboardInterrupt
    failures = list(_failures(result))
    return NightRun(
        success=result.success,
        is_judged=any(
            e.is_step_success and e.step_key == WAREHOUSE.path[0] for e in result.all_events
        ),
        failures=tuple(dict.fromkeys(message for message, _ in failures)),
        trace=next((trace for _, trace in failures if trace), ""),
        run_id=result.run_id,
        alerts=tuple(alerts),
    )


def _alerts(nightbook: Nightbook, result: dg.ExecuteInProcessResult) -> Iterator[Alert]:
    """Yield the alerts that Dagster's sensors would also send. Each alert is sent only once."""
    if not result.success:
        events = [event for event in result.all_events if event.is_step_failure]
        if alert := failure_alert(nightbook, result.dagster_run, events, ""):
            yield alert
    yield from reconciliation_alerts(nightbook, result.dagster_run, result.all_events)


def _is_interrupted(event: dg.DagsterEvent) -> bool:
    """Return whether a person stopped the run. Dagster records Ctrl-C as a failure."""
    error = event.step_failure_data.error if event.is_step_failure else None
    # If the run was interrupted between two steps, the error is recorded on the job, not on a step.
    if event.is_job_failure:
        error = event.job_failure_data.error
    kinds = {error.cls_name, error.cause.cls_name if error.cause else None} if error else set()
    return DagsterExecutionInterruptedError.__name__ in kinds


def _failures(result: dg.ExecuteInProcessResult) -> Iterator[tuple[str, str]]:
    """Yield each failed step's message, and its stack trace if the error was unexpected."""
    for event in result.all_events:
        if not event.is_step_failure:
            continue
        failure = event.step_failure_data
        if failure.user_failure_data is not None and failure.user_failure_data.description:
            yield failure_message(event), ""
        elif failure.error is not None:
            error = failure.error.cause or failure.error
            message = (
                f"The step {event.step_key} failed with an unexpected error "
                f"({error.message.strip()}). The last published warehouse is unchanged. For the "
                f"stack trace, use nightbook --debug run, or open run {result.run_id} in nightbook "
                "dev."
            )
            yield message, failure.error.to_string()
