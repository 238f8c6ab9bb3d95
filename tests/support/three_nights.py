"""Homes with nights in them, taken once and copied where a test changes one."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import msgspec
import pytest

from tests.support.operator_home import (
    FIRST,
    FOURTH,
    SECOND,
    THIRD,
    Keeper,
    Said,
    Sandbox,
    sandbox,
)
from tests.support.shared import once

NIGHTS = (FIRST, SECOND, THIRD)


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
    one_sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Keeper, list[Said]]:
    """Three nights of a changing world, and what `nightbook run` said each time."""

    def make(folder: Path) -> None:
        one_sandbox.show()
        keeper = Keeper(folder / "home", one_sandbox)
        answers = [asdict(keeper.run(day)) for day in NIGHTS]
        (folder / "said.json").write_bytes(msgspec.json.encode(answers))

    folder = once(tmp_path_factory, "three-nights", make)
    # Looking takes the lock of a home, so each worker looks at its own.
    own = tmp_path_factory.mktemp("nights")
    shutil.copytree(folder / "home", own / "home", symlinks=True)
    answers = (folder / "said.json").read_text("utf-8").replace(str(folder), str(own))
    said = msgspec.json.decode(answers, type=list[Said])
    return Keeper(own / "home", one_sandbox), said


@pytest.fixture
def nights(taken: tuple[Keeper, list[Said]], api: Sandbox) -> Keeper:
    """The keeper of three nights: to look at, not to change."""
    return taken[0]


@pytest.fixture
def copied(nights: Keeper, tmp_path: Path) -> Keeper:
    """A copy of the three nights, to change."""
    shutil.copytree(nights.home, tmp_path / "home", symlinks=True)
    return Keeper(tmp_path / "home", nights.sandbox)


@pytest.fixture(scope="module")
def held(taken: tuple[Keeper, list[Said]], tmp_path_factory: pytest.TempPathFactory) -> Keeper:
    """A copy of the three nights and a fourth, which is held: its list of portfolios is empty."""
    home = tmp_path_factory.mktemp("held") / "home"
    shutil.copytree(taken[0].home, home, symlinks=True)
    shutil.rmtree(home / "dagster")
    keeper = Keeper(home, taken[0].sandbox)
    keeper.sandbox.show("portfolios-empty")
    assert keeper.run(FOURTH).code == 3
    keeper.sandbox.show()
    return keeper


@pytest.fixture
def empty(api: Sandbox, tmp_path: Path) -> Callable[..., Keeper]:
    """A keeper with nothing yet, and further settings."""
    return lambda **more: Keeper(tmp_path / "empty", api, more)
