"""Damage on disk: found by `verify`, named, never served, and mended from what is whole."""

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
from pipelines.landing.night_folders import DamagedFile
from pipelines.maintenance.verify import CHANGED, MISSING, SURPLUS, Damage, verify
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
    """A copy of two published nights, whole."""
    shutil.copytree(two_nights, tmp_path / "home", symlinks=True)
    return Layout(tmp_path / "home")


def published_files(layout: Layout) -> list[Path]:
    """Every file that was written to stay."""
    roots = (layout.landing, layout.lake, layout.warehouse)
    return sorted(
        path
        for root in roots
        for path in root.rglob("*")
        if path.is_file() and "current" not in path.relative_to(layout.home).parts
    )


def flip(path: Path, bit: int) -> None:
    """Change one bit of a file, whatever its mode."""
    mode = path.stat().st_mode
    path.chmod(0o640)
    with path.open("r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))
    path.chmod(mode)


def flips(layout: Layout, count: int) -> Iterator[tuple[Path, int]]:
    """Bits to change: each file in turn, so that the small ones get as many as the large."""
    rng = random.Random(818)
    files = published_files(layout)
    for number in range(count):
        path = files[number % len(files)]
        yield path, rng.randrange(path.stat().st_size * 8)


def books(layout: Layout) -> Rows:
    """All rows of all books that people see."""
    with duckdb.connect(str(layout.database), read_only=True) as connection:
        return {
            table.name: connection.execute(
                f"select * from {stored_as(table)} order by all"
            ).fetchall()
            for table in BOOK
        }


def found(layout: Layout) -> list[Damage]:
    """What `verify` finds."""
    return list(verify(layout))


def rebuilt(layout: Layout, *, from_landing: bool, number: int = 9) -> None:
    """Make warehouse, or lake and warehouse, again."""
    keeper = nights.nightbook(layout.home, nights.Clock(nights.at(number)))
    rebuild(keeper, from_landing=from_landing)


def test_whole_nights_are_whole(layout: Layout) -> None:
    """Verify finds nothing where nothing is the matter, also after a rebuild of everything."""
    assert found(layout) == []
    rebuilt(layout, from_landing=True)
    assert found(layout) == []


def test_every_changed_bit_is_found_and_named(
    layout: Layout, sized: Sized, record_property: Record
) -> None:
    """One bit changed in any published file is reported as that file, changed."""
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


def test_no_changed_bit_of_the_warehouse_is_served(
    layout: Layout, sized: Sized, record_property: Record
) -> None:
    """A reader of a damaged database is refused, or is told exactly what was published."""
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


def test_a_rebuild_mends_whatever_can_be_made_again(
    layout: Layout, sized: Sized, record_property: Record
) -> None:
    """A bit flipped in any file but the landing zone's is gone after `rebuild --from-landing`."""
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


def test_a_changed_bit_of_the_lake_is_not_published(layout: Layout) -> None:
    """A rebuild refuses a Parquet file that changed; from the landing zone all is mended."""
    expected = books(layout)
    for path in sorted(layout.lake.rglob("*.parquet")):
        flip(path, path.stat().st_size * 4)
    with pytest.raises(FileChanged, match="nightbook rebuild --from-landing"):
        rebuilt(layout, from_landing=False)
    assert books(layout) == expected
    rebuilt(layout, from_landing=True)
    assert books(layout) == expected
    assert found(layout) == []


def test_a_changed_bit_of_the_warehouse_is_mended_by_the_next_night(layout: Layout) -> None:
    """Nothing is built upon a damaged version: the next night is whole, and so is its history."""
    expected = books(layout)
    flip(layout.database, layout.database.stat().st_size * 4)
    nights.run(layout.home, nights.at(2))
    served = books(layout)
    for name, rows in expected.items():
        assert [row for row in served[name] if row[0] < nights.at(2).date()] == rows
    current = (layout.warehouse / "current").resolve()
    assert [one for one in found(layout) if current in one.file.parents] == []


def test_a_changed_bit_of_the_landing_zone_stops_a_rebuild_before_it_begins(
    layout: Layout,
) -> None:
    """What cannot be made again is not thrown away: the lake stays, every damaged file is named."""
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


def test_a_landed_night_that_vanished_stays_in_the_warehouse(layout: Layout) -> None:
    """Nothing is published where a night of the lake is no longer landed: it would be dropped."""
    expected = books(layout)
    (layout.landing / "2026-11-18" / "20261118T021500Z" / "manifest.json").unlink()
    with pytest.raises(
        DamagedFile, match=r"2026-11-18/20261118T021500Z/manifest\.json contains nothing"
    ):
        nights.run(layout.home, nights.at(2))
    assert books(layout) == expected


def test_a_missing_file_is_named(layout: Layout, sized: Sized) -> None:
    """Each file that is gone is reported as missing, by its own name or by that of its link."""
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
def test_a_missing_folder_is_named(layout: Layout, gone: str, named: str) -> None:
    """Whole nights, tables, the lake or the warehouse cannot go unseen."""
    shutil.rmtree(layout.home / gone)
    missing = {one.file for one in found(layout) if one.what == MISSING}
    assert layout.home / named in missing


def test_a_surplus_file_is_named(layout: Layout) -> None:
    """What nightbook did not write is reported wherever it lies."""
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


def test_what_a_dead_run_left_is_no_damage(layout: Layout) -> None:
    """Files aside, half a pull and half a version are not reported: the next run clears them."""
    (layout.landing / "2026-11-19" / ".20261119T031500Z.pulling").mkdir()
    (layout.landing / "2026-11-19" / ".20261119T031500Z.pulling" / "0001.json.zst").touch()
    (layout.manifests / ".x.json.aside").touch()
    (layout.warehouse / "versions" / ".tmp-b").mkdir()
    (layout.warehouse / "versions" / ".tmp-b" / DATABASE).touch()
    (layout.warehouse / ".current").symlink_to("versions/b")
    assert found(layout) == []


def test_a_decision_that_was_put_back_is_found(layout: Layout) -> None:
    """An older `decision.json` proves itself too, but the warehouse tells of a later decision."""
    snapshot = snapshots.find(layout, LAST)
    path = snapshot.folder / snapshots.DECISION
    older = path.read_bytes()
    moment = nights.at(5)
    snapshots.decide(snapshot, states.REJECTED, by="ann", at=moment, reasons=("wrong",))
    keeper = nights.nightbook(layout.home, nights.Clock(moment))
    placement.settle(layout)
    publish.refresh(keeper)
    assert found(layout) == []
    path.write_bytes(older)
    assert path in {one.file for one in found(layout)}


@pytest.mark.parametrize("has_lake", [True, False])
def test_a_landing_folder_that_is_not_mounted_does_not_empty_the_warehouse(
    layout: Layout, *, has_lake: bool
) -> None:
    """Without any landed night, nothing is published over a version that has nights."""
    version = layout.database.resolve()
    layout.landing.rename(layout.home / "unmounted")
    if not has_lake:
        shutil.rmtree(layout.manifests)
    with pytest.raises(DamagedFile):
        publish.refresh(nights.nightbook(layout.home, nights.Clock(nights.at(5))))
    assert layout.database.resolve() == version


def test_a_night_that_is_gone_does_not_vanish_from_the_warehouse(layout: Layout) -> None:
    """Without its landing folder and its manifest in the lake, nothing is published."""
    version = layout.database.resolve()
    shutil.rmtree(snapshots.find(layout, LAST).folder)
    (layout.manifests / f"{LAST}.json").unlink()
    with pytest.raises(DamagedFile, match=LAST):
        publish.refresh(nights.nightbook(layout.home, nights.Clock(nights.at(5))))
    assert layout.database.resolve() == version


def test_damage_says_which_night_and_what_to_do(layout: Layout) -> None:
    """Each line names file and night, and the way to mend it."""
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
