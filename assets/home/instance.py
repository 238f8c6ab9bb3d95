"""The Dagster instance of a home, and the detection of dead runs.

A run of the command line holds a lock until it ends, and a run of a daemon ends with the daemon. So
a run without a lock is dead, even if Dagster's records say that it is running.
"""

import contextlib
import fcntl
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path

import dagster as dg

from assets.home.dagster_internals import InstanceRef, shared_engines
from warehouse.storage.layout import FILE_MODE, Layout, make_directory, private_files

PROCESS, OLD_PROCESS = ".dagster/nightbook/process", "nightbook/process"
"""The tag with the lock file of a run's process, hidden in the UI. Older runs have the second."""
DAEMON_LOCK = "daemon.lock"
UNFINISHED = [
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
DIED = "The process of this run has ended: it was killed, or the machine was stopped."


def make_instance(layout: Layout) -> Path:
    """Return the `DAGSTER_HOME` of a home. Create its configuration if it is missing."""
    make_directory(layout.dagster)
    configuration = layout.dagster / "dagster.yaml"
    if not configuration.exists():
        shipped = files("assets") / "deploy" / "dagster.yaml"
        shutil.copyfile(str(shipped), configuration)
    os.environ["DAGSTER_HOME"] = str(layout.dagster)
    return layout.dagster


@contextlib.contextmanager
def open_instance(
    layout: Layout, settings: Mapping[str, object] | None = None
) -> Iterator[dg.DagsterInstance]:
    """Open the instance of a home without its log. `settings` override those of its file."""
    # Dagster creates its files with the present umask, and they contain details of nights.
    with private_files(), quiet():
        home = make_instance(layout)
        reference = InstanceRef.from_dir(str(home), overrides=settings)
        with dg.DagsterInstance.from_ref(reference) as instance, shared_engines():
            yield instance


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the log and the warnings of Dagster."""
    logging.getLogger("dagster").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def alive(layout: Layout) -> Iterator[str]:
    """Hold a lock file and yield its name, which is the tag of this process's runs."""
    # A process ID would not work, because the system reuses it and each container has its own IDs.
    folder = layout.dagster / "alive"
    make_directory(folder)
    # `filelock` would not work, because a check must not recreate the file of a run that has ended.
    descriptor, name = tempfile.mkstemp(dir=folder)
    os.fchmod(descriptor, FILE_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield Path(name).name
    finally:
        Path(name).unlink(missing_ok=True)
        os.close(descriptor)


def close_dead_runs(
    layout: Layout, instance: dg.DagsterInstance, *, launched: bool
) -> list[dg.DagsterRun]:
    """Mark dead runs as failed and return them. Dagster would show them as running forever."""
    # A run of the command line has a tag with the lock file of its process. If the lock is free,
    # the process has ended. A run of the daemon has no such tag. It is dead if no daemon is
    # running, which the caller states with `launched`.
    dead = [
        run
        for run in instance.get_runs(filters=dg.RunsFilter(statuses=UNFINISHED))
        if (launched if (name := _lock_name(run)) is None else not _is_held(layout, name))
    ]
    for run in dead:
        instance.report_run_failed(run, DIED)
        if name := _lock_name(run):
            _lock(layout, name).unlink(missing_ok=True)
    return dead


def _lock_name(run: dg.DagsterRun) -> str | None:
    return run.tags.get(PROCESS) or run.tags.get(OLD_PROCESS)


def is_daemon_locked(layout: Layout) -> bool | None:
    """Return whether a daemon is running, or None if there is no lock file of a daemon."""
    try:
        return _is_locked(layout.dagster / DAEMON_LOCK)
    except OSError:  # no daemon ever ran, or this user may not read the file
        return None


def _lock(layout: Layout, name: str) -> Path:
    return layout.dagster / "alive" / Path(name).name


def _is_held(layout: Layout, name: str) -> bool:
    """Return whether a process holds the lock of this name."""
    try:
        return _is_locked(_lock(layout, name))
    except OSError:
        return False


def _is_locked(path: Path) -> bool:
    # A shared lock conflicts with an exclusive one, and needs only permission to read.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
