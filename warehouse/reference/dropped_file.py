"""Reading the bytes of a file that a person dropped, whatever it is, without waiting for it."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from warehouse.reference.child import UnusedLine


def display_name(path: Path) -> str:
    """Return a file's name, with escapes for bytes that are not valid UTF-8."""
    return path.name.encode("utf-8", "backslashreplace").decode()


def read_file_bytes(path: Path, endings: Sequence[str], max_bytes: int) -> bytes | UnusedLine:
    """Return the bytes of a regular file, or the reason why it is not read."""
    try:
        before = path.lstat()
        if reason := _refusal(path, before, endings, max_bytes):
            return UnusedLine(*reason)
        # The file may be replaced by a link or a pipe after this look. Opening must not wait.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
            content = file.read(max_bytes + 1)
            after = os.fstat(descriptor)
    except OSError as error:
        return UnusedLine("unreadable", f"it cannot be opened: {error.strerror}")
    if (before.st_mtime_ns, len(content)) != (after.st_mtime_ns, after.st_size):
        return UnusedLine("growing", "it is still being written, and is read at the next publish")
    return content


def _refusal(
    path: Path, status: os.stat_result, endings: Sequence[str], max_bytes: int
) -> tuple[str, str] | None:
    if stat.S_ISLNK(status.st_mode):
        return "link", "links are not read: copy the file itself here"
    if not stat.S_ISREG(status.st_mode):
        return "not_a_file", "it is a folder or a special file, which is not read"
    if path.suffix.lower() not in endings:
        return "wrong_ending", f"only files of these types are read: {', '.join(endings)}"
    if status.st_size > max_bytes:
        size = f"{status.st_size:,} bytes, more than {max_bytes:,}"
        return "too_large", f"it has {size}: split it"
    return None
