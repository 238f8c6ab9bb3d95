"""Tests of the landing zone: snapshots are complete or absent, and changed bytes are found."""

import dataclasses
import hashlib
import io
import mmap
import os
import shutil
import stat
import tempfile
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from pipelines import night
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.landing import lock, night_folders, snapshots
from pipelines.landing import night_folders as sealed_json
from pipelines.landing import zone as landing
from pipelines.landing.damage import SURPLUS
from pipelines.landing.manifest import Manifest, RequestRecord, Window, load_manifest
from pipelines.maintenance.verify import verify_landing
from tests.support import nights
from tests.support.shared import some_daily
from warehouse.storage.layout import Layout

UTC_ZONE = ZoneInfo("UTC")


@pytest.fixture(autouse=True)
def usual_umask() -> None:
    """Set the usual umask, so that files get their usual modes."""
    os.umask(0o022)


def _landed(layout: Layout) -> Manifest:
    return nights.land(layout, nights.Book([{"id": "p"}], []))


def test_a_snapshot_is_listed_once_its_manifest_is_on_disk(layout: Layout) -> None:
    """A snapshot is not listed during the pull, but only once its manifest is on disk."""
    pulling = landing.PendingSnapshot(layout, nights.STARTED, UTC_ZONE)
    pulling.land("0001-portfolios", b"{}")
    assert list(night_folders.folders(layout)) == []
    assert not pulling.folder.exists()
    manifest = _landed(layout)
    assert [load_manifest(folder) for folder in night_folders.folders(layout)] == [manifest]


def test_a_landed_body_is_read_back_unchanged(layout: Layout) -> None:
    """A landed body is read back unchanged, whatever its bytes are."""
    pulling = landing.PendingSnapshot(layout, nights.STARTED, UTC_ZONE)
    for number, content in enumerate([b"", b"\x00\xff\n", os.urandom(3 * landing.CHUNK + 1)]):
        name = pulling.land(f"{number:04}", content)
        answer = _answer(name, content)
        manifest = dataclasses.replace(_manifest(), answers=(answer,))
        folder = layout.snapshot(manifest.snapshot_date, manifest.snapshot_id)
        folder.mkdir(parents=True, exist_ok=True)
        (pulling._aside / name).rename(folder / name)
        assert bytes(landing.body(layout, manifest, answer)) == content


def test_a_manifest_has_the_dates_of_both_clocks(layout: Layout) -> None:
    """If this machine's clock gives a different business date, the manifest has both dates."""
    pulling = landing.PendingSnapshot(layout, nights.STARTED, UTC_ZONE)
    manifest = dataclasses.replace(
        _landed(layout), machine_started_at=(nights.STARTED + timedelta(hours=22)).isoformat()
    )
    assert pulling.machine_started_at == nights.STARTED
    assert manifest.is_date_doubtful
    assert (manifest.snapshot_date, manifest.machine_date) == (
        date(2026, 11, 20),
        date(2026, 11, 21),
    )


def test_an_older_manifest_has_only_the_date_of_its_folder(layout: Layout) -> None:
    """A manifest from before machine clocks were recorded has only the date of its folder."""
    manifest = _landed(layout)
    path = layout.snapshot(manifest.snapshot_date, manifest.snapshot_id) / night_folders.MANIFEST
    content = sealed_json.read(path)
    assert content.pop("machine_started_at") == nights.STARTED.isoformat()
    sealed_json.write(path, content)
    older = load_manifest(path.parent)
    assert older.machine_started_at is None
    assert older.machine_date == older.snapshot_date
    assert not older.is_date_doubtful


def _answer(name: str, content: bytes) -> RequestRecord:
    digest = hashlib.sha256(content).hexdigest()
    values = {"byte_count": len(content), "sha256": digest, "file": name, "request_no": 1}
    fields = dict.fromkeys(field.name for field in dataclasses.fields(RequestRecord))
    return RequestRecord(**{**fields, **values})  # type: ignore[arg-type]  # a test's short form


