"""Tests of the threads that numpy would start for mathematics that nightbook does not do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TASKS = Path("/proc/self/task")
PROGRAM = f"""
import sys
import {{module}}
from pathlib import Path
assert "numpy" in sys.modules
print(len(list(Path("{TASKS}").iterdir())))
"""


def _threads(module: str, **told: str) -> int:
    inherited = {name: value for name, value in os.environ.items() if "OPENBLAS" not in name}
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(module=module)],
        env=inherited | told,
        check=True,
        capture_output=True,
        text=True,
    )
    return int(said.stdout)


@pytest.mark.torture
@pytest.mark.skipif(not TASKS.is_dir(), reason="this system does not tell the threads of a process")
@pytest.mark.parametrize(
    "module", ["assets.commands.export", "assets.definitions", "pipelines.landing.zone"]
)
def test_every_entry_point_limits_numpy_to_one_thread(module: str) -> None:
    """Every entry point limits numpy to one thread before it loads, unless a person sets more."""
    assert _threads(module) == _threads(module, OPENBLAS_NUM_THREADS="1")
    more = min(2, os.cpu_count() or 1) - 1
    assert _threads(module, OPENBLAS_NUM_THREADS="2") == _threads(module) + more
