"""Tests of briefs: they replace reading years of manifests, but no change is overlooked."""

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pipelines.lake import placement
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.landing import snapshots
from pipelines.landing.briefs import Briefs
from pipelines.landing.night_folders import DamagedFile
from pipelines.landing.snapshots import Snapshot
from tests.tools.performance.past import Past, add_night
from warehouse.contract import states
from warehouse.storage.layout import Layout

NIGHTS = 3


class Read(Exception):
    """A manifest of the lake was read."""


def unread(snapshot_id: str) -> dict[str, Any]:
    """Raise `Read`, because the lake's manifests must not be read."""
    raise Read(snapshot_id)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Return a home with three nights and their briefs."""
    layout, past = Layout(tmp_path), Past(60)
    for number in range(NIGHTS):
        add_night(layout, past, number)
    manifests = LakeManifests(layout)
    placement.lake_contents(manifests)
    manifests.briefs.keep()
    return layout


def folders(layout: Layout) -> list[Path]:
    """Return the folders of the landed nights, oldest first."""
    return sorted(layout.landing.glob("*/*"))


def test_briefs_and_manifests_give_the_same_rows(layout: Layout) -> None:
    """The warehouse rows from the briefs are the same as those from the manifests.

    The manifests are read if the briefs are lost.
    """
    known = placement.lake_contents(LakeManifests(layout)).snapshots
    for folder in folders(layout):
        assert Briefs(layout, unread).of(snapshots.read(folder)).row
    layout.briefs.unlink()
    assert placement.lake_contents(LakeManifests(layout)).snapshots == known


def test_a_replaced_manifest_is_reread(layout: Layout) -> None:
    """A replaced manifest is read, even if its bytes are the same. Other nights are not read."""
    first, second, _ = folders(layout)
    for path in (first / "manifest.json", layout.manifest(second.name)):
        content = path.read_bytes()
        path.rename(path.with_suffix(".old"))
        path.write_bytes(content)
        path.with_suffix(".old").unlink()
    for folder in (first, second):
        with pytest.raises(Read, match=folder.name):
            Briefs(layout, unread).of(snapshots.read(folder))
    assert Briefs(layout, unread).of(snapshots.read(folders(layout)[2])).contract


@pytest.mark.parametrize("content", [b"", b"{}", b"0" * 64 + b"\n{}", b"\xff\n\xff"])
def test_briefs_with_a_wrong_checksum_are_ignored(layout: Layout, content: bytes) -> None:
    """Briefs with a wrong checksum are ignored, and the manifests are read instead."""
    layout.briefs.write_bytes(content)
    with pytest.raises(Read):
        Briefs(layout, unread).of(snapshots.read(folders(layout)[0]))


def test_a_damaged_manifest_is_found_when_it_changes(layout: Layout) -> None:
    """A manifest with a changed byte raises `DamagedFile`, so nothing is built from it."""
    path = layout.manifest(folders(layout)[0].name)
    path.write_bytes(path.read_bytes().replace(b'"0.9"', b'"0.8"', 1))
    with pytest.raises(DamagedFile, match=path.name):
        placement.lake_contents(LakeManifests(layout))


def test_only_changed_decision_files_are_read(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decisions are read only for nights whose decision file has changed."""
    manifests = LakeManifests(layout)
    assert manifests.nights == snapshots.landed_snapshots(layout)
    first, *others = manifests.nights
    at = datetime(2026, 1, 1, tzinfo=UTC)
    decided = snapshots.decide(first, states.REJECTED, by="ann", at=at, reasons=("wrong",))
    opened = list[str]()
    real = snapshots.read

    def read(folder: Path) -> Snapshot:
        opened.append(folder.name)
        return real(folder)

    monkeypatch.setattr(snapshots, "read", read)
    assert LakeManifests(layout).nights == [decided, *others]
    assert opened == [first.snapshot_id]


def test_a_damaged_decision_is_found_when_it_changes(layout: Layout) -> None:
    """A damaged decision file raises `DamagedFile`, although its decisions are cached."""
    path = folders(layout)[0] / "decision.json"
    path.write_bytes(path.read_bytes().replace(b"accepted", b"rejected", 1))
    with pytest.raises(DamagedFile, match=path.name):
        _ = LakeManifests(layout).nights


def test_a_night_that_lands_in_the_same_clock_tick_is_found(
    layout: Layout,
) -> None:
    """A night is found even if it lands in the same clock tick in which its folder was listed.

    The folder's time does not change then, so a time that may still be current proves nothing.
    """
    day = folders(layout)[0].parent
    manifests = LakeManifests(layout)
    assert len(manifests.nights) == NIGHTS
    manifests.briefs.keep()
    status = day.stat()
    (day / "20990101T000000Z").mkdir()
    shutil.copy(folders(layout)[0] / "manifest.json", day / "20990101T000000Z")
    os.utime(day, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert len(LakeManifests(layout).nights) == NIGHTS + 1
