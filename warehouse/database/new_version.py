"""Building, verifying and publishing a new version of the database."""

import contextlib
import shutil
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Protocol, TypeVar

import duckdb
from duckdb import DuckDBPyConnection

from warehouse.contract.model import and_more
from warehouse.contract.ops import BUILD, CHECKS
from warehouse.database import load
from warehouse.database.ddl import book_comments, newest_book
from warehouse.database.lake_nights import NativeWindow
from warehouse.database.load import Book, fill, newest_date
from warehouse.database.materialization import count_totals, materialize_comparison
from warehouse.database.versions import (
    GB,
    clear,
    copy_current,
    is_as_published,
    is_base_intact,
    prune,
    swap,
)
from warehouse.progress import ProgressCallback, Tally
from warehouse.sql.checks import CheckResult, run_checks
from warehouse.storage.layout import (
    DATABASE,
    STORAGE_VERSION,
    Layout,
    block_digests,
    make_directory,
    sync_directory,
)

MAX_SHOWN_PROBLEMS = 5


Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


class NotPublished(Exception):
    """A book failed verification, so the published version has not changed.

    `snapshots` contains the failed books' snapshot IDs, and `problems` one message per problem.
    """

    def __init__(self, snapshots: tuple[str, ...], problems: tuple[str, ...]) -> None:
        self.snapshots = snapshots
        self.problems = problems
        super().__init__(
            f"The book of {and_more(snapshots, MAX_SHOWN_PROBLEMS)} was not published: "
            f"{and_more(problems, MAX_SHOWN_PROBLEMS, '; ')}. The warehouse still shows its "
            "previous data. Check that snapshot's folder in the landing zone. Then reject "
            "the snapshot, or rebuild the lake from the landing zone."
        )


class DatabaseBuild(Protocol[Result_co]):
    """The steps that build a warehouse."""

    def open_copy(self, file: Path, memory: str) -> DuckDBPyConnection | None:
        """Open a copy of the last version. Return None if the build cannot start from it."""

    def create_empty(self, file: Path, memory: str) -> DuckDBPyConnection:
        """Create an empty database, replacing the file, and open it."""

    def run(self, connection: DuckDBPyConnection) -> Result_co:
        """Update the open database, verify it and close it."""


def check_books(
    connection: DuckDBPyConnection, loaded: list[Book], window: NativeWindow, say: ProgressCallback
) -> tuple[CheckResult, ...]:
    """Verify the control totals of each loaded book, then run all checks on it.

    `loaded` is in date order. Return the check results for the newest book, which is checked even
    if it was not loaded. Raises `NotPublished` if a total differs or a check with severity error
    fails.
    """
    newest = newest_date(connection)
    problems: list[str] = []
    failed: list[str] = []
    results: tuple[CheckResult, ...] = ()
    checked = Tally(say, len(loaded), "nights checked")
    for book in loaded:
        # Make the views in schema main show the book that is being checked, so that the same checks
        # and views work for new nights and for reloaded nights.
        if book is not loaded[0]:
            load.save(connection)
        show_book(connection, book.snapshot_date, window)
        failures = list(count_totals(connection, book, is_deduplicated=window.is_set))
        results = run_checks(connection)
        materialize_comparison(connection, book.snapshot_date)
        failures += [result.failure for result in results if result.stops]
        if failures:
            failed.append(book.snapshot_id)
            problems += failures
        checked.add(1)
    if problems:
        raise NotPublished(tuple(failed), tuple(problems))
    if not loaded or loaded[-1].snapshot_date != newest:
        show_book(connection, newest, window)
        results = run_checks(connection)
    load.run_all(connection, book_comments())
    fill(connection, CHECKS, [check_row(newest, result) for result in results if newest])
    return results


def compare_again(
    connection: DuckDBPyConnection, days: Iterable[date], window: NativeWindow
) -> None:
    """Recompute the comparisons for books whose previous book changed."""
    for day in days:
        show_book(connection, day, window)
        materialize_comparison(connection, day)


