"""The disk behind a path: whether it is the same as another, how full it is, why it is read-only.

System errors often have no file name, so the full disk is found by its free space.
"""

import os
import re
import shutil
import tempfile
from pathlib import Path

_QUOTED_PATH = re.compile(r"[\"'](/[^\"'\n]+)[\"']")
MOUNTS = Path("/proc/self/mountinfo")


def path_of(error: BaseException) -> Path | None:
    """Return the path that an error names, as a library's text or as an attribute."""
    if isinstance(error, OSError):
        name = error.filename
        # A number is a file descriptor.
        return Path(os.fsdecode(name)) if isinstance(name, str | bytes) and name else None
    found = _QUOTED_PATH.search(str(error))
    return Path(found[1]) if found else None


def full_folder(error: BaseException, home: Path) -> Path:
    """Return the path whose disk is full: the error's, or else the home or the temporary folder."""
    if (named := path_of(error)) is not None:
        return named
    temporary = Path(tempfile.gettempdir())
    if is_same_disk(temporary, home):
        return home
    return min((home, temporary), key=free_bytes)


def is_same_disk(path: Path, other: Path) -> bool:
    """Return whether two paths are on the same disk."""
    return existing(path).stat().st_dev == existing(other).stat().st_dev


def existing(path: Path) -> Path:
    """Return the path, or its nearest folder that exists and can be read."""
    for folder in (path.absolute(), *path.absolute().parents):
        try:
            folder.stat()
        except OSError:
            continue
        return folder
    return Path("/")


def free_bytes(path: Path) -> int:
    """Return how many bytes a user may still write to the disk of a path."""
    return shutil.disk_usage(existing(path)).free


def is_read_only(path: Path) -> bool:
    """Return whether the file system of a path is mounted read-only."""
    return bool(os.statvfs(existing(path)).f_flag & os.ST_RDONLY)


def is_only_mount_read_only(path: Path) -> bool:
    """Return whether a path is read-only for this process, although its disk can be written to.

    systemd (`ProtectSystem`) and containers mount a disk that works a second time, read-only. A
    disk that fails is itself read-only.
    """
    folder, found = existing(path), (-1, "", "")
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return False
    for line in lines:
        fields, _, source = line.partition(" - ")
        point, options = fields.split(" ")[4:6]
        mount = Path(re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), point))
        # A later mount of the same folder hides the earlier one.
        if folder.is_relative_to(mount) and len(mount.parts) >= found[0]:
            found = (len(mount.parts), options, source.split(" ")[-1])
    _, options, of_disk = found
    return "ro" in options.split(",") and "ro" not in of_disk.split(",")
