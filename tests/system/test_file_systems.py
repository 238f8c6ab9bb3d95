"""Tests of homes on limited file systems: `doctor` and the first run say what the disk lacks."""

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines.landing.snapshots import landed_snapshots
from tests.support.created_home import created_home
from tests.support.operator_home import FIRST, SECOND, Keeper, Sandbox
from warehouse.storage.probe import probe

Patch = Callable[[pytest.MonkeyPatch], None]


def refusing(number: int) -> Callable[..., Any]:
    """Return a system call that the file system refuses."""

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    return refuse


def without_links(patch: pytest.MonkeyPatch) -> None:
    """Refuse symbolic links, as SMB does."""
    patch.setattr(os, "symlink", refusing(errno.EOPNOTSUPP))


def without_links_for_this_user(patch: pytest.MonkeyPatch) -> None:
    """Refuse symbolic links, as FAT does."""
    patch.setattr(os, "symlink", refusing(errno.EPERM))


def without_locks(patch: pytest.MonkeyPatch) -> None:
    """Refuse locks, as NFS does without its lock service."""
    patch.setattr(fcntl, "flock", refusing(errno.ENOLCK))


def with_locks_of_no_effect(patch: pytest.MonkeyPatch) -> None:
    """Grant every lock, as some file systems do."""
    patch.setattr(fcntl, "flock", lambda *_: None)


def without_renames(patch: pytest.MonkeyPatch) -> None:
    """Refuse to replace a file that exists."""
    really = os.rename

    def replace(source: Any, target: Any) -> None:
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        really(source, target)

    patch.setattr(os, "replace", replace)


def without_modes(patch: pytest.MonkeyPatch) -> None:
    """Refuse to change a mode, as SMB and FAT do."""
    for name in ("chmod", "fchmod"):
        patch.setattr(os, name, refusing(errno.EPERM))


def without_flushes(patch: pytest.MonkeyPatch) -> None:
    """Refuse to flush a folder, as some FUSE file systems do."""
    really = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        really(descriptor)

    patch.setattr(os, "fsync", fsync)


NEEDED: dict[Patch, str] = {
    without_links: "no symbolic links",
    without_links_for_this_user: "no symbolic links",
    without_locks: "no file locks",
    with_locks_of_no_effect: "no file locks",
    without_renames: "cannot be replaced by a rename",
}
TOLERABLE: dict[Patch, str] = {
    without_modes: "no file modes",
    without_flushes: "folders cannot be flushed",
}


def test_a_good_file_system_lacks_nothing(tmp_path: Path) -> None:
    """The probe finds no problem on a usual disk, and leaves no files behind."""
    assert probe(tmp_path) == ()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("limit", NEEDED, ids=lambda limit: limit.__name__)
def test_the_first_run_refuses_an_unsuitable_disk(
    limit: Patch, shown: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first night, a run names what the file system lacks, and reads nothing."""
    keeper = Keeper(created_home(tmp_path / "home"), shown)
    shown.clock.night(FIRST)
    shown.show("500")  # a request would cause a different message
    with monkeypatch.context() as patch:
        limit(patch)
        ran, looked = keeper("run"), keeper("doctor")
    shown.show()
    assert ran.code != 0
    assert NEEDED[limit] in ran.err
    assert "unexpected error" not in ran.err
    assert landed_snapshots(keeper.layout) == []
    assert f"✗ disk       The file system of {keeper.home} cannot be used" in looked.out
    assert NEEDED[limit] in looked.out
    assert looked.code == 1


@pytest.mark.parametrize("limit", TOLERABLE, ids=lambda limit: limit.__name__)
def test_nights_work_without_modes_and_flushes(
    limit: Patch, shown: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two nights are published on a limited file system, and `doctor` prints a warning."""
    keeper = Keeper(tmp_path / "home", shown)
    with monkeypatch.context() as patch:
        limit(patch)
        for day in (FIRST, SECOND):
            said = keeper.run(day)
            assert said.code == 0, said.err
        looked = keeper("doctor")
    assert f"! disk       the file system of {keeper.home} is limited" in looked.out
    assert TOLERABLE[limit] in looked.out


def test_a_command_without_locks_says_so(
    shown: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands that only read work without locks, and those that write name the reason."""
    keeper = Keeper(tmp_path / "home", shown)
    assert keeper.run(FIRST).code == 0
    with monkeypatch.context() as patch:
        without_locks(patch)
        assert "unexpected error" not in keeper("status").err
        said = keeper("rebuild")
    assert said.code == 2
    assert f"The file system of {keeper.home} has no file locks" in said.err
