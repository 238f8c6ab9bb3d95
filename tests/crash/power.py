"""Disks as a power cut leaves them, which are made from the log of an undisturbed run.

Until a file is fsynced, its bytes may be lost, zeroed or cut. Until a folder is fsynced, changes of
its entries may be lost, even an earlier change if a later one is kept.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENTRIES = ("create", "open", "mkdir", "rename", "unlink", "rmdir", "symlink", "link")
VARIANTS = ("lost", "zeroed", "cut", "entries lost", "first entry lost", "all lost")
TO_FILES = ("lost", "zeroed", "cut", "all lost")
NOTHING = "nothing lost"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the log: kind, paths below the home, an offset, size or mode, and bytes."""

    kind: str
    path: str
    other: str
    at: int
    data: bytes

    @property
    def folder(self) -> str:
        """The folder whose entries the call changes."""
        return os.path.dirname(self.other if self.kind in ("rename", "link") else self.path)  # noqa: PTH120 - "" is the home itself


def calls(log: Path) -> list[Call]:
    """Return the calls of a log, in order."""
    return list(_calls(log.read_bytes()))


def _calls(raw: bytes) -> Iterator[Call]:
    start = 0
    while start < len(raw):
        end = raw.index(b"\n", start)
        kind, path, other, at, size = raw[start:end].decode().split("\t")
        data = raw[end + 1 : end + 1 + int(size)]
        yield Call(kind, path.rstrip("/"), other, int(at), data)
        start = end + 1 + int(size)


def unsynced(made: list[Call]) -> tuple[set[int], dict[str, int]]:
    """Return the changes of entries that may not be on disk, and dirty files' sizes on disk.

    Files have the names that they have after the last call.
    """
    pending: dict[int, str] = {}
    dirty: dict[str, int] = {}
    for number, call in enumerate(made):
        if call.kind == "sync":
            dirty.pop(call.path, None)
            pending = {one: folder for one, folder in pending.items() if folder != call.path}
        elif call.kind in ENTRIES:
            pending[number] = call.folder
        if call.kind == "create":
            dirty[call.path] = 0
        elif call.kind in ("write", "truncate"):
            dirty.setdefault(call.path, call.at)
        elif call.kind == "rename":
            moved = {
                path: call.other + path.removeprefix(call.path)
                for path in dirty
                if path == call.path or path.startswith(f"{call.path}/")
            }
            dirty = {moved.get(path, path): size for path, size in dirty.items()}
        elif call.kind == "unlink":
            dirty.pop(call.path, None)
    return set(pending), dirty


def variants(pending: set[int], dirty: dict[str, int]) -> list[str]:
    """Return the ways in which data may be lost."""
    found = []
    for variant in VARIANTS:
        about_entries = "entr" in variant
        if (pending if about_entries else dirty) and (variant != "all lost" or pending):
            found.append(variant)
    return found


def states(made: list[Call]) -> Iterator[tuple[int, str]]:
    """Yield the length of each prefix of the calls, with each way to lose unsynced data."""
    for length in range(1, len(made) + 1):
        for variant in variants(*unsynced(made[:length])):
            yield length, variant


def skipped(pending: set[int], how: str) -> set[int]:
    """Return the changes of entries that are lost."""
    if how in ("entries lost", "all lost"):
        return pending
    return {min(pending)} if how == "first entry lost" else set()


def replay(start: Path, home: Path, log: Path, variant: tuple[int, str]) -> None:
    """Make the home as it is after a power cut."""
    length, how = variant
    made = calls(log)[:length]
    pending, dirty = unsynced(made)
    gone = skipped(pending, how)
    shutil.copytree(start, home, symlinks=True)
    for number, call in enumerate(made):
        if number not in gone:
            with contextlib.suppress(OSError):  # its folder or file was lost with an entry
                _DO[call.kind](home, call)
    if how in TO_FILES:
        for path, size in dirty.items():
            _lose(home / path, size, how)


def kept(size: int, whole: int, how: str) -> int:
    """Return the number of bytes that remain of a file, if `size` of `whole` bytes are on disk."""
    return size if how != "cut" else (size + whole) // 2


def _lose(path: Path, size: int, how: str) -> None:
    if not path.is_file():
        return
    mode = path.stat().st_mode
    path.chmod(0o640)
    whole = path.stat().st_size
    os.truncate(path, min(kept(size, whole, how), whole))
    if how == "zeroed":
        os.truncate(path, whole)
    path.chmod(mode)


def _create(home: Path, call: Call) -> None:
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if call.kind == "create" else 0)
    os.close(os.open(home / call.path, flags, call.at))


def _write(home: Path, call: Call) -> None:
    descriptor = os.open(home / call.path, os.O_WRONLY)
    with contextlib.closing(os.fdopen(descriptor, "wb")) as file:
        file.seek(call.at)
        file.write(call.data)


def _nothing(_home: Path, _call: Call) -> None:
    """Do nothing, because an fsync has no visible effect."""


_DO: dict[str, Callable[[Path, Call], Any]] = {
    "create": _create,
    "open": _create,
    "write": _write,
    "truncate": lambda home, call: os.truncate(home / call.path, call.at),
    "mode": lambda home, call: (home / call.path).chmod(call.at),
    "mkdir": lambda home, call: (home / call.path).mkdir(call.at),
    "rmdir": lambda home, call: (home / call.path).rmdir(),
    "unlink": lambda home, call: (home / call.path).unlink(),
    "rename": lambda home, call: (home / call.path).rename(home / call.other),
    "symlink": lambda home, call: (home / call.path).symlink_to(call.other),
    "link": lambda home, call: (home / call.other).hardlink_to(home / call.path),
    "sync": _nothing,
}
