"""The torture tests: a small share of them always, all of them with `--torture`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash import nights


@pytest.fixture
def sized(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """How much to do: the first number always, the second with `--torture`."""
    whole = bool(request.config.getoption("--torture"))
    return lambda small, large: large if whole else small


@pytest.fixture(scope="session")
def two_nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two published nights; tests work on copies of it."""
    home = tmp_path_factory.mktemp("torture") / "home"
    for number in range(2):
        nights.run(home, nights.at(number))
    return home
