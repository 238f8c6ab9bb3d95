"""Side environments: what tests hold against the product and the product itself never needs.

Each is one file of pins with hashes, `tests/environments/NAME.txt`, and one virtual environment,
made by `make .side/NAME/ready`. They are kept apart so that an old DuckDB, a peer or a fuzzer
cannot change what nightbook is tested with.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def python(name: str) -> Path:
    """The interpreter of a side environment; skips the test, saying what to type, without it."""
    home = ROOT / ".side" / name
    if not (home / "ready").is_file():
        pytest.skip(f"the side environment {name} is not there: make .side/{name}/ready")
    return home / "bin" / "python"


def packages(name: str) -> Path:
    """Where a side environment keeps its packages, to be used beside nightbook's own."""
    [found] = (python(name).parents[1] / "lib").glob("python*/site-packages")
    return found
