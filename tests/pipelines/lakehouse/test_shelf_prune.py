"""Tests of pruning the shelf: pruned nights are deleted there on request, even after a crash."""

import shutil
from collections.abc import Collection
from functools import partial
from pathlib import Path

import pytest

from pipelines.lake import lessons
from pipelines.lakehouse.object_store import ObjectStore
from pipelines.lakehouse.shelf_check import verify_shelf
from pipelines.lakehouse.shelf_list import newest_manifests, read_night, waiting_nights
from pipelines.lakehouse.shelf_prune import ShelfPruneResult, prune_shelf
from pipelines.lakehouse.shelving import Shelver
from pipelines.landing import snapshots
from pipelines.landing.damage import SHELF_RECORD
from pipelines.landing.reasons import Reason, lesson_id
from pipelines.maintenance.prune import prune
from pipelines.maintenance.verify import verify
from tests.support.shelves import NOW, Calls, Killed, MemoryShelf, files, shelve, take
from warehouse.contract.states import ACCEPTED, PRUNED, REJECTED
from warehouse.storage.layout import Layout

FIRST, SECOND = "20261118T021500Z", "20261119T021500Z"
prune_all = partial(prune, keep_days=1, keep_month_ends=False, dry_run=False, at=NOW)


@pytest.fixture
def home(two_nights: Path, tmp_path: Path) -> Path:
    """Return a copy of a home with two nights, of which `prune_all` prunes the first."""
    return Path(shutil.copytree(two_nights, tmp_path / "home", symlinks=True))


def prune_there(
    home: Path, store: ObjectStore, told: list[Collection[str]], *, dry_run: bool = False
) -> ShelfPruneResult:
    """Prune the shelf as the command does. `told` collects the arguments of `forget`."""
    shelver = Shelver(layout=Layout(home), store=store, token="run", at=NOW, program_version="0")
    return prune_shelf(shelver, told.append, dry_run=dry_run)


def objects(store: ObjectStore, snapshot_id: str) -> list[str]:
    """Return the keys of a night's large objects."""
    keys = [key for room in ("landing/", "lake/") for key in store.list(room)]
    return [key for key in keys if snapshot_id in key]


def states(home: Path) -> list[str]:
    """Return the states of a home's nights."""
    return [snapshot.state for snapshot in snapshots.landed_snapshots(Layout(home))]


def test_only_objects_of_the_pruned_night_are_deleted(home: Path, tmp_path: Path) -> None:
    """A pruned night's objects are deleted, but its manifests and decisions stay on the shelf.

    A new machine gets those, and all files of the other nights.
    """
    store, told, other = MemoryShelf().reached(), list[Collection[str]](), tmp_path / "other"
    shelve(home, store)
    kept = objects(store, SECOND)
    prune_all(Layout(home))
    assert prune_there(home, store, told, dry_run=True).nights == (FIRST,)
    assert objects(store, FIRST)
    gone = prune_there(home, store, told)
    assert (gone.nights, told, gone.problems) == ((FIRST,), [[FIRST]], ())
    assert (objects(store, FIRST), objects(store, SECOND)) == ([], kept)
    assert list(verify_shelf(store)) == []
    assert take(other, store) == (FIRST, SECOND)
    assert states(other) == [PRUNED, ACCEPTED]
    assert files(other, SECOND) == files(home, SECOND)
    assert take(other, store) == ()
    assert prune_there(home, store, told).nights == ()


def test_a_home_keeps_a_night_that_is_pruned_on_the_shelf(home: Path, tmp_path: Path) -> None:
    """Pruning a night on the shelf does not delete it on machines that have it."""
    store, other = MemoryShelf().reached(), tmp_path / "other"
    shelve(home, store)
    take(other, store)
    before = files(other)
    prune_all(Layout(home))
    prune_there(home, store, [])
    take(other, store)
    assert files(other) == before


@pytest.mark.parametrize("is_pruned_there", [True, False])
def test_one_machine_may_prune_a_night_that_a_second_one_decides(
    home: Path, tmp_path: Path, *, is_pruned_there: bool
) -> None:
    """Each machine keeps its files, both get the decision, and later commands succeed."""
    store, other = MemoryShelf().reached(), tmp_path / "other"
    shelve(home, store)
    take(other, store)
    prune_all(Layout(home))
    if is_pruned_there:
        prune_there(home, store, [])
    snapshots.decide_by_hand(Layout(other), FIRST, REJECTED, by="ben", at=NOW, why="wrong")
    for machine in (other, home, other, home):
        assert shelve(machine, store).problems == ()
        take(machine, store)
    assert (states(home), states(other)) == ([PRUNED, ACCEPTED], [REJECTED, ACCEPTED])
    for machine in (home, other):
        reasons = [one.reasons for one in snapshots.find(Layout(machine), FIRST).decisions]
        assert ("wrong",) in reasons
        nights = snapshots.landed_snapshots(Layout(machine))
        assert waiting_nights(Layout(machine), store.address.url, nights) == []
        published = {Layout(machine).database}  # Nothing is published in this test.
        assert {damage.file for damage in verify(Layout(machine))} <= published
    assert read_night(store, newest_manifests(store)[FIRST]).state == (
        PRUNED if is_pruned_there else REJECTED
    )
    assert list(verify_shelf(store)) == []


def test_a_lesson_of_a_pruned_night_is_withdrawn_on_all_machines(
    home: Path, tmp_path: Path
) -> None:
    """Withdrawing a pruned night's lesson applies on all machines, even if one has the night."""
    store, other, layout = MemoryShelf().reached(), tmp_path / "other", Layout(home)
    lesson = Reason("notice: paged", "an answer looks like one page", is_teachable=True)
    first = snapshots.find(layout, FIRST)
    snapshots.decide(first, ACCEPTED, by="ana", at=NOW, teaches=(lesson,))
    shelve(home, store)
    take(other, store)
    prune_all(layout)
    lessons.take_back(layout, lesson_id(lesson.key), by="ana", at=NOW, why="it is no page")
    assert shelve(home, store).nights == (FIRST,)
    take(other, store)
    for machine in (home, other):
        [known] = lessons.all_lessons(snapshots.landed_snapshots(Layout(machine)))
        assert known.taken_back is not None
    assert (states(home), states(other)) == ([PRUNED, ACCEPTED], [ACCEPTED, ACCEPTED])
    assert shelve(home, store).nights == ()


@pytest.mark.parametrize("before", [True, False])
def test_the_next_prune_completes_after_a_crash_at_any_call(
    home: Path, tmp_path: Path, *, before: bool
) -> None:
    """After a crash at any call, no manifest names a deleted object. The next prune completes."""
    prune_all(Layout(Path(shutil.copytree(home, tmp_path / "pruned", symlinks=True))))
    at = 0
    while True:
        at += 1
        memory, calls = MemoryShelf(), Calls(at=at, before=before)
        (home / SHELF_RECORD).unlink(missing_ok=True)  # Each attempt has a new shelf.
        shelve(home, memory.reached())
        try:
            prune_there(tmp_path / "pruned", memory.reached(calls), [])
        except Killed:
            assert list(verify_shelf(memory.reached())) == []
            prune_there(tmp_path / "pruned", memory.reached(), [])
        assert objects(memory.reached(), FIRST) == []
        if calls.count < at:
            break
