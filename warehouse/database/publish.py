"""The warehouse file: built aside, verified, swapped in, so that nobody is locked out.

Every version is a folder of its own that never changes once it can be seen; `current` is a link to
one of them, replaced by rename. A reader that has a version open keeps it; a publish that dies at
any instant leaves what people see as it was, and the next one clears what it left.
"""

import contextlib
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection

from warehouse.contract.ops import BUILD, DECISIONS
from warehouse.database import load
from warehouse.database.control_totals import forget_totals
from warehouse.database.ddl import schema_version
from warehouse.database.lake_nights import NativeWindow, divide, is_windowed, move_window
from warehouse.database.load import (
    Book,
    Contents,
    add_books,
    books_by_date,
    check_digests,
    fill,
    fill_reconciliation,
    fill_snapshots,
    load_nightly,
    longest,
    remove_days,
)
from warehouse.database.materialization import followers, materialize_holdings, remove_rows
from warehouse.database.new_version import (
    NotPublished,
    build_upon_last,
    compare_again,
    new_version,
    verify,
)
from warehouse.database.versions import VERSIONS_GB, seal
from warehouse.progress import Say, silent
from warehouse.sql.checks import CheckResult
from warehouse.storage.layout import STORAGE_VERSION, Layout

__all__ = ["Book", "Contents", "NotPublished", "Published", "publish"]


@dataclass(frozen=True, slots=True)
class BuildResult:
    """What a build did: the dates put in, those taken out, and the checks."""

    loaded: tuple[date, ...]
    removed: tuple[date, ...]
    checks: tuple[CheckResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What a publish did: the version, its file, the dates put in and taken out, the checks."""

    version: str
    database: Path
    loaded: tuple[date, ...]
    removed: tuple[date, ...]
    checks: tuple[CheckResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """What is noted of a build (version, when, by which program version), and who hears of it.

    `upgraded_from` is by what the lake was made before it was made again.
    """

    version: str
    built_at: datetime
    program_version: str
    say: Say
    upgraded_from: str | None = None


def publish(
    layout: Layout,
    contents: Contents,
    *,
    version: str,
    built_at: datetime,
    program_version: str,
    fresh: bool = False,
    say: Say = silent,
    versions_gb: int = VERSIONS_GB,
) -> Published:
    """Make the warehouse hold exactly `contents`, as a new version that people see at once whole.

    One writer at a time: the caller holds `layout.lock`. Days whose snapshot is the same as in the
    last version are kept as they are, unless `fresh` or the schema has changed. Older versions are
    kept as long as all of them take no more than `versions_gb`. Raises
    `NotPublished` where a control total differs or a check of severity error fails.
    """
    with new_version(layout, version, versions_gb) as file:
        build = Build(
            version=version,
            built_at=built_at,
            program_version=program_version,
            say=say,
            upgraded_from=contents.upgraded_from,
        )
        result, digests = build_upon_last(
            layout,
            file,
            fresh=fresh,
            last=lambda memory: _last(layout, contents, file, memory),
            empty=lambda memory: _empty(layout, contents, file, memory),
            build=lambda connection: _build(connection, contents, build),
        )
        counts = Counter(row["snapshot_id"] for row in contents.decided.get(DECISIONS.name, ()))
        seal(file, digests, _decision_times(contents), counts)
    return Published(
        version=version,
        database=layout.database,
        loaded=result.loaded,
        removed=result.removed,
        checks=result.checks,
    )


def _last(layout: Layout, contents: Contents, file: Path, memory: str) -> DuckDBPyConnection | None:
    upon = load.last(layout, file, memory, schema_version(), longest(contents))
    if upon is not None and is_windowed(upon) is (contents.native_nights is None):
        upon.close()  # where a window was set or taken away, the file is made anew, and small
        return None
    return upon


def _empty(layout: Layout, contents: Contents, file: Path, memory: str) -> DuckDBPyConnection:
    connection = load.empty(layout, file, memory)
    if contents.native_nights is not None:
        divide(connection)
    return connection


def _build(connection: DuckDBPyConnection, contents: Contents, build: Build) -> BuildResult:
    """Bring an open warehouse up to `contents`, see it verified, and close it."""
    with contextlib.closing(connection):
        published = books_by_date(connection)
        wanted = {book.snapshot_date: book for book in contents.books}
        unchanged = {
            day
            for day, snapshot_id in published.items()
            if day in wanted and wanted[day].snapshot_id == snapshot_id
        }
        # A day whose book is another snapshot now is taken out whole and put in whole.
        removed = tuple(sorted(set(published) - unchanged))
        loaded = tuple(sorted(set(wanted) - unchanged))
        window = NativeWindow.of(contents)
        remove_rows(connection, removed)
        load_nightly(connection, contents)
        taken_out = [published[day] for day in removed]
        forget_totals(connection, taken_out, is_deduplicated=window.is_set)
        books = [wanted[day] for day in loaded]
        if window.is_set:
            move_window(connection, contents, window, unchanged, build.say)
        else:
            check_digests(contents, (file for book in books for file in book.files.values()))
            remove_days(connection, removed)
            add_books(connection, books, build.say)
            materialize_holdings(connection, books)
        fill_snapshots(connection, contents)
        compare_again(connection, followers(wanted, (*removed, *loaded)), window)
        fill_reconciliation(connection, contents)
        checks = verify(connection, books, window, build.say)
        _note_build(connection, max(wanted, default=None), build)
        load.complete(connection)
    return BuildResult(loaded, removed, checks)


def _decision_times(contents: Contents) -> dict[str, str | None]:
    """Return when each snapshot was last decided on, ISO 8601 in UTC."""
    moments = {row["snapshot_id"]: row["decided_at"] for row in contents.snapshots}
    return {
        snapshot_id: moment.astimezone(UTC).isoformat() if moment else None
        for snapshot_id, moment in moments.items()
    }


def _note_build(connection: DuckDBPyConnection, newest: date | None, build: Build) -> None:
    row = {
        "version": build.version,
        "built_at": build.built_at,
        "newest_date": newest,
        "program_version": build.program_version,
        "schema_version": schema_version(),
        "upgraded_from": build.upgraded_from,
        "duckdb_version": duckdb.__version__,
        "storage_version": STORAGE_VERSION,
    }
    fill(connection, BUILD, [row])
