"""Landed nights flattened by Apache Spark: one task for each, however many homes they are of.

Master, resources and the interpreter of the workers are Spark's own settings. Loaded only where
Spark is asked for: the package need not be there.
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
from warehouse.progress import Say, Tally, silent

LOOK_EVERY = 0.5
WORKERS_PYTHON = "PYSPARK_PYTHON"
_COLUMNS = f"{COLUMN} string"
_OTHER_PACKAGE = ("No module named", "Can't get attribute")
_CAUSE = re.compile(r"[\w.]+(?:Error|Exception): (.+)")


class SparkFailed(Exception):
    """Spark did not start, or did not do what it was given."""

    def __init__(self, error: Exception) -> None:
        words = _words(error)
        advice = (
            "Its own log stands above; what it runs on is in its own settings (spark-defaults.conf "
            f"in SPARK_CONF_DIR, PYSPARK_SUBMIT_ARGS, {WORKERS_PYTHON}, JAVA_HOME)."
        )
        if any(sign in words for sign in _OTHER_PACKAGE):
            advice = (
                "A worker has another nightbook or none: install the same version there, where its "
                f"Python is, {os.environ[WORKERS_PYTHON]} ({WORKERS_PYTHON})."
            )
        super().__init__(f"Spark failed: {words}. {advice} Nothing was changed.")


class NotFlattened(Exception):
    """Workers refused nights, or found them damaged; nothing was changed."""


def flatten_on_spark(nights: Sequence[NightTask], say: Say = silent) -> dict[str, FlattenedNight]:
    """Flatten landed nights, each in a task of its own; returns them by folder.

    Raises `SparkFailed`, and `NotFlattened` with every night that has a problem.
    """
    if not nights:
        return {}
    done = Tally(say, len(nights), "nights flattened")
    try:
        with warnings.catch_warnings():
            # Of pandas, through which nothing goes here: nights are told and answered by Arrow.
            warnings.simplefilter("ignore", FutureWarning)
            answers = _answers(nights, done)
    except (OSError, PySparkException, Py4JError) as error:
        raise SparkFailed(error) from error
    flattened = [msgspec.json.decode(answer, type=FlattenedNight) for answer in answers]
    problems = dict.fromkeys(night.problem for night in flattened if night.problem)
    if problems:
        raise NotFlattened(f"{' '.join(problems)} Nothing was changed.")
    return {night.folder: night for night in flattened}


@contextlib.contextmanager
def _session() -> Iterator[SparkSession]:
    """Start what Spark's settings say; workers run the interpreter of this process by default."""
    os.environ.setdefault(WORKERS_PYTHON, sys.executable)
    # Nothing in the folder that a worker runs in, such as the `warehouse` of a home, is a module.
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    builder = SparkSession.builder.appName("nightbook rebuild")
    builder = builder.config("spark.ui.showConsoleProgress", "false")  # the command has its own
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


def _answers(nights: Sequence[NightTask], done: Tally) -> list[str]:
    # As many slices as nights: a task is one night, so that a worker that dies costs one for each
    # of its cores, and what was flattened before stays where it lies.
    rows = [(msgspec.json.encode(night).decode(),) for night in nights]
    with _session() as session, _progress(session.sparkContext, done, len(rows)):
        sliced = session.sparkContext.parallelize(rows, len(rows))
        frame = session.createDataFrame(sliced, _COLUMNS).mapInArrow(flatten_batches, _COLUMNS)
        return [str(row[0]) for row in frame.collect()]


@contextlib.contextmanager
def _progress(context: SparkContext, done: Tally, known: int) -> Iterator[None]:
    """Tell how many tasks are done, as long as a job runs."""
    tracker, is_over, reported = context.statusTracker(), threading.Event(), 0

    def look() -> None:
        nonlocal reported
        while not is_over.wait(LOOK_EVERY):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            count = min(known, sum(stage.numCompletedTasks for stage in stages if stage))
            done.add(max(0, count - reported))
            reported = max(reported, count)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
        done.add(known - reported)
    finally:
        is_over.set()
        watcher.join()


def _words(error: Exception) -> str:
    """Return what an error of Java or of a worker's Python says is the matter, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [cause for line in lines if (cause := _CAUSE.search(line))]
    if not causes:
        return lines[0].rstrip(".")
    # Each cause is told again by what it caused: the longest line says where it came from as well.
    last = causes[-1].group(1)
    return max((line.group() for line in causes if line.group().endswith(last)), key=len)
