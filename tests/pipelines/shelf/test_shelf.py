"""The laws of the shelf, held against a store in memory; `make lakehouse` holds them on servers."""

import shutil
from pathlib import Path

import pytest

from pipelines.landing import sealed_json, snapshots
from pipelines.landing.sealed_json import Damaged
from pipelines.maintenance.verify import BodiesAway, require_landing, verify_landing
from pipelines.maintenance.verify_shelf import verify_shelf
from pipelines.shelf import shelf_list
from pipelines.shelf.fetching import fetch
from pipelines.shelf.night_manifest import decode
from pipelines.shelf.object_keys import LATEST
from pipelines.shelf.object_store import StoreFailed
from pipelines.shelf.probe import BreaksItsWord
from tests.support.shelves import (
    NOW,
    Calls,
    Killed,
    MemoryShelf,
    files,
    require_whole_nights,
    shelve,
    take,
)
from warehouse.contract.states import REJECTED
from warehouse.storage.layout import Layout, json_bytes

FIRST, SECOND = "20261118T021500Z", "20261119T021500Z"


@pytest.fixture
def home(two_nights: Path, tmp_path: Path) -> Path:
    """A home with two nights that no shelf has."""
    return Path(shutil.copytree(two_nights, tmp_path / "home", symlinks=True))


def reject(home: Path, why: str, snapshot_id: str = SECOND) -> None:
    """Take back a night, as a person does."""
    layout = Layout(home)
    snapshots.decide_by_hand(layout, snapshot_id, REJECTED, by="ana", at=NOW, why=why)


def test_a_second_home_has_the_nights_byte_for_byte(home: Path, tmp_path: Path) -> None:
    """Bodies, manifests, decisions and tables come as they were; a second look brings nothing."""
    shelf, other = MemoryShelf().reached(), tmp_path / "other"
    assert shelve(home, shelf).shelved == (FIRST, SECOND)
    assert take(other, shelf) == (FIRST, SECOND)
    assert files(other) == files(home)
    assert take(other, shelf) == ()
    assert shelve(home, shelf).shelved == ()


def test_without_bodies_a_home_says_so_and_gets_them_when_asked(home: Path, tmp_path: Path) -> None:
    """A home without bodies is no damaged one, but nothing is made again of what is not there."""
    shelf, other = MemoryShelf().reached(), tmp_path / "other"
    shelve(home, shelf)
    take(other, shelf, with_landing=False)
    assert not list(other.glob("landing/*/*/*.zst"))
    assert list(verify_landing(Layout(other))) == []
    with pytest.raises(BodiesAway, match="publish --with-landing"):
        require_landing(Layout(other), bodies=True)
    assert take(other, shelf) == (FIRST, SECOND)
    assert files(other) == files(home)
    require_landing(Layout(other), bodies=True)


def test_a_decision_is_shelved_and_follows(home: Path, tmp_path: Path) -> None:
    """What is decided later is a generation of its own; no file goes up a second time."""
    memory, other = MemoryShelf(), tmp_path / "other"
    shelve(home, memory.reached())
    take(other, memory.reached())
    before = [entry.key for entry in memory.reached().list("lake/")]
    reject(home, "wrong")
    assert shelve(home, memory.reached()).shelved == (SECOND,)
    assert [entry.key for entry in memory.reached().list("lake/")] == before
    assert take(other, memory.reached()) == (SECOND,)
    assert snapshots.find(Layout(other), SECOND).state == REJECTED
    assert list(verify_shelf(memory.reached())) == []


@pytest.mark.parametrize("before", [True, False])
def test_killed_at_any_call_readers_see_whole_nights(
    home: Path, tmp_path: Path, *, before: bool
) -> None:
    """Ended before or after each call of a shelving, what is seen is whole; the next completes."""
    counted = Calls()
    whole = Path(shutil.copytree(home, tmp_path / "whole", symlinks=True))
    shelve(whole, MemoryShelf().reached(counted))
    for at in range(2, counted.count + 1, 9):
        memory, case = MemoryShelf(), tmp_path / f"case-{at}"
        shutil.copytree(home, case, symlinks=True)
        with pytest.raises(Killed):
            shelve(case, memory.reached(Calls(at=at, before=before)))
        require_whole_nights(home, memory.reached(), tmp_path / "reader")
        assert shelve(case, memory.reached()).problems == ()
        seen = require_whole_nights(home, memory.reached(), tmp_path / "reader")
        assert seen == (FIRST, SECOND), at


