"""What takes long to make and is only looked at or copied is made once for all workers."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


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
