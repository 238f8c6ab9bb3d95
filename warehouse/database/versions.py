"""Versions of the warehouse file on disk: cleared, sealed, swapped in, pruned.

Every version is a folder of its own that never changes once it can be seen; `current` is a link to
one of them, replaced by rename. Each step can be killed at any instant: `clear` takes away what
is left. Beside the database lies `digests.json`: the SHA-256 of its blocks, and which decision on
each snapshot it tells of, so that `nightbook verify` finds a changed byte and a lost decision.
"""

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from warehouse.query.connect import open_database
from warehouse.storage.digests import read_digests, write_digests
from warehouse.storage.layout import (
    BLOCK,
    DATABASE,
    PUBLISHED_MODE,
    Layout,
    block_digests,
    make_directory,
    sync_directory,
)

KEPT_VERSIONS = 5
# Whoever opened the version before still finds it, whatever the budget: the shown one and this.
FEWEST_VERSIONS = 2
GB = 1000**3
# How DuckDB lays out its file: three headers, then blocks, which begin with a checksum. A block of
# metadata is divided into pages, which begin with a pointer to the next page.
_HEADERS, _CHECKSUM, _PAGES, _POINTER = 3 * 4096, 8, 64, 8
_NO_PAGE = -1
VERSIONS_GB = 20
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
            # In the kernel: no byte passes through Python, and a file system that
            # can shares the blocks until one of them is written.
            left = os.fstat(source.fileno()).st_size
            while left > 0 and (step := _step(source.fileno(), target.fileno(), left)):
                left -= step
        if left:  # a system without it, or a copy across file systems
            shutil.copyfile(layout.database, file)
    return digests


def _step(source: int, target: int, left: int) -> int:
    """Copy bytes within the kernel and return how many; 0 where this system cannot."""
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


def seal(
    file: Path,
    digests: tuple[str, ...],
    decided: Mapping[str, str | None],
    decisions: Mapping[str, int],
) -> None:
    """See the file alone, unwritable and on disk, and the SHA-256 of its blocks beside it.

    `decided` has, for each snapshot that the file tells of, when it was last decided on, and
    `decisions` how often.
    """
    left = sorted(path.name for path in file.parent.iterdir())
    if left != [DATABASE]:
        raise RuntimeError(f"{left} lie beside the new warehouse; nothing was published")
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fchmod(descriptor, PUBLISHED_MODE)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    write_digests(file.parent, digests, decided, decisions)


def _block_digests(layout: Layout) -> tuple[str, ...]:
    """Return the digests of the blocks of what people see; none where they cannot be believed."""
    digests = read_digests(layout.database.parent)
    return digests.blocks if digests else ()


def is_as_published(layout: Layout, file: Path) -> bool:
    """Return whether what people see, or a copy of it, is what was published, block by block."""
    digests = _block_digests(layout)
    return bool(digests) and block_digests(file) == digests


def is_base_intact(layout: Layout, expected: tuple[str, ...], built: tuple[str, ...]) -> bool:
    """Return whether the file that a new one was built upon was as published.

    `expected` are its digests and `built` those of the new file. Only what differs is read again:
    a block that is still what was published was so in the old file too.
    """
    # Where the new file has the same block, the copy had it too, and so had the original. Of the
    # blocks that the build changed, the original is read, which people still see.
    blocks = [n for n, digest in enumerate(expected) if built[n : n + 1] != (digest,)]
    base_digests = block_digests(layout.database, blocks)
    size = len(expected) * BLOCK
    # The last block may be short: a file that was cut or grew is no longer so many blocks.
    is_length = size - BLOCK < layout.database.stat().st_size <= size
    return is_length and base_digests == tuple(expected[n] for n in blocks)


def opens_in_older_clients(database: Path) -> bool:
    """Return whether DuckDB 1.2 and 1.3 can follow every pointer between pages of metadata.

    A file that was written with metadata reuse may fail this. Raises as `open_database`.
    """
    # A pointer has the block in its lower 56 bits and the page in the others. If the next page is
    # not needed, DuckDB 1.4 ignores the pointer. Older versions always load it, and fail if that
    # block is no longer one of metadata.
    query = (
        "select block_id, free_list, block_size from pragma_metadata_info(), pragma_database_size()"
    )
    with open_database(database, with_lake=False) as connection:
        blocks = connection.execute(query).fetchall()
    known = {block for block, *_ in blocks}
    with database.open("rb") as file:
        for block, free_pages, size in blocks:
            page_size = (size - _CHECKSUM) // _PAGES // _POINTER * _POINTER
            for page in set(range(_PAGES)).difference(free_pages):
                file.seek(_HEADERS + block * size + _CHECKSUM + page * page_size)
                pointer = int.from_bytes(file.read(_POINTER), sys.byteorder, signed=True)
                if pointer != _NO_PAGE and pointer & (1 << 56) - 1 not in known:
                    return False
    return True


def swap(layout: Layout, version: str) -> None:
    """Point `current` at a version, in one rename."""
    # A link cannot be changed in place, but renaming one over another is one step for every reader:
    # it opens the version before or the one after, never none.
    aside = layout.warehouse / ".current"
    aside.symlink_to(Path("versions") / version)
    aside.replace(layout.warehouse / "current")
    sync_directory(layout.warehouse)


def prune(versions: Path, current: str, budget: int = VERSIONS_GB * GB) -> None:
    """Keep the newest versions by the time they were written, so many and within so many bytes.

    The shown one and the one before it stay always.
    """
    kept = [path for path in versions.iterdir() if path.name != current]
    kept.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
    kept.insert(0, versions / current)
    while len(kept) > FEWEST_VERSIONS and (
        len(kept) > KEPT_VERSIONS or sum(map(size_of, kept)) > budget
    ):
        remove(kept.pop())


def older(layout: Layout) -> list[Path]:
    """Return the versions that people do not see: all but one, of which nothing else is made."""
    current = _current_version(layout)
    versions = (layout.warehouse / "versions").glob("[!.]*")
    return sorted(path for path in versions if current is not None and path.name != current)


def newest_whole(layout: Layout) -> Path | None:
    """Return the newest database that is as it was published, the one that people see first."""
    # Its blocks are hashed, so this is only for what is about to be built from nothing.
    versions = sorted(older(layout), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for folder in (layout.database.resolve().parent, *versions):
        digests = read_digests(folder)
        if digests is not None and digests.match(folder / DATABASE):
            return folder / DATABASE
    return None


def size_of(version: Path) -> int:
    """Return the bytes of a version."""
    return sum(path.stat().st_size for path in version.glob("*"))


def remove(version: Path) -> None:
    """Take a version away in one step: half of one is never seen."""
    if version.is_dir():
        # Renamed first, in one step: what is left of a dead removal is a dot folder, which `clear`
        # takes away, and never a version without its database.
        gone = version.with_name(f".tmp-gone-{version.name}")
        version.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
