"""The Dagster instance of a home, and the private Dagster functions that nightbook uses."""

import contextlib
import fcntl
import logging
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.errors import DagsterExecutionInterruptedError
from dagster._core.instance.ref import InstanceRef
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable
from dagster._utils.schedules import schedule_execution_time_iterator

from warehouse.storage.layout import FILE_MODE, Layout, make_directory, private_files

# Reasons for using each private part of Dagster:
# - DagsterExecutionInterruptedError: Ctrl-C in a step becomes a failure, and only this error's name
# distinguishes it from other failures.
# - InstanceRef: `DagsterInstance.get` cannot override a home's configuration.
# - InstigatorState: without it, only a running web server can tell whether a schedule or sensor is
# on.
# - AssetCheckExecutionsTable: deleting a run leaves its check results behind, and no public
# function deletes them.
# - schedule_execution_time_iterator: it returns the same ticks as the daemon, even when the clocks
# change.

# Let steps print to the terminal. If Dagster captured their output, it would start four processes
# for each step, which would print errors when a person presses Ctrl-C.
NO_CAPTURED_OUTPUT = {
    "compute_logs": {
        "module": "dagster._core.storage.noop_compute_log_manager",
        "class": "NoOpComputeLogManager",
    }
}
# Maximum number of values in an SQL statement. Databases limit this number.
_BATCH_SIZE = 500
# Run the daemon as a module, because the script `dagster-daemon` may belong to another interpreter.
DAEMON_MODULE = "dagster._daemon"
# Modules that open Dagster's SQLite files. If Dagster uses a database server, none of these modules
# are loaded.
_SQLITE = tuple(
    f"dagster._core.storage.{name}"
    for name in (
        "event_log.sqlite.sqlite_event_log",
        "runs.sqlite.sqlite_run_storage",
        "schedules.sqlite.sqlite_schedule_storage",
    )
)

__all__ = [
    "DAEMON_MODULE",
    "NO_CAPTURED_OUTPUT",
    "DagsterExecutionInterruptedError",
    "InstanceRef",
    "InstigatorState",
    "InstigatorStatus",
    "forget_checks",
    "schedule_execution_time_iterator",
    "shared_engines",
]


def forget_checks(instance: Any, run_ids: Sequence[str]) -> None:
    """Delete the asset check results of deleted runs, because Dagster's `delete_run` does not."""
    storage = instance.event_log_storage
    with storage.index_connection() as connection:
        table = AssetCheckExecutionsTable
        for first in range(0, len(run_ids), _BATCH_SIZE):
            batch = run_ids[first : first + _BATCH_SIZE]
            connection.execute(table.delete().where(table.c.run_id.in_(batch)))


@contextlib.contextmanager
def shared_engines() -> Iterator[None]:
    """Keep one SQLAlchemy engine and one open connection for each of Dagster's SQLite files."""
    # A nightly run opens Dagster's SQLite files 500 times. Each time, Dagster creates an engine,
    # and SQLAlchemy compiles the same statements again. If no other connection is open, SQLite also
    # merges and deletes its log at every close. Sharing engines and connections saves 0.7 of 5 CPU
    # seconds per demo night (measured).
    engines: dict[str, Any] = {}
    connections: dict[str, Any] = {}
    modules: list[Any] = [sys.modules[name] for name in _SQLITE if name in sys.modules]
    originals = [module.create_engine for module in modules]

    def engine(url: str, **options: Any) -> Any:
        key = f"{url} {options}"
        if key not in engines:
            engines[key] = originals[0](url, **options)
        # Open this connection when a file is used for the second time, because Dagster creates the
        # file during the first use.
        elif key not in connections:
            connections[key] = engines[key].connect()
            connections[key].exec_driver_sql("select count(*) from sqlite_master").all()
            connections[key].rollback()
        return engines[key]

    try:
        for module in modules:
            module.create_engine = engine
        yield
    finally:
        for connection in connections.values():
            connection.close()
        for module, original in zip(modules, originals, strict=True):
            module.create_engine = original


PROCESS, OLD_PROCESS = ".dagster/nightbook/process", "nightbook/process"
"""Tag with the name of a run's lock file, hidden in the UI. Older runs have the second tag."""
DAEMON_LOCK = "daemon.lock"
UNFINISHED = [
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
DIED = "This run's process has died: it was killed, or the machine was stopped."


def make_instance(layout: Layout) -> Path:
    """Create a home's `DAGSTER_HOME` with its configuration if needed, and set the variable.

    Return the folder.
    """
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
    """Open a home's instance with its log silenced. `settings` override its configuration file."""
    # Set a private umask, because Dagster creates its files with the current umask, and the files
    # contain details about nights.
    with private_files(), quiet():
        home = make_instance(layout)
        reference = InstanceRef.from_dir(str(home), overrides=settings)
        with dg.DagsterInstance.from_ref(reference) as instance, shared_engines():
            yield instance


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence Dagster's log and warnings."""
    logging.getLogger("dagster").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def alive(layout: Layout) -> Iterator[str]:
    """Hold a lock on a file and yield the file's name, used to tag this process's runs."""
    # Do not use the process ID, because the system reuses IDs and each container has its own IDs.
    folder = layout.dagster / "alive"
    make_directory(folder)
    # Do not use `filelock`, because it would recreate the lock file if another process checks the
    # file after the run has ended.
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
    """Mark runs whose process has ended as failed, because Dagster would show them as running.

    Return these runs.
    """
    # A run from the command line is tagged with its process's lock file. If the lock is free, the
    # process has ended. A run from the daemon has no such tag, and is dead if no daemon is running.
    # The caller sets `launched` if no daemon is running.
    dead = [
        run
        for run in instance.get_runs(filters=dg.RunsFilter(statuses=UNFINISHED))
        if (launched if (name := _lock_name(run)) is None else not _is_locked(_lock(layout, name)))
    ]
    for run in dead:
        instance.report_run_failed(run, DIED)
        if name := _lock_name(run):
            _lock(layout, name).unlink(missing_ok=True)
    return dead


def _lock_name(run: dg.DagsterRun) -> str | None:
    return run.tags.get(PROCESS) or run.tags.get(OLD_PROCESS)


def is_daemon_locked(layout: Layout) -> bool | None:
    """Return whether a daemon is running, or None if its lock file is missing or unreadable."""
    return _is_locked(layout.dagster / DAEMON_LOCK)


def _lock(layout: Layout, name: str) -> Path:
    return layout.dagster / "alive" / Path(name).name


def _is_locked(path: Path) -> bool | None:
    """Return whether a process holds a lock file, or None if it is missing or unreadable."""
    # Try to acquire a shared lock. This fails if a different process holds an exclusive lock, and
    # it needs only read permission.
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False
