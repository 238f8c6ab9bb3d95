"""Tests of damage on disk: it is found by `verify`, never served, and repaired if possible."""

import random
import shutil
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest

from assets.publishing import publish
from assets.publishing.publish import rebuild
from pipelines.lake import placement
from pipelines.landing import snapshots
from pipelines.landing.damage import CHANGED, MISSING, SURPLUS, Damage
from pipelines.landing.night_folders import DamagedFile
from pipelines.maintenance.verify import verify
from tests.crash import nights
from warehouse.contract import states
from warehouse.contract.book import BOOK
from warehouse.database.ddl import stored_as
from warehouse.database.load import FileChanged
from warehouse.storage.layout import DATABASE, DIGESTS, Layout

LAST = "20261119T021500Z"
Record = Callable[[str, object], None]
Sized = Callable[[int, int], int]
Rows = dict[str, list[tuple[Any, ...]]]


@pytest.fixture
def layout(two_nights: Path, tmp_path: Path) -> Layout:
    """Return a copy of a home with two intact, published nights."""
    shutil.copytree(two_nights, tmp_path / "home", symlinks=True)
    return Layout(tmp_path / "home")


def published_files(layout: Layout) -> list[Path]:
    """Return all permanent files of the landing zone, the lake and the warehouse."""
    roots = (layout.landing, layout.lake, layout.warehouse)
    return sorted(
        path
        for root in roots
        for path in root.rglob("*")
        if path.is_file() and "current" not in path.relative_to(layout.home).parts
    )