def _manifest() -> Manifest:
    at = nights.STARTED.isoformat()
    return Manifest(
        snapshot_id="20261120T021500Z",
        snapshot_date=date(2026, 11, 20),
        timezone="UTC",
        started_at=at,
        finished_at=at,
        origin="",
        program_version="",
        clock_skew_ms=None,
        notices=(),
        answers=(),
        stored={},
    )


def test_a_large_body_is_a_map_of_an_unnamed_file(layout: Layout) -> None:
    """A body above the limit is a memory map of an unnamed file, and no scratch file remains."""
    content = os.urandom(1024) * (landing.IN_MEMORY // 1024 + 1)
    book = nights.Book(portfolios=b'["' + content.hex().encode() + b'"]')
    manifest = nights.land(layout, book)
    body = landing.body(layout, manifest, manifest.answers[0])
    assert isinstance(body, mmap.mmap)
    assert body[:] == nights.body(book.portfolios)
    assert list(layout.work.iterdir()) == []


def test_a_flipped_bit_never_changes_the_landed_content(layout: Layout) -> None:
    """A flipped bit in a body or the manifest raises `DamagedFile`, or the content is the same."""
    manifest = _landed(layout)
    [folder] = night_folders.folders(layout)
    before = _read_all(layout, folder)
    found = 0
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        for place in range(0, len(whole), max(1, len(whole) // 40)):
            changed = bytearray(whole)
            changed[place] ^= 1 << place % 8
            path.write_bytes(changed)
            try:
                assert _read_all(layout, folder) == before
            except sealed_json.DamagedFile as damage:
                found += damage.file == path
        path.write_bytes(whole)
    assert found > 60
    assert load_manifest(folder) == manifest


def _read_all(layout: Layout, folder: Path) -> list[object]:
    manifest = load_manifest(folder)
    bodies = [bytes(landing.body(layout, manifest, answer)) for answer in manifest.answers]
    return [manifest, *bodies]


@pytest.mark.parametrize("spoil", ["cut", "gone", "other", "empty"])
def test_a_cut_missing_or_replaced_file_is_damaged(layout: Layout, spoil: str) -> None:
    """A landed file that is cut, missing, replaced or empty is damaged, and it is not used."""
    manifest = _landed(layout)
    [folder] = night_folders.folders(layout)
    path = folder / str(manifest.answers[0].file)
    other = folder / str(manifest.answers[1].file)
    whole = path.read_bytes()
    path.unlink()
    contents = {"cut": whole[:-4], "other": other.read_bytes(), "empty": b""}
    if spoil in contents:
        path.write_bytes(contents[spoil])
    with pytest.raises(sealed_json.DamagedFile, match="The file was not used"):
        landing.body(layout, manifest, manifest.answers[0])


def test_a_snapshot_in_a_different_folder_is_damaged(layout: Layout) -> None:
    """A snapshot that was moved to a different folder is damaged, and not a different night."""
    _landed(layout)
    [folder] = night_folders.folders(layout)
    moved = folder.with_name("20261120T030000Z")
    folder.rename(moved)
    with pytest.raises(sealed_json.DamagedFile, match="20261120T021500Z") as damaged:
        load_manifest(moved)
    assert damaged.value.file == moved / night_folders.MANIFEST


def test_a_manifest_that_lacks_a_field_is_damaged(layout: Layout) -> None:
    """A manifest that has a valid checksum but lacks a field raises `DamagedFile`."""
    _landed(layout)
    [folder] = night_folders.folders(layout)
    content = sealed_json.read(folder / night_folders.MANIFEST)
    del content["stored"]
    sealed_json.write(folder / night_folders.MANIFEST, content)
    with pytest.raises(
        sealed_json.DamagedFile, match="different fields than this version"
    ) as damaged:
        load_manifest(folder)
    assert damaged.value.file == folder / night_folders.MANIFEST


@pytest.mark.parametrize("strange", [{"weight": 1}, {"attempts": "two"}, {"path": None}])
def test_a_request_with_an_invalid_field_is_damaged(
    layout: Layout, strange: dict[str, object]
) -> None:
    """A request with an unknown field or a field of a wrong type raises `DamagedFile`."""
    _landed(layout)
    [folder] = night_folders.folders(layout)
    content = sealed_json.read(folder / night_folders.MANIFEST)
    content["answers"][0] |= strange
    sealed_json.write(folder / night_folders.MANIFEST, content)
    with pytest.raises(sealed_json.DamagedFile, match="different fields than this version"):
        load_manifest(folder)


@pytest.mark.parametrize("kept", [None, {}, {"state": "still"}, {"moved": ["a", "b"]}])
def test_a_manifest_of_an_older_version_is_read(
    layout: Layout, kept: dict[str, object] | None
) -> None:
    """Facts about the window that an older manifest does not contain are unknown."""
    made = _landed(layout)
    [folder] = night_folders.folders(layout)
    content = sealed_json.read(folder / night_folders.MANIFEST)
    del content["window"]
    sealed_json.write(
        folder / night_folders.MANIFEST, content | ({} if kept is None else {"window": kept})
    )
    moved = ("a", "b") if kept and "moved" in kept else ()
    state = "still" if kept and "state" in kept else "unknown"
    assert load_manifest(folder) == dataclasses.replace(made, window=Window(state, moved))


def test_a_full_disk_is_not_reported_as_damage(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the scratch file cannot be written, the error is that of the disk, not `DamagedFile`."""
    manifest = _landed(layout)

    class Full(io.BytesIO):
        def write(self, _: object) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(landing, "IN_MEMORY", 0)  # so that a scratch file is written
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Full())
    with pytest.raises(OSError, match="No space left"):
        landing.body(layout, manifest, manifest.answers[0])


def test_sweep_deletes_only_leftovers_of_killed_runs(layout: Layout) -> None:
    """`sweep` deletes partial pulls, temporary and scratch files, but no landed nights or lake."""
    _landed(layout)
    kept = {path for path in layout.home.rglob("*") if path.is_file()}
    landing.PendingSnapshot(layout, nights.STARTED.replace(hour=5), UTC_ZONE).land("0001-x", b"{}")
    [dead] = layout.landing.glob("*/.*.pulling")
    left = [
        dead / ".0002-x.json.zst.aside",
        layout.work / "scratch",
        layout.work / "folder" / "scratch",
        layout.parquet("requests", date(2026, 11, 20), "x").with_name(".x.parquet.aside"),
        layout.staged_file("balances", "x").with_name(".balances.parquet.aside"),
        next(night_folders.folders(layout)) / ".decision.json.aside",
    ]
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"left")
    lock.sweep(layout)
    assert {path for path in layout.home.rglob("*") if path.is_file()} == kept
    assert lock.sweep(layout) == []


def test_an_abandoned_pull_leaves_nothing(layout: Layout) -> None:
    """An abandoned pull leaves nothing, not even its date's folder if it is empty.

    Other snapshots of the date stay.
    """
    landing.PendingSnapshot(layout, nights.STARTED, UTC_ZONE).abandon()
    assert list(layout.landing.iterdir()) == []
    _landed(layout)
    landing.PendingSnapshot(layout, nights.STARTED, UTC_ZONE).abandon()
    assert len(list(night_folders.folders(layout))) == 1


def test_two_pulls_in_one_second_have_different_ids(layout: Layout) -> None:
    """The second of two pulls in a second gets the next free ID, even in a different time zone."""
    ids = [
        nights.land(layout, nights.Book(), nights.STARTED, zone).snapshot_id
        for zone in ("UTC", "UTC", "Pacific/Kiritimati", "America/Los_Angeles")
    ]
    assert ids == [f"20261120T02150{second}Z" for second in range(4)]


@pytest.mark.parametrize(
    ("first", "back", "newest"),
    [
        ("04:10:00", timedelta(hours=1), "20261120T041001Z"),
        ("23:59:59", timedelta(minutes=30), "20261121T000000Z"),
    ],
)
def test_the_last_pull_is_the_book_if_the_clock_was_set_back(
    layout: Layout, first: str, back: timedelta, newest: str
) -> None:
    """The last pull of a date has its newest ID and is its book, even if the clock was set back.

    The pull keeps its own date and start time.
    """
    started = datetime.fromisoformat(f"2026-11-20T{first}+00:00")
    day = started.date()
    nights.take(layout, nights.small(), started)
    again = nights.land(layout, nights.small(), started - back)
    assert night.landed_on(layout, day) == again
    assert (again.snapshot_id, again.snapshot_date) == (newest, day)
    assert again.started_at == (started - back).isoformat()
    snapshot = night.finish(LakeManifests(layout), layout.snapshot(day, newest), started)
    assert snapshots.books(snapshots.landed_snapshots(layout)) == {day: snapshot}
    tomorrow = nights.take(layout, nights.small(), started + timedelta(hours=20))
    assert tomorrow.snapshot_id > newest
    assert list(snapshots.books(snapshots.landed_snapshots(layout))) == [
        day,
        day + timedelta(days=1),
    ]


STRAYS = [
    *("2026-11-20.bak", "20261120", "2026-W47-5", "2026-11-31", "2026-11-2", "1"),
    *("2026-11-20/20261120T021500Z-copy", "2026-11-20/20261120T021500", "2026-11-20/3"),
    *("2026-11-20/20261120T0215Z", "2026-11-20/20261120T996000Z", "2026-11-20/2026-11-20"),
]


@pytest.mark.parametrize("name", some_daily(STRAYS, 3))
def test_a_copied_folder_is_not_a_night(layout: Layout, name: str) -> None:
    """A copied folder is not a night and hides no book. It stays, and `verify` reports it."""
    book = nights.take(layout, nights.small())
    copy = layout.landing / name
    shutil.copytree(book.folder if "/" in name else book.folder.parent, copy)
    files = {path for path in copy.rglob("*") if path.is_file()}
    assert list(night_folders.folders(layout)) == [book.folder]
    assert night_folders.dates(layout) == [book.snapshot_date]
    later = nights.take(layout, nights.small(), nights.STARTED + timedelta(days=1))
    assert snapshots.landed_snapshots(layout) == [book, later]
    surplus = {one.file for one in verify_landing(layout) if one.what == SURPLUS}
    assert surplus == files
    assert lock.sweep(layout) == []


def test_files_are_for_the_owner_and_the_group(layout: Layout) -> None:
    """Folders have mode 0750, and files have mode 0640."""
    _landed(layout)
    for path in layout.landing.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o750 if path.is_dir() else 0o640), path


@pytest.mark.parametrize(
    ("started", "zone", "day"),
    [
        ("2026-03-29T00:59:59", "Europe/Zurich", "2026-03-29"),
        ("2026-03-29T01:00:00", "Europe/Zurich", "2026-03-29"),
        ("2026-03-28T22:59:59", "Europe/Zurich", "2026-03-28"),
        ("2026-03-28T23:00:00", "Europe/Zurich", "2026-03-29"),
        ("2026-10-24T22:00:00", "Europe/Zurich", "2026-10-25"),
        ("2026-10-25T00:30:00", "Europe/Zurich", "2026-10-25"),
        ("2026-10-25T01:30:00", "Europe/Zurich", "2026-10-25"),
        ("2026-10-25T23:00:00", "Europe/Zurich", "2026-10-26"),
        ("2026-11-20T09:59:59", "Pacific/Kiritimati", "2026-11-20"),
        ("2026-11-20T10:00:00", "Pacific/Kiritimati", "2026-11-21"),
        ("2026-11-20T07:59:59", "America/Los_Angeles", "2026-11-19"),
        ("2026-12-31T23:59:59", "UTC", "2026-12-31"),
    ],
)
def test_the_business_date_is_the_date_in_the_time_zone(
    layout: Layout, started: str, zone: str, day: str
) -> None:
    """The business date is the date in the time zone, even in nights when the clocks change.

    The ID stays in UTC.
    """
    moment = datetime.fromisoformat(started).replace(tzinfo=UTC)
    manifest = nights.land(layout, nights.Book(), moment, zone)
    assert manifest.snapshot_date.isoformat() == day
    assert manifest.snapshot_id == moment.strftime("%Y%m%dT%H%M%SZ")
    assert manifest.timezone == zone
