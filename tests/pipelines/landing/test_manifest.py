"""Tests of the exact content of manifests and decisions, because old homes must stay readable."""

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from pipelines.landing import lock, night_folders, snapshots, zone
from pipelines.landing import night_folders as sealed_json
from pipelines.landing.lock import machine_name
from pipelines.landing.manifest import load_manifest
from pipelines.landing.notices import ResponseNotice
from pipelines.landing.snapshots import GUARDS, Decision, Snapshot
from tests.support import nights
from warehouse.contract.states import ACCEPTED, COMPLETE, HELD, REJECTED
from warehouse.storage.layout import Layout

SUMMER = timezone(timedelta(hours=2))
STARTED = datetime(2026, 11, 20, 4, 15, 0, 999_999, tzinfo=SUMMER)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give this machine a time zone that is not UTC."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_manifest_keeps_every_fact_of_a_pull(layout: Layout, elsewhere: None) -> None:
    """A manifest has the address, times in UTC, version, clock skew and notices of its pull."""
    pulling = zone.PendingSnapshot(layout, STARTED, ZoneInfo("Europe/Zurich"))
    pulling.land("0001-a", b'{"data":[]}')
    made = pulling.finish(
        STARTED + timedelta(seconds=5),
        (),
        origin="https://api.example.com",
        program_version="1.2.3",
        clock_skew_ms=-42,
        signs=(
            ResponseNotice(
                place="meta.next",
                words="says that there is more",
                operation="list_venues",
                answers=2,
                example='"x"',
            ),
        ),
    )
    [folder] = night_folders.folders(layout)
    kept = load_manifest(folder)
    assert kept == made
    assert (kept.snapshot_id, kept.snapshot_date) == ("20261120T021500Z", date(2026, 11, 20))
    assert kept.started_at == "2026-11-20T02:15:00+00:00"
    assert kept.finished_at == "2026-11-20T02:15:05.999999+00:00"
    assert (kept.timezone, kept.origin, kept.program_version, kept.clock_skew_ms) == (
        *("Europe/Zurich", "https://api.example.com", "1.2.3", -42),
    )
    assert kept.notices == ("meta.next: says that there is more (list_venues)",)
    assert [sign.answers for sign in kept.signs] == [2]
    stored = {path.name: path.read_bytes() for path in folder.glob("*.zst")}
    assert kept.stored == {
        name: hashlib.sha256(content).hexdigest() for name, content in stored.items()
    }
    assert list(stored) == ["0001-a.json.zst"]


def test_a_new_pull_empties_the_folder_of_a_killed_pull(layout: Layout) -> None:
    """A new pull empties the folder that a killed pull of the same second has left."""
    zone.PendingSnapshot(layout, STARTED, ZoneInfo("UTC")).land("0009-left", b"{}")
    pulling = zone.PendingSnapshot(layout, STARTED, ZoneInfo("UTC"))
    assert list(pulling._aside.iterdir()) == []


def test_abandoning_a_finished_snapshot_does_nothing(layout: Layout) -> None:
    """Abandoning a finished snapshot does not delete it, and raises no error."""
    pulling = zone.PendingSnapshot(layout, STARTED, ZoneInfo("UTC"))
    pulling.finish(STARTED, (), origin="", program_version="", clock_skew_ms=None)
    pulling.abandon()
    assert len(list(night_folders.folders(layout))) == 1


def test_snapshots_are_listed_by_their_start(layout: Layout) -> None:
    """Snapshots are listed by their start, because a later one may have an earlier date.

    That happens if the time zone was changed.
    """
    book = nights.Book()
    noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
    first = nights.land(layout, book, noon, "Pacific/Kiritimati")
    second = nights.land(layout, book, noon + timedelta(hours=1), "UTC")
    assert first.snapshot_date > second.snapshot_date
    names = [folder.name for folder in night_folders.folders(layout)]
    assert names == [first.snapshot_id, second.snapshot_id]


