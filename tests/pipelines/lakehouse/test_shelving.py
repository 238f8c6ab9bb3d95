"""Tests of the shelf with a store in memory. `make lakehouse` tests the same rules on servers."""

import itertools
import shutil
from datetime import timedelta
from functools import partial
from pathlib import Path
from unittest import mock

import pytest

from pipelines.lakehouse import shelf_list, shelving
from pipelines.lakehouse.addresses import StoreAddress
from pipelines.lakehouse.arrival import fetch
from pipelines.lakehouse.decisions import FollowedNight
from pipelines.lakehouse.errors import StoreFailed, UnsafeStoreError
from pipelines.lakehouse.night_manifest import decode, manifest_key
from pipelines.lakehouse.object_store import ObjectStore
from pipelines.lakehouse.shelf_check import verify_shelf
from pipelines.lakehouse.shelf_list import LATEST, newest_manifests, read_night
from pipelines.landing import night_folders, snapshots
from pipelines.landing.damage import BodiesNotLocal
from pipelines.landing.fingerprint import differences, entries_up_to, newest_fingerprint
from pipelines.landing.night_folders import DamagedFile
from pipelines.landing.snapshots import Decision, decide_by_hand, find, landed_snapshots, merge
from pipelines.maintenance.verify import require_landing, verify_landing
from tests.crash import nights
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
from warehouse.contract.states import ACCEPTED, REJECTED
from warehouse.storage.layout import Layout, json_bytes

FIRST, SECOND = "20261118T021500Z", "20261119T021500Z"


@pytest.fixture
def home(two_nights: Path, tmp_path: Path) -> Path:
    """Return a copy of a home with two nights that are not on a shelf."""
    return Path(shutil.copytree(two_nights, tmp_path / "home", symlinks=True))


def reject(home: Path, why: str, snapshot_id: str = SECOND) -> None:
    """Reject a night, as a person does."""
    layout = Layout(home)
    snapshots.decide_by_hand(layout, snapshot_id, REJECTED, by="ana", at=NOW, why=why)


def test_a_second_home_gets_identical_nights(home: Path, tmp_path: Path) -> None:
    """Bodies, manifests, decisions and tables arrive unchanged, and only once."""
    shelf, other = MemoryShelf().reached(), tmp_path / "other"
    assert shelve(home, shelf).nights == (FIRST, SECOND)
    assert take(other, shelf) == (FIRST, SECOND)
    assert files(other) == files(home)
    assert take(other, shelf) == ()
    assert shelve(home, shelf).nights == ()


def test_a_fingerprint_of_the_first_home_holds_in_the_second(home: Path, tmp_path: Path) -> None:
    """An alert of one machine proves the nights on another machine, whose list is its own."""
    shelf, other = MemoryShelf().reached(), Layout(tmp_path / "other")
    shelve(home, shelf)
    take(other.home, shelf)
    fingerprint = newest_fingerprint(Layout(home))
    assert fingerprint
    covered = entries_up_to(other, fingerprint)
    assert {entry.snapshot_id for entry in covered} == {FIRST, SECOND}
    assert not list(differences(other, covered))
    (other.snapshot(nights.at(0).date(), FIRST) / "decision.json").unlink()
    assert [damage.night for damage in differences(other, covered)] == [FIRST]


def test_a_home_without_bodies_can_fetch_them_later(home: Path, tmp_path: Path) -> None:
    """A home without bodies is not damaged, but cannot be rebuilt until it has the bodies."""
    shelf, other = MemoryShelf().reached(), tmp_path / "other"
    shelve(home, shelf)
    take(other, shelf, with_landing=False)
    assert not list(other.glob("landing/*/*/*.zst"))
    assert list(verify_landing(Layout(other))) == []
    with pytest.raises(BodiesNotLocal, match="publish --with-landing"):
        require_landing(Layout(other), bodies=True)
    assert take(other, shelf) == (FIRST, SECOND)
    assert files(other) == files(home)
    require_landing(Layout(other), bodies=True)


