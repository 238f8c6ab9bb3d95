"""Tests of `prune`, which deletes a night's Dagster runs, exports and reports with the night."""

import contextlib
import os
import shutil
import subprocess
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest

from assets.night.run_log import SUCCESS, RunLog
from assets.runs.instance import open_instance
from tests.support.dagster_runs import scheduled
from tests.support.ledgers import reconciled
from tests.support.operator import take
from tests.support.operator_home import FIRST, FOURTH, SECOND, THIRD, Keeper, Sandbox

PRUNE = ("prune", "--keep", "1", "--no-month-ends")
DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def taken(two: Path, shown: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Keeper:
    """Create a home with four nights. The last two have runs, reports and workbooks."""
    home = tmp_path_factory.mktemp("retention") / "home"
    shutil.copytree(two, home, symlinks=True)
    keeper = Keeper(home, shown)
    shown.show()
    for day in (FIRST, SECOND):
        assert keeper("export", "--as-of", str(day), "--format", "csv").code == 0
    for day in (THIRD, FOURTH):
        assert scheduled(keeper, day).success
        with RunLog(keeper.nightbook, "ours", day) as log:
            log.end(SUCCESS)
    (keeper.layout.exports / "board-2026-03-04.xlsx.txt").write_text("mine")
    return keeper


@pytest.fixture
def lived(taken: Keeper, tmp_path: Path) -> Keeper:
    """Return the keeper of a copy of that home."""
    shutil.copytree(taken.home, tmp_path / "home", symlinks=True)
    taken.sandbox.clock.night(FOURTH, 9)
    return replace(taken, home=tmp_path / "home")


def runs(keeper: Keeper) -> set[str]:
    """Return the dates for which Dagster has runs."""
    with open_instance(keeper.layout) as instance:
        return {run.tags.get("dagster/partition", "") for run in instance.get_runs()}


def made(keeper: Keeper) -> dict[str, set[str]]:
    """Return the names of all dated exports, reports, logs and event files of runs, by folder."""
    layout = keeper.layout
    return {
        "exports": {path.name for path in layout.exports.iterdir() if "latest" not in path.name},
        "reports": {path.name for path in layout.reports.iterdir()},
        "logs": {path.name for path in layout.runs.iterdir()},
        "runs": {path.name for path in (layout.dagster / "history" / "runs").glob("*.db")},
    }


def test_prune_deletes_the_runs_and_exports_of_a_night(lived: Keeper) -> None:
    """`prune` deletes a night's runs with their logs and files, its workbook and its report.

    It also deletes the parts and the statements, and keeps a file that a person created.
    """
    (lived.layout.exports / f"book-{THIRD}-part-0123456789ab.duckdb").touch()
    (lived.layout.reports / f"statement-{THIRD}-0123456789ab.html").touch()
    before = made(lived)
    dry = lived(*PRUNE, "--dry-run")
    assert (made(lived), runs(lived)) == (before, {str(THIRD), str(FOURTH)})
    said = lived(*PRUNE)
    assert said.code == 0, said.err
    for words in ("from exports and reports", "1 run from Dagster's history"):
        assert f"{words} to delete" in dry.out
        assert f"{words} deleted" in said.out
    assert runs(lived) == {str(FOURTH)}
    after = made(lived)
    assert len(after["runs"]) == 2  # one night, and the index
    assert after["reports"] == {f"{FOURTH}.html", "latest.html"}
    assert after["exports"] == {f"positions-{FOURTH}.xlsx", "board-2026-03-04.xlsx.txt"}
    assert after["logs"] == {f"{FOURTH:%Y%m%d}T021500Z-ours.jsonl"}
    with open_instance(lived.layout) as instance:
        shown = instance.get_materialized_partitions(dg.AssetKey(["views", "holdings"]))
    assert shown == {str(FOURTH)}
    assert lived("verify").code == 0
    again = lived(*PRUNE)
    assert (again.code, "from Dagster's history" in again.out) == (0, False)


def test_prune_keeps_the_workbook_of_a_signed_day(lived: Keeper) -> None:
    """The workbook of a signed day is kept, because it is evidence like the signature."""
    day = FOURTH
    reconciled(lived)
    assert lived("reconcile", "sign", "--role", "preparer", "--who", "ada").code == 0
    workbook = lived.layout.exports / f"positions-{day}.xlsx"
    for number in (1, 2):
        assert take(lived, day + number * DAY) == "accepted"
    kept = {path: path.read_bytes() for path in _files(lived.home / "reconcile")}
    assert lived(*PRUNE).code == 0
    assert workbook.is_file()
    assert not (lived.layout.exports / f"positions-{THIRD}.xlsx").exists()
    assert {path: path.read_bytes() for path in _files(lived.home / "reconcile")} == kept


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def test_the_next_prune_completes_one_that_died(lived: Keeper) -> None:
    """If a prune dies after it deleted a run, the next prune deletes the files of that run."""
    with open_instance(lived.layout) as instance:
        for run in instance.get_runs():
            if run.tags["dagster/partition"] == str(THIRD):
                instance.delete_run(run.run_id)
    assert len(made(lived)["runs"]) == 3
    for path in (lived.layout.dagster / "history" / "runs").glob("*-*.db*"):
        os.utime(path, (0, 0))
    assert lived(*PRUNE).code == 0
    assert runs(lived) == {str(FOURTH)}
    assert len(made(lived)["runs"]) == 2
    assert lived("verify").code == 0


def test_prune_deletes_nights_if_the_database_of_dagster_is_damaged(lived: Keeper) -> None:
    """If Dagster's database is damaged, `prune` deletes nights, and says that the runs remain."""
    for path in (lived.layout.dagster / "history").glob("runs.db*"):
        path.write_bytes(b"no database " * 1000)
    said = lived(*PRUNE)
    assert said.code == 0, said.err
    assert "Dagster's runs were not deleted. The next prune will retry. DatabaseError" in said.out
    assert len(made(lived)["reports"]) == 2


def test_prune_on_a_full_disk_deletes_but_does_not_publish(
    lived: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk, `prune` does not publish but deletes old versions, and the next run works."""
    database = lived.layout.database.read_bytes()
    usage = shutil.disk_usage(lived.home)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=0))
        said = lived(*PRUNE)
    assert said.code == 0, said.err
    assert "was not published, because the disk is too full" in said.out
    assert lived.layout.database.read_bytes() == database
    assert len(list((lived.layout.warehouse / "versions").iterdir())) == 1
    assert take(lived, FOURTH + DAY) == "accepted"
    assert lived("verify").code == 0
    days = lived.ask("select distinct snapshot_date from history.balances order by all")
    assert days == [(FOURTH,), (FOURTH + DAY,)]


@pytest.mark.torture
def test_prune_frees_space_on_a_full_disk(lived: Keeper, tmp_path: Path) -> None:
    """On a disk without free space, `prune` succeeds and frees space."""
    disk = tmp_path / "disk"
    disk.mkdir()
    size = sum(path.stat().st_size for path in _files(lived.home) if not path.is_symlink())
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size + 4_000_000}", "tmpfs", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("this user may not mount a file system")
    try:
        home = disk / "home"
        shutil.copytree(lived.home, home, symlinks=True)
        with contextlib.suppress(OSError), (disk / "ballast").open("wb") as ballast:
            while True:
                ballast.write(bytes(65536))
                ballast.flush()
        assert shutil.disk_usage(disk).free < 65536
        keeper = replace(lived, home=home)
        said = keeper(*PRUNE)
        assert said.code == 0, said.err
        assert shutil.disk_usage(disk).free > 1_000_000
        (disk / "ballast").unlink()
        assert keeper("verify").code == 0
        assert runs(keeper) == {str(FOURTH)}
        assert keeper.run(FOURTH + DAY).code == 0
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
