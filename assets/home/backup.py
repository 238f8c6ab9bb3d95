"""Backups of a home: write one, check it, and restore a home from it."""

import contextlib
import hashlib
import io
import json
import os
import shlex
import shutil
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

from assets.console.invocation import program
from pipelines.landing import night_folders
from pipelines.maintenance import verify
from pipelines.shelf.shelf_list import without_bodies
from warehouse.contract.model import and_more
from warehouse.storage.firm import FIRM, is_firm
from warehouse.storage.layout import (
    FILE_MODE,
    Layout,
    digest_of,
    json_bytes,
    make_directory,
    sync_directory,
    written_aside,
)

DIGESTS = "digests.json"  # of a backup, its last entry: it lies beside no database
LANDING, TOLD = "landing", "alerts/told.json"
FOLDERS = (LANDING, "reconcile")
FILES = (TOLD, "demo.json", FIRM)
LONGEST_LIST = 512 * 1024 * 1024
CHUNK = 1024 * 1024
NAMED = 3
UNSUITED = (tarfile.TarError, ValueError, KeyError, AttributeError, TypeError, OSError, EOFError)


class NotBackedUp(Exception):
    """A backup was not written: what is in the way, and what to do."""

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(
            f"{problem}. No backup was written, and one that was there stays as it was. {advice}"
        )


class NothingToKeep(NotBackedUp):
    """A home has no night, so it is hardly the one that was meant."""

    exit_code = 2

    def __init__(self, layout: Layout) -> None:
        super().__init__(
            f"{layout.home} holds no landed night, so there is nothing to keep",
            "If that is not the home, name it: nightbook --home DIR backup FILE",
        )


class NoFile(NotBackedUp):
    """What was given is no place for a backup."""

    exit_code = 2

    def __init__(self, problem: str) -> None:
        super().__init__(problem, "Name another file: nightbook backup FILE")


class NotWhole(Exception):
    """A file is not a whole backup; the text says why."""


@dataclass(frozen=True, slots=True)
class BackupSummary:
    """What a backup holds: files and their bytes."""

    files: int
    byte_count: int


@dataclass(frozen=True, slots=True)
class HashingReader:
    """A file that is read once: `digest` is of what was read."""

    file: IO[bytes]
    digest: Any = field(default_factory=hashlib.sha256)

    def read(self, size: int = CHUNK, /) -> bytes:
        """Read on, as files do."""
        content = self.file.read(size)
        self.digest.update(content)
        return content


def place_for(layout: Layout, text: str) -> Path:
    """Return the file to write; raises `NoFile` where a name is of none."""
    if not text.strip():
        raise NoFile(f"A backup is a file, and {text!r} is no name of one")
    target = Path(text).resolve()
    if target.is_dir():
        raise NoFile(f"{target} is a folder, and a backup is one file")
    if target.exists() and not target.is_file():
        raise NoFile(f"{target} is no ordinary file, and a backup is one")
    above = next(path for path in target.parents if path.exists())
    if not above.is_dir():
        raise NoFile(f"{above} is a file, so nothing can lie below it")
    for name in FOLDERS:
        if target.is_relative_to((layout.home / name).resolve()):
            raise NoFile(f"{target} lies in {name}/, which is itself backed up")
    return target


def require_any(layout: Layout) -> None:
    """Raise `NothingToKeep` where a home has nothing in it, before it is so much as locked."""
    if not any(os.path.lexists(layout.home / name) for name in (*FOLDERS, *FILES)) and not (
        layout.lake.exists() or layout.warehouse.exists()
    ):
        raise NothingToKeep(layout)


def back_up(layout: Layout, target: Path) -> BackupSummary:
    """Write a backup, whole or not at all; the caller is the writer of the home.

    Raises `NothingToKeep` where no night is landed, `NotBackedUp` where one is missing or cannot be
    read or written.
    """
    # It is read back before it takes the place of an older one.
    try:
        paths = [path for name in (*FOLDERS, *FILES) for path in _files(layout.home / name)]
        if not is_firm(layout.home):  # the nights of a firm are in the homes of its organisations
            _require_nights(layout)
        with written_aside(target) as file:
            digests, size = _pack(layout, paths, file)
            file.flush()
            check_backup(file)
    except NotWhole as error:
        raise NotBackedUp(
            f"What was written for {target} was read back, and it is not what it should be: "
            f"{error}",
            "That disk or its connection may be failing: write the backup to another one.",
        ) from None
    except OSError as error:
        raise NotBackedUp(
            f"The backup {target} came to a stop ({error})",
            "See that every file of the home can be read, and that there is room for it.",
        ) from None
    return BackupSummary(len(digests), size)


