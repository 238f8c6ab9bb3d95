"""The functions of all nightbook commands, in one module for each command or group.

Each module is imported on first use, because importing Dagster alone takes longer than a query
should. Therefore, `command_line` refers to functions as `commands.nights.accept` inside a lambda.
Editors and mypy follow that name to the function.
"""

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assets.commands import (
        api,
        backup,
        combine,
        demo,
        dev,
        doctor,
        export,
        install,
        nights,
        prune,
        query,
        reconcile,
        report,
        run,
        sandbox,
        snapshots,
        status,
        tables,
        trace,
        verify,
    )

__all__ = [
    "api",
    "backup",
    "combine",
    "demo",
    "dev",
    "doctor",
    "export",
    "install",
    "nights",
    "prune",
]
__all__ += [
    "query",
    "reconcile",
    "report",
    "run",
    "sandbox",
    "snapshots",
    "status",
    "tables",
    "trace",
]
__all__ += ["verify"]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(name)
    return importlib.import_module(f"{__name__}.{name}")
