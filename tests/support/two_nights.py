"""Fixtures of the torture tests, which run only a small share without `--torture`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash import nights
from tests.support.shared import once


@pytest.fixture
def sized(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """Return a function that chooses the second number with `--torture`, or else the first."""
    whole = bool(request.config.getoption("--torture"))
    return lambda small, large: large if whole else small


@pytest.fixture(scope="session")
def two_nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with two published nights. Tests work on copies of it."""

    def make(folder: Path) -> None:
        for number in range(2):
            nights.run(folder / "home", nights.at(number))

    return once(tmp_path_factory, "two-nights", make) / "home"
