"""The torture tests: a small share of them always, all of them with `--torture`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash import nights
from tests.support.shared import once


@pytest.fixture
def sized(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """How much to do: the first number always, the second with `--torture`."""
    whole = bool(request.config.getoption("--torture"))
    return lambda small, large: large if whole else small


@pytest.fixture(scope="session")
def two_nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two published nights; tests work on copies of it."""

    def make(folder: Path) -> None:
        for number in range(2):
            nights.run(folder / "home", nights.at(number))

    return once(tmp_path_factory, "two-nights", make) / "home"
