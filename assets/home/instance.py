"""The Dagster instance of a home, and which of its runs are alive.

A run of the command line holds a lock while it lasts, and a run of a daemon lasts no longer than
the daemon: so a run that nothing holds is dead, whatever Dagster's record says of it.
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
"""The tag that names the lock of a run's process, hidden in the UI; older runs have the second."""
DAEMON_LOCK = "daemon.lock"
UNFINISHED = [
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
DIED = "The process of this run is gone: it was stopped, or the machine was."


def make_instance(layout: Layout) -> Path:
    """Return `DAGSTER_HOME` of a home, with a configuration if there is none yet."""
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
    """Open the instance of a home in silence; `settings` go before those of its file."""
    # Dagster makes its files as the umask has it, and they say what a night was made of.
    with private_files(), _open(layout, settings) as instance:
        yield instance


@contextlib.contextmanager
def _open(layout: Layout, settings: Mapping[str, object] | None) -> Iterator[dg.DagsterInstance]:
    home = make_instance(layout)
    with quiet():
        reference = InstanceRef.from_dir(str(home), overrides=settings)
        with dg.DagsterInstance.from_ref(reference) as instance, shared_engines():
            yield instance


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep Dagster from chatting."""
    logging.getLogger("dagster").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def alive(layout: Layout) -> Iterator[str]:
    """Yield the name of a lock that this process holds: the tag of its runs."""
    # A process number would not do: another process gets it, and another container has its own.
    place = layout.dagster / "alive"
    make_directory(place)
    # `filelock` would not do: whoever looks must not create the file of a run that is gone.
    descriptor, name = tempfile.mkstemp(dir=place)
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
    """Let dead runs be failed runs, and return them: Dagster leaves them running for ever."""
    # With `launched` also those that a daemon started; then no daemon may be up.
    # A run of the command line carries the name of a lock file that its process holds: a lock that
    # is free means that the process is gone, whatever became of its number. A run of the daemon
    # has no such tag: it is dead if no daemon is up, which is what `launched` says.
    dead = [
        run
        for run in instance.get_runs(filters=dg.RunsFilter(statuses=UNFINISHED))
        if (launched if (name := _process_of(run)) is None else not _is_held(layout, name))
    ]
    for run in dead:
        instance.report_run_failed(run, DIED)
        if name := _process_of(run):
            _lock(layout, name).unlink(missing_ok=True)
    return dead


def _process_of(run: dg.DagsterRun) -> str | None:
    return run.tags.get(PROCESS) or run.tags.get(OLD_PROCESS)


def is_daemon_locked(layout: Layout) -> bool | None:
    """Return whether a process holds the lock of the daemon; None if no daemon ever took it."""
    try:
        return _is_locked(layout.dagster / DAEMON_LOCK)
    except OSError:  # no daemon ever took it, or it is not for this user to see
        return None


def _lock(layout: Layout, name: str) -> Path:
    return layout.dagster / "alive" / Path(name).name


def _is_held(layout: Layout, name: str) -> bool:
    """Whether a process holds the lock of that name."""
    try:
        return _is_locked(_lock(layout, name))
    except OSError:
        return False


def _is_locked(path: Path) -> bool:
    # A shared lock meets an exclusive one, and a colleague who may only read can take it.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