def test_only_date_folders_with_a_manifest_are_listed(layout: Layout) -> None:
    """Only date folders that contain a manifest are listed, of any year, oldest first."""
    days = ["9999-12-31", "1000-01-01", "2026-11-20"]
    for day in [*days, "A", "Z", ":", "x-2026"]:
        name = f"{day.replace('-', '')}T000000Z"
        (layout.landing / day / name).mkdir(parents=True)
        (layout.landing / day / name / night_folders.MANIFEST).touch()
    (layout.landing / days[0] / "99991231T000001Z").mkdir()
    (layout.landing / days[0] / ".99991231T000002Z.pulling").mkdir()
    (layout.landing / "2026").touch()
    assert [folder.parent.name for folder in night_folders.folders(layout)] == sorted(days)


def test_a_body_is_decompressed_one_megabyte_at_a_time(layout: Layout) -> None:
    """A body is decompressed one megabyte at a time, however small it was compressed."""
    pulling = zone.PendingSnapshot(layout, STARTED, ZoneInfo("UTC"))
    name = pulling.land("0001-a", bytes(9 << 20))
    pulling.finish(STARTED, (), origin="", program_version="", clock_skew_ms=None)
    [folder] = night_folders.folders(layout)
    sizes = [len(chunk) for chunk in zone._chunks(folder / name, "")]
    assert (sum(sizes), max(sizes)) == (9 << 20, 1 << 20)


def test_sweep_deletes_only_temporary_files_from_the_lake(layout: Layout) -> None:
    """`sweep` deletes only temporary files from the lake."""
    kept = layout.parquet("balances", date(2026, 11, 20), "20261120T021500Z")
    left = kept.with_name(".x.parquet.aside")
    kept.parent.mkdir(parents=True)
    kept.touch()
    left.touch()
    assert lock.sweep(layout) == [left]
    assert kept.is_file()


