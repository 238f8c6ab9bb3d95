"""The Dagster instance of a home, and one run of the nightly job in this process."""

import contextlib
import logging
import os
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from pathlib import Path

import dagster as dg

from assets.automation import NIGHTLY
from assets.definitions import assemble
from assets.publish import WAREHOUSE
from assets.resources import Nightbook
from warehouse.layout import Layout, make_directory

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
PROCESS = "nightbook/process"
UNFINISHED = [
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
DIED = "The process of this run is gone: it was stopped, or the machine was."


@dataclass(frozen=True, slots=True)
class Ran:
    """How a run ended.

    `is_judged` tells whether the night got as far as the guards; `failures` are what the failed
    steps said, `trace` is where the first of them failed that did not expect to.
    """

    success: bool
    is_judged: bool
    failures: tuple[str, ...]
    trace: str
    run_id: str


def make_instance(layout: Layout) -> Path:
    """`DAGSTER_HOME` of a home, with its configuration when there is none yet."""
    make_directory(layout.dagster)
    configuration = layout.dagster / "dagster.yaml"
    if not configuration.exists():
        shipped = files("assets") / "deploy" / "dagster.yaml"
        shutil.copyfile(str(shipped), configuration)
    os.environ["DAGSTER_HOME"] = str(layout.dagster)
    return layout.dagster


def run_night(nightbook: Nightbook, day: date) -> Ran:
    """The nightly job for one date, here, recorded in Dagster."""
    with opened(nightbook.layout) as instance:
        job = assemble(nightbook).resolve_job_def(NIGHTLY)
        close_dead_runs(instance, launched=False)
        result = job.execute_in_process(
            partition_key=day.isoformat(),
            instance=instance,
            raise_on_error=False,
            run_config=QUIET,
            tags={PROCESS: str(os.getpid())},
        )
    failures = list(_failures(result))
    return Ran(
        result.success,
        any(e.is_step_success and e.step_key == WAREHOUSE.path[0] for e in result.all_events),
        tuple(dict.fromkeys(words for words, _ in failures)),
        next((trace for _, trace in failures if trace), ""),
        result.run_id,
    )


@contextlib.contextmanager
def opened(layout: Layout) -> Iterator[dg.DagsterInstance]:
    """The instance of a home, without Dagster's own chatter."""
    home = make_instance(layout)
    logging.getLogger("dagster").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with dg.DagsterInstance.from_config(str(home)) as instance:
            yield instance


def close_dead_runs(instance: dg.DagsterInstance, *, launched: bool) -> None:
    """Let runs whose process is gone be failed runs: Dagster leaves them running for ever.

    With `launched` also those that a daemon started; then no daemon may be up.
    """
    for run in instance.get_runs(filters=dg.RunsFilter(statuses=UNFINISHED)):
        process = run.tags.get(PROCESS)
        if (launched and process is None) or (process is not None and not _is_alive(int(process))):
            instance.report_run_failed(run, DIED)


def _is_alive(process: int) -> bool:
    """Whether another process has that number; ours cannot have begun an older run."""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _failures(result: dg.ExecuteInProcessResult) -> Iterator[tuple[str, str]]:
    """What each failed step said; for one that did not expect to fail, with the trace."""
    for event in result.all_events:
        if not event.is_step_failure:
            continue
        failure = event.step_failure_data
        said = failure.user_failure_data
        if said is not None and said.description:
            yield said.description, ""
        elif failure.error is not None:
            error = failure.error.cause or failure.error
            words = (
                f"The step {event.step_key} stopped at something it did not expect "
                f"({error.message.strip()}). The last published warehouse stands. The whole "
                f"trace: nightbook --debug run, or run {result.run_id} in nightbook dev."
            )
            yield words, failure.error.to_string()


def forget(layout: Layout) -> None:
    """Remove a home's Dagster instance, for a demo that starts over."""
    shutil.rmtree(layout.dagster, ignore_errors=True)