def test_a_later_decision_is_shelved_without_a_second_upload(home: Path, tmp_path: Path) -> None:
    """A later decision is shelved as a new generation, without a second upload of any file."""
    memory, other = MemoryShelf(), tmp_path / "other"
    shelve(home, memory.reached())
    take(other, memory.reached())
    before = [*memory.reached().list("lake/")]
    reject(home, "wrong")
    assert shelve(home, memory.reached()).nights == (SECOND,)
    assert [*memory.reached().list("lake/")] == before
    assert take(other, memory.reached()) == (SECOND,)
    assert snapshots.find(Layout(other), SECOND).state == REJECTED
    assert list(verify_shelf(memory.reached())) == []


@pytest.mark.parametrize("before", [True, False])
def test_readers_see_complete_nights_after_a_crash_at_any_call(
    home: Path, tmp_path: Path, *, before: bool
) -> None:
    """After a crash at any call, readers see only complete nights, and the next run finishes."""
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
def test_a_retry_recognises_the_object_that_it_created(
    home: Path, tmp_path: Path, key: str
) -> None:
    """If the response to a create is lost, the retry recognises the object that it created."""
    memory = MemoryShelf()
    result = shelve(home, memory.reached(Calls(forget=key)))
    assert (result.nights, result.problems) == ((FIRST, SECOND), ())
    assert require_whole_nights(home, memory.reached(), tmp_path / "reader") == (FIRST, SECOND)


def decisions(home: Path) -> dict[str, tuple[Decision, ...]]:
    """Return the decisions on each night of a home."""
    return {night.snapshot_id: night.decisions for night in landed_snapshots(Layout(home))}


def test_decisions_of_two_machines_are_merged(home: Path, tmp_path: Path) -> None:
    """Both machines get both decisions, the latest applies, and only one reports a conflict."""
    memory, other = MemoryShelf(), tmp_path / "other"
    shelve(home, memory.reached())
    take(other, memory.reached())
    reject(home, "this is why")
    decide_by_hand(
        Layout(other), SECOND, REJECTED, by="ben", at=NOW + timedelta(minutes=1), why="that is why"
    )
    told: list[FollowedNight] = []
    for machine in (home, other, home, other):
        assert shelve(machine, memory.reached(), told.append).problems == ()
    assert [night.is_conflict for night in told] == [True, False]
    assert "(this is why)" in told[0].message
    assert "by ben" in told[0].message
    assert decisions(home) == decisions(other)
    reasons = [decision.reasons for decision in decisions(home)[SECOND]]
    assert reasons[1:] == [("this is why",), ("that is why",)]
    generations = [key for key in memory.reached().list("manifests/") if SECOND in key]
    assert len(generations) == 3
    assert list(verify_shelf(memory.reached())) == []


def test_no_decision_is_lost_if_a_machine_is_faster(home: Path, tmp_path: Path) -> None:
    """If one machine shelves its decision before any request of the other, no decision is lost."""
    for at in itertools.count(1):
        memory, (one, two) = MemoryShelf(), (tmp_path / f"{at}-{name}" for name in ("one", "two"))
        shutil.copytree(home, one, symlinks=True)
        shelve(one, memory.reached())
        take(two, memory.reached())
        reject(one, "this is why")
        reject(two, "that is why")
        calls = Calls(at=at, meanwhile=partial(shelve, one, memory.reached()))
        assert shelve(two, memory.reached(calls)).problems == ()
        if calls.at:  # The run made fewer requests.
            break
        for machine in (one, two):
            assert shelve(machine, memory.reached()).problems == ()
        assert decisions(one) == decisions(two)
        reasons = [decision.reasons for decision in decisions(one)[SECOND]]
        assert sorted(reasons[1:]) == [("that is why",), ("this is why",)]
        assert list(verify_shelf(memory.reached())) == []
    assert at > 5


def test_different_clocks_keep_the_order_of_decisions(home: Path) -> None:
    """A decision on a night is always later than the one before, even if clocks differ."""
    layout = Layout(home)
    reject(home, "wrong")
    at = NOW - timedelta(minutes=1)
    decide_by_hand(layout, SECOND, ACCEPTED, by="ben", at=at, why="it was right")
    first, second = find(layout, SECOND).decisions[-2:]
    assert first.at < second.at
    assert merge((second,), (first,)) == (first, second)