@pytest.mark.parametrize("key", ["manifests/", LATEST])
def test_a_lost_answer_to_ones_own_create_is_recognised(
    home: Path, tmp_path: Path, key: str
) -> None:
    """The library asks again and is refused for its own object: that is no other writer."""
    memory = MemoryShelf()
    result = shelve(home, memory.reached(Calls(forget=key)))
    assert (result.shelved, result.problems) == ((FIRST, SECOND), ())
    assert require_whole_nights(home, memory.reached(), tmp_path / "reader") == (FIRST, SECOND)


def test_of_two_writers_the_create_decides(home: Path, tmp_path: Path) -> None:
    """Who comes second says so, changes nothing on the shelf, and keeps what is its own."""
    memory, other = MemoryShelf(), tmp_path / "other"
    shelve(home, memory.reached())
    take(other, memory.reached())
    reject(home, "this is why")
    reject(other, "that is why")
    shelve(home, memory.reached())
    shelved, own = memory.reached().list(""), files(other)
    [problem] = shelve(other, memory.reached()).problems
    assert "other decisions" in problem
    assert memory.reached().list("") == shelved
    [problem] = fetch(Layout(other), memory.reached()).problems
    assert "other decisions" in problem
    assert files(other) == own


def test_a_store_that_ignores_conditions_is_refused(home: Path) -> None:
    """Nothing is shelved where a second create is taken."""
    memory = MemoryShelf()
    with pytest.raises(BreaksItsWord, match="created an object that was there"):
        shelve(home, memory.reached(Calls(ignores=True)))
    assert [entry.key for entry in memory.reached().list("")] == ["probe"]


def test_a_damaged_object_is_named_and_not_taken(home: Path, tmp_path: Path) -> None:
    """A changed table and a manifest of other words are found; the nights that are whole come."""
    memory = MemoryShelf()
    shelf = memory.reached()
    shelve(home, shelf)
    [table] = [e.key for e in shelf.list("lake/balances/") if FIRST in e.key]
    shelf.library.put(memory.client, table, b"other bytes")
    assert [str(damage.file) for damage in verify_shelf(shelf)] == [table]
    result = fetch(Layout(tmp_path / "other"), shelf)
    assert result.fetched == (SECOND,)
    assert [table in problem for problem in result.problems] == [True]
    assert not files(tmp_path / "other", FIRST)


def test_a_manifest_that_names_other_places_is_not_believed(home: Path) -> None:
    """Whoever can write to the store cannot lead a reader out of its home."""
    memory = MemoryShelf()
    shelf = memory.reached()
    shelve(home, shelf)
    key = shelf_list.newest_manifests(shelf)[FIRST]
    content = shelf.get(key)
    assert content is not None
    parsed = sealed_json.parse(content.content, Path(key))
    for change in (
        {"snapshot_id": "../../x"},
        {"files": [parsed["files"][0] | {"name": "../x"}]},
        {"strange": 1},
    ):
        with pytest.raises(Damaged):
            decode(json_bytes(sealed_json.with_seal(parsed | change)), key)
    with pytest.raises(Damaged):
        decode(content.content.replace(b"accepted", b"rejected"), key)


def test_a_list_without_the_newest_night_is_not_believed(home: Path) -> None:
    """What `LATEST` names must be listed: a night that is missing would look like a gap."""
    memory = MemoryShelf()
    shelf = memory.reached()
    shelve(home, shelf)
    shelf.library.delete(memory.client, shelf_list.newest_manifests(shelf)[SECOND])
    with pytest.raises(Damaged, match=SECOND):
        fetch(Layout(home), shelf)


def test_what_a_store_says_shows_no_key(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the store is told without the query of an address, and without secrets."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-secret")

    class Library:
        exceptions = Calls().exceptions

        def put(self, *_words: object, **_more: object) -> None:
            raise OSError("PUT https://x/y?sig=canary-signature refused: canary-secret\nDebug")

    with pytest.raises(StoreFailed, match="refused") as caught:
        MemoryShelf().reached(Library()).put_file("key", home)
    assert "canary" not in str(caught.value)
