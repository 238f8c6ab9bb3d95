"""Functions that load nights into a working copy of the database."""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model; values are parameters

import contextlib
import sys
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from duckdb import DuckDBPyConnection

from warehouse.contract.book import BOOK
from warehouse.contract.lake import lake_table
from warehouse.contract.model import Table, literal, quote_identifier
from warehouse.contract.ops import CONTROL_TOTALS, DECIDED, GAPS, NIGHTLY, REQUESTS, SNAPSHOTS
from warehouse.contract.reconciliation import RECONCILED
from warehouse.contract.reference import FILES, REJECTS
from warehouse.contract.states import NO_SNAPSHOT, PRUNED
from warehouse.database.ddl import PRICE_SETTINGS, newest_book, stored_as, structure, surface
from warehouse.database.materialized_views import STORED_LAKE_TOTAL, materialized_as
from warehouse.database.reference_files import ReferenceTables, replace_files
from warehouse.progress import ProgressCallback, Tally, silent
from warehouse.storage.layout import STORAGE_SETTINGS, STORAGE_VERSION, Layout, digest_of
from warehouse.storage.parquet import ROW_GROUP, rows_batch

# DuckDB's memory limits, above which it spills to disk. If a build runs out of memory, it is
# repeated with the next limit.
MEMORY = ("512MB", "2GB", "8GB")
# A night with at least this many rows gets its own row group. Smaller nights share a row group,
# because each group occupies whole blocks of the file.
SMALLEST_GROUP = ROW_GROUP // 3
_VECTOR = 2048  # the number of rows in a row group must be a multiple of this number
# The number of nights to insert together, so that they share row groups. Inserting single nights
# would recompress the earlier nights with each insert.
TOGETHER = 16
_DUCKDB_TYPES = {"TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE"}


class FileChanged(Exception):
    """A lake file changed after it was written, so no new version was published."""

    def __init__(self, file: Path, problem: str) -> None:
        super().__init__(
            f"{file} {problem}: it was changed or damaged after it was written. Nothing was "
            "published, the warehouse still shows its previous data, and the landed bytes were not "
            "changed. Rebuild the lake: nightbook rebuild --from-landing"
        )


