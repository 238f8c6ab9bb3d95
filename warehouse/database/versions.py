"""Versions of the warehouse file on disk: cleared, sealed, swapped in, pruned.

Every version is a folder of its own that never changes once it can be seen; `current` is a link to
one of them, replaced by rename. Each step can be killed at any instant: `clear` takes away what
is left. Beside the database lies `digests.json`: the SHA-256 of its blocks, and which decision on
each snapshot it tells of, so that `nightbook verify` finds a changed byte and a lost decision.
"""

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from warehouse.storage.layout import (
    BLOCK,
    DATABASE,
    DIGESTS,
    PUBLISHED_MODE,
    Layout,
    block_digests,
    digest_of_blocks,
    json_bytes,
    make_directory,
    read_json,
    sync_directory,
    write_json,
)

KEPT_VERSIONS = 5
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def clear(layout: Layout, versions: Path, version: str) -> None:
    """Remove what dead runs left; refuse a version that is shown, for it may be open."""
    if not _VERSION.fullmatch(version):
        raise ValueError(f"{version!r} cannot name a version: letters, digits, dot, dash only")
    make_directory(versions)
    make_directory(layout.work)
    if _current_version(layout) == version:
        raise ValueError(f"version {version} is what people see; give the new one another name")
    for left in versions.glob(".tmp-*"):
        shutil.rmtree(left, ignore_errors=True)
    remove(versions / version)
    (layout.warehouse / ".current").unlink(missing_ok=True)


def _current_version(layout: Layout) -> str | None:
    link = layout.warehouse / "current"
    return link.readlink().name if link.is_symlink() else None


def copy_current(layout: Layout, file: Path) -> tuple[str, ...]:
    """Copy the file that people see; returns the digests it was published with, none without one.

    Where the file system can, the copy shares its blocks with the original.
    """
    digests = _block_digests(layout)
    if digests:
        with layout.database.open("rb") as source, file.open("wb") as target:
            left = os.fstat(source.fileno()).st_size
            while left > 0 and (step := _step(source.fileno(), target.fileno(), left)):
                left -= step
        if left:
            shutil.copyfile(layout.database, file)
    return digests


def _step(source: int, target: int, left: int) -> int:
    """Bytes copied within the kernel; 0 where this system cannot."""
    try:
        return os.copy_file_range(source, target, left)
    except (AttributeError, OSError):
        return 0


@contextlib.contextmanager
def reaching_disk(file: Path) -> Iterator[None]:
    """Let a copy go to disk while it is built upon: the end then waits for the night alone.

    Raises `OSError` at the end where the disk refused it.
    """
    descriptor = os.open(file, os.O_RDONLY)
    try:
        with ThreadPoolExecutor(1, "disk") as pool:
            written = pool.submit(os.fsync, descriptor)
            yield
            written.result()
    finally:
        os.close(descriptor)


def seal(aside: Path, file: Path, digests: tuple[str, ...], decided: Mapping[str, Any]) -> None:
    """See the file alone, unwritable and on disk, and the SHA-256 of its blocks beside it.

    `decided` has, for each snapshot that the file tells of, when it was last decided on.
    """
    left = sorted(path.name for path in aside.iterdir())
    if left != [DATABASE]:
        raise RuntimeError(f"{left} lie beside the new warehouse; nothing was published")
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fchmod(descriptor, PUBLISHED_MODE)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    content: dict[str, Any] = {
        "files": {DATABASE: digest_of_blocks(digests)},
        "blocks": list(digests),
        "decided": dict(decided),
    }
    content["sha256"] = hashlib.sha256(json_bytes(content)).hexdigest()
    write_json(aside / DIGESTS, content, PUBLISHED_MODE)


def _block_digests(layout: Layout) -> tuple[str, ...]:
    """The digests of the blocks of what people see; none where they cannot be believed."""
    try:
        content = read_json(layout.database.with_name(DIGESTS))
        digests = tuple(map(str, content["blocks"]))
        is_whole = content["files"][DATABASE] == digest_of_blocks(digests)
    except (OSError, ValueError, LookupError, TypeError):
        return ()
    return digests if is_whole else ()


def is_as_published(layout: Layout, file: Path) -> bool:
    """Whether what people see, or a copy of it, is what was published, block by block."""
    digests = _block_digests(layout)
    return bool(digests) and block_digests(file) == digests


def is_base_intact(layout: Layout, expected: tuple[str, ...], built: tuple[str, ...]) -> bool:
    """Whether the file that a new one was built upon was as published.

    `expected` are its digests and `built` those of the new file. Only what differs is read again:
    a block that is still what was published was so in the old file too.
    """
    blocks = [n for n, digest in enumerate(expected) if built[n : n + 1] != (digest,)]
    found = block_digests(layout.database, blocks)
    size = len(expected) * BLOCK
    is_length = size - BLOCK < layout.database.stat().st_size <= size
    return is_length and found == tuple(expected[n] for n in blocks)


def swap(layout: Layout, version: str) -> None:
    """Point `current` at a version, in one rename."""
    aside = layout.warehouse / ".current"
    aside.symlink_to(Path("versions") / version)
    aside.replace(layout.warehouse / "current")
    sync_directory(layout.warehouse)


def prune(versions: Path, shown: str) -> None:
    """Keep the newest versions by the time they were written, the shown one always."""
    others = [path for path in versions.iterdir() if path.name != shown]
    others.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for old in others[KEPT_VERSIONS - 1 :]:
        remove(old)


def older(layout: Layout) -> list[Path]:
    """The versions that people do not see: all but one, of which nothing else is made."""
    shown = _current_version(layout)
    found = (layout.warehouse / "versions").glob("[!.]*")
    return sorted(path for path in found if shown is not None and path.name != shown)


def size_of(version: Path) -> int:
    """The bytes of a version."""
    return sum(path.stat().st_size for path in version.glob("*"))


def remove(version: Path) -> None:
    """Take a version away in one step: half of one is never seen."""
    if version.is_dir():
        gone = version.with_name(f".tmp-gone-{version.name}")
        version.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
