"""Restore: put a backup into an empty home. If it is interrupted, run it again to continue."""

import contextlib
import os
import shlex
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from assets.console.invocation import program
from assets.home.backup import (
    FILES,
    FOLDERS,
    LANDING,
    TOLD,
    BackupSummary,
    HashingReader,
    NotWhole,
    check_backup,
    open_entry,
)
from warehouse.storage.firm import FIRM
from warehouse.storage.layout import (
    Layout,
    digest_of,
    make_directory,
    sync_directory,
    written_aside,
)

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
    _require_nights(digests)
    _require_free(layout, source, digests)
    return digests


def _require_nights(digests: Mapping[str, str]) -> None:
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
