"""Nights that the file does not hold itself: views over their Parquet in the lake.

With a window (`Contents.native_nights`) the newest nights are in `internal.native_NAME`, and
`history.NAME` is a view of them and of the older ones, which it reads by explicit lists of files,
one for each table and year: a file that is missing is an error, and never fewer rows. A question
about one date opens the files of that date alone, by the date in the folder's name.
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
from warehouse.progress import Say, silent
from warehouse.storage.home import misleading_sign

# The newest book and the one before it are compared every night, so they are always in the file.
FEWEST = 2
_NIGHTS, _FILES = "lake_nights", "lake_files"
_TABLES = {table.name: table for table in BOOK_FILES}
_ONE = BOOK_FILES[0].name  # whose file stands for those of its night
_HELD = tuple(table.name for table in HOLDINGS)


@dataclass(frozen=True, slots=True)
class NativeWindow:
    """Which books the file is to hold itself: all, or the newest; the `older` ones stay outside."""

    is_set: bool
    older: Mapping[date, Book]

    @classmethod
    def of(cls, contents: Contents) -> Self:
        """Return the window of what a warehouse is to hold."""
        if contents.native_nights is None:
            return cls(is_set=False, older={})
        books = sorted(contents.books, key=lambda book: book.snapshot_date)
        outside = books[: -max(contents.native_nights, FEWEST)]
        return cls(is_set=True, older={book.snapshot_date: book for book in outside})

    def rows(self, name: str, day: date) -> str:
        """Return a query for the rows that `history.NAME` has of a day, wherever they are."""
        if name not in _TABLES or not self.is_set:
            return rows_of_day(f"history.{quote_identifier(name)}", day)
        table = _TABLES[name]
        if book := self.older.get(day):
            return _from_lake(table, [str(book.files[name])])
        return rows_of_day(native(table), day)


def native(table: Table) -> str:
    """Return the table or view of the rows that a file with a window holds itself."""
    return f"internal.{quote_identifier(f'native_{table.name}')}"


def is_windowed(connection: DuckDBPyConnection) -> bool:
    """Return whether an open warehouse was made with a window."""
    query = "select 1 from duckdb_tables() where schema_name = 'internal' and table_name = ?"
    return connection.execute(query, [_NIGHTS]).fetchone() is not None


def divide(connection: DuckDBPyConnection) -> None:
    """Make native tables of the empty ones of the book, and views in their place."""
    connection.execute(
        f"create table internal.{_NIGHTS} (snapshot_date date, lake varchar, snapshot_id varchar)"
    )
    # What is written each night is a row for each night, not a path for each file of it.
    connection.execute(
        f"create view internal.{_FILES} as select snapshot_date, table_name, concat(lake, '/', "
        "table_name, '/snapshot_date=', snapshot_date, '/', snapshot_id, '.parquet') as file "
        f"from internal.{_NIGHTS}, (select unnest({sorted(_TABLES)}) as table_name)"
    )
    for table in BOOK:
        connection.execute(f"drop table history.{quote_identifier(table.name)}")
        connection.execute(create_table(table, native(table)))
    for view in materialized_views():
        if view.name in _HELD:
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
    say: Say = silent,
) -> None:
    """Put the books of the window into the file, and point at the others where they lie.

    `unchanged` are the dates whose book is what it was. A night that leaves the window is read from
    its files from now on, so these must still be what was written.
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
    remove_rows(connection, sorted(native_days - staying), _HELD)
    add_books(connection, entering, say, native)
    materialize_holdings(connection, entering)
    add_books(connection, new, say, lambda _: None)
    for start in range(0, len(new), TOGETHER):
        for table in HOLDINGS:
            files_of_days(connection, table, new[start : start + TOGETHER])
    point_at(connection, window.older)


def point_at(connection: DuckDBPyConnection, books: Mapping[date, Book]) -> None:
    """Make schema history show exactly these books from the lake; their files were seen."""
    # Only the lists of years in which a file is another one now are made again, and of the others
    # not even a path is made: what a publish does must not grow with the history.
    lake = str(books[max(books)].files[_ONE].parents[2]) if books else ""
    shown = set(connection.execute(f"from internal.{_NIGHTS}").fetchall())
    wanted = {(day, lake, book.snapshot_id) for day, book in books.items()}
    connection.execute(
        f"delete from internal.{_NIGHTS} where list_contains(?::date[], snapshot_date)",
        [[day for day, _, _ in shown - wanted]],
    )
    for day, place, snapshot_id in sorted(wanted - shown):
        _require_places(books[day], place)
        values = [day, place, snapshot_id]
        connection.execute(f"insert into internal.{_NIGHTS} values (?, ?, ?)", values)
    years = sorted({day.year for day, _, _ in shown ^ wanted})
    # All at once: a question for each view costs as much as making it (measured).
    lists = connection.execute(
        "select table_name, year(snapshot_date), list(file order by snapshot_date) "
        f"from internal.{_FILES} where list_contains(?, year(snapshot_date)) group by all",
        [years],
    ).fetchall()
    for name, year, paths in lists:
        sql = _from_lake(_TABLES[name], paths)
        connection.execute(f"create or replace view {_of_year(_TABLES[name], year)} as {sql}")
    before, after = {day.year for day, _, _ in shown}, {day.year for day in books}
    for table in BOOK_FILES:
        if before != after:
            _show(connection, table, sorted(after))
        for year in sorted(before - after):
            connection.execute(f"drop view {_of_year(table, year)}")


def _require_places(book: Book, lake: str) -> None:
    """See each file where the lake has it, since only the lake and the night are kept of a path."""
    for name, file in book.files.items():
        place = f"{lake}/{name}/snapshot_date={book.snapshot_date}/{book.snapshot_id}.parquet"
        if str(file) != place:
            raise ValueError(f"{file} is not at its place in the lake, {place}")


def _show(connection: DuckDBPyConnection, table: Table, years: Iterable[int]) -> None:
    """Make the view of all nights: the native ones, and those of each year."""
    sources = (native(table), *(_of_year(table, year) for year in years))
    names = ", ".join(map(quote_identifier, table.names))
    rows = union_all([f"select {names} from {source}" for source in sources])
    connection.execute(f"create or replace view {stored_as(table)} as {rows}")
    _comment(connection, table)


def _comment(connection: DuckDBPyConnection, table: Table) -> None:
    for comment in comments_on("view", stored_as(table), table.meaning, meanings_of(table)):
        connection.execute(comment)


def _of_year(table: Table, year: int) -> str:
    return f"internal.{quote_identifier(f'lake_{table.name}_{year}')}"


def _from_lake(table: Table, files: Sequence[str]) -> str:
    """Return a query that reads files of the lake and fails where one of them is not there."""
    # One text of many lines opens in half the time of a list of texts (measured with ten years).
    # By the folder's name DuckDB knows the date of a file without opening it, since 1.2 also where
    # the date comes from another table. Columns are named: a home below a folder named `a=b` would
    # otherwise have one more.
    for lake in {file.rsplit("/", 3)[0] for file in files}:
        if sign := misleading_sign(Path(lake)):
            raise ValueError(f"{lake} cannot be read from the lake: its path holds {sign!r}")
    names = ", ".join(map(quote_identifier, table.names))
    paths = literal("\n".join(files))
    return (
        f"select {names} from read_parquet(string_split({paths}, chr(10)), "
        "hive_partitioning = true, hive_types = {'snapshot_date': date})"
    )
