"""The book that an export reads: its tables, its row counts and its notices.

The tables are copied into temporary tables in a fixed order, so all files of an export show the
same rows, and the rows can be counted before they are written.
"""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model; values are parameters

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import duckdb
from duckdb import DuckDBPyConnection

from warehouse.contract.model import literal, quote_identifier
from warehouse.contract.states import ACCEPTED, HELD
from warehouse.query.connect import connect, records, scalar
from warehouse.query.errors import QueryFailed

Result = TypeVar("Result")
VALUES = {
    "value": "Value in NIGHTBOOK_CURRENCY. NULL if there is no valid price.",
    "value_text": "The amount in the column value, as exact text.",
    "price": "Price of 1 unit of the asset. NULL if there is none.",
    "price_text": "The amount in the column price, as exact text.",
    "price_state": "State of the price: priced, stale or missing. See prices_as_of.",
    "currency": "Unit of the value and the price, as in NIGHTBOOK_CURRENCY.",
}
MAX_SHOWN_DATES = 5
PORTFOLIO_NAME, VENUE_NAME = NAMES = ("portfolio_name", "venue_name")
_ACCOUNTS_PER_MEGABYTE = 1100
_MIN_MEGABYTES = 90
# Try small memory limits first, because DuckDB uses all the memory that it is allowed to use.
_MEMORY_STEPS = (1, 1.25, 1.6, 2, 4, 16)

_ACCOUNT = ("venue_id", "account_name", "duplicate_no")
_ASSET = ("asset_id", "is_custom_asset")


class NotExported(ValueError):
    """The export failed, so no file was written or replaced."""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One table of an export: its title, its view and its key columns.

    The table `counted` has as many rows as the view. A short workbook may leave out an exhibit that
    has it. With `has_value`, it gets the columns `VALUES` if `NIGHTBOOK_CURRENCY` is set.
    """

    title: str
    view: str
    key: tuple[str, ...]
    counted: str | None = None
    has_value: bool = True

    @property
    def staged_name(self) -> str:
        """The name of the table's temporary copy."""
        return f"export_{self.view}"


