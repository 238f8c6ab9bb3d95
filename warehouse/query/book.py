"""What an export reads: one book of the published warehouse, its tables, and what is known of it.

The tables are copied into the connection's own memory in a fixed order, so that every file of one
export shows the same rows, and counting comes before writing.
"""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model; values are parameters

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import duckdb
from duckdb import DuckDBPyConnection

from warehouse.contract.firm import SOURCE
from warehouse.contract.model import and_more, literal, quote_identifier
from warehouse.contract.states import ACCEPTED, HELD
from warehouse.query.connect import QueryFailed, connect, records, scalar
from warehouse.query.firm_state import has_sources, shared_portfolios

Made = TypeVar("Made")
SHOWN_DATES = 5
PORTFOLIO_NAME, VENUE_NAME = NAMES = ("portfolio_name", "venue_name")
_ACCOUNTS_PER_MEGABYTE = 1100
_LEAST_MEGABYTES = 90
_MORE = (1, 1.25, 1.6, 2, 4, 16)  # small steps first: what is allowed is taken (measured)


class NotExported(ValueError):
    """The export could not be made; no file was written or replaced."""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One table that people are shown: its title, its view, and the columns of its key."""

    title: str
    view: str
    key: tuple[str, ...]

    @property
    def staged_name(self) -> str:
        """The name of its copy for the time of the export."""
        return f"export_{self.view}"


_PLACE = ("venue_id", "account_name", "duplicate_no")
_ASSET = ("asset_id", "is_custom_asset")
EXHIBITS = (
    Exhibit("Accounts", "account_balances", ("portfolio_id", *_ASSET, *_PLACE)),
    Exhibit("Holdings", "holdings", ("portfolio_id", *_ASSET)),
    Exhibit("Assets", "holdings_by_asset", _ASSET),
    Exhibit("Venues", "holdings_by_venue", ("venue_id", *_ASSET)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenBook:
    """One book, open for an export.

    `snapshot` and `build` are its rows of `ops.snapshots` and `ops.build`; `rows` counts the rows
    of each exhibit by title; `notices` are sentences that a reader of the figures must know.
    `on_rows` is told how many rows were read for a file, whenever some were.
    """

    connection: DuckDBPyConnection
    day: date
    snapshot: Mapping[str, Any]
    build: Mapping[str, Any]
    rows: Mapping[str, int]
    notices: tuple[str, ...]
    exhibits: tuple[Exhibit, ...] = EXHIBITS
    is_firm: bool = False
    on_rows: Callable[[int], None] = lambda _: None

    @property
    def snapshot_id(self) -> str:
        """The snapshot that is the book."""
        return str(self.snapshot["snapshot_id"])

    @property
    def of_snapshots(self) -> str:
        """The SQL of a row of `ops` that is of the book: of its snapshot, or of each source's."""
        if not self.is_firm:
            return f"snapshot_id = {literal(self.snapshot_id)}"
        day = literal(self.day.isoformat())
        return (
            "(source, snapshot_id) in (select (source, snapshot_id) from ops.nights "
            f"where is_in_book and snapshot_date = date {day})"
        )


@contextlib.contextmanager
def book(
    database: Path,
    as_of: date | None,
    exhibits: Sequence[Exhibit] = EXHIBITS,
    *,
    texts_alone: bool = False,
) -> Iterator[OpenBook]:
    """Open the newest book, or the newest one on or before `as_of`, with these tables of it.

    With `texts_alone` amounts are there as exact texts and not as decimals beside them, which is a
    quarter quicker (measured).

    Raises `FileNotFoundError` where nothing is published, `NotExported` where there is no book of
    that time or the file is no warehouse of ours.
    """
    with tempfile.TemporaryDirectory(prefix="nightbook-export-") as scratch:
        try:
            # One thread, for an export runs beside other work and is bound by its writing; what
            # memory does not hold is spilled.
            with connect(database, threads="1", temp_directory=scratch) as connection:
                connection.execute("set TimeZone = 'UTC'")
                yield _source(connection, as_of, exhibits, texts_alone=texts_alone)
        except (duckdb.Error, QueryFailed) as error:
            raise NotExported(
                f"{database.name} could not be read as a warehouse of nightbook: {error}. No file "
                "was written. Look with `nightbook doctor`, or make it anew: `nightbook rebuild`."
            ) from error


