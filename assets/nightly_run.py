"""One run of the nightly job in this process, recorded in Dagster as those of the daemon are."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

import dagster as dg
from dagster._core.errors import DagsterExecutionInterruptedError

from assets.alerts import Alert, keep
from assets.automation import NIGHTLY
from assets.definitions import assemble
from assets.failures import death, failed, unreconciled
from assets.instance import PROCESS, alive, close_dead_runs, opened
from assets.logs import configured
from assets.publish import WAREHOUSE
from assets.resources import Nightbook
from assets.steps import said

SILENT = configured("CRITICAL")
# What the steps print goes to whoever typed the command. Dagster would copy it by four processes a
# step, which shout when a person presses Ctrl-C.
NOT_CAPTURED = {
    "compute_logs": {
        "module": "dagster._core.storage.noop_compute_log_manager",
        "class": "NoOpComputeLogManager",
    }
}


@dataclass(frozen=True, slots=True)
class Ran:
    """How a run ended.

    `is_judged` tells whether the night got as far as the guards; `failures` are what the failed
    steps said, `trace` is where the first of them failed that did not expect to. `alerts` are what
    an operator is to hear of this run, and of earlier ones that it found dead.
    """

    success: bool
    is_judged: bool
    failures: tuple[str, ...]
    trace: str
    run_id: str
    alerts: tuple[Alert, ...] = ()


def run_night(nightbook: Nightbook, day: date, run_id: str | None = None) -> Ran:
    """The nightly job for one date, here, recorded in Dagster, under an id where one is given."""
    layout = nightbook.layout
    with opened(layout, NOT_CAPTURED) as instance, alive(layout) as name:
        job = assemble(nightbook).resolve_job_def(NIGHTLY)
        dead = close_dead_runs(layout, instance, launched=False)
        deaths = [one for run in dead if (one := death(nightbook, instance, run))]
        keep(nightbook, deaths)  # they are closed now: if this run dies too, none finds them again
        result = job.execute_in_process(
            partition_key=day.isoformat(),
            instance=instance,
            raise_on_error=False,
            run_config=SILENT,
            tags={PROCESS: name},
            run_id=run_id,
        )
        alerts = (*deaths, *_alerts(nightbook, result))
    if any(map(_is_interrupted, result.all_events)):
        raise KeyboardInterrupt
    failures = list(_failures(result))
    return Ran(
        result.success,
        any(e.is_step_success and e.step_key == WAREHOUSE.path[0] for e in result.all_events),
        tuple(dict.fromkeys(words for words, _ in failures)),
        next((trace for _, trace in failures if trace), ""),
        result.run_id,
        alerts,
    )


def _alerts(nightbook: Nightbook, result: dg.ExecuteInProcessResult) -> Iterator[Alert]:
    """What a sensor would tell of the same run, in the same words, so that it is told once."""
    if not result.success:
        events = [event for event in result.all_events if event.is_step_failure]
        if alert := failed(nightbook, result.dagster_run, events, ""):
            yield alert
    yield from unreconciled(nightbook, result.dagster_run, result.all_events)


def _is_interrupted(event: dg.DagsterEvent) -> bool:
    """Whether a step ended because a person stopped it: Dagster makes a failure of Ctrl-C."""
    error = event.step_failure_data.error if event.is_step_failure else None
    kinds = {error.cls_name, error.cause.cls_name if error.cause else None} if error else set()
    return DagsterExecutionInterruptedError.__name__ in kinds


def _failures(result: dg.ExecuteInProcessResult) -> Iterator[tuple[str, str]]:
    """What each failed step said; for one that did not expect to fail, with the trace."""
    for event in result.all_events:
        if not event.is_step_failure:
            continue
        failure = event.step_failure_data
        if failure.user_failure_data is not None and failure.user_failure_data.description:
            yield said(event), ""
        elif failure.error is not None:
            error = failure.error.cause or failure.error
            words = (
                f"The step {event.step_key} stopped at something it did not expect "
                f"({error.message.strip()}). The last published warehouse stands. The whole "
                f"trace: nightbook --debug run, or run {result.run_id} in nightbook dev."
            )
            yield words, failure.error.to_string()
