"""Tests of backups, which are complete or not written, and of restores, which can be repeated."""

import io
import os
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pytest

from assets.home.backup import NotWhole, check_backup
from tests.support.ledgers import inbox, reconciled
from tests.support.operator import Watched
from tests.support.operator_home import FIRST, Keeper, Said, Sandbox

Make = Callable[..., Watched]
ADD = tarfile.TarFile.addfile


@pytest.fixture(scope="module")
def compared(two: Path, shown: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a home with two nights, a reconciliation and a record of sent alerts."""
    keeper = Keeper(tmp_path_factory.mktemp("compared") / "home", shown)
    shutil.copytree(two, keeper.home, symlinks=True)
    assert reconciled(keeper) == 0
    (keeper.home / "alerts").mkdir(exist_ok=True)
    (keeper.home / "alerts" / "told.json").write_text("{}")
    return keeper.home


@pytest.fixture
def keeper(compared: Path, watched: Make) -> Keeper:
    """Return the keeper of a copy of that home."""
    keeper = watched().keeper
    shutil.rmtree(keeper.home)
    shutil.copytree(compared, keeper.home, symlinks=True)
    return keeper


@pytest.fixture
def backup(keeper: Keeper, tmp_path: Path) -> Path:
    """Write a complete backup of the home before the test, and return its path."""
    path = tmp_path / "kept" / "book.tar"
    said = keeper("backup", str(path))
    assert said.code == 0, said.err
    return path


def kept(home: Path) -> dict[str, bytes]:
    """Return the files that a backup must contain, by name."""
    places = ("landing", "reconcile", "alerts/told.json")
    found = [path for name in places for path in (home / name, *(home / name).rglob("*"))]
    names = {path.relative_to(home).as_posix(): path for path in found if path.is_file()}
    return {name: path.read_bytes() for name, path in names.items() if "/." not in name}


def held(backup: Path) -> dict[str, bytes]:
    """Return the files in a backup by name, except the list of digests."""
    with tarfile.open(backup) as tar:
        files = {one.name: tar.extractfile(one) for one in tar}
        contents = {name: file.read() for name, file in files.items() if file is not None}
    del contents["digests.json"]
    return contents


def refused(keeper: Keeper, backup: Path, code: int = 1) -> Said:
    """Run a backup that fails with a message, leaves no file and does not change the old backup."""
    before = backup.read_bytes()
    said = keeper("backup", str(backup))
    assert (said.code, said.out) == (code, "")
    assert "No backup was written, and any existing backup is unchanged" in said.err
    assert "unexpected error" not in said.err
    assert "restored" not in said.err
    assert backup.read_bytes() == before
    assert [path.name for path in backup.parent.iterdir()] == [backup.name]
    return said


def test_an_unreadable_folder_stops_the_backup(
    keeper: Keeper, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that cannot be listed stops the backup. It must not be treated as empty."""
    closed, listed = keeper.home / "reconcile" / "inbox", os.scandir

    def scandir(path: Any = ".") -> Any:
        if Path(path) == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr("os.scandir", scandir)
    assert str(closed) in refused(keeper, backup).err


def test_a_linked_night_stops_the_backup(keeper: Keeper, backup: Path, tmp_path: Path) -> None:
    """If a night is a link to a folder on a different disk, the backup fails and names the link."""
    night = keeper.layout.landing / str(FIRST)
    night.rename(tmp_path / "elsewhere")
    night.symlink_to(tmp_path / "elsewhere")
    assert f"{night} is a link to a folder" in refused(keeper, backup).err


def test_a_broken_link_stops_the_backup(keeper: Keeper, backup: Path) -> None:
    """A broken link stops the backup, because its content cannot be read."""
    (keeper.home / "reconcile" / "inbox" / "late.csv").symlink_to("nowhere")
    assert "late.csv is not a file that can be backed up" in refused(keeper, backup).err


def test_a_backup_contains_the_files_behind_links(keeper: Keeper, tmp_path: Path) -> None:
    """If the landing folder and a ledger are links, the backup contains their files."""
    ledger, landing = inbox(keeper), keeper.layout.landing
    for path in (ledger, landing):
        path.rename(tmp_path / path.name)
        path.symlink_to(tmp_path / path.name)
    os.link(tmp_path / ledger.name, ledger.with_name("twin.csv"))
    assert keeper("backup", str(tmp_path / "book.tar")).code == 0
    expected = kept(tmp_path) | kept(keeper.home)
    assert "reconcile/inbox/ledger.csv" in expected
    assert held(tmp_path / "book.tar") == expected


@pytest.mark.torture
@pytest.mark.parametrize("is_there", [True, False])
def test_a_backup_that_lacks_nights_does_not_replace_the_old_one(
    keeper: Keeper, backup: Path, *, is_there: bool
) -> None:
    """If landing lacks nights that the lake or warehouse contains, the old backup is kept."""
    shutil.rmtree(keeper.layout.landing)
    if is_there:
        keeper.layout.landing.mkdir()
    said = refused(keeper, backup)
    assert f"/landing: {FIRST:%Y%m%d}T021500Z" in said.err
    assert "Check that the disk with that folder is mounted" in said.err


def test_a_home_without_nights_gets_no_backup(shown: Sandbox, backup: Path, tmp_path: Path) -> None:
    """For a home without nights, or a mistyped home, no backup is written and no home created."""
    keeper = Keeper(tmp_path / "mistyped", shown)
    assert "no nightbook home at" in keeper("backup", str(backup)).err
    assert not keeper.home.exists()
    (keeper.home / "landing").mkdir(parents=True)
    assert "mistyped has no landed night" in refused(keeper, backup, 2).err


@pytest.mark.torture
@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("", "'' is not a file name"),
        (".", "is a folder"),
        ("landing/book.tar", "is in landing/"),
        ("alerts/told.json/book.tar", "told.json is a file"),
        ("pipe", "is not a regular file"),
    ],
)
def test_a_path_that_cannot_be_a_backup_is_rejected(keeper: Keeper, name: str, found: str) -> None:
    """A path that cannot be a backup is rejected with a message, and nothing is written."""
    os.mkfifo(keeper.home / "pipe")
    before = sorted(keeper.home.rglob("*"))
    said = keeper("backup", str(keeper.home / name) if name else name)
    assert (said.code, said.out) == (2, "")
    assert found in said.err
    assert "No backup was written" in said.err
    assert sorted(keeper.home.rglob("*")) == before
    assert (keeper.home / "pipe").is_fifo()


