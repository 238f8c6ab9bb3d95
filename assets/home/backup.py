"""Backups of a home: writing, checking and restoring them."""

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
from typing import IO, Any, cast

from assets.console.invocation import program
from pipelines.landing import night_folders
from pipelines.landing.damage import BodiesNotLocal, without_bodies
from pipelines.maintenance import verify
from warehouse.contract.model import and_more
from warehouse.contract.reconciliation import RECORD_FOLDERS
from warehouse.reconcile.record.record import records_of
from warehouse.reconcile.terms import NotReconciled
from warehouse.storage.layout import (
    FILE_MODE,
    Layout,
    digest_of,
    json_bytes,
    make_directory,
    sync_directory,
    written_aside,
)

DIGESTS = "digests.json"  # the list of digests, which is the last file in a backup
LANDING, SENT_ALERTS = "landing", "alerts/told.json"
FOLDERS = (LANDING, *RECORD_FOLDERS.values(), "reference/kept", "checks")
FILES = (SENT_ALERTS, "demo.json")
# Move the nights into the home last, because a restore that was killed can start over as long as
# the home has no nights.
RESTORE_ORDER = (*FILES, *reversed(FOLDERS))
MAX_LIST_BYTES = 512 * 1024 * 1024
CHUNK = 1024 * 1024
MAX_NAMED = 3
NOT_A_BACKUP = (
    *(tarfile.TarError, ValueError, KeyError, AttributeError, TypeError, OSError, EOFError),
)


class NotBackedUp(Exception):
    """The backup was not written. The message gives the problem and the remedy."""

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(
            f"{problem}. No backup was written, and any existing backup is unchanged. {advice}"
        )


class NothingToKeep(NotBackedUp):
    """The home to back up has no nights, so it is probably the wrong home."""

    exit_code = 2

    def __init__(self, layout: Layout) -> None:
        super().__init__(
            f"{layout.home} has no landed nights, so there is nothing to back up",
            "If this is the wrong home, use the right one: nightbook --home DIR backup FILE",
        )


class NoFile(NotBackedUp):
    """A backup cannot be written to the given path."""

    exit_code = 2

    def __init__(self, problem: str) -> None:
        super().__init__(problem, "Choose a different file: nightbook backup FILE")


class NotWhole(Exception):
    """The file is not a complete backup. The message gives the reason."""


class NotRestored(Exception):
    """A backup was not restored, for example because it is damaged or the home is not empty."""


