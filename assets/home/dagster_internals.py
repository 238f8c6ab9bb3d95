"""The one door to what Dagster keeps private: an upgrade of Dagster has this one place to look.

Each name is here because the public API has nothing that does the same; the reason is beside it.
Only `assets.runs.web`, which is Dagster's web process made by hand, has its own: they take a tenth
of a second to import, and no other process needs them.
"""

# Ctrl-C in a step becomes a failure of that name, and nothing else tells it from others.
from dagster._core.errors import DagsterExecutionInterruptedError

# `DagsterInstance.get` takes no overrides of what the configuration of a home says.
from dagster._core.instance.ref import InstanceRef

# Whether a schedule or a sensor is on: public only as a query to a web server that is up.
from dagster._core.scheduler.instigation import InstigatorState

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
# `dagster-daemon` is a script: only as a module is it surely that of this interpreter.
DAEMON_MODULE = "dagster._daemon"

__all__ = [
    "DAEMON_MODULE",
    "NO_CAPTURED_OUTPUT",
    "DagsterExecutionInterruptedError",
    "InstanceRef",
    "InstigatorState",
    "schedule_execution_time_iterator",
]
