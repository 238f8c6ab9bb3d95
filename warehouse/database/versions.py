"""Versions of the warehouse file on disk: how they are created, published and deleted.

Each version has its own folder, which never changes once it is published. `current` is a link to
one of them and is replaced by a rename. The process may be killed at any time, because `clear`
removes the leftovers. `digests.json`, next to the database, contains the SHA-256 of its blocks and
the time of the last decision on each snapshot, so that `nightbook verify` finds changed bytes and
lost decisions.
"""

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from warehouse.storage.digests import read_digests, write_digests
from warehouse.storage.layout import (
    BLOCK,
    DATABASE,
    PUBLISHED_MODE,
    Layout,
    block_digests,
    change_mode,
    make_directory,
    sync_directory,
)

KEPT_VERSIONS = 5
# The number of versions that are never removed, whatever the budget: the published version and the
# previous version, which may still have readers.
MIN_VERSIONS = 2
GB = 1000**3
VERSIONS_GB = 20
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def clear(layout: Layout, versions: Path, version: str) -> None:
    """Remove leftovers of interrupted runs, and any unpublished version with this name.

    Raises `ValueError` if the name is invalid, or if the published version has this name.
    """
    if not _VERSION.fullmatch(version):
        raise ValueError(
            f"{version!r} is not a valid version: use letters, digits, dots, dashes and underscores"
        )
    make_directory(versions)
    make_directory(layout.work)
    if _current_version(layout) == version:
        raise ValueError(f"version {version} is already published: choose a different name")
    for remains in versions.glob(".tmp-*"):
        shutil.rmtree(remains, ignore_errors=True)
    remove(versions / version)
    (layout.warehouse / ".current").unlink(missing_ok=True)


def copy_current(layout: Layout, file: Path) -> tuple[str, ...]:
    """Copy the published file and return its block digests. Copy nothing if there are no digests.

    The copy shares its blocks with the original if the file system supports this.
    """
    digests = _block_digests(layout)
    if digests:
        with layout.database.open("rb") as source, file.open("wb") as target:
            # Let the kernel copy the bytes. On some file systems, the two files then share blocks
            # until one of the files is written.
            remaining = os.fstat(source.fileno()).st_size
            while remaining > 0 and (
                copied := _copy_range(source.fileno(), target.fileno(), remaining)
            ):
                remaining -= copied
        if remaining:  # The kernel could not copy the whole file, so copy it in Python.
            shutil.copyfile(layout.database, file)
    return digests


def seal(
    file: Path,
    digests: tuple[str, ...],
    decided: Mapping[str, str | None],
    decisions: Mapping[str, int],
) -> None:
    """Make the file read-only, flush it to disk and write `digests.json` next to it.

    `decided` maps each snapshot in the file to the time of its last decision (ISO 8601, UTC), and
    `decisions` maps it to the number of decisions. Raises `RuntimeError` if the file's folder
    contains other files.
    """
    names = sorted(path.name for path in file.parent.iterdir())
    if names != [DATABASE]:
        raise RuntimeError(
            f"the new warehouse's folder contains {names}, not only {DATABASE}; nothing was "
            "published"
        )
    descriptor = os.open(file, os.O_RDONLY)
    try:
        change_mode(descriptor, PUBLISHED_MODE)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    write_digests(file.parent, digests, decided, decisions)


def is_as_published(layout: Layout, file: Path) -> bool:
    """Return whether all blocks of a file match the digests of the published version."""
    digests = _block_digests(layout)
    return bool(digests) and block_digests(file) == digests


def is_base_intact(layout: Layout, expected: tuple[str, ...], built: tuple[str, ...]) -> bool:
    """Return whether the published file was undamaged when a new file was built from a copy of it.

    `expected` contains the block digests of the published file, and `built` the new file's.
    """
    # If a new block has the expected digest, the published block was undamaged when it was copied.
    # So check only the blocks that the build has changed.
    blocks = [n for n, digest in enumerate(expected) if built[n : n + 1] != (digest,)]
    base_digests = block_digests(layout.database, blocks)
    size = len(expected) * BLOCK
    # The last block may be shorter than the others. If the file was truncated or has grown, it has
    # a different number of blocks.
    has_size = size - BLOCK < layout.database.stat().st_size <= size
    return has_size and base_digests == tuple(expected[n] for n in blocks)


def swap(layout: Layout, version: str) -> None:
    """Make the link `current` point to a version, in one atomic step."""
    # Rename the new link, which replaces the old link in one step, so that a reader opens either
    # the old version or the new version.
    link = layout.warehouse / ".current"
    link.symlink_to(Path("versions") / version)
    link.replace(layout.warehouse / "current")
    sync_directory(layout.warehouse)


def prune(versions: Path, current: str, budget: int = VERSIONS_GB * GB) -> None:
    """Delete old versions until at most `KEPT_VERSIONS` versions remain, within `budget` bytes.

    The published version and the previous version are always kept.
    """
    kept = [path for path in versions.iterdir() if path.name != current]
    kept.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
    kept.insert(0, versions / current)
    while len(kept) > MIN_VERSIONS and (
        len(kept) > KEPT_VERSIONS or sum(map(size_of, kept)) > budget
    ):
        remove(kept.pop())


def older(layout: Layout) -> list[Path]:
    """Return the folders of all versions except the published one, sorted by name."""
    current = _current_version(layout)
    versions = (layout.warehouse / "versions").glob("[!.]*")
    return sorted(path for path in versions if current is not None and path.name != current)


def damaged_versions(layout: Layout) -> list[Path]:
    """Return the folders of older versions that have changed since they were published."""
    return [folder for folder in older(layout) if not _is_whole(folder)]


def size_of(version: Path) -> int:
    """Return the size of a version in bytes."""
    return sum(path.stat().st_size for path in version.glob("*"))


def remove(version: Path) -> None:
    """Delete a version. Readers never see a partly deleted version."""
    if version.is_dir():
        # Rename the folder first, so that every folder with the name of a version still has its
        # database. If the deletion is interrupted, `clear` deletes the renamed folder later.
        removed = version.with_name(f".tmp-gone-{version.name}")
        version.rename(removed)
        shutil.rmtree(removed, ignore_errors=True)


def _current_version(layout: Layout) -> str | None:
    link = layout.warehouse / "current"
    return link.readlink().name if link.is_symlink() else None


def _copy_range(source: int, target: int, size: int) -> int:
    """Copy up to `size` bytes in the kernel. Return the number copied, or 0 if that failed."""
    try:
        return os.copy_file_range(source, target, size)
    except (AttributeError, OSError):
        return 0


def _block_digests(layout: Layout) -> tuple[str, ...]:
    """Return the block digests of the published file, or an empty tuple if they are invalid."""
    digests = read_digests(layout.database.parent)
    return digests.blocks if digests else ()


def _is_whole(folder: Path) -> bool:
    """Return whether a version's database and digests are unchanged."""
    digests = read_digests(folder)
    return digests is not None and digests.match(folder / DATABASE)
