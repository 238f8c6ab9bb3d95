"""Side environments: packages that tests compare with the product, which does not need them.

Each side environment has a file of pinned versions with hashes, `tests/environments/NAME.txt`, and
a virtual environment that `make .side/NAME/ready` creates. They are separate, so an old DuckDB, a
different tool or a fuzzer cannot change the packages with which nightbook is tested.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def python(name: str) -> Path:
    """Return a side environment's interpreter, or skip the test and name the command to type."""
    home = ROOT / ".side" / name
    if not (home / "ready").is_file():
        pytest.skip(f"the side environment {name} is not there: make .side/{name}/ready")
    return home / "bin" / "python"


def packages(name: str) -> Path:
    """Return a side environment's package folder, for use together with nightbook's packages."""
    [found] = (python(name).parents[1] / "lib").glob("python*/site-packages")
    return found
