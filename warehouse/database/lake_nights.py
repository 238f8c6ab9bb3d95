"""Nights that the database does not store: views over their Parquet files in the lake.

If `Contents.native_nights` sets a window, only the newest nights are stored in the database, in
`internal.native_NAME`. `history.NAME` is a view that combines them with the older nights. It reads
the older nights from a list of files for each table and year, so a missing file causes an error
instead of missing rows. A query for one date opens only that date's files, because the folder name
contains the date.
"""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model; values are parameters

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Self

from duckdb import DuckDBPyConnection

from warehouse.contract.book import BOOK
from warehouse.contract.lake import BOOK_FILES, HOLDINGS
from warehouse.contract.model import Table, literal, quote_identifier
from warehouse.contract.ops import CONTROL_TOTALS
from warehouse.database.ddl import (
    comments_on,
    create_table,
    meanings_of,
    rows_of_day,
    stored_as,
    union_all,
)
from warehouse.database.load import (
    TOGETHER,
    Book,
    Contents,
    add_books,
    check_digests,
    files_of_days,
    remove_days,
)
from warehouse.database.materialization import materialize_holdings, remove_rows
from warehouse.database.materialized_views import (
    control_totals,
    materialized_as,
    materialized_views,
    rows_with_texts,
)
from warehouse.progress import ProgressCallback, silent
from warehouse.storage.home import misleading_sign

# Always store at least the newest book and the previous book, because these two are compared every
# night.
MIN_NATIVE_NIGHTS = 2
_NIGHTS, _FILES = "lake_nights", "lake_files"
_TABLES = {table.name: table for table in BOOK_FILES}
_FIRST_TABLE = BOOK_FILES[0].name  # the file path of this table shows the lake's folder
_HOLDINGS_NAMES = tuple(table.name for table in HOLDINGS)


@dataclass(frozen=True, slots=True)
class NativeWindow:
    """The division of books: the newest are in the database, and `older` books only in the lake.

    If `is_set` is false, there is no window and all books are stored.
    """

    is_set: bool
    older: Mapping[date, Book]

    @classmethod
    def of(cls, contents: Contents) -> Self:
        """Divide the books of a warehouse according to the limit in `contents.native_nights`."""
        if contents.native_nights is None:
            return cls(is_set=False, older={})
        books = sorted(contents.books, key=lambda book: book.snapshot_date)
        outside = books[: -max(contents.native_nights, MIN_NATIVE_NIGHTS)]
        return cls(is_set=True, older={book.snapshot_date: book for book in outside})

    def rows(self, name: str, day: date) -> str:
        """Return a query for one day's rows of a table, from the database or from the lake."""
        if name not in _TABLES or not self.is_set:
            return rows_of_day(f"history.{quote_identifier(name)}", day)
        table = _TABLES[name]
        if book := self.older.get(day):
            return _from_lake(table, [str(book.files[name])])
        return rows_of_day(native(table), day)


def native(table: Table) -> str:
    """Return the qualified name of the table that stores only the newest nights' rows."""
    return f"internal.{quote_identifier(f'native_{table.name}')}"


def is_windowed(connection: DuckDBPyConnection) -> bool:
    """Return whether an open warehouse stores only new nights, and reads old ones from the lake."""
    query = "select 1 from duckdb_tables() where schema_name = 'internal' and table_name = ?"
    return connection.execute(query, [_NIGHTS]).fetchone() is not None


def divide(connection: DuckDBPyConnection) -> None:
    """Replace the history tables of an empty warehouse with views.

    Each view combines a table for the newest nights with the older nights in the lake.
    """
    connection.execute(
        f"create table internal.{_NIGHTS} (snapshot_date date, lake varchar, snapshot_id varchar)"
    )
    # Create a view that builds the file paths, so that a publish stores one row per night instead
    # of one row per file.
    connection.execute(
        f"create view internal.{_FILES} as select snapshot_date, table_name, concat(lake, '/', "
        "table_name, '/snapshot_date=', snapshot_date, '/', snapshot_id, '.parquet') as file "
        f"from internal.{_NIGHTS}, (select unnest({sorted(_TABLES)}) as table_name)"
    )
    for table in BOOK:
        connection.execute(f"drop table history.{quote_identifier(table.name)}")
        connection.execute(create_table(table, native(table)))
    for view in materialized_views():
        if view.name in _HOLDINGS_NAMES:
            sql = rows_with_texts(view)
            connection.execute(f"create view {native(_TABLES[view.name])} as {sql}")
    connection.execute(f"drop table {stored_as(CONTROL_TOTALS)}")
    connection.execute(create_table(CONTROL_TOTALS, materialized_as(CONTROL_TOTALS.name)))
    connection.execute(f"create view {stored_as(CONTROL_TOTALS)} as {control_totals()}")
    _comment(connection, CONTROL_TOTALS)
    for table in BOOK_FILES:
        _show(connection, table, ())


