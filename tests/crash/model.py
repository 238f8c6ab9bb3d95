"""A model of disks after a replay, in which power cuts that leave the same disk are one state.

The model changes names as `power.replay` changes files. The name of a file's content is a digest of
all its changes, so different contents never have the same name. Equal contents may have two names.

The content of half-made files makes no difference, because no program reads them. `peeks` checks
this.
"""

import hashlib
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.crash import power
from tests.crash.power import Call

EMPTY = b"empty"
FOLDER = "folder"
HALF_MADE = re.compile(r"(^|/)\.(.+\.(aside|pulling)|tmp-.+?)(/|$)")


@dataclass(slots=True)
class File:
    """The name of a file's content, its size and its mode."""

    content: bytes
    size: int
    mode: int

    def changed(self, *how: object) -> None:
        """Give the content a new name, which is a digest of the old name and the change."""
        self.content = hashlib.blake2b(self.content + repr(how).encode(), digest_size=16).digest()

    def cut(self, size: int) -> None:
        """Keep only the first `size` bytes."""
        if size == 0:
            self.content = EMPTY
        elif size != self.size:
            self.changed("cut", size)
        self.size = size


Entries = dict[str, File | str]


def listed(home: Path) -> Entries:
    """Return all entries below a folder. Folders and links are strings."""
    found: Entries = {"": FOLDER}
    for path in home.rglob("*"):
        name = str(path.relative_to(home))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_dir():
            found[name] = FOLDER
        else:
            about = path.stat()
            found[name] = File(name.encode(), about.st_size, stat.S_IMODE(about.st_mode))
    return found


def copied(entries: Entries) -> Entries:
    """Return a copy of the entries that can be changed separately."""
    return {
        path: File(one.content, one.size, one.mode) if isinstance(one, File) else one
        for path, one in entries.items()
    }


def name_of(entries: Entries) -> int:
    """Return one number that identifies the whole disk."""
    return hash(
        frozenset(
            (path, one if isinstance(one, str) else _seen(path, one))
            for path, one in entries.items()
        )
    )


def _seen(path: str, file: File) -> object:
    return "half-made" if HALF_MADE.search(path) else (file.content, file.mode)


def half_made(home: Path) -> set[str]:
    """Return the half-made files of a home."""
    names = (str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())
    return {name for name in names if HALF_MADE.search(name)}


def peeks(log: Path, left: set[str]) -> list[str]:
    """Return the half-made files in `left` that a watched run read or renamed to a final name."""
    left, found = set(left), []
    for call in power.calls(log):
        if call.kind in ("create", "unlink"):
            left.discard(call.path)
        elif call.kind in ("open", "read") and call.path in left:
            found.append(call.path)
        elif call.kind == "rename":
            moved = {one for one in left if f"{one}/".startswith(f"{call.path}/")}
            names = {call.other + one.removeprefix(call.path) for one in moved}
            found += [one for one in names if not HALF_MADE.search(one)]
            left = left - moved | names
    return found


def apply(entries: Entries, call: Call) -> None:
    """Apply one call. A call that a real disk would refuse changes nothing."""
    found = entries.get(call.path)
    if call.kind in _TO_A_FILE:
        if isinstance(found, File):
            _TO_A_FILE[call.kind](found, call)
    elif call.kind in ("create", "open", "mkdir", "symlink"):
        _made(entries, call, found)
    elif call.kind in ("unlink", "rmdir"):
        if (found == FOLDER) == (call.kind == "rmdir") and not _below(entries, call.path):
            entries.pop(call.path, None)
    elif call.kind == "rename" and found is not None and call.folder in entries:
        _renamed(entries, call, found)


def _made(entries: Entries, call: Call, found: File | str | None) -> None:
    if found is None and entries.get(call.folder) == FOLDER:
        made = {"mkdir": FOLDER, "symlink": f"-> {call.other}"}.get(call.kind)
        entries[call.path] = made or File(EMPTY, 0, call.at)
    elif call.kind == "create" and isinstance(found, File):
        found.cut(0)


def _renamed(entries: Entries, call: Call, found: File | str) -> None:
    goal = entries.get(call.other)
    if goal is not None and (goal == FOLDER) != (found == FOLDER):
        return
    if goal == FOLDER and _below(entries, call.other):
        return
    for path in [call.path, *_below(entries, call.path)]:
        entries[call.other + path.removeprefix(call.path)] = entries.pop(path)


def _below(entries: Entries, folder: str) -> list[str]:
    return [path for path in entries if path.startswith(f"{folder}/")]


def _written(file: File, call: Call) -> None:
    file.changed("write", call.at, hashlib.blake2b(call.data).digest())
    file.size = max(file.size, call.at + len(call.data))


def _mode(file: File, call: Call) -> None:
    file.mode = call.at


_TO_A_FILE: dict[str, Callable[[File, Call], None]] = {
    "write": _written,
    "truncate": lambda file, call: file.cut(call.at),
    "mode": _mode,
}


def lost(entries: Entries, dirty: dict[str, int], how: str) -> None:
    """Change the files whose bytes were not on disk, as a power cut does."""
    for path, size in dirty.items():
        file = entries.get(path)
        if isinstance(file, File):
            whole = file.size
            file.cut(min(power.kept(size, whole, how), whole))
            if how == "zeroed" and file.size != whole:
                file.changed("zeroed", whole)
                file.size = whole


def cuts(start: Path, made: list[Call]) -> Iterator[tuple[tuple[int, str], int]]:
    """Yield every state that a power cut can leave, and its name.

    The first state after each call is the one in which nothing is lost.
    """
    begun, standing = listed(start), listed(start)
    yield (0, power.NOTHING), name_of(standing)
    for length, call in enumerate(made, 1):
        apply(standing, call)
        yield (length, power.NOTHING), name_of(standing)
        pending, dirty = power.unsynced(made[:length])
        for how in power.variants(pending, dirty):
            skipped = power.skipped(pending, how)
            entries = copied(standing if not skipped else begun)
            if skipped:
                for number, one in enumerate(made[:length]):
                    if number not in skipped:
                        apply(entries, one)
            if how in power.TO_FILES:
                lost(entries, dirty, how)
            yield (length, how), name_of(entries)


def distinct(states: Iterable[tuple[tuple[int, str], int]]) -> list[tuple[int, str]]:
    """Return the cuts that leave a disk that neither a kill nor an earlier cut leaves."""
    listed = list(states)
    known = {name for (_, how), name in listed if how == power.NOTHING}
    found = []
    for variant, name in listed:
        if name not in known:
            known.add(name)
            found.append(variant)
    return found
