"""Tests of disk errors: they name the full disk, and tell a read-only mount from a fault."""

import errno
import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from assets.console import disks
from assets.console.errors import disk_message, helping_command
from pipelines.edge.errors import SpoolFailed

FULL = os.strerror(errno.ENOSPC)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder for temporary files, which seems to be on a separate disk."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))

    def disk_of(path: Path) -> str:
        return path.relative_to(tmp_path).parts[0]

    monkeypatch.setattr(disks, "is_same_disk", lambda a, b: disk_of(a) == disk_of(b))
    return folder


def free(monkeypatch: pytest.MonkeyPatch, **sizes: int) -> None:
    """Let each disk have so many free bytes."""
    monkeypatch.setattr(disks, "free_bytes", lambda path: sizes[path.name])


@pytest.mark.parametrize(
    ("sizes", "full", "command"),
    [({"home": 0, "tmp": 10**9}, "home", "prune"), ({"home": 10**9, "tmp": 0}, "tmp", "doctor")],
)
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, FULL), duckdb.IOException(FULL)])
def test_an_error_without_a_path_names_the_full_disk(
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    *,
    sizes: dict[str, int],
    full: str,
    command: str,
) -> None:
    """The disk with the least free space is named, and `prune` is advised only for the home."""
    home = temporary.parent / "home"
    free(monkeypatch, **sizes)
    message = disk_message(error, home)
    assert message is not None
    assert message.startswith(f"The disk with {temporary.parent / full} is full.")
    assert ("nightbook prune" in message) == (full == "home")
    assert ("set TMPDIR" in message) == (full == "tmp")
    assert helping_command(error, home) == command


@pytest.mark.parametrize("full", ["home", "tmp", "elsewhere"])
def test_an_error_with_a_path_names_its_disk(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    """The path of the system's error, or in the text of a library, decides."""
    home, file = temporary.parent / "home", temporary.parent / full / "night.xlsx"
    free(monkeypatch, home=0, tmp=0)
    for error in (
        OSError(errno.ENOSPC, FULL, str(file)),
        OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), os.fsencode(file)),
        duckdb.IOException(f'IO Error: Could not write file "{file}": {FULL}'),
    ):
        message = disk_message(error, home)
        assert message is not None
        assert message.startswith(f"The disk with {file} is full.")
        assert ("nightbook prune" in message) == (full == "home")
        assert ("set TMPDIR" in message) == (full == "tmp")


@pytest.mark.parametrize(
    "error",
    [
        SpoolFailed("GET /portfolios", FULL),
        ValueError(f"the API answered {FULL}"),
        duckdb.ConversionException(f"Could not convert string '{FULL}' to DECIMAL"),
        sqlite3.ProgrammingError(FULL),
    ],
)
def test_data_that_quotes_a_full_disk_is_not_a_full_disk(error: Exception, tmp_path: Path) -> None:
    """If a text of the API or of a ledger says that a disk is full, ours is not."""
    assert disk_message(error, tmp_path) is None
    assert helping_command(error, tmp_path) != "prune"


MOUNTED = """\
1 0 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
2 1 8:1 / / ro,relatime shared:1 - ext4 /dev/sda1 rw
3 2 8:2 / /srv rw,relatime - ext4 /dev/sdb1 ro,errors=remount-ro
4 2 8:3 / /srv/with\\040space ro - xfs /dev/sdc1 rw
5 2 8:4 / /srv/home rw - xfs /dev/sdd1 rw
"""


@pytest.mark.parametrize(
    ("path", "is_mount"),
    [("/etc", True), ("/srv/x", False), ("/srv/with space/x", True), ("/srv/home/x", False)],
)
def test_a_read_only_mount_is_told_from_a_failing_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: str, *, is_mount: bool
) -> None:
    """The options of the mount and of its disk say whether the disk itself is read-only."""
    (tmp_path / "mountinfo").write_text(MOUNTED, encoding="utf-8")
    monkeypatch.setattr(disks, "MOUNTS", tmp_path / "mountinfo")
    monkeypatch.setattr(disks, "existing", lambda folder: folder)
    assert disks.is_only_mount_read_only(Path(path)) == is_mount
    message = disk_message(OSError(errno.EROFS, "", path), tmp_path)
    assert message is not None
    assert ("ReadWritePaths" in message) == is_mount
    assert ("dmesg" in message) != is_mount


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """Mount a folder a second time, read-only, as systemd and containers do."""
    folder = tmp_path / "mounted"
    folder.mkdir()
    if os.geteuid() or shutil.which("mount") is None:
        pytest.skip("only root can mount")
    made = subprocess.run(["mount", "--bind", folder, folder], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_a_real_read_only_mount_is_recognised(read_only: Path, tmp_path: Path) -> None:
    """The message about a file of a read-only mount names the mount, not a failing disk."""
    assert disks.is_read_only(read_only)
    assert not disks.is_read_only(tmp_path)
    with pytest.raises(OSError, match="Read-only") as caught:
        (read_only / "file").write_bytes(b"")
    message = disk_message(caught.value, tmp_path)
    assert message is not None
    assert message.startswith(f"{read_only / 'file'} is mounted read-only for this process")
