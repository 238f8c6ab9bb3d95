"""A version that is being built: upon the last one where that is sound, else anew; then shown.

What a home and a firm publish goes this way, and so does what interrupts it: people see the last
version, whole, until `current` points at the new one.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import duckdb
from duckdb import DuckDBPyConnection

from warehouse.database import work_copy
from warehouse.database.verification import NotPublished
from warehouse.database.versions import (
    GB,
    clear,
    copy_current,
    is_as_published,
    is_base_intact,
    prune,
    reaching_disk,
    swap,
)
from warehouse.storage.layout import (
    DATABASE,
    Layout,
    block_digests,
    make_directory,
    sync_directory,
)

Result = TypeVar("Result")


@contextlib.contextmanager
def new_version(layout: Layout, version: str, versions_gb: int) -> Iterator[Path]:
    """Yield the file to be built and sealed; it is what people see at the end, whole, or nothing.

    Older versions are kept as long as all of them take no more than `versions_gb`.
    """
    # 1. Build in a dot folder, which no reader looks into; what a dead run left there goes first.
    versions = layout.warehouse / "versions"
    clear(layout, versions, version)
    aside = versions / f".tmp-{version}"
    make_directory(aside)
    try:
        # 2. The caller sees the file on disk, alone (no log beside it), unwritable, with digests.
        yield aside / DATABASE
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    # 3. Give it its name, and only then point readers at it. A crash between the two leaves a
    # version that nobody sees, and the next publish clears it.
    aside.rename(versions / version)
    sync_directory(versions)
    swap(layout, version)
    # 4. Older versions go last: a reader that has one open keeps its file.
    prune(versions, version, versions_gb * GB)


def build_upon_last(
    layout: Layout,
    file: Path,
    *,
    fresh: bool,
    last: Callable[[str], DuckDBPyConnection | None],
    empty: Callable[[str], DuckDBPyConnection],
    build: Callable[[DuckDBPyConnection], Result],
) -> tuple[Result, tuple[str, ...]]:
    """Build the file in little memory, spilling to disk; again in more where that is not enough.

    `last` opens the copy of the last version, or says that it cannot be built upon; `empty` opens
    an empty one in its place; both are given the memory. Returns what `build` does, and the digests
    of the file.
    """

    # A night that fits into little memory is built beside whatever else the machine does. DuckDB
    # spills most operators to disk, but not all: then it starts again with more.
    def attempt(memory: str) -> tuple[Result, tuple[str, ...]]:
        # The file that people see is copied and only the days that differ are replaced: a long
        # history is not read again. It was written once and its digests are known, so a byte that
        # rotted in it since is found among the blocks that the new file did not change, and all is
        # built anew.
        expected = () if fresh else copy_current(layout, file)
        if expected and (upon := last(memory)) is not None:
            try:
                with reaching_disk(file):
                    result = build(upon)
                digests = block_digests(file)
                if is_base_intact(layout, expected, digests):
                    return result, digests
            except (duckdb.Error, NotPublished):
                # The new night is at fault only where the base is sound; else it is built anew.
                if is_as_published(layout, layout.database):
                    raise
        result = build(empty(memory))
        return result, block_digests(file)

    for memory in work_copy.MEMORY[:-1]:
        with contextlib.suppress(duckdb.OutOfMemoryException):
            return attempt(memory)
        work_copy.remove(file)
    return attempt(work_copy.MEMORY[-1])
