"""The state of each source in a firm's book, and the portfolios that several sources can see.

This module is quick to import, because `nightbook query` shows the state with every result.
"""

# ruff: noqa: S608 - names are ours; values are parameters

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from duckdb import DuckDBPyConnection

from warehouse.contract.states import HELD
from warehouse.query.connect import connect, records, scalar

Night = tuple[date, str]
"""Date and id of a snapshot."""
_LAST_NIGHT = (
    "select * from ops.nights where snapshot_date = (select max(snapshot_date) from ops.nights) "
    "order by source"
)
_MISSING_NIGHTS = (
    "select * from ops.nights where not is_in_book "
    "and snapshot_date = (select newest_date from ops.build) order by source"
)
_SHARED = """
select portfolio_id, portfolio_name as name, list(source order by source) as sources,
    counted_for, is_settled, differs
from firm_shared_portfolios
inner join (select source, portfolio_id, snapshot_date from ops.shared_portfolios)
    using (portfolio_id, snapshot_date)
group by all
order by is_settled, portfolio_id
"""
_SHARED_ON = """
select portfolio_id, list(source order by source) as sources, counted_for, is_settled
from ops.shared_portfolios
where snapshot_date = ?
group by all
order by is_settled, portfolio_id
"""
_WAITING = """
select source, max(snapshot_id) as snapshot_id, count(*) as nights
from ops.snapshots where state = ? group by source order by source
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmNight:
    """One source in the firm's newest night: whether it is in the book and, if not, the reason."""

    source: str
    snapshot_date: date
    is_in_book: bool
    state: str
    snapshot_id: str | None
    as_of: date | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPortfolio:
    """A portfolio that several sources can see.

    `counted_for` is the source that the portfolio counts for. `is_settled` is true if firm.toml
    names that source. `differs` is true if the sources report different amounts.
    """

    portfolio_id: str
    sources: tuple[str, ...]
    counted_for: str
    is_settled: bool
    name: str | None = None
    differs: bool = False

    def __str__(self) -> str:
        name = f" ({self.name})" if self.name else ""
        differs = ", which report different amounts" if self.differs else ""
        return (
            f"portfolio {self.portfolio_id}{name} is in the books of {', '.join(self.sources)}"
            f"{differs}; it is counted only once, for {self.counted_for}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmState:
    """The state of the sources in a firm's book. The keys of all mappings are source names.

    - `nights`: the newest requested night, with a row for each source.
    - `book`: the date of the newest book.
    - `lacking`: the sources that are not in the newest book.
    - `problems`: the reason why the source could not be read.
    - `waiting`: the ID of the newest held snapshot, and the number of held snapshots.
    - `removed`: the time when the source was removed from firm.toml.
    - `shared`: the portfolios that several sources can see.
    """

    nights: tuple[FirmNight, ...]
    book: date | None
    lacking: tuple[FirmNight, ...]
    problems: Mapping[str, str]
    waiting: Mapping[str, tuple[str, int]]
    removed: Mapping[str, datetime]
    shared: tuple[SharedPortfolio, ...]

    @property
    def unsettled_portfolios(self) -> tuple[SharedPortfolio, ...]:
        """The shared portfolios that firm.toml does not assign to any source that can see them."""
        return tuple(portfolio for portfolio in self.shared if not portfolio.is_settled)

    @property
    def waits(self) -> bool:
        """Whether a person must decide about a held night or a shared portfolio."""
        return bool(self.waiting or self.unsettled_portfolios)

    @property
    def is_whole(self) -> bool:
        """Whether the newest night's book contains every source, and every source could be read."""
        is_in_book = all(firm_night.is_in_book for firm_night in self.nights)
        return bool(self.nights) and is_in_book and not self.problems


@dataclass(frozen=True, slots=True)
class KnownSources:
    """Each source's snapshots in a firm's book, and its row in `ops.sources`."""

    nights: Mapping[str, Collection[Night]]
    rows: Mapping[str, Mapping[str, Any]]

    def left_since(self, name: str, names: Collection[str]) -> list[str]:
        """Return the sources that were removed from firm.toml since the source `name` was added.

        `name` may be a new name for one of them. `names` are the sources now in firm.toml.
        """
        since = self.rows[name]["since"] if name in self.rows else None
        gone = {other: row["gone_since"] for other, row in self.rows.items() if other not in names}
        return sorted(
            other for other, time in gone.items() if not time or (since and time >= since)
        )


def has_sources(connection: DuckDBPyConnection) -> bool:
    """Return whether an open warehouse is a firm's book, whose tables have a source column."""
    query = "select count(*) from duckdb_tables() where schema_name = 'ops' and table_name = ?"
    return bool(scalar(connection, f"{query} and database_name = current_database()", "sources"))


def state_of(connection: DuckDBPyConnection) -> FirmState:
    """Return the state of the sources in a firm's book that is already open."""
    sources = known_sources(connection)
    return FirmState(
        nights=_nights(connection, _LAST_NIGHT),
        book=scalar(connection, "select newest_date from ops.build"),
        lacking=_nights(connection, _MISSING_NIGHTS),
        problems={name: row["problem"] for name, row in sources.items() if row["problem"]},
        waiting={
            row["source"]: (row["snapshot_id"], row["nights"])
            for row in records(connection, _WAITING, HELD)
        },
        removed={name: row["gone_since"] for name, row in sources.items() if not row["is_listed"]},
        shared=shared_portfolios(connection),
    )


def shared_portfolios(
    connection: DuckDBPyConnection, day: date | None = None
) -> tuple[SharedPortfolio, ...]:
    """Return the portfolios that several sources can see, in one day's book or in all books."""
    # Check that the view exists, because an older version of nightbook may have written the file.
    # The next publish creates the view.
    if not scalar(
        connection,
        "select count(*) from duckdb_views() where view_name = 'firm_shared_portfolios' "
        "and database_name = current_database()",
    ):
        return ()
    query, values = (_SHARED, []) if day is None else (_SHARED_ON, [day])
    return tuple(
        SharedPortfolio(**row | {"sources": tuple(row["sources"])})
        for row in records(connection, query, *values)
    )


def read_state(database: Path) -> FirmState:
    """Return the state of the sources in a firm's published book.

    Raises the same errors as `connect`.
    """
    with connect(database) as connection:
        return state_of(connection)


def read_known_sources(database: Path) -> KnownSources:
    """Return the known sources in a firm's published book. Raises the same errors as `connect`."""
    nights: dict[str, set[Night]] = defaultdict(set)
    query = "select source, snapshot_date, snapshot_id from ops.snapshots"
    with connect(database) as connection:
        for source, day, snapshot_id in connection.execute(query).fetchall():
            nights[source].add((day, snapshot_id))
        return KnownSources(nights, known_sources(connection))


def known_sources(connection: DuckDBPyConnection, catalog: str = "") -> dict[str, dict[str, Any]]:
    """Return the rows of `ops.sources` by source, in the open database or an attached `catalog`."""
    query = f"select * from {catalog}ops.sources order by source"
    return {row["source"]: row for row in records(connection, query)}


def _nights(connection: DuckDBPyConnection, query: str) -> tuple[FirmNight, ...]:
    return tuple(FirmNight(**row) for row in records(connection, query))
