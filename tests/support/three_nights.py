"""Fixtures of homes with nights, which are created once and copied if a test changes them."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from tests.support.operator_home import (
    FOURTH,
    THIRD,
    Keeper,
    Said,
    Sandbox,
    sandbox,
)
from tests.support.shared import once


@pytest.fixture(scope="session")
def one_sandbox() -> Iterator[Sandbox]:
    """Start one sandbox for all tests."""
    with sandbox() as shown:
        yield shown


@pytest.fixture
def api(one_sandbox: Sandbox) -> Sandbox:
    """Return the sandbox without faults, on the morning after the third night."""
    one_sandbox.show()
    one_sandbox.clock.night(THIRD, hour=9)
    return one_sandbox


@pytest.fixture(scope="session")
def taken(
    two: Path, one_sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Keeper, Said]:
    """Return three nights of a changing world, and the output of `nightbook run` for the third.

    The first two nights run without Dagster, at a third of the cost.
    """

    def make(folder: Path) -> None:
        one_sandbox.show()
        shutil.copytree(two, folder / "home", symlinks=True)
        answer = Keeper(folder / "home", one_sandbox).run(THIRD)
        (folder / "said.json").write_bytes(msgspec.json.encode(answer))

    folder = once(tmp_path_factory, "three-nights", make)
    # Reading a home can lock it, so each worker reads its own copy.
    own = tmp_path_factory.mktemp("nights")
    shutil.copytree(folder / "home", own / "home", symlinks=True)
    answer = (folder / "said.json").read_text("utf-8").replace(str(folder), str(own))
    return Keeper(own / "home", one_sandbox), msgspec.json.decode(answer, type=Said)


@pytest.fixture
def nights(taken: tuple[Keeper, Said], api: Sandbox) -> Keeper:
    """Return the keeper of three nights. Tests may read its home, but must not change it."""
    return taken[0]


@pytest.fixture
def copied(nights: Keeper, tmp_path: Path) -> Keeper:
    """Return a copy of the three nights that the test may change."""
    shutil.copytree(nights.home, tmp_path / "home", symlinks=True)
    return Keeper(tmp_path / "home", nights.sandbox)


@pytest.fixture(scope="module")
def held(taken: tuple[Keeper, Said], tmp_path_factory: pytest.TempPathFactory) -> Keeper:
    """Return the three nights and a fourth, which is held because it has no portfolios."""
    sandbox = taken[0].sandbox

    def make(folder: Path) -> None:
        shutil.copytree(taken[0].home, folder / "home", symlinks=True)
        sandbox.show("portfolios-empty")
        assert Keeper(folder / "home", sandbox).run(FOURTH).code == 3
        sandbox.show()

    home = tmp_path_factory.mktemp("held") / "home"
    shutil.copytree(once(tmp_path_factory, "held", make) / "home", home, symlinks=True)
    return Keeper(home, sandbox)


@pytest.fixture
def empty(api: Sandbox, tmp_path: Path) -> Callable[..., Keeper]:
    """Return a function that makes a keeper without nights, and with further settings."""
    return lambda **more: Keeper(tmp_path / "empty", api, more)