def test_a_body_above_the_limit_is_a_read_only_map(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body of exactly the limit is returned as bytes, and a larger one as a read-only map.

    The scratch file is in the home, not in the machine's temporary folder.
    """
    monkeypatch.setattr(tempfile, "tempdir", str(layout.home / "nowhere"))
    frame = len(nights.body(b""))
    bodies = []
    for more, hour in ((0, 2), (1, 3)):
        inside = b" " * (zone.IN_MEMORY - frame + more)
        book = nights.Book(portfolios=inside)
        manifest = nights.land(layout, book, nights.STARTED.replace(hour=hour))
        bodies.append(zone.body(layout, manifest, manifest.answers[0]))
        empty = replace(manifest.answers[1], byte_count=None)
        assert isinstance(zone.body(layout, manifest, empty), bytes)
    small, large = bodies
    assert isinstance(small, bytes)
    assert not isinstance(large, bytes)
    with pytest.raises(TypeError):
        large[0:1] = b"x"


def test_the_error_about_an_unreadable_body_names_its_digest(layout: Layout) -> None:
    """The error about an unreadable body contains its path and the SHA-256 that was landed."""
    manifest = nights.land(layout, nights.Book())
    answer = manifest.answers[0]
    path = layout.snapshot(manifest.snapshot_date, manifest.snapshot_id) / str(answer.file)
    path.write_bytes(b"garbage")
    with pytest.raises(sealed_json.DamagedFile) as damaged:
        zone.body(layout, manifest, answer)
    assert damaged.value.file == path
    assert f"SHA-256 {answer.sha256} was expected" in str(damaged.value)


def test_the_checksum_algorithm_never_changes(tmp_path: Path) -> None:
    """The checksum never changes: it is the SHA-256 of JSON with sorted keys, no spaces and UTF-8.

    If it changed, old homes could not be read.
    """
    content = {"b": [1, None], "a": "ü"}
    text = '{"a":"ü","b":[1,null]}'
    assert sealed_json.digest(content) == hashlib.sha256(text.encode()).hexdigest()
    assert sealed_json.digest("\ud800") == hashlib.sha256(b'"\xed\xa0\x80"').hexdigest()
    sealed_json.write(tmp_path / "x.json", dict(content))
    assert sealed_json.read(tmp_path / "x.json") == content


@pytest.mark.parametrize(
    ("text", "found", "expected"),
    [
        ("{", "nothing readable (JSONDecodeError)", "a JSON object with its SHA-256"),
        ('{"a":1}', "nothing readable (KeyError)", "a JSON object with its SHA-256"),
        (
            '{"a":1,"sha256":"' + "0" * 80 + '"}',
            "content with SHA-256 " + hashlib.sha256(b'{"a":1}').hexdigest(),
            f"{'0' * 64} was expected",
        ),
    ],
)
def test_a_damaged_file_is_reported_with_its_content(
    tmp_path: Path, text: str, found: str, expected: str
) -> None:
    """The error contains the file, the content found and expected, and the reader's advice."""
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(sealed_json.DamagedFile) as damaged:
        sealed_json.read(path, "Do this.")
    assert damaged.value.file == path
    said = str(damaged.value)
    assert said.startswith(f"{path} contains {found}, but {expected}")
    assert said.endswith("Do this.")


def decided(*made: tuple[str, str, int]) -> Snapshot:
    """Return a snapshot with these decisions: state, author and hour."""
    decisions = tuple(
        Decision(state, by, datetime(2026, 11, 20, hour, tzinfo=UTC).isoformat(), ())
        for state, by, hour in made
    )
    return Snapshot("20261120T021500Z", date(2026, 11, 20), Path(), decisions)


@pytest.mark.parametrize(
    ("made", "state"),
    [
        ((), COMPLETE),
        (((ACCEPTED, GUARDS, 9),), ACCEPTED),
        (((HELD, GUARDS, 9), (ACCEPTED, "ann", 5)), ACCEPTED),
        (((HELD, GUARDS, 3), (ACCEPTED, "ann", 6)), HELD),
        (((ACCEPTED, "ann", 6),), COMPLETE),
    ],
)
def test_decisions_of_people_count_up_to_the_given_time(
    made: tuple[tuple[str, str, int], ...], state: str
) -> None:
    """Decisions of the guards always count, but decisions of people only up to the given time."""
    moment = datetime(2026, 11, 20, 5, tzinfo=UTC)
    assert decided(*made).state_at(moment) == state


def test_a_decision_is_stored_with_its_time_in_utc(layout: Layout, elsewhere: None) -> None:
    """A decision is stored with its time in UTC, and later than the decision before it.

    A decision without an explanation has no reasons.
    """
    manifest = nights.land(layout, nights.Book())
    known = snapshots.find(layout, manifest.snapshot_id)
    snapshots.decide(known, HELD, by=GUARDS, at=STARTED, reasons=("r",))
    snapshots.decide_by_hand(layout, manifest.snapshot_id, REJECTED, by="ann", at=STARTED, why="")
    first, second = snapshots.find(layout, manifest.snapshot_id).decisions
    at, after = "2026-11-20T02:15:00.999999+00:00", "2026-11-20T02:15:01+00:00"
    assert first == Decision(HELD, GUARDS, at, ("r",), machine=machine_name())
    assert second == Decision(REJECTED, "ann", after, (), machine=machine_name())
    with pytest.raises(snapshots.ReasonRequired, match=manifest.snapshot_id):
        snapshots.decide_by_hand(
            layout, manifest.snapshot_id, ACCEPTED, by="ann", at=STARTED, why=""
        )
    with pytest.raises(snapshots.NoSuchSnapshot, match=f"'other'.*{manifest.snapshot_id}"):
        snapshots.find(layout, "other")
    assert os.environ["TZ"] == "Asia/Tokyo"