def flip(path: Path, bit: int) -> None:
    """Change one bit of a file, even if it is read-only."""
    mode = path.stat().st_mode
    path.chmod(0o640)
    with path.open("r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))
    path.chmod(mode)


def flips(layout: Layout, count: int) -> Iterator[tuple[Path, int]]:
    """Yield bits to change, file by file, so that small files get as many as large ones."""
    rng = random.Random(818)
    files = published_files(layout)
    for number in range(count):
        path = files[number % len(files)]
        yield path, rng.randrange(path.stat().st_size * 8)


def books(layout: Layout) -> Rows:
    """Return all rows of all published books."""
    with duckdb.connect(str(layout.database), read_only=True) as connection:
        return {
            table.name: connection.execute(
                f"select * from {stored_as(table)} order by all"
            ).fetchall()
            for table in BOOK
        }


def found(layout: Layout) -> list[Damage]:
    """Return the damage that `verify` finds."""
    return list(verify(layout))


def rebuilt(layout: Layout, *, from_landing: bool, number: int = 9) -> None:
    """Rebuild the warehouse and, with `from_landing`, the lake."""
    keeper = nights.nightbook(layout.home, nights.Clock(nights.at(number)))
    rebuild(keeper, from_landing=from_landing)


def test_verify_finds_no_damage_in_an_intact_home(layout: Layout) -> None:
    """`verify` finds no damage in an intact home, even after everything was rebuilt."""
    assert found(layout) == []
    rebuilt(layout, from_landing=True)
    assert found(layout) == []


def test_verify_reports_every_file_with_a_changed_bit(
    layout: Layout, sized: Sized, record_property: Record
) -> None:
    """If one bit of any published file changes, `verify` reports that file as changed."""
    count = sized(50, 1000)
    missed = []
    for path, bit in flips(layout, count):
        flip(path, bit)
        named = [(one.file, one.what) for one in found(layout)]
        if (path, CHANGED) not in named:
            missed.append((path.relative_to(layout.home), bit, named))
        flip(path, bit)
    assert missed == []
    files = len(published_files(layout))
    record_property("torture", [f"bits flipped in {files} files", {"flips": count, "missed": 0}])


def test_a_damaged_database_never_returns_wrong_rows(
    layout: Layout, sized: Sized, record_property: Record
) -> None:
    """Reading a damaged database either fails or returns exactly the published rows."""
    expected = books(layout)
    size = layout.database.stat().st_size * 8
    rng = random.Random(3)
    count, refused = sized(8, 200), 0
    for _ in range(count):
        bit = rng.randrange(size)
        flip(layout.database, bit)
        try:
            assert books(layout) == expected
        except (duckdb.Error, UnicodeDecodeError):
            refused += 1
        finally:
            flip(layout.database, bit)
    counts = {"flips": count, "refused": refused, "served wrong": 0}
    record_property("torture", ["bits flipped in the file that people see", counts])


def test_a_rebuild_repairs_any_file_outside_landing(
    layout: Layout, sized: Sized, record_property: Record
) -> None:
    """`rebuild --from-landing` repairs a changed bit in any file outside the landing zone."""
    expected = books(layout)
    rng = random.Random(40)
    count = sized(1, 40)
    for number in range(count):
        made = [one for one in published_files(layout) if layout.landing not in one.parents]
        path = made[(number + 1) * len(made) // count - 1]
        flip(path, rng.randrange(path.stat().st_size * 8))
        rebuilt(layout, from_landing=True, number=9 + number)
        assert found(layout) == [], path
        assert books(layout) == expected
    record_property("torture", ["flipped and made again from landing", {"mended": count}])


def test_a_changed_lake_file_is_not_published(layout: Layout) -> None:
    """A rebuild from the lake rejects a changed Parquet file. A rebuild from landing repairs it."""
    expected = books(layout)
    for path in sorted(layout.lake.rglob("*.parquet")):
        flip(path, path.stat().st_size * 4)
    with pytest.raises(FileChanged, match="nightbook rebuild --from-landing"):
        rebuilt(layout, from_landing=False)
    assert books(layout) == expected
    rebuilt(layout, from_landing=True)
    assert books(layout) == expected
    assert found(layout) == []


def test_the_next_night_replaces_a_damaged_warehouse(layout: Layout) -> None:
    """The next night does not build on a damaged version, and publishes the correct history."""
    expected = books(layout)
    flip(layout.database, layout.database.stat().st_size * 4)
    nights.run(layout.home, nights.at(2))
    served = books(layout)
    for name, rows in expected.items():
        assert [row for row in served[name] if row[0] < nights.at(2).date()] == rows
    current = (layout.warehouse / "current").resolve()
    assert [one for one in found(layout) if current in one.file.parents] == []


def test_damaged_landed_files_stop_a_rebuild(
    layout: Layout,
) -> None:
    """If landed files are damaged, a rebuild names them all and does not delete the lake."""
    bodies = sorted(layout.landing.glob("*/*/*-portfolios.json.zst"))
    for path in bodies[:2]:
        flip(path, 1000)
    before = books(layout)
    with pytest.raises(DamagedFile) as caught:
        rebuilt(layout, from_landing=True)
    assert all(str(path) in str(caught.value) for path in bodies[:2])
    assert "Nothing was rebuilt" in str(caught.value)
    assert [one.file for one in found(layout)] == bodies[:2]
    assert books(layout) == before


def test_nothing_is_published_if_a_landed_manifest_is_missing(layout: Layout) -> None:
    """If a night's landed manifest is missing, nothing is published, so the book is not lost."""
    expected = books(layout)
    (layout.landing / "2026-11-18" / "20261118T021500Z" / "manifest.json").unlink()
    with pytest.raises(
        DamagedFile, match=r"2026-11-18/20261118T021500Z/manifest\.json contains nothing"
    ):
        nights.run(layout.home, nights.at(2))
    assert books(layout) == expected


def test_a_missing_file_is_reported_with_its_path(layout: Layout, sized: Sized) -> None:
    """Each missing file is reported as missing, with its path."""
    for path in published_files(layout)[:: sized(3, 1)]:
        content, mode = path.read_bytes(), path.stat().st_mode
        path.unlink()
        named = {one.file for one in found(layout) if one.what == MISSING}
        assert path in named, path
        path.write_bytes(content)
        path.chmod(mode)
    assert found(layout) == []


@pytest.mark.parametrize(
    ("gone", "named"),
    [
        (f"landing/2026-11-19/{LAST}", f"landing/{LAST}"),
        ("landing/2026-11-19", f"landing/{LAST}"),
        ("lake/balances", f"lake/balances/snapshot_date=2026-11-19/{LAST}.parquet"),
        ("lake", f"lake/manifests/{LAST}.json"),
        ("warehouse", f"warehouse/current/{DATABASE}"),
        ("warehouse/versions", f"warehouse/current/{DATABASE}"),
    ],
)
def test_a_missing_folder_is_reported(layout: Layout, gone: str, named: str) -> None:
    """A missing night, table, lake or warehouse is reported."""
    shutil.rmtree(layout.home / gone)
    missing = {one.file for one in found(layout) if one.what == MISSING}
    assert layout.home / named in missing


def test_an_unexpected_file_is_reported(layout: Layout) -> None:
    """A file that nightbook did not write is reported in any folder."""
    strange = [
        layout.landing / "note.txt",
        layout.landing / "2026-11-19" / LAST / "0007-more.json.zst",
        layout.lake / "balances" / "snapshot_date=2026-11-19" / "20261119T031500Z.parquet",
        layout.lake / "balances" / "part-0.parquet",
        layout.database.parent.resolve() / f"{DATABASE}.wal",
        layout.warehouse / "old.duckdb",
    ]
    for path in strange:
        path.write_bytes(b"strange")
    assert {one.file for one in found(layout)} == set(strange)
    assert {one.what for one in found(layout)} == {SURPLUS}


def test_files_of_a_killed_run_are_not_reported(layout: Layout) -> None:
    """Files that a killed run left are not reported, because the next run deletes them."""
    (layout.landing / "2026-11-19" / ".20261119T031500Z.pulling").mkdir()
    (layout.landing / "2026-11-19" / ".20261119T031500Z.pulling" / "0001.json.zst").touch()
    (layout.manifests / ".x.json.aside").touch()
    (layout.warehouse / "versions" / ".tmp-b").mkdir()
    (layout.warehouse / "versions" / ".tmp-b" / DATABASE).touch()
    (layout.warehouse / ".current").symlink_to("versions/b")
    assert found(layout) == []


def test_an_older_decision_file_is_reported(layout: Layout) -> None:
    """An older `decision.json` is reported, because the warehouse contains a later decision."""
    snapshot = snapshots.find(layout, LAST)
    path = snapshot.folder / snapshots.DECISION
    older = path.read_bytes()
    moment = nights.at(5)
    snapshots.decide(snapshot, states.REJECTED, by="ann", at=moment, reasons=("wrong",))
    keeper = nights.nightbook(layout.home, nights.Clock(moment))
    placement.move_into_place(layout)
    publish.refresh(keeper)
    assert found(layout) == []
    path.write_bytes(older)
    assert path in {one.file for one in found(layout)}


@pytest.mark.parametrize("has_lake", [True, False])
def test_nothing_is_published_without_any_landed_night(layout: Layout, *, has_lake: bool) -> None:
    """Without any landed night, no version is published that would replace one with nights."""
    version = layout.database.resolve()
    layout.landing.rename(layout.home / "unmounted")
    if not has_lake:
        shutil.rmtree(layout.manifests)
    with pytest.raises(DamagedFile):
        publish.refresh(nights.nightbook(layout.home, nights.Clock(nights.at(5))))
    assert layout.database.resolve() == version


def test_a_deleted_night_stays_in_the_warehouse(layout: Layout) -> None:
    """If a night's landing folder and lake manifest are missing, nothing is published."""
    version = layout.database.resolve()
    shutil.rmtree(snapshots.find(layout, LAST).folder)
    (layout.manifests / f"{LAST}.json").unlink()
    with pytest.raises(DamagedFile, match=LAST):
        publish.refresh(nights.nightbook(layout.home, nights.Clock(nights.at(5))))
    assert layout.database.resolve() == version


def test_each_damage_line_names_the_night_and_the_remedy(layout: Layout) -> None:
    """Each line about damage names the file, the night and the remedy."""
    body = next(layout.landing.glob(f"*/{LAST}/0001-portfolios.json.zst"))
    table = layout.parquet("venues", date(2026, 11, 19), LAST)
    for path in (body, table, layout.database.with_name(DIGESTS)):
        flip(path, 80)
    in_landing, in_lake, in_warehouse = map(str, found(layout))
    assert f"{body} (night {LAST}): changed; restore it from a backup" in in_landing
    assert (
        f"{table} (night {LAST}): changed; rebuild the lake with: nightbook rebuild --from-landing"
        in in_lake
    )
    assert "changed; rebuild the warehouse with: nightbook rebuild" in in_warehouse
