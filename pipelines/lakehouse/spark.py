"""Tasks on Apache Spark, with their progress and errors.

Spark's own settings choose the master, the resources and the workers' interpreter. This module is
imported only if Spark is requested, because the package is optional.
"""

import contextlib
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

import msgspec
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from pipelines.lakehouse.errors import LakehouseError
from pipelines.lakehouse.spark_tasks import COLUMN, FlattenedNight, NightTask, flatten_batches
from warehouse.progress import ProgressCallback, Tally

POLL_INTERVAL = 0.5
WORKERS_PYTHON = "PYSPARK_PYTHON"
_COLUMNS = f"{COLUMN} string"
_OTHER_PACKAGE = ("No module named", "Can't get attribute")
_CAUSE = re.compile(r"[\w.]+(?:Error|Exception): (.+)")


class SparkFailed(LakehouseError):
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


def run_tasks(tasks: Sequence[NightTask], say: ProgressCallback) -> list[FlattenedNight]:
    """Flatten landed nights, each in its own task. Raises `SparkFailed`."""
    if not tasks:
        return []
    progress = Tally(say, len(tasks), "nights flattened")
    # Use one slice per night, so that each night is one task. If a worker dies, at most one night
    # per core is lost, and the nights that it has already flattened stay staged.
    rows = [(msgspec.json.encode(task).decode(),) for task in tasks]
    try:
        with warnings.catch_warnings(), _session() as session:
            # Warnings from pandas are irrelevant, because tasks and results use only Arrow.
            warnings.simplefilter("ignore", FutureWarning)
            sliced = session.sparkContext.parallelize(rows, len(rows))
            frame = session.createDataFrame(sliced, _COLUMNS).mapInArrow(flatten_batches, _COLUMNS)
            answers = _collect(session, frame, progress, len(rows))
    except (OSError, PySparkException, Py4JError) as error:
        raise SparkFailed(error) from error
    return [msgspec.json.decode(answer[0], type=FlattenedNight) for answer in answers]


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


def _collect(session: SparkSession, frame: DataFrame, progress: Tally, known: int) -> list[Row]:
    """Run a job and return its rows. Meanwhile, report the number of completed tasks."""
    tracker, reported = session.sparkContext.statusTracker(), 0
    with ThreadPoolExecutor(1, "spark") as pool:
        job = pool.submit(frame.collect)
        while not wait([job], POLL_INTERVAL).done:
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            count = min(known, sum(stage.numCompletedTasks for stage in stages if stage))
            progress.add(max(0, count - reported))
            reported = max(reported, count)
        rows: list[Row] = job.result()
    progress.add(known - reported)
    return rows


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
