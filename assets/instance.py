"""The Dagster instance of a home, and one run of the nightly job in this process."""

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
from assets.resources import Nightbook
from warehouse.layout import Layout, make_directory

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass(frozen=True, slots=True)
class Ran:
    """How a run ended: whether every step did, and what the failed ones said."""

    success: bool
    failures: tuple[str, ...]
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
    home = make_instance(nightbook.layout)
    logging.getLogger("dagster").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        job = assemble(nightbook).resolve_job_def(NIGHTLY)
        with dg.DagsterInstance.from_config(str(home)) as instance:
            result = job.execute_in_process(
                partition_key=day.isoformat(),
                instance=instance,
                raise_on_error=False,
                run_config=QUIET,
            )
    return Ran(result.success, tuple(dict.fromkeys(_failures(result))), result.run_id)


def _failures(result: dg.ExecuteInProcessResult) -> Iterator[str]:
    for event in result.all_events:
        if not event.is_step_failure:
            continue
        failure = event.step_failure_data
        said = failure.user_failure_data
        if said is not None and said.description:
            yield said.description
        elif failure.error is not None:
            yield failure.error.message.strip()


def forget(layout: Layout) -> None:
    """Remove a home's Dagster instance, for a demo that starts over."""
    shutil.rmtree(layout.dagster, ignore_errors=True)
