"""Tests of interrupted reconciliations, which are stored completely or not at all."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.harness import HERE, ROOT


@pytest.mark.parametrize("count", [6, pytest.param(100, marks=pytest.mark.torture)])
def test_a_killed_or_failing_run_stores_all_or_nothing(tmp_path: Path, count: int) -> None:
    """A killed or failed run leaves the state before or after it, and the next run succeeds.

    No acknowledged result is lost.
    """
    shim = tmp_path / "shim.so"
    command = ["cc", "-O1", "-shared", "-fPIC", "-o", str(shim), str(HERE / "shim.c")]
    subprocess.run([*command, "-ldl", "-lpthread"], check=True)
    told = subprocess.run(
        [sys.executable, "-m", "tests.crash.reconciling", str(tmp_path / "cases"), str(count)],
        cwd=ROOT,
        env=os.environ | {"LD_PRELOAD": str(shim)},
        capture_output=True,
        check=False,
        text=True,
    )
    assert told.returncode == 0, told.stderr[-2000:]
    result = json.loads(told.stdout)
    assert result["found"] == []
    assert result["killed"] > result["cases"] // 3, "most cases end before the run is over"
    assert result["failed"] > 0, "a full disk is met as well"
