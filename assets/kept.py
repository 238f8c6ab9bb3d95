"""Backup and restore of what cannot be made again: bodies, manifests, decisions, reconciliations.

A backup is one tar file that ends with the SHA-256 of everything in it, so that a cut or changed
one is refused. Lake, warehouse and exports are left out: `nightbook rebuild` makes them again.
"""

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from warehouse.layout import (
    FILE_MODE,
    Layout,
    digest_of,
    json_bytes,
    sync_directory,
    written_aside,
)

DIGESTS = "digests.json"
KEPT = ("landing", "reconcile", "alerts/told.json", "demo.json")
LONGEST_LIST = 512 * 1024 * 1024
CHUNK = 1024 * 1024


class NotRestored(Exception):
    """A backup is not as it was written, or its place is taken."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a backup holds: files and their bytes."""

    files: int
    byte_count: int


def back_up(layout: Layout, target: Path) -> Kept:
    """Write a backup, whole or not at all; the caller is the writer of the home."""
    digests: dict[str, str] = {}
    size = 0
    with written_aside(target) as file, tarfile.open(fileobj=file, mode="w") as tar:
        for path in _worth_keeping(layout):
            name = path.relative_to(layout.home).as_posix()
            tar.add(path, name, recursive=False, filter=_plain)
            digests[name] = digest_of(path)
            size += path.stat().st_size
        content = json_bytes(digests)
        entry = tarfile.TarInfo(DIGESTS)
        entry.size, entry.mode = len(content), FILE_MODE
        tar.addfile(entry, io.BytesIO(content))
    _check(target)
    return Kept(len(digests), size)


def _worth_keeping(layout: Layout) -> Iterator[Path]:
    """Files to keep, in fixed order; what a dead run left half written is not one of them."""
    for name in KEPT:
        place = layout.home / name
        paths = sorted(place.rglob("*")) if place.is_dir() else [place]
        for path in paths:
            parts = path.relative_to(layout.home).parts
            is_left = any(part.startswith(".") for part in parts)
            if path.is_file() and not path.is_symlink() and not is_left:
                yield path


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def restore(layout: Layout, source: Path) -> Kept:
    """Put a backup into a home without nights; everything is checked before anything appears."""
    taken = [name for name in KEPT if (layout.home / name).exists()]
    if taken:
        raise NotRestored(
            f"{layout.home} already holds {taken[0]}, and a backup is not mixed with what is "
            "there. Nothing was changed. Restore into an empty folder: nightbook --home DIR "
            f"restore {source}"
        )
    digests = _check(source)
    aside = layout.home / ".work" / "restore"
    shutil.rmtree(aside, ignore_errors=True)
    size = 0
    with tarfile.open(source) as tar:
        for name in digests:
            with _opened(tar, name) as body, written_aside(aside / name) as file:
                shutil.copyfileobj(body, file)
                size += file.tell()
    for path in sorted(aside.iterdir()):
        path.rename(layout.home / path.name)
    sync_directory(layout.home)
    shutil.rmtree(aside, ignore_errors=True)
    return Kept(len(digests), size)


def _check(source: Path) -> dict[str, str]:
    """The digests of a backup, each of them true; raises `NotRestored`."""
    try:
        with tarfile.open(source) as tar:
            members = {one.name: one for one in tar.getmembers()}
            digests: dict[str, str] = json.loads(_opened(tar, DIGESTS).read(LONGEST_LIST))
            if members.keys() != {*digests, DIGESTS}:
                raise _refused(source, "its list and its files differ")
            for name, digest in digests.items():
                if not _is_ours(name) or not members[name].isreg():
                    raise _refused(source, f"{name[:80]!r} is no file that a backup has")
                if _digest(_opened(tar, name)) != digest:
                    raise _refused(source, f"{name} has changed")
    except (tarfile.TarError, ValueError, KeyError, AttributeError, OSError, EOFError) as error:
        raise _refused(source, f"it cannot be read ({error})") from None
    return digests


def _is_ours(name: str) -> bool:
    """Whether a name stays below one of the kept places."""
    path = PurePosixPath(name)
    is_below = any(path.is_relative_to(kept) for kept in KEPT)
    return is_below and not path.is_absolute() and ".." not in path.parts


def _opened(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    body = tar.extractfile(name)
    if body is None:
        raise KeyError(name)
    return body


def _digest(body: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while chunk := body.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def _refused(source: Path, why: str) -> NotRestored:
    return NotRestored(
        f"{source} is not a whole backup of nightbook: {why}. Nothing was restored. Take an older "
        "backup, or copy this one again from where it is kept."
    )