def show_book(connection: DuckDBPyConnection, day: date | None, window: NativeWindow) -> None:
    """Replace the views in schema main, so that they show one day's book and the previous book."""
    before = newest_date(connection, day) if day else None
    load.run_all(connection, newest_book(day, before, window.rows))


@contextlib.contextmanager
def new_version(layout: Layout, version: str, versions_gb: int) -> Iterator[Path]:
    """Yield the path at which the caller builds a database, and publish it if the block succeeds.

    Old versions are deleted until the remaining ones fit in `versions_gb` gigabytes.
    """
    # 1. Build in a dot folder, which no reader opens. Remove the leftovers of an interrupted run.
    versions = layout.warehouse / "versions"
    clear(layout, versions, version)
    draft = versions / f".tmp-{version}"
    make_directory(draft)
    try:
        # 2. The caller builds the file and seals it.
        yield draft / DATABASE
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    # 3. Rename the folder before switching readers to the new version. A crash in between leaves an
    # unused version, which the next publish removes.
    draft.rename(versions / version)
    sync_directory(versions)
    swap(layout, version)
    # 4. Remove older versions last. A reader with an old file open can continue to use it.
    prune(versions, version, versions_gb * GB)


def build_database(
    layout: Layout, file: Path, build: DatabaseBuild[Result], *, fresh: bool
) -> tuple[Result, tuple[str, ...]]:
    """Build the file, and return the result of `build.run` and the file's block digests.

    The build starts from a copy of the last version if possible, or from scratch if `fresh` is set.
    """
    # Start with little memory, which is enough for most nights and leaves room for other programs.
    # DuckDB can spill most operators to disk but not all, so a build that runs out of memory is
    # repeated with more memory.
    for memory in load.MEMORY[:-1]:
        with contextlib.suppress(duckdb.OutOfMemoryException):
            return _build_within(layout, file, build, memory, fresh=fresh)
        load.remove_copy(file)
    return _build_within(layout, file, build, load.MEMORY[-1], fresh=fresh)


def record_build(
    connection: DuckDBPyConnection,
    *,
    version: str,
    built_at: datetime,
    newest: date | None,
    program_version: str,
    schema: str,
    upgraded_from: str | None = None,
    fingerprint: str | None = None,
) -> None:
    """Write the row in `ops.build`."""
    row = {
        "version": version,
        "built_at": built_at,
        "newest_date": newest,
        "program_version": program_version,
        "schema_version": schema,
        "upgraded_from": upgraded_from,
        "fingerprint": fingerprint,
        "duckdb_version": duckdb.__version__,
        "storage_version": STORAGE_VERSION,
    }
    fill(connection, BUILD, [row])


def check_row(day: date, result: CheckResult) -> dict[str, object]:
    """Return the row of a check in `ops.checks`."""
    return {
        "snapshot_date": day,
        "check_name": result.name,
        "meaning": result.meaning,
        "severity": result.severity,
        "passed": result.is_ok,
        "wrong_rows": result.wrong_rows,
        "example": result.example,
    }


def _build_within(
    layout: Layout, file: Path, build: DatabaseBuild[Result], memory: str, *, fresh: bool
) -> tuple[Result, tuple[str, ...]]:
    # Starting from a copy avoids reading a long history, because only changed days are replaced.
    # The published digests show whether a block of the last version has been damaged since. If a
    # block is damaged, the copy cannot be used, and the file is built from scratch.
    published = () if fresh else copy_current(layout, file)
    if published and (connection := build.open_copy(file, memory)) is not None:
        try:
            result = build.run(connection)
            digests = block_digests(file)
            if is_base_intact(layout, published, digests):
                return result, digests
        except (duckdb.Error, NotPublished):
            if is_as_published(layout, layout.database):
                raise
    result = build.run(build.create_empty(file, memory))
    return result, block_digests(file)