def _require_nights(layout: Layout) -> None:
    """See every night landed of which lake or warehouse tell, with its bodies, and one at least."""
    if away := without_bodies(layout):
        raise verify.BodiesNotLocal(away, "No backup was written")
    missing = [str(night.night) for night in verify.missing_landings(layout)]
    if missing:
        raise NotBackedUp(
            f"Lake or warehouse tell of nights that {layout.landing} does not hold: "
            f"{and_more(missing, NAMED)}",
            "See that the disk of that folder is there. If it is, restore what is gone from an "
            "older backup: the API keeps no history.",
        )
    if next(night_folders.folders(layout), None) is None:
        raise NothingToKeep(layout)


def _files(place: Path) -> Iterator[Path]:
    """Yield the files to keep in fixed order, without what a dead run left half written."""
    if not os.path.lexists(place):
        return
    if not place.is_dir():
        yield _file(place)
        return
    for folder, below, names in os.walk(place, onerror=_raise):
        below[:] = sorted(name for name in below if not name.startswith("."))
        for name in below:
            if Path(folder, name).is_symlink():
                raise NotBackedUp(
                    f"{Path(folder, name)} is a link to a folder, and what lies behind it would "
                    "not be in the backup",
                    "Move that folder to where the link is, or mount it there.",
                )
        yield from (
            _file(Path(folder, name_)) for name_ in sorted(names) if not name_.startswith(".")
        )


def _file(path: Path) -> Path:
    """Return a file that can be kept: itself, or what a link to a file shows."""
    if not path.is_file():
        raise NotBackedUp(
            f"{path} is no file that can be kept: perhaps a link that leads nowhere",
            "Look at it, and move it away.",
        )
    return path


def _raise(error: OSError) -> None:
    raise error


def _pack(layout: Layout, paths: Iterable[Path], file: IO[bytes]) -> tuple[dict[str, str], int]:
    """Write files and the list of their digests; the digests are of what went in."""
    digests: dict[str, str] = {}
    size = 0
    with tarfile.open(fileobj=file, mode="w") as tar:
        for path in paths:
            entry = tarfile.TarInfo(path.relative_to(layout.home).as_posix())
            with path.open("rb") as body:
                status, hashed = os.fstat(body.fileno()), HashingReader(body)
                entry.size, entry.mtime = status.st_size, int(status.st_mtime)
                entry.mode = FILE_MODE
                tar.addfile(entry, hashed)
            digests[entry.name] = hashed.digest.hexdigest()
            size += entry.size
        content = json_bytes(digests)
        entry = tarfile.TarInfo(DIGESTS)
        entry.size, entry.mode = len(content), FILE_MODE
        tar.addfile(entry, io.BytesIO(content))
    return digests, size


def check_backup(file: IO[bytes]) -> dict[str, str]:
    """Return the digests of an open backup, each of them checked; raises `NotWhole`."""
    try:
        file.seek(0)
        with tarfile.open(fileobj=file) as tar:
            members = {member.name: member for member in tar.getmembers()}
            digests: dict[str, str] = json.loads(
                open_entry(tar, members[DIGESTS]).read(LONGEST_LIST)
            )
            if members.keys() != {*digests, DIGESTS}:
                raise NotWhole("its list and its files differ")
            # Each file is read to its end and hashed, so that a cut, a changed byte, an added file
            # and a name that leads out of the home are all refused before anything is unpacked.
            for name, digest in digests.items():
                if not _is_ours(name) or not members[name].isreg():
                    raise NotWhole(f"{name[:80]!r} is no file that a backup has")
                hashed = HashingReader(open_entry(tar, members[name]))
                while hashed.read():
                    pass
                if hashed.digest.hexdigest() != digest:
                    raise NotWhole(f"{name} has changed")
    except UNSUITED as error:
        raise NotWhole(f"it cannot be read ({error})") from None
    return digests