def move_window(
    connection: DuckDBPyConnection,
    contents: Contents,
    window: NativeWindow,
    unchanged: AbstractSet[date],
    say: ProgressCallback = silent,
) -> None:
    """Store the newest books in the database, and make its views read older books from the lake.

    `unchanged` contains the dates whose book did not change. The digests of all newly needed files
    are checked, including the files of nights whose rows leave the database. Raises `FileChanged`.
    """
    rows = connection.execute(
        "select snapshot_date from ops.snapshots where is_book "
        f"and snapshot_date not in (select snapshot_date from internal.{_NIGHTS})"
    ).fetchall()
    native_days = {day for (day,) in rows}
    wanted = {book.snapshot_date: book for book in contents.books}
    staying = native_days & unchanged - window.older.keys()
    entering = [wanted[day] for day in sorted(wanted.keys() - window.older.keys() - staying)]
    leaving = [window.older[day] for day in sorted(window.older.keys() & native_days & unchanged)]
    new = [window.older[day] for day in sorted(window.older.keys() - unchanged)]
    books = (*entering, *leaving, *new)
    check_digests(contents, (file for book in books for file in book.files.values()))
    remove_days(connection, sorted(native_days - staying), native)
    remove_rows(connection, sorted(native_days - staying), _HOLDINGS_NAMES)
    add_books(connection, entering, say, native)
    materialize_holdings(connection, entering)
    add_books(connection, new, say, lambda _: None)
    for start in range(0, len(new), TOGETHER):
        for table in HOLDINGS:
            files_of_days(connection, table, new[start : start + TOGETHER])
    point_at(connection, window.older)


def point_at(connection: DuckDBPyConnection, books: Mapping[date, Book]) -> None:
    """Make the history views read exactly these books from the lake. Their files must be valid."""
    # Rebuild the lists of files only for years with a changed file, so that publishing does not
    # become slower as the history grows.
    lake = str(books[max(books)].files[_FIRST_TABLE].parents[2]) if books else ""
    shown = set(connection.execute(f"from internal.{_NIGHTS}").fetchall())
    wanted = {(day, lake, book.snapshot_id) for day, book in books.items()}
    connection.execute(
        f"delete from internal.{_NIGHTS} where list_contains(?::date[], snapshot_date)",
        [[day for day, _, _ in shown - wanted]],
    )
    for day, folder, snapshot_id in sorted(wanted - shown):
        _require_paths(books[day], folder)
        values = [day, folder, snapshot_id]
        connection.execute(f"insert into internal.{_NIGHTS} values (?, ?, ?)", values)
    years = sorted({day.year for day, _, _ in shown ^ wanted})
    # Use a single query for all views, because one query for each view would take as long as
    # creating the views.
    lists = connection.execute(
        "select table_name, year(snapshot_date), list(file order by snapshot_date) "
        f"from internal.{_FILES} where list_contains(?, year(snapshot_date)) group by all",
        [years],
    ).fetchall()
    for name, year, paths in lists:
        sql = _from_lake(_TABLES[name], paths)
        connection.execute(f"create or replace view {_view_of_year(_TABLES[name], year)} as {sql}")
    before, after = {day.year for day, _, _ in shown}, {day.year for day in books}
    for table in BOOK_FILES:
        if before != after:
            _show(connection, table, sorted(after))
        for year in sorted(before - after):
            connection.execute(f"drop view {_view_of_year(table, year)}")


def _require_paths(book: Book, lake: str) -> None:
    """Check that each file has its usual path, because the views construct the paths themselves."""
    for name, file in book.files.items():
        expected = f"{lake}/{name}/snapshot_date={book.snapshot_date}/{book.snapshot_id}.parquet"
        if str(file) != expected:
            raise ValueError(f"{file} is not at its expected path in the lake, {expected}")


def _show(connection: DuckDBPyConnection, table: Table, years: Iterable[int]) -> None:
    """Create the view that combines a table's stored nights with its nights in the lake."""
    sources = (native(table), *(_view_of_year(table, year) for year in years))
    names = ", ".join(map(quote_identifier, table.names))
    rows = union_all([f"select {names} from {source}" for source in sources])
    connection.execute(f"create or replace view {stored_as(table)} as {rows}")
    _comment(connection, table)


def _comment(connection: DuckDBPyConnection, table: Table) -> None:
    for comment in comments_on("view", stored_as(table), table.meaning, meanings_of(table)):
        connection.execute(comment)


def _view_of_year(table: Table, year: int) -> str:
    return f"internal.{quote_identifier(f'lake_{table.name}_{year}')}"


def _from_lake(table: Table, files: Sequence[str]) -> str:
    """Return a query that reads lake files, and fails if one of them is missing.

    Raises `ValueError` if the lake's path has characters that DuckDB would interpret.
    """
    # A view with one multi-line string opens in half the time of a view with a list of strings
    # (measured with ten years). DuckDB reads a file's date from the folder name, without opening
    # the file. Name the columns, because a folder like `a=b` above the home would add a column.
    for lake in {file.rsplit("/", 3)[0] for file in files}:
        if sign := misleading_sign(Path(lake)):
            raise ValueError(f"DuckDB cannot read the lake at {lake}: its path contains {sign!r}")
    names = ", ".join(map(quote_identifier, table.names))
    paths = literal("\n".join(files))
    return (
        f"select {names} from read_parquet(string_split({paths}, chr(10)), "
        "hive_partitioning = true, hive_types = {'snapshot_date': date})"
    )