def test_a_shelf_in_the_first_format_still_works(home: Path, tmp_path: Path) -> None:
    """A shelf in the first format can be read, and new generations have the current format."""
    memory, other = MemoryShelf(), tmp_path / "other"
    with mock.patch.object(shelving, "FORMAT", 1):
        shelve(home, memory.reached())
    shelf, key = memory.reached(), manifest_key(SECOND, 1)
    first = shelf.get(key)
    assert first is not None
    assert "format" not in night_folders.parse(first.content, Path(key))
    take(other, shelf)
    reject(home, "this is why")
    reject(other, "that is why")
    for machine in (home, other, home):
        assert shelve(machine, shelf).problems == ()
    assert decisions(home) == decisions(other)
    newest = read_night(shelf, newest_manifests(shelf)[SECOND])
    assert (newest.format, newest.generation) == (2, 3)
    assert list(verify_shelf(shelf)) == []


def test_a_night_in_a_newer_format_is_reported_but_not_read(home: Path, tmp_path: Path) -> None:
    """A night in a newer format is reported, but neither read nor decided nor changed."""
    memory, other = MemoryShelf(), tmp_path / "other"
    shelf = memory.reached()
    shelve(home, shelf)
    take(other, shelf)
    reject(home, "wrong")
    with mock.patch.object(shelving, "FORMAT", 3):
        shelve(home, shelf)
    reject(other, "wrong")
    before, own = shelf.list(""), files(other)
    for problems in (shelve(other, shelf).problems, fetch(Layout(other), shelf).problems):
        assert [("newer than the version here" in each, SECOND in each) for each in problems] == [
            (True, True)
        ]
    assert (shelf.list(""), files(other)) == (before, own)
    [damage] = verify_shelf(shelf)
    assert "written by a newer version of nightbook" in str(damage)


def test_only_one_of_two_nights_with_the_same_id_is_shelved(home: Path, tmp_path: Path) -> None:
    """If two machines pull in the same second, only one of the two nights is shelved.

    The error of the second machine names the folder to move out. After that, it gets the night.
    """
    memory, other = MemoryShelf(), tmp_path / "other"
    shelf = memory.reached()
    for machine, portfolios in ((home, 3), (other, 2)):
        nights.run(machine, nights.at(2), nights.answers(nights.at(2).date(), portfolios))
    third = landed_snapshots(Layout(home))[-1]
    shelve(home, shelf)
    [problem] = shelve(other, shelf).problems
    folder = f"landing/{third.snapshot_date}/{third.snapshot_id}"
    assert f"move the folder {folder} out" in problem
    (other / folder).rename(tmp_path / "moved")
    take(other, shelf)
    assert shelve(other, shelf).problems == ()
    assert files(other) == files(home)


def test_a_store_that_ignores_conditions_is_refused(home: Path) -> None:
    """If the store ignores conditions and accepts a second create, nothing is shelved."""
    memory = MemoryShelf()
    with pytest.raises(UnsafeStoreError, match="created an object that already existed"):
        shelve(home, memory.reached(Calls(ignores=True)))
    assert [*memory.reached().list("")] == ["probe"]


def test_a_damaged_object_is_reported_and_not_fetched(home: Path, tmp_path: Path) -> None:
    """A changed table is reported and its night is not fetched, but the other night is."""
    memory = MemoryShelf()
    shelf = memory.reached()
    shelve(home, shelf)
    [table] = [key for key in shelf.list("lake/balances/") if FIRST in key]
    shelf.library.put(memory.client, table, b"other bytes")
    assert [str(damage.file) for damage in verify_shelf(shelf)] == [table]
    result = fetch(Layout(tmp_path / "other"), shelf)
    assert result.nights == (SECOND,)
    assert [table in problem for problem in result.problems] == [True]
    assert not files(tmp_path / "other", FIRST)