def open_entry(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    """Return what an entry holds; raises `KeyError` where it is no file."""
    body = tar.extractfile(entry)
    if body is None:
        raise KeyError(entry.name)
    return body


def _is_ours(name: str) -> bool:
    """Whether a name is one of the kept files, or stays below a kept folder."""
    path = PurePosixPath(name)
    is_below = any(
        path != PurePosixPath(folder) and path.is_relative_to(folder) for folder in FOLDERS
    )
    return (name in FILES or is_below) and ".." not in path.parts


# The nights come last: as long as they are not there, a restore that died can begin again.
ORDER = (*FILES, *reversed(FOLDERS))


class NotRestored(Exception):
    """A backup is not as it was written, or its place is taken."""


class NoBackup(NotRestored):
    """What was named is no file."""

    exit_code = 2


def require_file(source: Path) -> None:
    """Raise `NoBackup` where no ordinary file is, before a home is made or a pipe waited for."""
    if source.is_file():
        return
    problem = "is no ordinary file" if source.exists() else "is not there"
    problem = "is a folder" if source.is_dir() else problem
    raise NoBackup(
        f"{source} {problem}, and a backup is one file, which `nightbook backup FILE` wrote. "
        "Nothing was restored, and nothing was made. Name that file: "
        f"{program()} --home NEW restore FILE"
    )


def require_restorable(layout: Layout, source: Path) -> Mapping[str, str]:
    """Return the digests of a backup that could be put into a home, by file; nothing is written.

    Raises `NotRestored`.
    """
    with _reading(layout, source) as file:
        return _require_all(layout, source, file)


def restore(layout: Layout, source: Path) -> BackupSummary:
    """Put a backup into a home without nights; everything is checked before anything appears.

    Raises `NotRestored`.
    """
    # The caller is the writer of the home.
    aside = layout.work / "restore"
    with _reading(layout, source) as file:
        digests = _require_all(layout, source, file)
        shutil.rmtree(aside, ignore_errors=True)
        try:
            size = _unpack(file, digests, aside)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
    for name in ORDER:
        _move(aside / name, layout.home / name)
    shutil.rmtree(aside, ignore_errors=True)
    return BackupSummary(len(digests), size)


@contextlib.contextmanager
def _reading(layout: Layout, source: Path) -> Iterator[IO[bytes]]:
    """Open a backup; what is wrong with it or its place is `NotRestored`."""
    try:
        with source.open("rb") as file:
            yield file
    except NotWhole as error:
        raise NotRestored(
            f"{source} is not a whole backup of nightbook: {error}. Nothing was restored. Take an "
            "older backup, or copy this one again from where it is kept."
        ) from None
    except OSError as error:
        raise NotRestored(
            f"{source} could not be read, or not be unpacked in {layout.home} ({error}). Nothing "
            "was restored. See that both can be used and have room, and restore it again."
        ) from None


def _require_all(layout: Layout, source: Path, file: IO[bytes]) -> Mapping[str, str]:
    """Return the digests of a whole backup that fits into a home. Raises as `restore`."""
    digests = check_backup(file)
    _restore_require_nights(digests)
    _require_free(layout, source, digests)
    return digests


def _restore_require_nights(digests: Mapping[str, str]) -> None:
    if FIRM not in digests and not any(name.startswith(f"{LANDING}/") for name in digests):
        raise NotWhole("no night is in it")


def _require_free(layout: Layout, source: Path, digests: Mapping[str, str]) -> None:
    for name in reversed(ORDER):
        if not _is_free(layout, name, digests):
            raise NotRestored(
                f"{layout.home} already holds {name}, which differs from the backup, and a backup "
                "is not mixed with another home. Nothing was changed. Use an empty folder: "
                f"{program()} --home NEW restore {shlex.quote(str(source))}"
            )


def _is_free(layout: Layout, name: str, digests: Mapping[str, str]) -> bool:
    """Whether nothing is lost if `name` of a backup is put into a home."""
    # Empty folders hold nothing, and alerts from before the first night are sent again. If the
    # files are the same, an interrupted restore put them there, and this one continues it.
    place = layout.home / name
    if name == TOLD or not os.path.lexists(place):
        return True
    if place.is_symlink() or place.is_mount():
        return False
    paths = [path for path in (place, *place.rglob("*")) if path.is_symlink() or not path.is_dir()]
    if not paths:
        return True
    if not all(path.is_file() for path in paths):
        return False
    expected = {
        name_: digests[name_] for name_ in digests if name_ == name or name_.startswith(f"{name}/")
    }
    names = {path.relative_to(layout.home): path for path in paths}
    visible = {
        at: path for at, path in names.items() if not any(p.startswith(".") for p in at.parts)
    }
    return {at.as_posix(): digest_of(path) for at, path in visible.items()} == expected


def _unpack(file: IO[bytes], digests: Mapping[str, str], aside: Path) -> int:
    """Write the files of a checked backup aside; how many bytes they are."""
    size = 0
    file.seek(0)
    with tarfile.open(fileobj=file) as tar:
        members = {member.name: member for member in tar.getmembers()}
        for name, digest in digests.items():
            hashed = HashingReader(open_entry(tar, members[name]))
            with written_aside(aside / name) as out:
                shutil.copyfileobj(hashed, out)
                size += out.tell()
            if hashed.digest.hexdigest() != digest:
                raise NotWhole(f"{name} changed while it was read")
    return size


def _move(source: Path, target: Path) -> None:
    """Put one kept place where it belongs, unless an earlier restore already did."""
    if not source.exists():
        return
    make_directory(target.parent)
    # A folder with a file in it was moved here by an earlier restore that died; empty folders are
    # in the way of the rename, and hold nothing.
    if target.is_dir():
        if any(not path.is_dir() for path in target.rglob("*")):
            return
        for folder, _, _ in os.walk(target, topdown=False):
            Path(folder).rmdir()
    source.rename(target)
    sync_directory(target.parent)
