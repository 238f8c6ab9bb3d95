"""Tests of errors in all commands: no home, an unreadable home, a full or a read-only disk."""

import contextlib
import importlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from assets import commands
from assets.runs.instance import open_instance
from tests.support.commands import EVERY_COMMAND
from tests.support.operator_home import THIRD, Keeper, Sandbox
from tests.support.shared import some_daily
from warehouse.database import versions
from warehouse.storage.layout import Layout, make_directory

NOBODY = 65534
WORDS = {
    "accept": ("20260303T021500Z",),
    "reject": ("20260303T021500Z",),
    "query": ("select 1",),
    "backup": ("book.tar",),
    "prune": ("--keep", "1"),
    "reconcile close": ("2026-03",),
    "reconcile preview": ("ledger.csv",),
    "reconcile setup": ("ledger.csv",),
    "reconcile history": ("B-12345678",),
    "reference init": ("prices", "--quote", "USD"),
    "reference import": ("old.xlsx", "--as-of", "2025-12-31"),
    "trace": ("--portfolio", "p", "--asset", "BTC"),
}
OF_A_HOME = [
    *(
        (*name.split(), *WORDS.get(name, ()))
        for name, command in EVERY_COMMAND.items()
        if command.needs_home
    ),
    ("reconcile", "verify", "recon.xlsx"),
]
WRITING = [
    ("reject", "20260305T021500Z", "--why", "a test"),
    ("export",),
    ("prune", "--keep", "1"),
    ("rebuild",),
    ("reconcile", "init"),
    ("report",),
    ("run", "--date", "2026-03-05"),
]
SETTLING = [("reconcile", "run"), ("reconcile", "setup", "ledger.csv")]
LATER = {"reject", "prune"}  # Separate tests cover these.
is_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


@contextlib.contextmanager
def acting_as(user: int) -> Iterator[None]:
    """Act as a different user for the file system, with that user's rights and without groups."""
    before, groups = os.geteuid(), os.getgroups()
    os.setgroups([])
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(before)
        os.setgroups(groups)


@contextlib.contextmanager
def disk(place: Path, *options: str) -> Iterator[None]:
    """Mount a small temporary disk at a folder. Skip the test if this machine does not allow it."""
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", ",".join(options), "none", str(place)],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("no disk can be made here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def open_to_all(place: Path) -> None:
    """Give every user access to pytest's folders, including the folder of an xdist worker."""
    for folder in place.parents:
        if folder.name.startswith(("popen-", "pytest-")):
            folder.chmod(0o755)


@pytest.mark.parametrize("words", OF_A_HOME, ids=" ".join)
@pytest.mark.parametrize("kind", ["missing", "empty", "foreign", "a file"])
def test_every_command_rejects_a_folder_that_is_not_a_home(
    words: tuple[str, ...], kind: str, api: Sandbox, tmp_path: Path
) -> None:
    """If a folder is not a home, every command rejects it, names it and creates nothing."""
    home = tmp_path / "home"
    if kind in {"empty", "foreign"}:
        home.mkdir()
    if kind == "foreign":
        (home / "holiday.jpg").write_bytes(b"no night")
    if kind == "a file":
        home.write_bytes(b"no folder")
    before = sorted(tmp_path.rglob("*"))
    said = Keeper(home, api)(*words)
    assert said.code == 2
    assert f"There is no nightbook home at {home}" in said.err
    assert "Nothing was done" in said.err
    assert said.out == ""
    assert sorted(tmp_path.rglob("*")) == before


@is_root
@pytest.mark.parametrize("words", [*OF_A_HOME, ("doctor",), ("run",), ("dev",)], ids=" ".join)
def test_every_command_names_an_unreadable_home(
    words: tuple[str, ...], api: Sandbox, tmp_path: Path
) -> None:
    """If a home is unreadable, every command names it and reports no unexpected error."""
    home = tmp_path / "home"
    (home / "landing").mkdir(parents=True)
    tmp_path.chmod(0o755)
    home.chmod(0o700)
    open_to_all(tmp_path)
    keeper = Keeper(home, api)
    for module in Path(commands.__path__[0]).glob("*.py"):  # The other user cannot load them.
        importlib.import_module(f"assets.commands.{module.stem}")
    with acting_as(NOBODY):
        said = keeper(*words)
    assert said.code != 0
    assert str(home) in said.out + said.err
    assert "unexpected error" not in said.out + said.err
    assert any(
        one in said.out + said.err for one in ("cannot read or write", "belongs to", "written")
    )


@is_root
@pytest.mark.parametrize(
    "words",
    [*WRITING, ("run",), ("accept", "20260305T021500Z"), *SETTLING, ("dev",)],
    ids=" ".join,
)
def test_only_the_owner_of_a_home_may_write(
    words: tuple[str, ...], api: Sandbox, tmp_path: Path
) -> None:
    """A command that writes is rejected if the user does not own the home, before it writes.

    Files that root writes into a service's home would stop the service's nights.
    """
    home = tmp_path / "home"
    (home / "landing").mkdir(parents=True)
    for path in (home, home / "landing"):
        os.chown(path, NOBODY, NOBODY)
    said = Keeper(home, api)(*words)
    assert said.code == 2
    assert f"{home} belongs to nobody, and you are root" in said.err
    assert "nothing was written" in said.err
    assert sorted(home.rglob("*")) == [home / "landing"]