class NoBackup(NotRestored):
    """The path of the backup to restore is not a regular file."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class BackupSummary:
    """The size of a written or restored backup: its number of files and bytes."""

    files: int
    byte_count: int


@dataclass(frozen=True, slots=True)
class HashingReader:
    """A file reader that adds all bytes that it reads to the hash in `digest`."""

    file: IO[bytes]
    digest: Any = field(default_factory=hashlib.sha256)

    def read(self, size: int = CHUNK, /) -> bytes:
        """Read at most `size` bytes."""
        content = self.file.read(size)
        self.digest.update(content)
        return content


def place_for(layout: Layout, text: str) -> Path:
    """Resolve the path of a new backup. Raises `NoFile` if the path is unsuitable."""
    if not text.strip():
        raise NoFile(f"A backup is a file, but {text!r} is not a file name")
    target = Path(text).resolve()
    if target.is_dir():
        raise NoFile(f"{target} is a folder, but a backup is one file")
    if target.exists() and not target.is_file():
        raise NoFile(f"{target} is not a regular file")
    above = next(path for path in target.parents if path.exists())
    if not above.is_dir():
        raise NoFile(f"{above} is a file, so it cannot contain another file")
    for name in FOLDERS:
        if target.is_relative_to((layout.home / name).resolve()):
            raise NoFile(f"{target} is in {name}/, which is itself backed up")
    return target


def require_any(layout: Layout) -> None:
    """Raise `NothingToKeep` if a home is empty. Call this before locking, which creates files."""
    if not any(os.path.lexists(layout.home / name) for name in (*FOLDERS, *FILES)) and not (
        layout.lake.exists() or layout.warehouse.exists()
    ):
        raise NothingToKeep(layout)


def back_up(layout: Layout, target: Path) -> BackupSummary:
    """Write a complete backup, or none at all.

    The caller must hold the home's writer lock. Raises `NothingToKeep` if no night was landed, and
    `NotBackedUp` if a night is missing or a file cannot be read or written.
    """
    # Read the new backup from the disk and check it before it replaces an older backup.
    try:
        _open_record(layout)
        paths = [path for name in (*FOLDERS, *FILES) for path in _files(layout.home / name)]
        _require_nights(layout)
        with written_aside(target) as file:
            digests, size = _pack(layout, paths, file)
            file.flush()
            check_backup(file)
    except NotWhole as error:
        raise NotBackedUp(
            f"The backup {target} was read back and found to be damaged: {error}",
            "The disk or its connection may be failing. Write the backup to a different disk.",
        ) from None
    except OSError as error:
        raise NotBackedUp(
            f"The backup to {target} failed ({error})",
            "Check that every file in the home is readable and that the disk has room.",
        ) from None
    return BackupSummary(len(digests), size)


def _open_record(layout: Layout) -> None:
    """Open the reconciliation record, which migrates old formats and undoes unfinished changes.

    A damaged record is backed up unchanged. `nightbook verify` reports the damage.
    """
    for record in records_of(layout.home):
        with contextlib.suppress(NotReconciled):
            record.days()


def _require_nights(layout: Layout) -> None:
    """Check that the landing folder contains nights, and that no known night is missing from it."""
    if nights := without_bodies(layout):
        raise BodiesNotLocal(nights, "No backup was written")
    missing = [str(night.night) for night in verify.missing_landings(layout)]
    if missing:
        raise NotBackedUp(
            f"The lake or the warehouse contains nights that are missing from {layout.landing}: "
            f"{and_more(missing, MAX_NAMED)}",
            "Check that the disk with that folder is mounted. If it is, restore the missing nights "
            "from an older backup, because the API keeps no history.",
        )
    if next(night_folders.folders(layout), None) is None:
        raise NothingToKeep(layout)


def _files(place: Path) -> Iterator[Path]:
    """Yield the files to back up in a fixed order, skipping a killed run's unfinished files."""
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
                    f"{Path(folder, name)} is a link to a folder, so its files would not be in the "
                    "backup",
                    "Replace the link with the folder itself, or mount the folder there.",
                )
        yield from (_file(Path(folder, name)) for name in sorted(names) if name[0] != ".")


def _file(path: Path) -> Path:
    """Return the path unchanged if it is a regular file or a link to one. Raises `NotBackedUp`."""
    if not path.is_file():
        raise NotBackedUp(
            f"{path} is not a file that can be backed up. It may be a broken link",
            "Check what it is, and move it out of the home.",
        )
    return path


def _raise(error: OSError) -> None:
    raise error


def _pack(layout: Layout, paths: Iterable[Path], file: IO[bytes]) -> tuple[dict[str, str], int]:
    """Write the files, then a list of digests computed from the bytes that were written."""
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
    """Check an open backup against its digests and return them. Raises `NotWhole`."""
    try:
        file.seek(0)
        with tarfile.open(fileobj=file) as tar:
            members = {member.name: member for member in tar.getmembers()}
            digests: dict[str, str] = json.loads(
                open_entry(tar, members[DIGESTS]).read(MAX_LIST_BYTES)
            )
            if members.keys() != {*digests, DIGESTS}:
                raise NotWhole("its file list does not match its contents")
            # Hash every file before unpacking anything. This rejects truncated files, changed
            # bytes, added files, and paths that lead out of the home.
            for name, digest in digests.items():
                if not _is_backup_path(name) or not members[name].isreg():
                    raise NotWhole(f"{name[:80]!r} does not belong in a backup")
                body = cast("Any", open_entry(tar, members[name]))
                if hashlib.file_digest(body, "sha256").hexdigest() != digest:
                    raise NotWhole(f"{name} has changed")
    except NOT_A_BACKUP as error:
        reason = str(error).partition(":\n")[0]  # without the errors of each compression method
        raise NotWhole(f"it cannot be read ({reason})") from None
    return digests