EXHIBITS = (
    Exhibit(
        "Accounts",
        "account_balances",
        ("portfolio_id", *_ASSET, *_ACCOUNT),
        "accounts",
        has_value=False,
    ),
    Exhibit("Holdings", "holdings", ("portfolio_id", *_ASSET), "positions"),
    Exhibit("Assets", "holdings_by_asset", _ASSET),
    Exhibit("Venues", "holdings_by_venue", ("venue_id", *_ASSET)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenBook:
    """One book, open for an export.

    - `snapshot` and `build`: the book's rows in `ops.snapshots` and `ops.build`.
    - `rows`: the row count of each exhibit, by title.
    - `left_out`: the row count of each exhibit that is too long for a short workbook, by title.
    - `notices`: messages that readers of the figures need to see.
    - `is_part`: whether the file has only some portfolios of the book.
    - `currency`: NIGHTBOOK_CURRENCY when the file was published, or None.
    - `on_rows`: a function that is called with the row count of each batch that is read.
    """

    connection: DuckDBPyConnection
    day: date
    snapshot: Mapping[str, Any]
    build: Mapping[str, Any]
    rows: Mapping[str, int]
    left_out: Mapping[str, int]
    notices: tuple[str, ...]
    exhibits: tuple[Exhibit, ...] = EXHIBITS
    currency: str | None = None
    is_part: bool = False
    on_rows: Callable[[int], None] = lambda _: None

    @property
    def title(self) -> str:
        """The title of the workbook."""
        return "Positions of a part of the book" if self.is_part else "Positions"

    @property
    def snapshot_id(self) -> str:
        """This book's snapshot ID."""
        return str(self.snapshot["snapshot_id"])

    @property
    def of_snapshots(self) -> str:
        """An SQL condition that selects the rows in `ops` for this book's snapshots."""
        return f"snapshot_id = {literal(self.snapshot_id)}"


@contextlib.contextmanager
def book(
    database: Path,
    as_of: date | None,
    exhibits: Sequence[Exhibit] = EXHIBITS,
    *,
    max_rows: int | None = None,
    texts_only: bool = False,
) -> Iterator[OpenBook]:
    """Open the newest book, or the newest one on or before `as_of`, and copy its `exhibits`.

    Accounts and holdings with more than `max_rows` rows are left out.

    With `texts_only`, amounts are copied as exact text and not also as decimals. A workbook needs
    only the text, and the smaller copy saves 4 % of an export.

    Raises `FileNotFoundError` if nothing is published, and `NotExported` if there is no such book
    or the file is not a nightbook warehouse.
    """
    with tempfile.TemporaryDirectory(prefix="nightbook-export-") as scratch:
        try:
            # Use only one thread, because most of the time is spent writing files, and other
            # programs may need the other cores.
            with connect(database, threads="1", temp_directory=scratch) as connection:
                connection.execute("set TimeZone = 'UTC'")
                yield _open_book(
                    connection, as_of, exhibits, max_rows=max_rows, texts_only=texts_only
                )
        except (duckdb.Error, QueryFailed) as error:
            raise NotExported(
                f"{database.name} could not be read as a nightbook warehouse: {error}. No file "
                "was written. Check it with `nightbook doctor`, or rebuild it with "
                "`nightbook rebuild`."
            ) from error


def count_rows(connection: DuckDBPyConnection, table: str, day: date) -> int:
    """Count the rows of a day's book in one table."""
    return int(
        scalar(connection, f"select count(*) from history.{table} where snapshot_date = ?", day)
    )


def in_little_memory(
    connection: DuckDBPyConnection, megabytes: int, work: Callable[[], Result]
) -> Result:
    """Call `work` with a small memory limit for DuckDB, and retry with a higher limit if needed."""
    for factor in _MEMORY_STEPS:
        connection.execute(f"set memory_limit = '{int(factor * megabytes)}MB'")
        with contextlib.suppress(duckdb.OutOfMemoryException):
            return work()
    connection.execute("reset memory_limit")
    return work()


def _open_book(
    connection: DuckDBPyConnection,
    as_of: date | None,
    exhibits: Sequence[Exhibit],
    *,
    max_rows: int | None,
    texts_only: bool,
) -> OpenBook:
    snapshot = find_book(connection, as_of)
    day: date = snapshot["snapshot_date"]
    left_out = {
        exhibit.title: count
        for exhibit in exhibits
        if max_rows is not None
        and exhibit.counted
        and (count := count_rows(connection, exhibit.counted, day)) > max_rows
    }
    exhibits = tuple(exhibit for exhibit in exhibits if exhibit.title not in left_out)
    currency = scalar(connection, "select max(currency) from internal.price_settings")
    part = _part_notices(connection)
    # The number of accounts determines how much memory an export needs.
    accounts = count_rows(connection, "accounts", day)
    in_little_memory(
        connection,
        max(_MIN_MEGABYTES, accounts // _ACCOUNTS_PER_MEGABYTE),
        lambda: _stage(connection, exhibits, day, currency, texts_only=texts_only),
    )
    return OpenBook(
        connection=connection,
        day=day,
        snapshot=snapshot,
        build=records(connection, "select * from ops.build")[0],
        rows={
            exhibit.title: scalar(connection, f"select count(*) from {exhibit.staged_name}")
            for exhibit in exhibits
        },
        left_out=left_out,
        notices=(*part, *_notices(connection, snapshot, as_of)),
        is_part=bool(part),
        exhibits=exhibits,
        currency=currency,
    )


def find_book(connection: DuckDBPyConnection, as_of: date | None) -> dict[str, Any]:
    """Return the row in `ops.snapshots` of the newest book, or the newest one up to `as_of`."""
    books = records(connection, "select * from ops.snapshots where is_book order by snapshot_id")
    wanted = [row for row in books if as_of is None or row["snapshot_date"] <= as_of]
    if wanted:
        return max(wanted, key=lambda row: row["snapshot_date"])
    if not books:
        held = records(connection, "select * from ops.snapshots where state = ?", HELD)
        reason = f"; {held[-1]['snapshot_id']} is held: {held[-1]['reason']}" if held else ""
        raise NotExported(
            f"The warehouse has no book yet{reason}. No file was written. List the nights with "
            "`nightbook snapshots`, and pull one with `nightbook run` or accept a held one with "
            "`nightbook accept ID`."
        )
    days = sorted({row["snapshot_date"].isoformat() for row in books})
    more = f", ... ({len(days)} in all)" if len(days) > MAX_SHOWN_DATES else ""
    raise NotExported(
        f"There is no book on or before {as_of}. The dates with a book are "
        f"{', '.join(days[:MAX_SHOWN_DATES])}{more}, and the latest is {days[-1]}. No file was "
        "written. Choose one of these dates with --as-of, or omit it for the latest book."
    )


def _stage(
    connection: DuckDBPyConnection,
    exhibits: Sequence[Exhibit],
    day: date,
    currency: str | None,
    *,
    texts_only: bool,
) -> None:
    """Copy exhibits to temporary tables. Replace missing portfolio and venue names with IDs."""
    on_day = f"date {literal(day.isoformat())}"
    for exhibit in exhibits:
        # Move the column with the portfolio name to the front, because views have their name
        # columns at the end.
        query = f"select column_name, column_type from (describe select * from {exhibit.view})"
        types = dict(connection.execute(query).fetchall())
        names = types.keys() & set(NAMES)
        decimals = {name for name, kind in types.items() if kind.startswith("DECIMAL")}
        left_out = sorted(names | decimals if texts_only else names)
        columns = f"given.* exclude ({', '.join(left_out)})" if left_out else "given.*"
        if PORTFOLIO_NAME in names:
            name = f"coalesce(given.portfolio_name, given.portfolio_id) as {PORTFOLIO_NAME}"
            columns = f"{name}, {columns}"
        if VENUE_NAME in names:
            columns += f", coalesce(nullif(given.venue_name, ''), given.venue_id) as {VENUE_NAME}"
        order = ", ".join(f"given.{quote_identifier(name)}" for name in exhibit.key)
        rows = f"{exhibit.view}_as_of({on_day}) as given"
        if currency and exhibit.has_value:
            columns += f", {_VALUE_COLUMNS}, {literal(currency)} as currency"
            prices = f"prices_as_of({on_day}, {literal(currency)})"
            rows += f" left join {prices} as prices using (asset_id, is_custom_asset)"
        connection.execute(
            f"create or replace temp table {exhibit.staged_name} as select {columns} "
            f"from {rows} order by {order}"
        )


_VALUE_COLUMNS = (
    "case when prices.price_state = 'priced' then "
    "internal.exact_product(given.total_text, prices.price_text) end as value_text, "
    "prices.price_text, prices.price_state"
)


def _part_notices(connection: DuckDBPyConnection) -> list[str]:
    """Return the notices of a file with a part of a book, or an empty list for a whole book."""
    query = "select 1 from duckdb_tables() where schema_name = 'ops' and table_name = 'part'"
    if not scalar(connection, query):
        return []
    rows = connection.execute("select notice from ops.part order by notice_no").fetchall()
    return [notice for (notice,) in rows]


def _notices(
    connection: DuckDBPyConnection, snapshot: Mapping[str, Any], as_of: date | None
) -> Iterator[str]:
    day = snapshot["snapshot_date"]
    if as_of is not None and as_of != day:
        yield f"{as_of} has no book. This is the book of {day}, the newest book before that date."
    yield from _held_nights(connection, snapshot, as_of)
    if snapshot["reject_count"]:
        yield (
            f"{snapshot['reject_count']} values from the API are invalid and are not included in "
            "these figures: see ops.rejects."
        )
    if snapshot["state"] == ACCEPTED and snapshot["reason"]:
        yield f"This night was accepted by {snapshot['decided_by']}: {snapshot['reason']}."


def _held_nights(
    connection: DuckDBPyConnection, snapshot: Mapping[str, Any], as_of: date | None
) -> Iterator[str]:
    """Yield a notice for each of the last three held nights that are newer than the book."""
    later = records(
        connection,
        "select snapshot_id, snapshot_date, reason from ops.snapshots where state = ? "
        "and snapshot_id > ? and snapshot_date <= ? order by snapshot_id",
        HELD,
        snapshot["snapshot_id"],
        as_of or date.max,
    )
    for row in later[-3:]:
        yield (
            f"A newer night is held and not included in these figures: {row['snapshot_id']}, "
            f"because {row['reason'] or 'the guards stopped it'}."
        )
