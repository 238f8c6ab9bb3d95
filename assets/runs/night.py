"""One run of the nightly job in this process, recorded in Dagster as those of the daemon are."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date

import dagster as dg

from assets.definitions import assemble
from assets.graph.sensors import NIGHTLY, TICK, death_alert, failure_alert, reconciliation_alerts
from assets.graph.step import failure_message, run_config
from assets.graph.warehouse import WAREHOUSE
from assets.home.dagster_internals import NO_CAPTURED_OUTPUT, DagsterExecutionInterruptedError
from assets.home.instance import PROCESS, alive, close_dead_runs, open_instance
from assets.home.writer_lock import RunLock
from assets.monitoring.alerts import Alert, store_events
from assets.monitoring.switches import Switches, switches_of
from assets.nightbook import WARNING, Nightbook
from assets.runs import records
from assets.runs.records import RecordAway, in_memory, is_away, reaching_record
from warehouse.storage.layout import Layout

SILENT = run_config("CRITICAL")


@dataclass(frozen=True, slots=True, kw_only=True)
class NightRun:
    """How a run ended."""

    # `is_judged` tells whether the night got as far as the guards; `failures` are what the failed
    # steps said, `trace` is where the first of them failed that did not expect to. `alerts` are
    # what an operator is to hear of this run, and of earlier ones that it found dead. `switches` is
    # how the schedule and the sensors stood in the record.

    success: bool
    is_judged: bool
    failures: tuple[str, ...]
    trace: str
    run_id: str
    alerts: tuple[Alert, ...] = ()
    switches: Switches | None = None


def run_night(
    nightbook: Nightbook, day: date, run_id: str | None = None, *, is_tick: bool = False
) -> NightRun:
    """Run the nightly job for one date in this process, recorded in Dagster."""
    # Where Dagster's record cannot be reached, or is lost on the way, the night is taken without
    # it. `is_tick` says that cron began it, as the schedule would have.
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
        store_events(
            nightbook, deaths
        )  # they are closed now: if this run dies too, none finds them again
        # The record may also be lost on the way: then the job runs again, without one.
        try:
            result = _execute(nightbook, day, instance, run_id, tags | {PROCESS: name})
        except Exception as error:
            if is_away(error):
                raise RecordAway(layout, error) from error
            raise
        return replace(_night_run(nightbook, result, deaths), switches=_switches(instance, layout))


def _switches(instance: dg.DagsterInstance, layout: Layout) -> Switches | None:
    """Return how the switches stand; None where that cannot be read: the next look says why."""
    with contextlib.suppress(Exception):
        return switches_of(instance, layout)
    return None


def _run_without_record(
    nightbook: Nightbook, day: date, away: RecordAway, tags: dict[str, str]
) -> NightRun:
    """Run the same job with a record in memory; what it made is recorded later."""
    if nightbook.tell is not None:
        message = f"Dagster's record cannot be reached ({away.why}): the night is taken without it"
        nightbook.tell(message, event="unrecorded", level=WARNING)
    RunLock.release_all()
    with in_memory() as instance:
        result = _execute(nightbook, day, instance, None, tags)
        with contextlib.suppress(OSError):  # a full disk is told by the steps
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
    """Undo what Dagster leaves: SIGTERM means what SIGINT does, nothing where a shell said `&`."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and handler is not None:  # None: set by no Python, and Python cannot set it
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
        failures=tuple(dict.fromkeys(words for words, _ in failures)),
        trace=next((trace for _, trace in failures if trace), ""),
        run_id=result.run_id,
        alerts=tuple(alerts),
    )


def _alerts(nightbook: Nightbook, result: dg.ExecuteInProcessResult) -> Iterator[Alert]:
    """Yield what a sensor would send of the same run, in the same words: it is sent once."""
    if not result.success:
        events = [event for event in result.all_events if event.is_step_failure]
        if alert := failure_alert(nightbook, result.dagster_run, events, ""):
            yield alert
    yield from reconciliation_alerts(nightbook, result.dagster_run, result.all_events)


def _is_interrupted(event: dg.DagsterEvent) -> bool:
    """Whether it ended because a person stopped it: Dagster makes a failure of Ctrl-C."""
    error = event.step_failure_data.error if event.is_step_failure else None
    if event.is_job_failure:  # it came between two steps
        error = event.job_failure_data.error
    kinds = {error.cls_name, error.cause.cls_name if error.cause else None} if error else set()
    return DagsterExecutionInterruptedError.__name__ in kinds


def _failures(result: dg.ExecuteInProcessResult) -> Iterator[tuple[str, str]]:
    """Yield what each failed step said, and the trace where it did not expect to fail."""
    for event in result.all_events:
        if not event.is_step_failure:
            continue
        failure = event.step_failure_data
        if failure.user_failure_data is not None and failure.user_failure_data.description:
            yield failure_message(event), ""
        elif failure.error is not None:
            error = failure.error.cause or failure.error
            message = (
                f"The step {event.step_key} stopped at something it did not expect "
                f"({error.message.strip()}). The last published warehouse stands. The whole "
                f"trace: nightbook --debug run, or run {result.run_id} in nightbook dev."
            )
            yield message, failure.error.to_string()
