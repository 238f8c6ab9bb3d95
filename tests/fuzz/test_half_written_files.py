"""Tests of a rebuild that died before its end: the next command that publishes loses no night."""

import shutil
from pathlib import Path

import pytest

from assets.cli import main
from pipelines.landing import snapshots
from pipelines.maintenance.verify import verify
from tests.crash import nights
from tests.fuzz.dying import dies
from tests.pipelines.maintenance.test_verify import books
from warehouse.storage.layout import Layout

HELD = "20261120T021500Z"


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a home with two published nights and one held night, in which a portfolio vanished."""
    home = tmp_path_factory.mktemp("half") / "home"
    for number, count in enumerate((3, 3, 2)):
        moment = nights.at(number)
        nights.run(home, moment, nights.answers(moment.date(), count))
    return home


@pytest.mark.torture
@pytest.mark.parametrize(
    "words",
    [
        ("accept", HELD, "--why", "sold"),
        ("reject", HELD),
        ("prune", "--keep", "1", "--no-month-ends"),
    ],
)
@pytest.mark.parametrize("change", [20, 70, 120])
def test_an_interrupted_rebuild_changes_no_later_result(
    held: Path, tmp_path: Path, words: tuple[str, ...], change: int
) -> None:
    """A decision or a pruning has the same result after an interrupted rebuild as without it."""
    shown = []
    for is_half_made in (False, True):
        layout = Layout(tmp_path / str(is_half_made))
        shutil.copytree(held, layout.home, symlinks=True)
        keeper = nights.nightbook(layout.home, nights.Clock(nights.at(5)))
        if is_half_made:
            assert dies(lambda: main(["rebuild", "--from-landing"], keeper), change)  # noqa: B023 - called at once
            keeper = nights.nightbook(layout.home, nights.Clock(nights.at(6)))
        assert main(words, keeper) == 0
        assert list(verify(layout)) == []
        shown.append((books(layout), [one.state for one in snapshots.landed_snapshots(layout)]))
    assert shown[0] == shown[1]
