"""The one door to what Dagster keeps private: an upgrade of Dagster has this one place to look.

Each name is here because the public API has nothing that does the same; the reason is beside it.
Only `assets.runs.web`, which is Dagster's web process made by hand, has its own: they take a tenth
of a second to import, and no other process needs them.
"""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

# Ctrl-C in a step becomes a failure of that name, and nothing else tells it from others.
from dagster._core.errors import DagsterExecutionInterruptedError

# `DagsterInstance.get` takes no overrides of what the configuration of a home says.
from dagster._core.instance.ref import InstanceRef

# Whether a schedule or a sensor is on: public only as a query to a web server that is up.
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus

# Deleting a run leaves the results of its checks, and nothing public deletes those.
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable

# The daemon's own ticks, also in nights when clocks change; the public API gives none.
from dagster._utils.schedules import schedule_execution_time_iterator

# What the steps print goes to whoever typed the command. Dagster would copy it by four processes a
# step, which shout when a person presses Ctrl-C.
NO_CAPTURED_OUTPUT = {
    "compute_logs": {
        "module": "dagster._core.storage.noop_compute_log_manager",
        "class": "NoOpComputeLogManager",
    }
}
_AT_ONCE = 500  # values in one statement: databases have a limit
# `dagster-daemon` is a script: only as a module is it surely that of this interpreter.
DAEMON_MODULE = "dagster._daemon"
# Where Dagster opens the files of its record; with a record on a server none of these is loaded.
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
    """Delete the results of asset checks of runs; `delete_run` leaves them for ever."""
    storage = instance.event_log_storage
    with storage.index_connection() as connection:
        for first in range(0, len(run_ids), _AT_ONCE):
            chosen = run_ids[first : first + _AT_ONCE]
            table = AssetCheckExecutionsTable
            connection.execute(table.delete().where(table.c.run_id.in_(chosen)))


@contextlib.contextmanager
def shared_engines() -> Iterator[None]:
    """Let each file of an open record have one engine of SQLAlchemy, and stay open for so long."""
    # A night opens such a file 500 times. Dagster makes an engine for each, with which SQLAlchemy
    # compiles the same statements again; and as nothing else has the file open, SQLite writes its
    # log into it and takes the log away each time it is closed.
    engines: dict[str, Any] = {}
    held: dict[str, Any] = {}
    modules: list[Any] = [sys.modules[name] for name in _SQLITE if name in sys.modules]
    makers = [module.create_engine for module in modules]

    def engine(url: str, **options: Any) -> Any:
        key = f"{url} {options}"
        if key not in engines:
            engines[key] = makers[0](url, **options)
        elif key not in held:  # not at first, when it is made
            held[key] = engines[key].connect()
            held[key].exec_driver_sql("select count(*) from sqlite_master").all()
            held[key].rollback()
        return engines[key]

    try:
        for module in modules:
            module.create_engine = engine
        yield
    finally:
        for connection in held.values():
            connection.close()
        for module, maker in zip(modules, makers, strict=True):
            module.create_engine = maker
