"""Homes with nights in them, taken once and copied where a test changes one."""

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
    """One sandbox for all tests."""
    with sandbox() as shown:
        yield shown


@pytest.fixture
def api(one_sandbox: Sandbox) -> Sandbox:
    """The sandbox without faults, in the night after the three."""
    one_sandbox.show()
    one_sandbox.clock.night(THIRD, hour=9)
    return one_sandbox


@pytest.fixture(scope="session")
def taken(
    two: Path, one_sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Keeper, Said]:
    """Three nights of a changing world, and what `nightbook run` said of the third.

    The first two are taken without Dagster, at a third of the cost.
    """

    def make(folder: Path) -> None:
        one_sandbox.show()
        shutil.copytree(two, folder / "home", symlinks=True)
        answer = Keeper(folder / "home", one_sandbox).run(THIRD)
        (folder / "said.json").write_bytes(msgspec.json.encode(answer))

    folder = once(tmp_path_factory, "three-nights", make)
    # Looking takes the lock of a home, so each worker looks at its own.
    own = tmp_path_factory.mktemp("nights")
    shutil.copytree(folder / "home", own / "home", symlinks=True)
    answer = (folder / "said.json").read_text("utf-8").replace(str(folder), str(own))
    return Keeper(own / "home", one_sandbox), msgspec.json.decode(answer, type=Said)


@pytest.fixture
def nights(taken: tuple[Keeper, Said], api: Sandbox) -> Keeper:
    """The keeper of three nights: to look at, not to change."""
    return taken[0]


@pytest.fixture
def copied(nights: Keeper, tmp_path: Path) -> Keeper:
    """A copy of the three nights, to change."""
    shutil.copytree(nights.home, tmp_path / "home", symlinks=True)
    return Keeper(tmp_path / "home", nights.sandbox)


@pytest.fixture(scope="module")
def held(taken: tuple[Keeper, Said], tmp_path_factory: pytest.TempPathFactory) -> Keeper:
    """A copy of the three nights and a fourth, which is held: its list of portfolios is empty."""
    sandbox = taken[0].sandbox

    def make(folder: Path) -> None:
        shutil.copytree(taken[0].home, folder / "home", symlinks=True)
        shutil.rmtree(folder / "home" / "dagster")
        sandbox.show("portfolios-empty")
        assert Keeper(folder / "home", sandbox).run(FOURTH).code == 3
        sandbox.show()

    home = tmp_path_factory.mktemp("held") / "home"
    shutil.copytree(once(tmp_path_factory, "held", make) / "home", home, symlinks=True)
    return Keeper(home, sandbox)


@pytest.fixture
def empty(api: Sandbox, tmp_path: Path) -> Callable[..., Keeper]:
    """A keeper with nothing yet, and further settings."""
    return lambda **more: Keeper(tmp_path / "empty", api, more)