def test_a_damaged_backup_does_not_replace_a_good_one(
    keeper: Keeper, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup that differs when it is read back does not replace a good backup."""

    def harmed(tar: tarfile.TarFile, entry: tarfile.TarInfo, body: IO[bytes]) -> None:
        ADD(tar, entry, io.BytesIO(body.read(entry.size)[:-1] + b"?"))

    monkeypatch.setattr("tarfile.TarFile.addfile", harmed)
    assert "was read back and found to be damaged" in refused(keeper, backup).err


def test_a_backup_contains_the_bytes_that_were_read(
    keeper: Keeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a ledger is saved while a backup runs, the backup contains the bytes that were read."""
    before = kept(keeper.home)

    def saved(tar: tarfile.TarFile, entry: tarfile.TarInfo, body: IO[bytes]) -> None:
        ADD(tar, entry, body)
        if entry.name.startswith("reconcile/inbox/"):
            (keeper.home / entry.name).write_text("another ledger")

    monkeypatch.setattr("tarfile.TarFile.addfile", saved)
    said = keeper("backup", str(tmp_path / "book.tar"))
    assert said.code == 0, said.err
    assert held(tmp_path / "book.tar") == before
    assert kept(keeper.home) != before


@pytest.mark.torture
def test_files_of_an_alert_check_do_not_prevent_a_restore(keeper: Keeper, backup: Path) -> None:
    """Files left by a check for alerts, and empty folders, do not prevent a restore."""
    before = kept(keeper.home)
    shutil.rmtree(keeper.home)
    for name in ("alerts/lock", "alerts/told.json", "metrics/nightbook.prom"):
        (keeper.home / name).parent.mkdir(parents=True, exist_ok=True)
        (keeper.home / name).write_text("")
    for name in ("landing/2026-03-02", "reconcile/inbox"):
        (keeper.home / name).mkdir(parents=True)
    said = keeper("restore", str(backup))
    assert said.code == 0, said.err
    assert kept(keeper.home) == before
    assert (keeper.home / "alerts" / "lock").exists()
    assert keeper("verify").code == 0


@pytest.mark.torture
@pytest.mark.parametrize("moved", [0, 1, 2])
def test_a_killed_restore_can_be_repeated(
    keeper: Keeper, backup: Path, monkeypatch: pytest.MonkeyPatch, moved: int
) -> None:
    """A restore that was killed before or between its moves leaves no night and can be repeated."""
    before, left, rename = kept(keeper.home), [None] * moved, Path.rename
    shutil.rmtree(keeper.home)

    def dying(path: Path, target: Path) -> Path:
        if not left:
            raise KeyboardInterrupt
        left.pop()
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.rename", dying)
        with pytest.raises(KeyboardInterrupt):
            keeper("restore", str(backup))
    assert not keeper.layout.landing.exists()
    if moved == 2:  # Reading the home left a hidden cache.
        (keeper.home / "reconcile" / ".published").mkdir()
        (keeper.home / "reconcile" / ".published" / "seen.json").write_text("{}")
    said = keeper("restore", str(backup))
    assert said.code == 0, said.err
    assert kept(keeper.home) == before
    assert keeper("verify").code == 0


def test_a_restore_killed_during_its_rebuild_can_be_repeated(
    keeper: Keeper, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a restore was killed while it rebuilt the lake, the same command completes it."""
    before = kept(keeper.home)
    shutil.rmtree(keeper.home)

    def dying(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("assets.commands.backup.rebuild", dying)
        with pytest.raises(KeyboardInterrupt):
            keeper("restore", str(backup))
    assert keeper.layout.landing.exists()
    assert not keeper.layout.database.exists()
    said = keeper("restore", str(backup))
    assert said.code == 0, said.err
    assert kept(keeper.home) == before
    assert keeper("verify").code == 0


def test_a_rejected_restore_creates_no_home(keeper: Keeper, backup: Path) -> None:
    """A truncated backup creates no folder, so that the right one can be restored there."""
    shutil.rmtree(keeper.home)
    cut = backup.with_name("cut.tar")
    cut.write_bytes(backup.read_bytes()[:50_000])
    assert keeper("restore", str(cut)).code == 1
    assert not keeper.home.exists()


@pytest.mark.parametrize("is_cut", [True, False])
def test_a_rejected_restore_does_not_change_a_folder(
    keeper: Keeper, backup: Path, tmp_path: Path, *, is_cut: bool
) -> None:
    """A rejected restore leaves an existing folder, such as a mounted volume, unchanged."""
    other = replace(keeper, home=tmp_path / "volume")
    other.home.mkdir()
    if is_cut:
        backup.write_bytes(backup.read_bytes()[:-20_000])
    else:
        (other.home / "landing" / "2026-01-01").mkdir(parents=True)
        (other.home / "landing" / "2026-01-01" / "note").write_text("mine")
    before = sorted(other.home.rglob("*"))
    assert other("restore", str(backup)).code == 1
    assert sorted(other.home.rglob("*")) == before


def test_a_restore_does_not_overwrite_a_reconciliation(keeper: Keeper, backup: Path) -> None:
    """A restore does not overwrite a reconciliation that differs from the one in the backup."""
    shutil.rmtree(keeper.layout.landing)
    inbox(keeper).write_text("another ledger")
    before = kept(keeper.home)
    said = keeper("restore", str(backup))
    assert (said.code, said.out) == (1, "")
    assert "already has reconcile" in said.err
    assert kept(keeper.home) == before


def test_a_backup_without_nights_restores_nothing(shown: Sandbox, tmp_path: Path) -> None:
    """A backup without nights is rejected with a message."""
    keeper = Keeper(tmp_path / "new", shown)
    with tarfile.open(tmp_path / "empty.tar", "w") as tar:
        entry = tarfile.TarInfo("digests.json")
        entry.size = 2
        tar.addfile(entry, io.BytesIO(b"{}"))
    said = keeper("restore", str(tmp_path / "empty.tar"))
    assert (said.code, said.out) == (1, "")
    assert "it contains no nights. Nothing was restored" in said.err


def test_a_file_that_is_not_an_archive_has_one_reason() -> None:
    """The error for a file that is not an archive does not list every compression method."""
    with pytest.raises(NotWhole, match=r"^it cannot be read \(file could not be opened [a-z]+\)$"):
        check_backup(io.BytesIO(b"portfolio,label\n"))