@is_root
@pytest.mark.parametrize("words", [("status",), ("snapshots",), ("verify",), ("query", "select 1")])
def test_a_different_user_may_read_a_home(words: tuple[str, ...], copied: Keeper) -> None:
    """A different user may run commands that only read, and they leave no files in the home."""
    for path in (copied.home, *copied.home.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    before = sorted(copied.home.rglob("*"))
    assert copied(*words).code in {0, 1}
    assert sorted(copied.home.rglob("*")) == before


def fill(file: Path) -> None:
    """Fill the disk on which the file is, until no byte is free."""
    with file.open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while filler.write(b"\0" * 65536):
            pass


@is_root
@pytest.mark.parametrize(
    "words", some_daily([(words,) for words in WRITING if words[0] not in LATER], 2), ids=" ".join
)
def test_writing_commands_report_a_full_disk(
    words: tuple[str, ...], nights: Keeper, api: Sandbox, tmp_path: Path
) -> None:
    """On a full disk, commands that write say so, and the book can still be read."""
    with disk(tmp_path / "disk", "size=64m"):
        home = tmp_path / "disk" / "home"
        shutil.copytree(nights.home, home, symlinks=True)
        with (
            (tmp_path / "disk" / "filler").open("wb", buffering=0) as filler,
            contextlib.suppress(OSError),
        ):
            while filler.write(b"\0" * 65536):
                pass
        said = Keeper(home, api)(*words)
        if words[0] == "prune":
            assert said.code == 0, said.err
            return
        assert said.code == 1, said.out + said.err
        assert "is full" in said.err
        assert "unexpected error" not in said.err
        assert Keeper(home, api)("query", "select count(*) from balances").code == 0


@is_root
@pytest.mark.parametrize("words", WRITING, ids=" ".join)
def test_writing_commands_report_a_read_only_disk(
    words: tuple[str, ...], nights: Keeper, api: Sandbox, tmp_path: Path
) -> None:
    """On a read-only disk, commands that write say so, and a backup can still be written."""
    with disk(tmp_path / "disk", "size=64m"):
        home = tmp_path / "disk" / "home"
        shutil.copytree(nights.home, home, symlinks=True)
        subprocess.run(["mount", "-o", "remount,ro", str(tmp_path / "disk")], check=True)
        keeper = Keeper(home, api)
        said = keeper(*words)
        assert said.code in {1, 2}, said.out + said.err
        assert str(home) in said.err
        assert "Read-only file system" in said.err or "read-only disk" in said.err
        assert "unexpected error" not in said.err
        said = keeper("backup", str(tmp_path / "book.tar"))
        assert (said.code, said.err) == (0, "")


@is_root
def test_prune_frees_a_full_disk(nights: Keeper, api: Sandbox, tmp_path: Path) -> None:
    """On a full disk, `prune` first deletes old versions and old nights, and then publishes."""
    with disk(tmp_path / "disk", "size=64m"):
        home = tmp_path / "disk" / "home"
        shutil.copytree(nights.home, home, symlinks=True)
        fill(tmp_path / "disk" / "filler")
        keeper = Keeper(home, api)
        dry = keeper("prune", "--keep", "1", "--no-month-ends", "--dry-run")
        assert dry.code == 0, dry.err
        assert "of the warehouse to delete" in dry.out
        assert len(versions.older(keeper.layout)) == 2
        said = keeper("prune", "--keep", "1", "--no-month-ends")
        assert said.code == 0, said.err
        assert "2 old versions of the warehouse deleted" in said.out
        assert "2 nights deleted" in said.out
        assert keeper.ask("select distinct snapshot_date from history.balances") == [(THIRD,)]
        assert keeper("verify").code == 0


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe"])
def test_a_restore_needs_a_regular_file(kind: str, api: Sandbox, tmp_path: Path) -> None:
    """Restoring from a path that is not a regular file fails at once and creates no home."""
    place = tmp_path / "book.tar"
    if kind == "folder":
        place.mkdir()
    if kind == "pipe":
        os.mkfifo(place)
    keeper = Keeper(tmp_path / "home", api)
    said = keeper("restore", str(place))
    assert said.code == 2
    assert f"{place} {'does not exist' if kind == 'missing' else 'is '}" in said.err
    assert "Nothing was restored" in said.err
    assert not keeper.home.exists()


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_other_users_cannot_read_the_files_of_dagster(umask: int, tmp_path: Path) -> None:
    """Dagster's files in a home have mode 0640, and its folders 0750, whatever the umask."""
    layout, before = Layout(tmp_path / "home"), os.umask(umask)
    try:
        make_directory(layout.dagster)
        with open_instance(layout) as instance:
            assert instance.get_runs() == []
            found = [path for path in layout.dagster.rglob("*") if not path.is_symlink()]
            assert {path.stat().st_mode & 0o777 for path in found if path.is_file()} == {0o640}
            below = {path.stat().st_mode & 0o777 for path in found if path.is_dir()}
            assert below <= {0o750}
    finally:
        os.umask(before)