def _source(
    connection: DuckDBPyConnection,
    as_of: date | None,
    exhibits: Sequence[Exhibit],
    *,
    texts_alone: bool,
) -> OpenBook:
    is_firm = has_sources(connection)
    if is_firm:
        exhibits = [replace(exhibit, key=(SOURCE.name, *exhibit.key)) for exhibit in exhibits]
    snapshot = _book(connection, as_of, "firm_nights" if is_firm else "ops.snapshots")
    day: date = snapshot["snapshot_date"]
    in_little_memory(
        connection,
        max(_LEAST_MEGABYTES, accounts(connection, day) // _ACCOUNTS_PER_MEGABYTE),
        lambda: _stage_each(connection, exhibits, day, texts_alone=texts_alone),
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
        notices=tuple(_notices(connection, snapshot, as_of, is_firm=is_firm)),
        exhibits=tuple(exhibits),
        is_firm=is_firm,
    )


def accounts(connection: DuckDBPyConnection, day: date) -> int:
    """Return how many accounts a book has: what the memory that it takes goes by."""
    return int(
        scalar(connection, "select count(*) from history.accounts where snapshot_date = ?", day)
    )


def in_little_memory(
    connection: DuckDBPyConnection, megabytes: int, work: Callable[[], Made]
) -> Made:
    """Do work in so much memory, spilling to disk; again in more where that is too little."""
    for more in _MORE:
        connection.execute(f"set memory_limit = '{int(more * megabytes)}MB'")
        with contextlib.suppress(duckdb.OutOfMemoryException):
            return work()
    connection.execute("reset memory_limit")
    return work()


def _stage_each(
    connection: DuckDBPyConnection, exhibits: Sequence[Exhibit], day: date, *, texts_alone: bool
) -> None:
    for exhibit in exhibits:
        _stage(connection, exhibit, day, texts_alone=texts_alone)


def _book(connection: DuckDBPyConnection, as_of: date | None, snapshots: str) -> dict[str, Any]:
    books = records(connection, f"select * from {snapshots} where is_book order by snapshot_id")
    wanted = [row for row in books if as_of is None or row["snapshot_date"] <= as_of]
    if wanted:
        return max(wanted, key=lambda row: row["snapshot_date"])
    if not books:
        held = records(connection, "select * from ops.snapshots where state = ?", HELD)
        why = f"; {held[-1]['snapshot_id']} is held: {held[-1]['reason']}" if held else ""
        raise NotExported(
            f"The warehouse has no book yet{why}. No file was written. List the nights with "
            "`nightbook snapshots`, and take one with `nightbook run` or accept a held one with "
            "`nightbook accept ID`."
        )
    days = sorted({row["snapshot_date"].isoformat() for row in books})
    more = f", ... ({len(days)} in all)" if len(days) > SHOWN_DATES else ""
    raise NotExported(
        f"There is no book of {as_of} or before it; the dates that have one are "
        f"{', '.join(days[:SHOWN_DATES])}{more}, the newest is {days[-1]}. No file was written. "
        "Ask for one of these with --as-of, or leave it out for the newest."
    )


def _stage(
    connection: DuckDBPyConnection, exhibit: Exhibit, day: date, *, texts_alone: bool
) -> None:
    """Copy an exhibit, with the names of portfolio and venue, or their ids where they have none."""
    on_day = f"date {literal(day.isoformat())}"
    # The names that a view has stand at its end; here the portfolio's comes first, as people read,
    # and a venue without a name is called by its id.
    named = f"select column_name from (describe select * from {exhibit.view})"
    has = {name for (name,) in connection.execute(named).fetchall()}
    names = has & set(NAMES)
    decimals = {name for name in has if texts_alone and f"{name}_text" in has}
    without = ", ".join(map(quote_identifier, sorted(names | decimals)))
    columns = f"given.* exclude ({without})" if without else "given.*"
    if PORTFOLIO_NAME in names:
        columns = (
            f"coalesce(given.portfolio_name, given.portfolio_id) as {PORTFOLIO_NAME}, {columns}"
        )
    if VENUE_NAME in names:
        columns += f", coalesce(nullif(given.venue_name, ''), given.venue_id) as {VENUE_NAME}"
    order = ", ".join(f"given.{quote_identifier(name)}" for name in exhibit.key)
    connection.execute(
        f"create or replace temp table {exhibit.staged_name} as select {columns} "
        f"from {exhibit.view}_as_of({on_day}) as given order by {order}"
    )


def _notices(
    connection: DuckDBPyConnection,
    snapshot: Mapping[str, Any],
    as_of: date | None,
    *,
    is_firm: bool,
) -> Iterator[str]:
    day = snapshot["snapshot_date"]
    if as_of is not None and as_of != day:
        yield f"{as_of} has no book: this is the one of {day}, the newest on or before it."
    yield from (
        _missing(connection, day) if is_firm else _waiting_nights(connection, snapshot, as_of)
    )
    if snapshot["reject_count"]:
        yield (
            f"{snapshot['reject_count']} things that the API sent break the contract and are not "
            "in these figures: see ops.rejects."
        )
    if snapshot["state"] == ACCEPTED and snapshot["reason"]:
        yield f"This night was accepted by {snapshot['decided_by']}: {snapshot['reason']}."


def _waiting_nights(
    connection: DuckDBPyConnection, snapshot: Mapping[str, Any], as_of: date | None
) -> Iterator[str]:
    """Yield the nights that are held since the book was taken."""
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
            f"A newer night is held and not in these figures: {row['snapshot_id']}, because "
            f"{row['reason'] or 'the guards stopped it'}."
        )


def _missing(connection: DuckDBPyConnection, day: date) -> Iterator[str]:
    """Yield what a firm's book of a day lacks, and portfolios that several organisations see."""
    nights = records(
        connection,
        "select * from ops.nights where not is_in_book and snapshot_date = ? order by source",
        day,
    )
    for row in nights:
        last = f"its last book is of {row['as_of']}" if row["as_of"] else "it has no book yet"
        yield (
            f"{row['source']} is not in these figures: {row['state']}, because "
            f"{row['reason'] or 'the guards stopped it'}; {last}."
        )
    away = {row["source"] for row in nights}
    told = [
        f"{portfolio.portfolio_id} (seen by {', '.join(portfolio.sources)}; counted for "
        f"{portfolio.counted_for})"
        for portfolio in shared_portfolios(connection, day)
        if not portfolio.is_settled or portfolio.counted_for in away
    ]
    if told:
        yield (
            "Portfolios that several organisations see count once. Nobody said for which these "
            f"count, or theirs is not in these figures: {and_more(told, SHOWN_DATES)}. See "
            "firm_shared_portfolios."
        )