def test_an_invalid_manifest_on_the_shelf_is_rejected(home: Path) -> None:
    """A manifest with invalid paths, unknown keys or a wrong seal is rejected.

    Otherwise, a person who can write to the store could make readers write outside their home.
    """
    memory = MemoryShelf()
    shelf = memory.reached()
    shelve(home, shelf)
    key = shelf_list.newest_manifests(shelf)[FIRST]
    content = shelf.get(key)
    assert content is not None
    parsed = night_folders.parse(content.content, Path(key))
    for change in (
        {"snapshot_id": "../../x"},
        {"files": [parsed["files"][0] | {"name": "../x"}]},
        {"strange": 1},
    ):
        with pytest.raises(DamagedFile):
            decode(json_bytes(night_folders.with_seal(parsed | change)), key)
    with pytest.raises(DamagedFile):
        decode(content.content.replace(b"accepted", b"rejected"), key)


def test_a_list_without_the_latest_manifest_is_rejected(home: Path) -> None:
    """A list without the manifest in `LATEST` is rejected, because lost nights look like gaps."""
    memory = MemoryShelf()
    shelf = memory.reached()
    shelve(home, shelf)
    shelf.library.delete(memory.client, shelf_list.newest_manifests(shelf)[SECOND])
    with pytest.raises(DamagedFile, match=SECOND):
        fetch(Layout(home), shelf)


SENDING = (
    "Generic S3 error: Error performing GET https://s3.example.com/b/x/LATEST?sig=canary in 2ms"
)
ROLE = "Generic {} error: Error performing PUT http://169.254.169.254/latest/token in 4ms - no"


@pytest.mark.parametrize(
    ("url", "said", "why"),
    [
        (
            "s3://b/x",
            (
                f"{SENDING}, after 5 retries - HTTP error: error sending request\n\n"
                'Debug source:\nGeneric {\n inner: Os { message: "Connection refused" } }'
            ),
            "https://s3.example.com: Connection refused",
        ),
        (
            "s3://b/x",
            (
                f"{SENDING}, {'after many retries, ' * 40} - HTTP error: error sending request\n\n"
                'Debug source:\nCustom { error: "failed to lookup address information" }'
            ),
            "https://s3.example.com: failed to lookup address information",
        ),
        (
            "s3://b/x",
            (
                f"{SENDING} - Server returned non-2xx status code: 403 Forbidden: <?xml?>\n"
                "<Error>\n<Code>InvalidAccessKeyId</Code>\n"
                "<Message>The key does not\n exist.</Message></Error>"
            ),
            "403 Forbidden: InvalidAccessKeyId: The key does not exist.",
        ),
        ("s3://b/x", ROLE.format("S3"), "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("az://c/x", ROLE.format("MicrosoftAzure"), "Set AZURE_STORAGE_ACCOUNT_KEY"),
        ("gs://b/x", ROLE.format("GCS"), "Set GOOGLE_APPLICATION_CREDENTIALS"),
        ("s3://b/x", "Something else entirely", "Something else entirely"),
    ],
)
def test_a_store_error_contains_the_complete_reason(url: str, said: str, why: str) -> None:
    """The error contains the store's whole reason, but no signed URL and no metadata address."""

    class Library:
        exceptions = Calls().exceptions

        def get(self, *_words: object) -> None:
            raise OSError(said)

    with pytest.raises(StoreFailed) as caught:
        ObjectStore(StoreAddress(url), None, Library()).get("LATEST")
    assert why in str(caught.value)
    assert "canary" not in str(caught.value)
    assert "169.254" not in str(caught.value)


def test_a_store_error_contains_no_secrets(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the store is shown without the query of its URL and without secrets."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-secret")

    class Library:
        exceptions = Calls().exceptions

        def put(self, *_words: object, **_more: object) -> None:
            raise OSError("PUT https://x/y?sig=canary-signature refused: canary-secret\nDebug")

    with pytest.raises(StoreFailed, match="refused") as caught:
        MemoryShelf().reached(Library()).put_file("key", home)
    assert "canary" not in str(caught.value)
