"""What people see of the shelf: what waits, what came, and what is refused in words."""

import shutil
from pathlib import Path

import pytest

from pipelines.landing import snapshots
from tests.support.operator_home import Keeper

COUNTED = (
    "select snapshot_date, count(*) as balances, exact_sum(amount_text) as total "
    "from history.balances group by all order by all"
)


@pytest.fixture
def first(held: Keeper, tmp_path: Path) -> Keeper:
    """A machine with three books and a held night, and a shelf on which nothing is yet."""
    shutil.copytree(held.home, tmp_path / "first", symlinks=True)
    shelf = {"NIGHTBOOK_LAKE": f"file://{tmp_path}/shelf"}
    return Keeper(tmp_path / "first", held.sandbox, shelf)


@pytest.mark.torture
def test_a_second_machine_asks_the_same_book(first: Keeper, tmp_path: Path) -> None:
    """What waits is told; shelved, another machine has the figures, and a decision follows."""
    second = Keeper(tmp_path / "second", first.sandbox, first.more)
    assert "4 nights" in first("status").out
    assert "not on the shelf" in first("status").out
    refused = first("prune", "--keep", "1")
    assert (refused.code, "Shelve them first: nightbook shelve" in refused.err) == (1, True)
    assert "4 nights shelved" in first("shelve").out
    assert "not on the shelf" not in first("status").out
    assert "keeps its word; 4 nights" in first("doctor").out
    assert "4 nights, 4 of them new or changed" in second("publish").out
    assert second("query", COUNTED).out == first("query", COUNTED).out
    assert second("verify").code == first("verify", "--shelf").code == 0
    night = snapshots.landed_snapshots(first.layout)[-1].snapshot_id
    assert first("reject", night, "--why", "empty").code == 0
    assert "4 nights, 1 of them new or changed" in second("publish").out
    assert second("snapshots").out.splitlines()[2:] == first("snapshots").out.splitlines()[2:]
    assert "all of them here already" in second("publish").out


def test_without_the_setting_there_is_no_shelf(first: Keeper) -> None:
    """Commands of the shelf say what to set; nothing else speaks of one."""
    alone = Keeper(first.home, first.sandbox)
    for words in (("shelve",), ("publish",), ("verify", "--shelf")):
        said = alone(*words)
        assert (said.code, "NIGHTBOOK_LAKE is not set" in said.err) == (2, True)
    assert " shelf" not in alone("doctor").out + alone("status").out


def test_a_rehearsal_is_not_shelved(first: Keeper, tmp_path: Path) -> None:
    """`--dry-run` of a decision shows what would change, here and nowhere else."""
    night = snapshots.landed_snapshots(first.layout)[-1].snapshot_id
    first("accept", night, "--why", "so it is", "--dry-run")
    assert not (tmp_path / "shelf").exists()
