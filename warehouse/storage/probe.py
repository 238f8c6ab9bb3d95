"""A probe of a folder's file system: whether it can do everything that a home needs.

The probe needs a few milliseconds, and leaves nothing behind.
"""

import contextlib
import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from warehouse.storage.layout import FILE_MODE, PUBLISHED_MODE

# These errors are about the disk, not about the abilities of its file system.
_OF_THE_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})


@dataclass(frozen=True, slots=True)
class Inability:
    """Something that a file system cannot do. If it is tolerable, nights work without it."""

    ability: str
    effect: str
    is_tolerable: bool
    reason: str

    def __str__(self) -> str:
        return f"{self.ability} ({self.reason}), {self.effect}"


class UnsuitableFileSystem(Exception):
    """The file system of a home cannot do what nights need."""

    exit_code = 2

    def __init__(self, home: Path, inabilities: tuple[Inability, ...]) -> None:
        super().__init__(
            f"The file system of {home} cannot be used for a home: "
            f"{'; '.join(map(str, inabilities))}. Nothing was read. Network disks (SMB, some NFS) "
            "and USB disks (FAT, exFAT) often lack these abilities. Choose a folder on a disk of "
            "this machine with NIGHTBOOK_HOME or --home."
        )


def probe(folder: Path) -> tuple[Inability, ...]:
    """Return what the file system of a folder cannot do.

    Raises `OSError` if the folder cannot be written to, or if the disk is full or has failed.
    """
    found = []
    with tempfile.TemporaryDirectory(prefix=".probe-", dir=folder) as name:
        for check, ability, effect, is_tolerable in _CHECKS:
            reason = _reason(check, Path(name))
            if reason:
                found.append(Inability(ability, effect, is_tolerable, reason))
    return tuple(found)


def require_file_system(folder: Path) -> None:
    """Raise `UnsuitableFileSystem` if nights would fail on the file system of a folder."""
    needed = tuple(inability for inability in probe(folder) if not inability.is_tolerable)
    if needed:
        raise UnsuitableFileSystem(folder, needed)


def _reason(check: Callable[[Path], str], folder: Path) -> str:
    """Return why a check failed, or an empty string."""
    try:
        return check(folder)
    except OSError as error:
        if error.errno in _OF_THE_DISK:
            raise
        return error.strerror or type(error).__name__


def _link(folder: Path) -> str:
    """Replace a symbolic link, as a publication does."""
    for target in ("old", "new"):
        (folder / ".link").symlink_to(target)
        (folder / ".link").replace(folder / "link")
    return "" if (folder / "link").readlink() == Path("new") else "a link is not replaced"


def _lock(folder: Path) -> str:
    """Lock a file, and check that nobody else can lock it."""
    with (folder / "lock").open("w") as file, (folder / "lock").open("r") as other:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return "a locked file can be locked again"
    return ""


def _rename(folder: Path) -> str:
    """Replace a file."""
    for content in ("old", "new"):
        (folder / ".file").write_text(content, encoding="ascii")
        (folder / ".file").replace(folder / "file")
    is_new = (folder / "file").read_text(encoding="ascii") == "new"
    return "" if is_new else "a file is not replaced"


def _mode(folder: Path) -> str:
    """Change the mode of a file."""
    path = folder / "mode"
    path.touch()
    for mode in (FILE_MODE, PUBLISHED_MODE):
        path.chmod(mode)
        if stat.S_IMODE(path.stat().st_mode) != mode:
            return "the mode does not change"
    return ""


def _flush(folder: Path) -> str:
    """Flush a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return ""


_CHECKS = (
    (_link, "no symbolic links", "so no night could be published", False),
    (_lock, "no file locks", "so two runs could write at the same time", False),
    (_rename, "files cannot be replaced by a rename", "so no file could be written safely", False),
    (_mode, "no file modes", "so the disk's own options decide who can read the book", True),
    (_flush, "folders cannot be flushed", "so a power failure may lose the newest files", True),
)
