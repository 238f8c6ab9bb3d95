"""What takes long is made once for all workers, in memory, or daily for some of many cases."""

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from filelock import FileLock

MEMORY = Path("/dev/shm")  # noqa: S108 - a file system in memory: an fsync there costs nothing


def memory_with(room: int) -> Path | None:
    """Return a folder in memory, where there is one with so many bytes of room."""
    return MEMORY if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > room else None


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return the folder of that name, which the first worker to ask has made.

    Workers of pytest-xdist are processes with a base folder each, side by side; alone there is one.
    Where making it fails, the next to ask fails too: it finds a folder that is not ready.
    """
    base = factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, ready = shared / f"shared-{name}", shared / f"shared-{name}.ready"
    with FileLock(shared / f"shared-{name}.lock"):
        if not ready.exists():
            folder.mkdir()
            make(folder)
            ready.touch()
    return folder


def some_daily(cases: Iterable[object], every: int) -> list[ParameterSet]:
    """Return cases of which each so-many-th runs daily, from the first, and the others in torture.

    For a table of cases that all take the same way through the program. A tuple is several values.
    """
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=pytest.mark.torture if number % every else (),
        )
        for number, case in enumerate(cases)
    ]
