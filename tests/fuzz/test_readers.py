"""Comparison of the fast and the tolerant reader: the same rows or a refusal, and no crash.

Arrow's JSON reader can end the process, or return lists of a wrong length, if it reads a null or a
record that is not an object. These tests prove that our guard never gives it such a record. They
run the readers in processes that may die.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHARDS = 8
COUNT = 6000
Record = Callable[[str, object], None]


def read(seed: int, count: int, *how: str) -> tuple[str, dict[str, int]]:
    """Read documents in a process. Return its failures, including a crash, and its counts."""
    command = [sys.executable, "-m", "tests.fuzz.readers", str(seed), "0", str(count), *how]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        last = done.stderr[-500:].decode(errors="replace")
        return f"the reader ended with {done.returncode}; after the numbers it read:\n{last}", {}
    told = json.loads(done.stdout)
    return "\n".join(told["wrong"]), told["counts"]


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(1, 1 + SHARDS))
def test_both_readers_agree_on_any_document(seed: int, record_property: Record) -> None:
    """Rows, rejects, inexact values and drift are equal, or the fast reader refuses the batch."""
    wrong, counts = read(seed, COUNT)
    assert wrong == ""
    assert sum(counts.values()) == COUNT
    assert min(counts[what] for what in ("equal", "refused", "answer refused")) > COUNT // 20
    record_property("torture", ["documents for both readers", counts])


def test_an_unguarded_fast_reader_fails_the_comparison() -> None:
    """Without the guard, Arrow reads forbidden records, and the process dies or the rows differ."""
    wrong, _ = read(1, 500, "unguarded")
    assert wrong != ""
