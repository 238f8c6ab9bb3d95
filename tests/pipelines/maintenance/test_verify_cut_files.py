"""Tests of truncated files and missing landed nights: they are reported, not served (S8, S12)."""

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from assets.cli import main
from pipelines.landing import night_folders as named
from pipelines.landing.damage import CHANGED, MISSING
from pipelines.landing.night_folders import DamagedFile
from tests.crash import nights
from tests.crash.scenarios import books, lake
from tests.pipelines.maintenance.test_verify import found, published_files, rebuilt
from tests.support.shared import some_daily
from warehouse.database.load import FileChanged
from warehouse.storage.layout import DATABASE, Layout

FIRST, LAST = "2026-11-18/20261118T021500Z", "2026-11-19/20261119T021500Z"
BODY = "0001-portfolios.json.zst"
Record = Callable[[str, object], None]
Sized = Callable[[int, int], int]
CUTS: dict[str, Callable[[int], int]] = {
    "to nothing": lambda _: 0,
    "in half": lambda size: size // 2,
    "by a byte": lambda size: size - 1,
}


@pytest.fixture
def layout(two_nights: Path, tmp_path: Path) -> Layout:
    """Return a copy of a home with two intact, published nights."""
    shutil.copytree(two_nights, tmp_path / "home", symlinks=True)
    return Layout(tmp_path / "home")


def cut(path: Path, how: str) -> None:
    """Truncate a file, even if it is read-only."""
    mode, content = path.stat().st_mode, path.read_bytes()
    path.chmod(0o640)
    path.write_bytes(content[: CUTS[how](len(content))])
    path.chmod(mode)


@pytest.mark.torture
@pytest.mark.parametrize("how", CUTS)
def test_verify_names_each_truncated_file_and_its_remedy(
    layout: Layout, how: str, sized: Sized, record_property: Record
) -> None:
    """`verify` names each truncated file, and recommends a rebuild unless the file was landed."""
    files = published_files(layout)[:: sized(4, 1)]
    for path in files:
        content, mode = path.read_bytes(), path.stat().st_mode
        cut(path, how)
        named = {one.file: one for one in found(layout)}
        assert named[path].what == CHANGED, path
        remedy = "a backup" if layout.landing in path.parents else "nightbook rebuild"
        assert remedy in str(named[path])
        path.chmod(0o640)
        path.write_bytes(content)
        path.chmod(mode)
    assert found(layout) == []
    record_property("torture", [f"files cut short {how}", {"cuts": len(files), "missed": 0}])


@pytest.mark.parametrize("how", some_daily(CUTS, 3))
def test_a_truncated_database_never_returns_wrong_rows(layout: Layout, how: str) -> None:
    """Reading a truncated database fails or returns the published rows. A rebuild repairs it."""
    expected = books(layout.home)
    cut(layout.database, how)
    with contextlib.suppress(duckdb.Error):
        assert books(layout.home) == expected
    rebuilt(layout, from_landing=False)
    assert (books(layout.home), found(layout)) == (expected, [])


@pytest.mark.parametrize("how", some_daily(CUTS, 3))
def test_a_truncated_table_is_never_published(layout: Layout, how: str) -> None:
    """A rebuild from the lake fails and recommends a rebuild from landing, which repairs it."""
    expected = books(layout.home)
    cut(min((layout.lake / "balances").rglob("*.parquet")), how)
    with pytest.raises(FileChanged, match="nightbook rebuild --from-landing"):
        rebuilt(layout, from_landing=False)
    assert books(layout.home) == expected
    rebuilt(layout, from_landing=True)
    assert (books(layout.home), found(layout)) == (expected, [])


@pytest.mark.parametrize("how", some_daily(CUTS, 3))
@pytest.mark.parametrize("name", [BODY, named.MANIFEST, "decision.json"])
def test_a_truncated_landed_file_stops_a_rebuild(layout: Layout, how: str, name: str) -> None:
    """A rebuild with a truncated landed file fails, names the file and changes nothing."""
    before = books(layout.home), lake(layout.home)
    path = layout.landing / FIRST / name
    cut(path, how)
    with pytest.raises(DamagedFile) as caught:
        rebuilt(layout, from_landing=True)
    assert str(path) in str(caught.value)
    assert (books(layout.home), lake(layout.home)) == before


def test_a_broken_current_link_is_reported_and_rebuilt(layout: Layout) -> None:
    """If `current` links to a deleted version, `verify` reports the missing database.

    Readers get an error until a rebuild creates a new version.
    """
    expected = books(layout.home)
    current = layout.warehouse / "current"
    shutil.rmtree(current.resolve())
    with pytest.raises(duckdb.Error):
        books(layout.home)
    assert [(one.file, one.what) for one in found(layout)] == [
        (layout.warehouse / "current" / DATABASE, MISSING)
    ]
    rebuilt(layout, from_landing=False)
    assert (books(layout.home), found(layout)) == (expected, [])


@pytest.mark.parametrize(
    ("gone", "named"),
    some_daily(
        [
            ((f"{FIRST}/{BODY}", f"{LAST}/{BODY}"), (f"{FIRST}/{BODY}", f"{LAST}/{BODY}")),
            ((f"{FIRST}/{named.MANIFEST}",), (f"{FIRST}/{named.MANIFEST}",)),
            ((FIRST,), (FIRST.rpartition("/")[2],)),
            ((FIRST, LAST), (FIRST.rpartition("/")[2], LAST.rpartition("/")[2])),
            (("2026-11-18", f"{LAST}/{BODY}"), (FIRST.rpartition("/")[2], f"{LAST}/{BODY}")),
            (("",), (FIRST.rpartition("/")[2], LAST.rpartition("/")[2])),
        ],
        2,
    ),
    ids=["bodies", "a manifest", "a night", "both nights", "a date and a body", "all of it"],
)
@pytest.mark.parametrize("lost", ["", "lake"], ids=["with a lake", "without a lake"])
def test_a_rebuild_names_everything_missing_from_landing(
    layout: Layout,
    gone: tuple[str, ...],
    named: tuple[str, ...],
    lost: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every missing night and file is named, and the lake and the warehouse stay unchanged."""
    if lost:
        shutil.rmtree(layout.lake)
    before = books(layout.home), lake(layout.home)
    for name in gone:
        path = layout.landing / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    keeper = nights.nightbook(layout.home, nights.Clock(nights.at(9)))
    assert main(["rebuild", "--from-landing"], keeper) == 1
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "backup" in said
    assert all(one in said for one in named), said
    assert (books(layout.home), lake(layout.home)) == before


def test_a_rebuild_from_the_lake_lists_missing_nights(
    layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    """If nights are missing from landing, nothing is published, and the old version stays."""
    before = books(layout.home)
    shutil.rmtree(layout.landing)
    keeper = nights.nightbook(layout.home, nights.Clock(nights.at(9)))
    assert main(["rebuild"], keeper) == 1
    said = capsys.readouterr().err
    assert all(one.rpartition("/")[2] in said for one in (FIRST, LAST))
    assert books(layout.home) == before
