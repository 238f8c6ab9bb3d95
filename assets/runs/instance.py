"""The Dagster instance of a home, and the runs that died with their process."""

import contextlib
import logging
import os
import shutil
import warnings
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import dagster as dg

from assets.night.run_log import DIED
from warehouse.storage.layout import Layout, make_directory, private_files

# Run the daemon as a module, because the script `dagster-daemon` may belong to another interpreter.
DAEMON_MODULE = "dagster._daemon"
UNFINISHED = [
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def make_instance(layout: Layout) -> Path:
    """Create a home's `DAGSTER_HOME` with its configuration if needed, and set the variable.

    Return the folder.
    """
    make_directory(layout.dagster)
    configuration = layout.dagster / "dagster.yaml"
    if not configuration.exists():
        shutil.copyfile(str(files("assets") / "deploy" / "dagster.yaml"), configuration)
    os.environ["DAGSTER_HOME"] = str(layout.dagster)
    return layout.dagster


@contextlib.contextmanager
def open_instance(layout: Layout) -> Iterator[dg.DagsterInstance]:
    """Open a home's instance with its log silenced."""
    # Set a private umask, because Dagster creates its files with the current umask, and the files
    # contain details about nights.
    with private_files(), quiet():
        make_instance(layout)
        with dg.DagsterInstance.get() as instance:
            yield instance


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence Dagster's log and warnings."""
    logging.getLogger("dagster").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def close_dead_runs(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    """Mark unfinished runs as failed, because Dagster would show them as running forever.

    Call it only if no daemon is running. Return these runs.
    """
    dead = list(instance.get_runs(filters=dg.RunsFilter(statuses=UNFINISHED)))
    for run in dead:
        instance.report_run_failed(run, DIED)
    return dead