@dataclass(frozen=True, slots=True)
class Book:
    """One accepted snapshot: its date, its ID, and a Parquet file for each table of the book."""

    snapshot_date: date
    snapshot_id: str
    files: Mapping[str, Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The contents of a warehouse: one book per date, each night's tables, and all snapshots.

    - `nightly`: for each table in `ops.NIGHTLY`, each snapshot's file, including held snapshots.
    - `snapshots`: rows of `ops.SNAPSHOTS`.
    - `digests`: the SHA-256 of each file. A file with a different digest is not loaded.
    - `reconciled`: rows of `contract.reconciliation.RECONCILED` by table. If it is None, these
      tables are not changed.
    - `upgraded_from`: the contract of the lake before it was rebuilt, or None.
    - `fingerprint`: the fingerprint of all nights and decisions, or None.
    - `decided`: rows of `ops.DECIDED` by table.
    - `native_nights`: the number of newest books that the database stores. It reads older books
      from the lake. If this is None, it stores all books.
    - `reference`: the tables that people bring. If it is None, these tables are not changed.

    Raises `ValueError` if books and snapshots do not agree, or for an unknown nightly table.
    """

    books: tuple[Book, ...]
    nightly: Mapping[str, Mapping[str, Path]]
    snapshots: tuple[Mapping[str, Any], ...]
    digests: Mapping[Path, str] = field(default_factory=dict)
    reconciled: Mapping[str, Sequence[Mapping[str, Any]]] | None = None
    upgraded_from: str | None = None
    fingerprint: str | None = None
    decided: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    native_nights: int | None = None
    reference: ReferenceTables | None = None

    def __post_init__(self) -> None:
        snapshot_ids = {row["snapshot_id"] for row in self.snapshots if row["is_book"]}
        book_ids = {book.snapshot_id for book in self.books}
        if snapshot_ids != book_ids or len({book.snapshot_date for book in self.books}) < len(
            self.books
        ):
            raise ValueError(
                f"two books have the same date, or the books ({sorted(book_ids)}) differ from the "
                f"snapshots that are books ({sorted(snapshot_ids)})"
            )
        if set(self.nightly) - {table.name for table in NIGHTLY}:
            raise ValueError(f"some of the tables {sorted(self.nightly)} are not in NIGHTLY")


def group_for(rows: int) -> int:
    """Return the DuckDB row group size for nights whose longest table has this many rows."""
    # A checkpoint merges neighbouring groups if they fit in fewer groups. With the usual group
    # size, loading a night of 50,000 rows therefore compresses 150,000 rows, and sometimes 400,000
    # rows (measured). A night that nearly fills a group gets its own group, which later checkpoints
    # leave alone.
    return -(-rows // _VECTOR) * _VECTOR if SMALLEST_GROUP <= rows <= ROW_GROUP else ROW_GROUP


def open_copy(
    layout: Layout, file: Path, memory: str, schema: str, rows: int
) -> DuckDBPyConnection | None:
    """Open the copy of the latest version. Return None if this fails or its schema is different.

    `schema` is the current schema version. `rows` is the row count of the new night's longest
    table.
    """
    with contextlib.suppress(duckdb.Error):
        connection = connect(layout, file, memory, group_for(rows))
        if _has_schema(connection, schema):
            return connection
        connection.close()
    return None


def remove_copy(file: Path) -> None:
    """Delete a database file, and any log that an unclean shutdown left next to it."""
    file.unlink(missing_ok=True)
    file.with_name(f"{file.name}.wal").unlink(missing_ok=True)


def create_empty(layout: Layout, file: Path, memory: str) -> DuckDBPyConnection:
    """Create and open an empty warehouse, replacing any existing file."""
    remove_copy(file)
    connection = connect(layout, file, memory)
    run_all(connection, (*structure(), *newest_book(None, None), *surface()))
    return connection


def run_all(connection: DuckDBPyConnection, statements: Iterable[str]) -> None:
    """Execute SQL statements in order."""
    for statement in statements:
        connection.execute(statement)


def save(connection: DuckDBPyConnection) -> None:
    """Commit the rows inserted so far, and begin a new transaction.

    One transaction for many nights would be too large.
    """
    connection.execute("commit")
    connection.execute("begin")


def complete(connection: DuckDBPyConnection) -> None:
    """Commit the remaining rows, and write everything to the file, so that no log remains."""
    # DuckDB writes commits that are larger than this threshold directly to the file. Every build is
    # larger than a kilobyte, so the log stays empty.
    connection.execute("set checkpoint_threshold = '1KB'")
    connection.execute("commit")
    connection.execute("checkpoint")


def connect(layout: Layout, file: Path, memory: str, group: int = ROW_GROUP) -> DuckDBPyConnection:
    """Open the file to build, with a memory limit, and begin a transaction.

    DuckDB spills into the home's work folder.
    """
    connection = duckdb.connect(
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": memory,
            "threads": "2",
            "temp_directory": str(layout.work / "duckdb"),
            **STORAGE_SETTINGS,
        },
    )
    try:
        connection.execute("set TimeZone = 'UTC'")
        _attach(connection, file, group)
    except BaseException:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def detach_file(connection: DuckDBPyConnection, group: int) -> Iterator[Path]:
    """Write everything to the file, and detach it within the block for other processes to read."""
    complete(connection)
    query = "select path from duckdb_databases() where database_name = 'draft'"
    [(path,)] = connection.execute(query).fetchall()
    connection.execute("use memory; detach draft")
    try:
        yield Path(path)
    finally:
        _attach(connection, Path(path), group)


def _attach(connection: DuckDBPyConnection, file: Path, group: int) -> None:
    connection.execute(
        f"attach {literal(str(file))} as draft "
        f"(storage_version {literal(STORAGE_VERSION)}, row_group_size {group})"
    )
    connection.execute("use draft")
    # Load a night in a single transaction, because each commit waits for the disk.
    connection.execute("begin")


def books_by_date(connection: DuckDBPyConnection) -> dict[date, str]:
    """Return the snapshot ID of each book in an open warehouse, by date."""
    query = "select snapshot_date, snapshot_id from ops.snapshots where is_book"
    return dict(connection.execute(query).fetchall())


def newest_date(connection: DuckDBPyConnection, before: date = date.max) -> date | None:
    """Return the date of the newest book before `before`, or None if there is no such book."""
    query = "select max(snapshot_date) from ops.snapshots where is_book and snapshot_date < ?"
    newest: date | None = connection.execute(query, [before]).fetchall()[0][0]
    return newest


def remove_days(
    connection: DuckDBPyConnection, days: Iterable[date], target: Callable[[Table], str] = stored_as
) -> None:
    """Delete the rows of some dates from every book table.

    `target` returns the name of the table that stores a declared table's rows.
    """
    for day in days:
        for table in BOOK:
            connection.execute(f"delete from {target(table)} where snapshot_date = ?", [day])


def add_books(
    connection: DuckDBPyConnection,
    books: Sequence[Book],
    say: ProgressCallback = silent,
    target: Callable[[Table], str | None] = stored_as,
) -> None:
    """Insert books in date order, in batches of `TOGETHER`, with a commit between batches.

    The caller must be in a transaction. `target` returns the table to insert into, or None to only
    check the files. Raises `ValueError` if a file does not match the contract.
    """
    ordered = sorted(books, key=lambda book: book.snapshot_date)
    loaded = Tally(say, len(ordered), "nights loaded")
    for start in range(0, len(ordered), TOGETHER):
        if start:
            save(connection)
        some = ordered[start : start + TOGETHER]
        for table in BOOK:
            source, stored = files_of_days(connection, table, some), target(table)
            if stored is not None:
                _insert(connection, table, source, stored)
        loaded.add(len(some))


def longest(contents: Contents) -> int:
    """Return the row count of the longest table in the newest book, or 0 if it is unknown."""
    newest = max(contents.books, key=lambda book: book.snapshot_date, default=None)
    files = newest.files.values() if newest else ()
    with contextlib.suppress(OSError, pa.ArrowException):
        return max((pq.read_metadata(file).num_rows for file in files), default=0)
    return 0


def files_of_days(connection: DuckDBPyConnection, table: Table, books: Sequence[Book]) -> str:
    """Return the SQL that reads one table's Parquet files for these books.

    Raises `ValueError` if a file has rows for a different day, or undeclared columns.
    """
    days = {book.files[table.name]: book.snapshot_date for book in books}
    source = _parquet(connection, table, tuple(days))
    # Loading replaces whole days, so reject a file that is in the wrong folder or has rows for two
    # days. A single scan finds the days in all files.
    named = source.removesuffix(")") + ", filename = true)"
    query = f"select filename, min(snapshot_date), max(snapshot_date) from {named} group by all"
    dated_files = connection.execute(query).fetchall()
    for file, first, last in dated_files:
        if not days[Path(file)] == first == last:
            raise ValueError(
                f"{file} has rows from {first} to {last}, but the file is for {days[Path(file)]}. "
                "Nothing was published. Rebuild the lake."
            )
    return source


def check_digests(contents: Contents, files: Iterable[Path]) -> None:
    """Check that files exist and match their recorded digests. Raises `FileChanged`."""
    for file in files:
        expected = contents.digests.get(file)
        if not file.is_file():
            raise FileChanged(file, "is missing")
        if expected is not None and (digest := digest_of(file)) != expected:
            raise FileChanged(file, f"has the SHA-256 {digest}, not {expected}")


def load_nightly(connection: DuckDBPyConnection, contents: Contents) -> None:
    """Insert new nights into the `ops.NIGHTLY` tables, and delete nights that no longer exist.

    Rows of a loaded snapshot never change.
    """
    wanted = {row["snapshot_id"] for row in contents.snapshots if row["state"] != PRUNED}
    # A night counts as loaded if its requests are loaded. Search the control totals only for nights
    # without requests, because searching years of totals is slow. Do not check ops.snapshots
    # instead, because it also lists nights that have landed but could not be built yet.
    present, known = (_nights_in(connection, table) for table in (REQUESTS, SNAPSHOTS))
    missing = {night for nights in contents.nightly.values() for night in nights} - present
    present |= _nights_in(connection, CONTROL_TOTALS, missing)
    new, gone = sorted(missing - present), [*((present | known) - wanted)]
    for table in NIGHTLY:
        is_deduplicated = table is CONTROL_TOTALS and contents.native_nights is not None
        target = materialized_as(table.name) if is_deduplicated else stored_as(table)
        query = f"delete from {target} where snapshot_id in (select unnest(?::varchar[]))"
        connection.execute(query, [gone])
        nights = contents.nightly.get(table.name, {})
        files = tuple(nights[night] for night in new if night in nights)
        if files:
            check_digests(contents, files)
            source = _parquet(connection, table, files)
            if is_deduplicated:
                source = f"(select * replace ({STORED_LAKE_TOTAL}) from {source})"
            _insert(connection, table, source, target)


def fill(connection: DuckDBPyConnection, table: Table, rows: Iterable[Mapping[str, Any]]) -> None:
    """Replace all rows of a small table in the ops schema."""
    connection.execute(f"delete from {stored_as(table)}")
    insert_rows(connection, table, rows)


def insert_rows(
    connection: DuckDBPyConnection, table: Table, rows: Iterable[Mapping[str, Any]]
) -> None:
    """Insert rows into a small table in the ops schema."""
    connection.register("nightbook_rows", pa.Table.from_batches([rows_batch(table, list(rows))]))
    names = ", ".join(map(quote_identifier, table.names))
    connection.execute(f"insert into {stored_as(table)} select {names} from nightbook_rows")
    connection.unregister("nightbook_rows")


def fill_snapshots(connection: DuckDBPyConnection, contents: Contents) -> None:
    """Replace the rows of the tables for snapshots, nights without a book, and decisions."""
    rows = sorted(contents.snapshots, key=lambda row: str(row["snapshot_id"]))
    fill(connection, SNAPSHOTS, rows)
    fill(connection, GAPS, _gaps(rows))
    for table in DECIDED:
        fill(connection, table, contents.decided.get(table.name, ()))


def fill_reconciliation(
    connection: DuckDBPyConnection, reconciled: Mapping[str, Sequence[Mapping[str, Any]]] | None
) -> None:
    """Replace the rows of the reconciliation tables: results, comments and signatures.

    If `reconciled` is None, these tables are not changed.
    """
    if reconciled is not None:
        for table in RECONCILED:
            fill(connection, table, reconciled.get(table.name, ()))


def fill_reference(connection: DuckDBPyConnection, reference: ReferenceTables | None) -> None:
    """Add the rows of new reference files, and remove the rows of files that no longer exist.

    If the rows cannot be loaded, the reference tables are not changed, and the build continues.
    """
    if reference is None:
        return
    loaded = connection.execute(f"select table_name, sha256 from {stored_as(FILES)}").fetchall()
    # The last version may have rejects or a currency without having received any file.
    last = f"select 1 from {stored_as(REJECTS)} union all select 1 from {PRICE_SETTINGS} limit 1"
    is_new = bool(reference.files or reference.rejects or reference.currency)
    if not (loaded or is_new or connection.execute(last).fetchall()):
        return
    save(connection)
    try:
        replace_files(connection, reference, set(loaded))
        fill(connection, FILES, reference.files)
        fill(connection, REJECTS, reference.rejects)
    except duckdb.Error as error:
        connection.execute("rollback")
        connection.execute("begin")
        reason = str(error).partition("\n")[0]
        message = f"The tables in the schema reference were not changed. Loading failed: {reason}"
        print(message, file=sys.stderr)


def _has_schema(connection: DuckDBPyConnection, schema: str) -> bool:
    with contextlib.suppress(duckdb.Error):
        rows = connection.execute("select schema_version from ops.build").fetchall()
        return bool(rows == [(schema,)])
    return False


def _insert(connection: DuckDBPyConnection, table: Table, source: str, target: str) -> None:
    # Select the columns by name, because the tables of the book have no snapshot_id. Each day has
    # only one book (see ops.snapshots).
    names = ", ".join(map(quote_identifier, table.names))
    connection.execute(f"insert into {target} by name select {names} from {source}")


def _parquet(connection: DuckDBPyConnection, table: Table, files: tuple[Path, ...]) -> str:
    """Return the SQL that reads Parquet files. Raises `ValueError` if their columns are wrong."""
    paths = ", ".join(literal(str(file)) for file in files)
    source = f"read_parquet([{paths}], hive_partitioning = false)"
    rows = connection.execute(f"describe select * from {source}").fetchall()
    declared = {column.name: column.kind.value for column in lake_table(table).columns}
    declared = {name: _DUCKDB_TYPES.get(kind, kind) for name, kind in declared.items()}
    mismatched = sorted({name: kind for name, kind, *_ in rows}.items() ^ declared.items())
    if mismatched or (len(files) > 1 and not _have_equal_columns(connection, paths)):
        raise ValueError(
            f"the Parquet files of {table.name} ({files[0].name}, ...) do not have the columns "
            f"that warehouse/contract/book.py declares: {mismatched or 'some files differ'}. "
            "Nothing was published. Rebuild the lake."
        )
    return source


def _have_equal_columns(connection: DuckDBPyConnection, paths: str) -> bool:
    """Return whether all files have the same columns with the same types."""
    # Compare the footers of the files first. When DuckDB reads several files, it casts all values
    # to the types of the first file, which may round decimals.
    return connection.execute(
        "select count(distinct shape) from (select file_name, list_sort(list(concat_ws("
        "'|', name, type, converted_type, scale, precision, logical_type))) as shape "
        f"from parquet_schema([{paths}]) group by file_name)"
    ).fetchone() == (1,)


def _nights_in(
    connection: DuckDBPyConnection, table: Table, among: Iterable[str] | None = None
) -> set[str]:
    """Return the snapshots that have rows in a table, limited to `among` if it is given."""
    query = f"select distinct snapshot_id from {stored_as(table)}"
    if among is not None:
        query += " where snapshot_id in (select unnest(?::varchar[]))"
    rows = connection.execute(query, None if among is None else [[*among]]).fetchall()
    return {snapshot_id for (snapshot_id,) in rows}


def _gaps(snapshots: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    books = sorted(row["snapshot_date"] for row in snapshots if row["is_book"])
    state_by_day = {row["snapshot_date"]: row["state"] for row in snapshots}
    if not state_by_day:
        return []
    first, newest = min(state_by_day), max(state_by_day)
    days = {first + timedelta(days=n) for n in range((newest - first).days + 1)}
    books_earlier = {day: bisect(books, day) for day in sorted(days - set(books))}
    return [
        {
            "snapshot_date": day,
            "reason": state_by_day.get(day, NO_SNAPSHOT),
            "book_before": books[earlier - 1] if earlier else None,
            "book_after": books[earlier] if earlier < len(books) else None,
        }
        for day, earlier in books_earlier.items()
    ]
