"""Functions that flatten landed nights from any number of homes on Apache Spark.

There is one task per night. Spark's own settings choose the master, the resources and the workers'
interpreter. This module is imported only if Spark is requested, because the package is optional.
"""

import contextlib
import os
import re
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence

import msgspec
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pipelines.maintenance.upgrade import COLUMN, FlattenedNight, NightTask, flatten_batches
from warehouse.progress import ProgressCallback, Tally, silent

POLL_INTERVAL = 0.5
WORKERS_PYTHON = "PYSPARK_PYTHON"
_COLUMNS = f"{COLUMN} string"
_OTHER_PACKAGE = ("No module named", "Can't get attribute")
_CAUSE = re.compile(r"[\w.]+(?:Error|Exception): (.+)")


class SparkFailed(Exception):
    """Apache Spark did not start, or a job failed."""

    def __init__(self, error: Exception) -> None:
        message = _error_message(error)
        advice = (
            "See the log above. Spark's own settings decide where it runs (spark-defaults.conf "
            f"in SPARK_CONF_DIR, PYSPARK_SUBMIT_ARGS, {WORKERS_PYTHON}, JAVA_HOME)."
        )
        if any(sign in message for sign in _OTHER_PACKAGE):
            advice = (
                "nightbook is missing or has a different version on a worker. Install the same "
                f"version for the worker's Python, {os.environ[WORKERS_PYTHON]} ({WORKERS_PYTHON})."
            )
        super().__init__(f"Spark failed: {message}. {advice} Nothing was changed.")


class NotFlattened(Exception):
    """Some nights are damaged, or a worker has a different version or cannot read the home."""


def flatten_on_spark(
    nights: Sequence[NightTask], say: ProgressCallback = silent
) -> dict[str, FlattenedNight]:
    """Flatten landed nights, each in its own task. Return the results by landed folder.

    Raises `SparkFailed`, and `NotFlattened` with every night that has a problem.
    """
    if not nights:
        return {}
    done = Tally(say, len(nights), "nights flattened")
    try:
        with warnings.catch_warnings():
            # Warnings from pandas are irrelevant, because tasks and results use only Arrow.
            warnings.simplefilter("ignore", FutureWarning)
            answers = _run_tasks(nights, done)
    except (OSError, PySparkException, Py4JError) as error:
        raise SparkFailed(error) from error
    flattened = [msgspec.json.decode(answer, type=FlattenedNight) for answer in answers]
    problems = dict.fromkeys(night.problem for night in flattened if night.problem)
    if problems:
        raise NotFlattened(f"{' '.join(problems)} Nothing was changed.")
    return {night.folder: night for night in flattened}


@contextlib.contextmanager
def _session() -> Iterator[SparkSession]:
    """Start Spark for the `with` block. By default, workers use this process's interpreter."""
    os.environ.setdefault(WORKERS_PYTHON, sys.executable)
    # Do not import modules from the working folder, such as a home's `warehouse`.
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    builder = SparkSession.builder.appName("nightbook rebuild")
    # Hide Spark's progress bar, because the command prints its own progress.
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


def _run_tasks(nights: Sequence[NightTask], done: Tally) -> list[str]:
    """Run one task per night, and return the results as JSON."""
    # Use one slice per night, so that each night is one task. If a worker dies, at most one night
    # per core is lost, and the nights that it has already flattened stay staged.
    rows = [(msgspec.json.encode(night).decode(),) for night in nights]
    with _session() as session, _progress(session.sparkContext, done, len(rows)):
        sliced = session.sparkContext.parallelize(rows, len(rows))
        frame = session.createDataFrame(sliced, _COLUMNS).mapInArrow(flatten_batches, _COLUMNS)
        return [str(row[0]) for row in frame.collect()]


@contextlib.contextmanager
def _progress(context: SparkContext, done: Tally, known: int) -> Iterator[None]:
    """Report the number of completed tasks while a job runs."""
    tracker, is_over, reported = context.statusTracker(), threading.Event(), 0

    def report_progress() -> None:
        nonlocal reported
        while not is_over.wait(POLL_INTERVAL):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            count = min(known, sum(stage.numCompletedTasks for stage in stages if stage))
            done.add(max(0, count - reported))
            reported = max(reported, count)

    watcher = threading.Thread(target=report_progress, daemon=True)
    watcher.start()
    try:
        yield
        done.add(known - reported)
    finally:
        is_over.set()
        watcher.join()


def _error_message(error: Exception) -> str:
    """Extract the cause of a Java or Python error from its message, as a single line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [cause for line in lines if (cause := _CAUSE.search(line))]
    if not causes:
        return lines[0].rstrip(".")
    # The message of an error ends with the message of its cause. So of all lines that end with the
    # last cause, the longest shows most of the chain.
    last = causes[-1].group(1)
    return max((line.group() for line in causes if line.group().endswith(last)), key=len)
