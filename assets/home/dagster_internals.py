"""The private parts of Dagster that nightbook uses. Check this module when you upgrade Dagster.

The public API has no equivalent for any of these names; the reason is next to each. Only
`assets.runs.web`, our own web process for Dagster, imports further private parts, because their
import takes 0.1 s and no other process needs them.
"""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

# Ctrl-C in a step becomes a failure, which only this name distinguishes from others.
from dagster._core.errors import DagsterExecutionInterruptedError

# `DagsterInstance.get` cannot override the configuration of a home.
from dagster._core.instance.ref import InstanceRef

# The public API tells whether a schedule or sensor is on only through a running web server.
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus

# Deleting a run leaves the results of its checks, which no public function deletes.
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable

# The ticks of the daemon, which are correct when clocks change. They are not public.
from dagster._utils.schedules import schedule_execution_time_iterator

# The output of steps goes to the terminal. Dagster would copy it with four processes for each step,
# which print errors when a person presses Ctrl-C.
NO_CAPTURED_OUTPUT = {
    "compute_logs": {
        "module": "dagster._core.storage.noop_compute_log_manager",
        "class": "NoOpComputeLogManager",
    }
}
_BATCH_SIZE = 500  # values in one statement, because databases have a limit
# The script `dagster-daemon` may belong to a different interpreter, but a module does not.
DAEMON_MODULE = "dagster._daemon"
# The modules that open Dagster's SQLite files. If Dagster uses a server, none of them is loaded.
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
    """Delete the results of asset checks of runs, which `delete_run` does not delete."""
    storage = instance.event_log_storage
    with storage.index_connection() as connection:
        table = AssetCheckExecutionsTable
        for first in range(0, len(run_ids), _BATCH_SIZE):
            batch = run_ids[first : first + _BATCH_SIZE]
            connection.execute(table.delete().where(table.c.run_id.in_(batch)))


@contextlib.contextmanager
def shared_engines() -> Iterator[None]:
    """Keep one SQLAlchemy engine and one open connection for each SQLite file of Dagster."""
    # A night opens such a file 500 times. Each time, Dagster creates an engine, for which
    # SQLAlchemy compiles the same statements again. If no other connection is open, SQLite also
    # merges and deletes its log at every close. Sharing saves 0.7 of 5 CPU seconds for each night
    # of the demo (measured).
    engines: dict[str, Any] = {}
    connections: dict[str, Any] = {}
    modules: list[Any] = [sys.modules[name] for name in _SQLITE if name in sys.modules]
    originals = [module.create_engine for module in modules]

    def engine(url: str, **options: Any) -> Any:
        key = f"{url} {options}"
        if key not in engines:
            engines[key] = originals[0](url, **options)
        elif key not in connections:  # not at the first use, when Dagster creates the file
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