def open_entry(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    """Open an entry in a backup. Raises `KeyError` if it is not a file."""
    body = tar.extractfile(entry)
    if body is None:
        raise KeyError(entry.name)
    return body


def _is_backup_path(name: str) -> bool:
    """Return whether a name belongs in a backup: one of `FILES`, or a path inside `FOLDERS`."""
    path = PurePosixPath(name)
    is_below = any(
        path != PurePosixPath(folder) and path.is_relative_to(folder) for folder in FOLDERS
    )
    return (name in FILES or is_below) and ".." not in path.parts


def require_file(source: Path) -> None:
    """Raise `NoBackup` if a path is not a regular file. Call this before creating a home."""
    if source.is_file():
        return
    problem = "is not a regular file" if source.exists() else "does not exist"
    problem = "is a folder" if source.is_dir() else problem
    raise NoBackup(
        f"{source} {problem}, but a backup is one file, written by `nightbook backup FILE`. "
        "Nothing was restored or created. Give the path of that file: "
        f"{program()} --home NEW restore FILE"
    )


def require_restorable(layout: Layout, source: Path) -> Mapping[str, str]:
    """Check, without writing, that a backup can be restored. Return its digests by file name.

    Raises `NotRestored`.
    """
    with _reading(layout, source) as file:
        return _require_all(layout, source, file)


def restore(layout: Layout, source: Path) -> BackupSummary:
    """Restore a backup into a home without nights, after checking every file.

    The caller must hold the home's writer lock. Raises `NotRestored`.
    """
    aside = layout.work / "restore"
    with _reading(layout, source) as file:
        digests = _require_all(layout, source, file)
        shutil.rmtree(aside, ignore_errors=True)
        try:
            size = _unpack(file, digests, aside)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
    for name in RESTORE_ORDER:
        _move(aside / name, layout.home / name)
    shutil.rmtree(aside, ignore_errors=True)
    return BackupSummary(len(digests), size)


@contextlib.contextmanager
def _reading(layout: Layout, source: Path) -> Iterator[IO[bytes]]:
    """Open a backup for the `with` block, and convert errors in the block to `NotRestored`."""
    try:
        with source.open("rb") as file:
            yield file
    except NotWhole as error:
        raise NotRestored(
            f"{source} is not a complete backup of a home: {error}. Nothing was restored. Use "
            "an older backup, or copy this backup again."
        ) from None
    except OSError as error:
        raise NotRestored(
            f"{source} could not be read or unpacked into {layout.home} ({error}). Nothing was "
            "restored. Check that both are accessible and the disk has room, then try again."
        ) from None


def _require_all(layout: Layout, source: Path, file: IO[bytes]) -> Mapping[str, str]:
    """Return the digests of a backup that is complete and can be restored into the home.

    Raises `NotWhole` or `NotRestored`.
    """
    digests = check_backup(file)
    if not any(name.startswith(f"{LANDING}/") for name in digests):
        raise NotWhole("it contains no nights")
    for name in reversed(RESTORE_ORDER):
        if not _is_free(layout, name, digests):
            raise NotRestored(
                f"{layout.home} already has {name}, which differs from the backup, and backups are "
                "not merged into existing homes. Nothing was changed. Use an empty folder: "
                f"{program()} --home NEW restore {shlex.quote(str(source))}"
            )
    return digests


def _is_free(layout: Layout, name: str, digests: Mapping[str, str]) -> bool:
    """Return whether `name` can be restored without overwriting data in the home."""
    # Empty folders contain no data, and the list of sent alerts may be overwritten. If a file in
    # the home is identical to the file in the backup, an interrupted restore wrote it. This restore
    # continues from there.
    place = layout.home / name
    if name == SENT_ALERTS or not os.path.lexists(place):
        return True
    if place.is_symlink() or place.is_mount():
        return False
    paths = [path for path in (place, *place.rglob("*")) if path.is_symlink() or not path.is_dir()]
    if not paths:
        return True
    if not all(path.is_file() for path in paths):
        return False
    names = {path.relative_to(layout.home): path for path in paths}
    existing = {
        below.as_posix(): digest_of(path)
        for below, path in names.items()
        if not any(part.startswith(".") for part in below.parts)
    }
    return existing == {
        file: digest
        for file, digest in digests.items()
        if file == name or file.startswith(f"{name}/")
    }


def _unpack(file: IO[bytes], digests: Mapping[str, str], aside: Path) -> int:
    """Unpack a checked backup into the folder `aside`. Return the number of bytes written."""
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
                raise NotWhole(f"{name} changed while it was being read")
    return size


def _move(source: Path, target: Path) -> None:
    """Move one file or folder into the home, unless an earlier restore already moved it."""
    if not source.exists():
        return
    make_directory(target.parent)
    # If the target folder contains files, an earlier restore moved them here before it was killed.
    # Remove empty folders, which contain no data but would block the rename.
    if target.is_dir():
        if any(not path.is_dir() for path in target.rglob("*")):
            return
        for folder, _, _ in os.walk(target, topdown=False):
            Path(folder).rmdir()
    source.rename(target)
    sync_directory(target.parent)
