"""A new version of the database: build it, then verify it."""

import contextlib
import shutil
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import TypeVar

import duckdb
from duckdb import DuckDBPyConnection

from warehouse.contract.model import and_more
from warehouse.contract.ops import CHECKS
from warehouse.database import load
from warehouse.database.control_totals import count_totals
from warehouse.database.ddl import book_comments, newest_book
from warehouse.database.lake_nights import NativeWindow
from warehouse.database.load import Book, fill, newest_date
from warehouse.database.materialization import materialize_comparison
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
from warehouse.progress import Say, Tally
from warehouse.sql.checks import CheckResult, run_checks
from warehouse.storage.layout import DATABASE, Layout, block_digests, make_directory, sync_directory

SHOWN_PROBLEMS = 5


class NotPublished(Exception):
    """A book must not be shown; what people see has not changed.

    `snapshots` are the ids it is about, `problems` one sentence each with its numbers.
    """

    def __init__(self, snapshots: tuple[str, ...], problems: tuple[str, ...]) -> None:
        self.snapshots = snapshots
        self.problems = problems
        super().__init__(
            f"The book of {and_more(snapshots, SHOWN_PROBLEMS)} was not published: "
            f"{and_more(problems, SHOWN_PROBLEMS, '; ')}. The warehouse still shows what it "
            "showed before. Look at that snapshot's folder in the landing zone; reject it, or "
            "rebuild the lake from landing."
        )


def verify(
    connection: DuckDBPyConnection, loaded: list[Book], window: NativeWindow, say: Say
) -> tuple[CheckResult, ...]:
    """Run totals and checks of every book that was put in, and last of the newest one.

    `loaded` stands in the order of its dates.
    """
    newest = newest_date(connection)
    problems: list[str] = []
    wrong: list[str] = []
    results: tuple[CheckResult, ...] = ()
    checked = Tally(say, len(loaded), "nights checked")
    for book in loaded:
        # Each book is shown under the plain names while it is checked, so that checks and views are
        # the same queries for the newest night and for one that was loaded again.
        if book is not loaded[0]:
            load.save(connection)
        show_book(connection, book.snapshot_date, window)
        failures = list(count_totals(connection, book, is_deduplicated=window.is_set))
        results = run_checks(connection)
        materialize_comparison(connection, book.snapshot_date)
        failures += [result.failure for result in results if result.stops]
        if failures:
            wrong.append(book.snapshot_id)
            problems += failures
        checked.add(1)
    if problems:
        raise NotPublished(tuple(wrong), tuple(problems))
    if not loaded or loaded[-1].snapshot_date != newest:
        show_book(connection, newest, window)
        results = run_checks(connection)
    load.run_all(connection, book_comments())
    fill(connection, CHECKS, [_row_of(newest, result) for result in results if newest])
    return results


def compare_again(
    connection: DuckDBPyConnection, days: Iterable[date], window: NativeWindow
) -> None:
    """Compare books anew whose book before is another one now."""
    for day in days:
        show_book(connection, day, window)
        materialize_comparison(connection, day)


def show_book(connection: DuckDBPyConnection, day: date | None, window: NativeWindow) -> None:
    """Point the plain names of schema main at one day's book, and at the one before it."""
    before = newest_date(connection, day) if day else None
    load.run_all(connection, newest_book(day, before, window.rows))


def _row_of(day: date, result: CheckResult) -> dict[str, object]:
    return {
        "snapshot_date": day,
        "check_name": result.name,
        "meaning": result.meaning,
        "severity": result.severity,
        "passed": result.is_ok,
        "wrong_rows": result.wrong_rows,
        "example": result.example,
    }


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

    for memory in load.MEMORY[:-1]:
        with contextlib.suppress(duckdb.OutOfMemoryException):
            return attempt(memory)
        load.remove_copy(file)
    return attempt(load.MEMORY[-1])
