"""Functions that publish the warehouse: they build a new version, verify it and swap it in.

Readers are never blocked. A reader that has opened a version can continue to use it. If a publish
is interrupted, the published version does not change, and the next publish removes the leftovers.
`versions` explains the folders.
"""

import contextlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from duckdb import DuckDBPyConnection

from warehouse.contract.ops import DECISIONS
from warehouse.database import load
from warehouse.database.ddl import schema_version
from warehouse.database.lake_nights import NativeWindow, divide, is_windowed, move_window
from warehouse.database.load import (
    Book,
    Contents,
    add_books,
    books_by_date,
    check_digests,
    fill_reconciliation,
    fill_reference,
    fill_snapshots,
    load_nightly,
    longest,
    remove_days,
)
from warehouse.database.materialization import (
    followers,
    forget_totals,
    materialize_holdings,
    remove_rows,
)
from warehouse.database.new_version import (
    build_database,
    check_books,
    compare_again,
    new_version,
    record_build,
)
from warehouse.database.own_findings import apply_rules, load_findings
from warehouse.database.versions import VERSIONS_GB, seal
from warehouse.progress import ProgressCallback, silent
from warehouse.sql.checks import CheckResult
from warehouse.storage.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The result of a publish: the version, its file, loaded and removed dates, and the checks."""

    version: str
    database: Path
    loaded: tuple[date, ...]
    removed: tuple[date, ...]
    checks: tuple[CheckResult, ...]


@dataclass(frozen=True, slots=True)
class _WarehouseBuild:
    layout: Layout
    contents: Contents
    version: str
    built_at: datetime
    program_version: str
    say: ProgressCallback

    def open_copy(self, file: Path, memory: str) -> DuckDBPyConnection | None:
        rows = longest(self.contents)
        connection = load.open_copy(self.layout, file, memory, schema_version(), rows)
        is_full = self.contents.native_nights is None
        if connection is not None and is_windowed(connection) is is_full:
            # The limit on stored books was set or removed, which requires different history tables.
            # So build the file from scratch.
            connection.close()
            return None
        return connection

    def create_empty(self, file: Path, memory: str) -> DuckDBPyConnection:
        connection = load.create_empty(self.layout, file, memory)
        if self.contents.native_nights is not None:
            divide(connection)
        return connection

    def run(self, connection: DuckDBPyConnection) -> Published:
        contents = self.contents
        with contextlib.closing(connection):
            published = books_by_date(connection)
            wanted = {book.snapshot_date: book for book in contents.books}
            unchanged = {
                day
                for day, snapshot_id in published.items()
                if day in wanted and wanted[day].snapshot_id == snapshot_id
            }
            # If a day has a different snapshot now, remove all rows of the day and reload them.
            removed = tuple(sorted(set(published) - unchanged))
            loaded = tuple(sorted(set(wanted) - unchanged))
            window = NativeWindow.of(contents)
            remove_rows(connection, removed)
            load_nightly(connection, contents)
            removed_ids = [published[day] for day in removed]
            forget_totals(connection, removed_ids, is_deduplicated=window.is_set)
            books = [wanted[day] for day in loaded]
            self._replace_days(connection, window, unchanged, removed, books)
            fill_snapshots(connection, contents)
            compare_again(connection, followers(wanted, (*removed, *loaded)), window)
            fill_reconciliation(connection, contents.reconciled)
            fill_reference(connection, contents.reference)
            load_findings(connection, self.layout.home, removed, books)
            checks = check_books(connection, books, window, self.say)
            record_build(
                connection,
                version=self.version,
                built_at=self.built_at,
                newest=max(wanted, default=None),
                program_version=self.program_version,
                schema=schema_version(),
                upgraded_from=contents.upgraded_from,
                fingerprint=contents.fingerprint,
            )
            apply_rules(connection, self.layout, contents)
            load.complete(connection)
        return Published(
            version=self.version,
            database=self.layout.database,
            loaded=loaded,
            removed=removed,
            checks=checks,
        )

    def _replace_days(
        self,
        connection: DuckDBPyConnection,
        window: NativeWindow,
        unchanged: set[date],
        removed: Iterable[date],
        books: Sequence[Book],
    ) -> None:
        if window.is_set:
            move_window(connection, self.contents, window, unchanged, self.say)
            return
        check_digests(self.contents, (file for book in books for file in book.files.values()))
        remove_days(connection, removed)
        add_books(connection, books, self.say)
        materialize_holdings(connection, books)


def publish_version(
    layout: Layout,
    contents: Contents,
    *,
    version: str,
    built_at: datetime,
    program_version: str,
    fresh: bool = False,
    say: ProgressCallback = silent,
    versions_gb: int = VERSIONS_GB,
) -> Published:
    """Publish a new version of the warehouse with exactly `contents`, in one atomic step.

    The caller holds `layout.lock`, so there is only one writer. Days whose snapshot is the same as
    in the last version are not reloaded, unless `fresh` is set or the schema changed. Old versions
    are deleted until the remaining ones fit in `versions_gb` gigabytes.

    Raises `NotPublished` if a control total differs or a check with severity error fails.
    """
    build = _WarehouseBuild(layout, contents, version, built_at, program_version, say)
    with new_version(layout, version, versions_gb) as file:
        published, digests = build_database(layout, file, build, fresh=fresh)
        counts = Counter(row["snapshot_id"] for row in contents.decided.get(DECISIONS.name, ()))
        seal(file, digests, _decision_times(contents), counts)
    return published


def _decision_times(contents: Contents) -> dict[str, str | None]:
    """Return the time of the last decision on each snapshot, as ISO 8601 in UTC."""
    times = {row["snapshot_id"]: row["decided_at"] for row in contents.snapshots}
    return {
        snapshot_id: time.astimezone(UTC).isoformat() if time else None
        for snapshot_id, time in times.items()
    }
