"""Load nights into a working copy of the database."""

import contextlib
from bisect import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from warehouse.contract.states import NO_SNAPSHOT, PRUNED
from warehouse.database.ddl import newest_book, stored_as, structure, surface
from warehouse.database.materialized_views import STORED_LAKE_TOTAL, materialized_as
from warehouse.progress import Say, Tally, silent
from warehouse.storage.layout import STORAGE_SETTINGS, STORAGE_VERSION, Layout, digest_of
from warehouse.storage.parquet import ROW_GROUP, rows_batch

# What DuckDB may take before it spills to disk; the next only where it cannot go on.
MEMORY = ("512MB", "2GB", "8GB")
# Rows of a night that get a group of their own; fewer share one, for each takes whole blocks.
SMALLEST_GROUP = ROW_GROUP // 3
_VECTOR = 2048  # a group has a multiple of it


def group_for(rows: int) -> int:
    """Return how large the groups of rows are to be, for nights whose longest table has so many."""
    # Rows lie in groups, and a checkpoint presses neighbours together that fit into fewer groups.
    # With groups of the usual size 50,000 rows a night cost the pressing of 150,000, and now and
    # then of 400,000 (measured). A night that nearly fills a group has one of its own, which stays
    # as it is.
    return -(-rows // _VECTOR) * _VECTOR if SMALLEST_GROUP <= rows <= ROW_GROUP else ROW_GROUP


def last(
    layout: Layout, file: Path, memory: str, schema: str, rows: int = ROW_GROUP
) -> DuckDBPyConnection | None:
    """Open the copy of the last version; None where it cannot be built upon.

    `schema` is the version of today's, `rows` are those of the longest table of the night to come.
    """
    with contextlib.suppress(duckdb.Error):
        connection = connect(layout, file, memory, group_for(rows))
        if _is_of(connection, schema):
            return connection
        connection.close()
    return None


def remove_copy(file: Path) -> None:
    """Take the file away, and the log that an unclean end left beside it."""
    file.unlink(missing_ok=True)
    file.with_name(f"{file.name}.wal").unlink(missing_ok=True)


def empty(layout: Layout, file: Path, memory: str) -> DuckDBPyConnection:
    """Open an empty warehouse in the place of whatever is there."""
    remove_copy(file)
    connection = connect(layout, file, memory)
    run_all(connection, (*structure(), *newest_book(None, None), *surface()))
    return connection


def run_all(connection: DuckDBPyConnection, statements: Iterable[str]) -> None:
    """Run statements, one after another."""
    for statement in statements:
        connection.execute(statement)


def save(connection: DuckDBPyConnection) -> None:
    """Commit what was put in so far: many nights are too much for one transaction."""
    connection.execute("commit")
    connection.execute("begin")


def complete(connection: DuckDBPyConnection) -> None:
    """Commit the rest and see all of it in the file, without writing it to a log first."""
    # A commit of more than the threshold is written into the file itself, not to the log and then
    # into the file: everything is larger than a kilobyte.
    connection.execute("set checkpoint_threshold = '1KB'")
    connection.execute("commit")
    connection.execute("checkpoint")


def _is_of(connection: DuckDBPyConnection, schema: str) -> bool:
    with contextlib.suppress(duckdb.Error):
        rows = connection.execute("select schema_version from ops.build").fetchall()
        return bool(rows == [(schema,)])
    return False


def connect(layout: Layout, file: Path, memory: str, group: int = ROW_GROUP) -> DuckDBPyConnection:
    """Open the file to be built in a transaction, within its home and so much memory."""
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
        connection.execute(
            f"attach {literal(str(file))} as draft "
            f"(storage_version {literal(STORAGE_VERSION)}, row_group_size {group})"
        )
        connection.execute("use draft")
        connection.execute("set TimeZone = 'UTC'")
        # Always within a transaction: each commit waits for the disk, and a night is one.
        connection.execute("begin")
    except BaseException:
        connection.close()
        raise
    return connection


# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model; values are parameters


# Nights in one insert. DuckDB compresses full row groups once and writes them once, so nights
# that go in together share groups instead of being pressed again with each that follows.
TOGETHER = 16


class FileChanged(Exception):
    """A file of the lake is not what was written; nothing was published from it."""

    def __init__(self, file: Path, problem: str) -> None:
        super().__init__(
            f"{file} {problem}: it was changed or damaged after it was written. Nothing was "
            "published, the warehouse still shows what it showed before, and the landed bytes are "
            "not touched. Make the lake again: nightbook rebuild --from-landing"
        )


@dataclass(frozen=True, slots=True)
class Book:
    """One accepted snapshot: its date, its id, and the Parquet file of every table of the book."""

    snapshot_date: date
    snapshot_id: str
    files: Mapping[str, Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a warehouse holds: one book per date, the nights' own tables, and all snapshots.

    `nightly` has, per table of `ops.NIGHTLY`, the file of each snapshot, held ones too;
    `snapshots` are rows of `ops.SNAPSHOTS`.
    `digests` have the SHA-256 of each file: one that differs is not loaded. `reconciled` has rows
    of `reconcile.tables.RECONCILED` by table; where it is None, those tables stay as they are.
    `upgraded_from` is by what the lake was made before it was made again, where it was.
    `decided` has rows of `ops.DECIDED` by table. Of `native_nights` newest books the file holds the
    rows itself and reads those of older ones from the lake; of all where it is None.
    """

    books: tuple[Book, ...]
    nightly: Mapping[str, Mapping[str, Path]]
    snapshots: tuple[Mapping[str, Any], ...]
    digests: Mapping[Path, str] = field(default_factory=dict)
    reconciled: Mapping[str, Sequence[Mapping[str, Any]]] | None = None
    upgraded_from: str | None = None
    decided: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    native_nights: int | None = None

    def __post_init__(self) -> None:
        snapshot_ids = {row["snapshot_id"] for row in self.snapshots if row["is_book"]}
        book_ids = {book.snapshot_id for book in self.books}
        if snapshot_ids != book_ids or len({book.snapshot_date for book in self.books}) < len(
            self.books
        ):
            raise ValueError(
                f"the books given ({sorted(book_ids)}) are not one per date, or not those that the "
                f"snapshots call book ({sorted(snapshot_ids)})"
            )
        if set(self.nightly) - {table.name for table in NIGHTLY}:
            raise ValueError(f"{sorted(self.nightly)} are not all tables of ops.NIGHTLY")


def books_by_date(connection: DuckDBPyConnection) -> dict[date, str]:
    """Return which snapshot each date of an open warehouse has."""
    query = "select snapshot_date, snapshot_id from ops.snapshots where is_book"
    return dict(connection.execute(query).fetchall())


def newest_date(connection: DuckDBPyConnection, before: date = date.max) -> date | None:
    """Return the newest date of an open warehouse that has a book; None where none has."""
    query = "select max(snapshot_date) from ops.snapshots where is_book and snapshot_date < ?"
    newest: date | None = connection.execute(query, [before]).fetchall()[0][0]
    return newest


def remove_days(
    connection: DuckDBPyConnection, days: Iterable[date], place: Callable[[Table], str] = stored_as
) -> None:
    """Take these dates out of every table of the book, which is at its `place`."""
    for day in days:
        for table in BOOK:
            connection.execute(f"delete from {place(table)} where snapshot_date = ?", [day])


def add_books(
    connection: DuckDBPyConnection,
    books: Sequence[Book],
    say: Say = silent,
    place: Callable[[Table], str | None] = stored_as,
) -> None:
    """Put books in, in the order of their dates; `ValueError` where a file is not as declared.

    The caller is in a transaction. Some go in together: DuckDB compresses full row groups once,
    and writes them once; what is in is committed between them. Where a table has no `place`, its
    files are only seen to be as declared.
    """
    ordered = sorted(books, key=lambda book: book.snapshot_date)
    loaded = Tally(say, len(ordered), "nights loaded")
    for start in range(0, len(ordered), TOGETHER):
        if start:
            save(connection)
        some = ordered[start : start + TOGETHER]
        for table in BOOK:
            source, into = files_of_days(connection, table, some), place(table)
            if into is not None:
                _insert(connection, table, source, into)
        loaded.add(len(some))


def longest(contents: Contents) -> int:
    """Return rows of the longest table of the newest book; 0 where that cannot be told."""
    newest = max(contents.books, key=lambda book: book.snapshot_date, default=None)
    files = newest.files.values() if newest else ()
    with contextlib.suppress(OSError, pa.ArrowException):
        return max((pq.read_metadata(file).num_rows for file in files), default=0)
    return 0


def files_of_days(connection: DuckDBPyConnection, table: Table, books: Sequence[Book]) -> str:
    """Return a table function over a table's files of these books, each of its own day alone."""
    days = {book.files[table.name]: book.snapshot_date for book in books}
    source = _parquet(connection, table, tuple(days))
    # One scan tells of every file which days its rows are of: a file in the wrong folder, or with
    # rows of two days, must not go in, since days are replaced as wholes.
    named = source.removesuffix(")") + ", filename = true)"
    query = f"select filename, min(snapshot_date), max(snapshot_date) from {named} group by all"
    dated_files = connection.execute(query).fetchall()
    for file, first, last in dated_files:
        if not days[Path(file)] == first == last:
            raise ValueError(
                f"{file} holds rows of {first} to {last}, not of {days[Path(file)]} alone; nothing "
                "was published. Rebuild the lake."
            )
    return source


def _insert(connection: DuckDBPyConnection, table: Table, source: str, place: str) -> None:
    # The book's own tables have no snapshot in their rows: a day has one book (ops.snapshots).
    names = ", ".join(map(quote_identifier, table.names))
    # What does not fill a group is compressed at the commit. Where it nearly does, two threads do
    # that before as well: 0.43 CPU s for 120,000 instruments, with one thread 0.29.
    counting = f"select count(*), current_setting('threads') from {source}"
    [(rows, threads)] = connection.execute(counting).fetchall()
    connection.execute(f"set threads = {1 if rows < ROW_GROUP else threads}")
    connection.execute(f"insert into {place} by name select {names} from {source}")
    connection.execute(f"set threads = {threads}")


def _parquet(connection: DuckDBPyConnection, table: Table, files: tuple[Path, ...]) -> str:
    """Return a table function over files, once the columns of each are seen to be as declared."""
    paths = ", ".join(literal(str(file)) for file in files)
    source = f"read_parquet([{paths}], hive_partitioning = false)"
    rows = connection.execute(f"describe select * from {source}").fetchall()
    declared = {column.name: column.kind.value for column in lake_table(table).columns}
    declared = {name: _TYPES.get(kind, kind) for name, kind in declared.items()}
    mismatched = sorted({name: kind for name, kind, *_ in rows}.items() ^ declared.items())
    if mismatched or (len(files) > 1 and not _alike(connection, paths)):
        raise ValueError(
            f"the Parquet files of {table.name} ({files[0].name}, ...) differ from what "
            f"warehouse/contract/book.py declares in {mismatched or 'some file'}; nothing was "
            "published. Rebuild the lake."
        )
    return source


def _alike(connection: DuckDBPyConnection, paths: str) -> bool:
    """Return whether all files have the columns of the first."""
    # Reading several files, DuckDB takes the types of the first and casts the others to them,
    # and a cast of decimals may round: so the footers are compared before.
    return connection.execute(
        "select count(distinct shape) from (select file_name, list_sort(list(concat_ws("
        "'|', name, type, converted_type, scale, precision, logical_type))) as shape "
        f"from parquet_schema([{paths}]) group by file_name)"
    ).fetchone() == (1,)


_TYPES = {"TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE"}


def check_digests(contents: Contents, files: Iterable[Path]) -> None:
    """See that files are what was written, where that is known; raises `FileChanged`."""
    for file in files:
        expected = contents.digests.get(file)
        if not file.is_file():
            raise FileChanged(file, "is missing")
        if expected is not None and (digest := digest_of(file)) != expected:
            raise FileChanged(file, f"has the SHA-256 {digest}, not {expected}")


def _nights_in(
    connection: DuckDBPyConnection, table: Table, among: Iterable[str] | None = None
) -> set[str]:
    """Return the snapshots that a table has rows of; with `among`, those of these that it has."""
    query = f"select distinct snapshot_id from {stored_as(table)}"
    if among is not None:
        query += " where snapshot_id in (select unnest(?::varchar[]))"
    rows = connection.execute(query, None if among is None else [[*among]]).fetchall()
    return {snapshot_id for (snapshot_id,) in rows}


def load_nightly(connection: DuckDBPyConnection, contents: Contents) -> None:
    """Bring the nights' own tables up to date: what a snapshot said once stays as it is."""
    wanted = {row["snapshot_id"] for row in contents.snapshots if row["state"] != PRUNED}
    # A night is here if its requests are: to look through the control totals of years takes long,
    # so only those of nights without a request here are looked for. Not in ops.snapshots, which
    # tells also of a night that was landed and could not be made yet.
    present, known = (_nights_in(connection, table) for table in (REQUESTS, SNAPSHOTS))
    missing = {night for nights in contents.nightly.values() for night in nights} - present
    present |= _nights_in(connection, CONTROL_TOTALS, missing)
    new, gone = sorted(missing - present), [*((present | known) - wanted)]
    for table in NIGHTLY:
        is_deduplicated = table is CONTROL_TOTALS and contents.native_nights is not None
        place = materialized_as(table.name) if is_deduplicated else stored_as(table)
        query = f"delete from {place} where snapshot_id in (select unnest(?::varchar[]))"
        connection.execute(query, [gone])
        nights = contents.nightly.get(table.name, {})
        files = tuple(nights[night] for night in new if night in nights)
        if files:
            check_digests(contents, files)
            source = _parquet(connection, table, files)
            if is_deduplicated:
                source = f"(select * replace ({STORED_LAKE_TOTAL}) from {source})"
            _insert(connection, table, source, place)


def fill(connection: DuckDBPyConnection, table: Table, rows: Iterable[Mapping[str, Any]]) -> None:
    """Replace the rows of a small table of schema ops."""
    batch = rows_batch(table, list(rows))
    connection.execute(f"delete from {stored_as(table)}")
    connection.register("nightbook_rows", pa.Table.from_batches([batch]))
    names = ", ".join(map(quote_identifier, table.names))
    connection.execute(f"insert into {stored_as(table)} select {names} from nightbook_rows")
    connection.unregister("nightbook_rows")


def fill_snapshots(connection: DuckDBPyConnection, contents: Contents) -> None:
    """Write what is known of every snapshot, and the nights that have no book."""
    rows = sorted(contents.snapshots, key=lambda row: str(row["snapshot_id"]))
    fill(connection, SNAPSHOTS, rows)
    fill(connection, GAPS, _gaps(rows))
    for table in DECIDED:
        fill(connection, table, contents.decided.get(table.name, ()))


def fill_reconciliation(connection: DuckDBPyConnection, contents: Contents) -> None:
    """Write what the reconciliation found, what people said of it, and who signed."""
    for table in RECONCILED if contents.reconciled is not None else ():
        fill(connection, table, (contents.reconciled or {}).get(table.name, ()))


def _gaps(snapshots: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    books = sorted(row["snapshot_date"] for row in snapshots if row["is_book"])
    state_by_day = {row["snapshot_date"]: row["state"] for row in snapshots}
    if not state_by_day:
        return []
    first, newest = min(state_by_day), max(state_by_day)
    days = {first + timedelta(days=n) for n in range((newest - first).days + 1)}
    places = {day: bisect(books, day) for day in sorted(days - set(books))}
    return [
        {
            "snapshot_date": day,
            "reason": state_by_day.get(day, NO_SNAPSHOT),
            "book_before": books[place - 1] if place else None,
            "book_after": books[place] if place < len(books) else None,
        }
        for day, place in places.items()
    ]
