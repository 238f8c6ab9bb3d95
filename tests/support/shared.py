"""Helpers that save time: folders in memory, shared folders, and samples of test cases."""

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from filelock import FileLock
from hypothesis import settings

# The number of examples that Hypothesis tries for a test that does not state its own numbers.
BY_DAY, BY_NIGHT = 10, 300
MEMORY = Path("/dev/shm")  # noqa: S108 - a file system in memory, where an fsync costs nothing


def memory_with(room: int) -> Path | None:
    """Return a folder in memory, or None if it does not have more than `room` bytes free."""
    return MEMORY if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > room else None


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """Return the folder that all workers of a test run share."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return the shared folder of this name. The first worker that needs it runs `make`.

    Each worker of pytest-xdist is a process with its own base folder, next to those of the others.
    If `make` fails, the next caller fails too, because the folder exists but is not ready.
    """
    shared = shared_folder(factory)
    folder, ready = shared / f"shared-{name}", shared / f"shared-{name}.ready"
    with FileLock(shared / f"shared-{name}.lock"):
        if not ready.exists():
            folder.mkdir()
            make(folder)
            ready.touch()
    return folder


def tries(by_day: int, by_night: int) -> int:
    """Return how many examples Hypothesis tries by day, or more of them with `--torture`."""
    return by_night if settings().max_examples == BY_NIGHT else by_day


def some_daily(cases: Iterable[object], every: int) -> list[ParameterSet]:
    """Return test cases. The first and each `every`-th after it run daily, the rest in torture.

    Use it for a table of cases that all run the same code. A tuple is one case of several values.
    """
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=pytest.mark.torture if number % every else (),
        )
        for number, case in enumerate(cases)
    ]
