"""The morning report's data: the queries, each together with its rows.

The page shows a query next to each figure. This is always the query that was actually run, because
a `QueryRows` contains both the query and its rows.
"""

import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from string import Template
from typing import Any

import duckdb
from duckdb import DuckDBPyConnection

from warehouse.contract.model import literal
from warehouse.query.connect import open_database, scalar
from warehouse.query.group_values import groups_query, scopes
from warehouse.report.figures import Record, compare_counts, moves, states_by_day

LATE = timedelta(hours=26)
BATCH = 4096  # number of rows to fetch at once if the rows are only counted
_QUERIES = Path(__file__).parent / "queries"
# The queries, grouped by the nights that they need.
_ALWAYS = (
    *("build", "breaks_by_owner", "breaks_over_time", "reconciled"),
    *("attention", "drift", "checks"),
)
_OF_LAST_NIGHT = (
    *("last_night", "night_counts", "control_totals"),
    *("failed_requests", "rejects", "inexact"),
)
_OF_BOOK = ("findings", "findings_solved", "holdings", "locked_funds", "freshness")
_OF_CHANGES = (
    *("changes_by_asset", "changes_by_portfolio", "changes_by_venue"),
    *("changed_names", "totals_over_time"),
)
# The maximum number of rows that a page shows for each query. Queries that are not listed have no
# limit.
_MOST = {
    "attention": 8,
    "drift": 25,
    "failed_requests": 20,
    "rejects": 25,
    "inexact": 25,
    "locked_funds": 25,
    "changes_by_portfolio": 15,
    "changes_by_venue": 15,
    "changed_names": 15,
    "changed_accounts": 15,
    "value": 15,
    "unpriced": 25,
}


class ReportFailed(ValueError):
    """The report could not be created. Nothing was written, and the last report is unchanged."""


@dataclass(frozen=True, slots=True)
class QueryRows:
    """A query, its first rows (keyed by column name), and its total row count."""

    sql: str
    rows: tuple[Record, ...]
    count: int

    def with_rows(self, rows: Iterable[Record]) -> "QueryRows":
        """Return a copy with different rows, which were derived from the rows of this query."""
        derived = tuple(rows)
        return QueryRows(self.sql, derived, len(derived))

    def only(self, **values: object) -> "QueryRows":
        """Return a copy with only the rows in which each named column has the given value."""
        columns = itemgetter(*values)
        wanted = columns(values)
        return self.with_rows(row for row in self.rows if columns(row) == wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nights:
    """All snapshots. `last` is the newest one. `book` and `before` are the two newest books."""

    snapshots: QueryRows
    last: Record | None
    book: Record | None
    before: Record | None

    @property
    def book_day(self) -> date | None:
        """The date of the newest book."""
        return None if self.book is None else self.book["snapshot_date"]

    @property
    def before_day(self) -> date | None:
        """The date of the second newest book."""
        return None if self.before is None else self.before["snapshot_date"]

    @property
    def other_book(self) -> Record | None:
        """The newest book that is not the last snapshot. The report compares the two."""
        return self.before if self.last is not None and self.last["is_book"] else self.book


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportData:
    """All values in a report, read through one connection so that they are consistent."""

    now: datetime
    values: Mapping[str, Any]

    @property
    def day(self) -> str:
        """The report's date, which is also the name of its page."""
        return self.now.date().isoformat()


def load_report(database: Path, now: datetime, pinned: Sequence[str] = ()) -> ReportData:
    """Run all queries for a report. `pinned` lists the IDs of the assets to show first.

    Raises `FileNotFoundError` if no warehouse is published, and `ReportFailed` if the file is not
    a nightbook warehouse.
    """
    with contextlib.closing(open_database(database)) as connection:
        nights = _load_nights(connection)
        values = _load_book(connection, nights, now, pinned)
    return ReportData(now=now, values={"nights": nights, **values})


def run_query(connection: DuckDBPyConnection, name: str, **values: str) -> QueryRows:
    """Run a query from `queries/` with each `$name` replaced by our own SQL.

    Return only as many rows as a page shows, but count all rows. Raises `ReportFailed` if the query
    fails.
    """
    most = _MOST.get(name)
    query = Template((_QUERIES / f"{name}.sql").read_text("utf-8")).substitute(values).strip()
    try:
        result = connection.execute(query)
        names = [str(column[0]) for column in result.description or ()]
        fetched = result.fetchall() if most is None else result.fetchmany(most)
        rows = tuple(dict(zip(names, row, strict=True)) for row in fetched[:most])
        count = len(fetched)
        while most is not None and (more := result.fetchmany(BATCH)):
            count += len(more)
    except duckdb.Error as error:
        raise ReportFailed(
            f"A report query failed: {error}. No report was written. Check the home with "
            "`nightbook doctor`, or rebuild the warehouse with `nightbook rebuild`."
        ) from error
    return QueryRows(query, rows, count)


def _load_nights(connection: DuckDBPyConnection) -> Nights:
    snapshots = run_query(connection, "snapshots")
    books = sorted(
        snapshots.only(is_book=True).rows, key=lambda row: row["snapshot_date"], reverse=True
    )
    return Nights(
        snapshots=snapshots,
        last=snapshots.rows[-1] if snapshots.rows else None,
        book=books[0] if books else None,
        before=books[1] if len(books) > 1 else None,
    )


def _load_book(
    connection: DuckDBPyConnection, nights: Nights, now: datetime, pinned: Sequence[str]
) -> dict[str, Any]:
    last, before = nights.last, nights.before_day
    sql = {
        "before": f"date {literal(before.isoformat())}" if before else "null::date",
        "last": literal(last["snapshot_id"]) if last else "null",
        "compared": ", ".join(
            literal(row["snapshot_id"]) for row in (last, nights.other_book) if row is not None
        ),
        "pinned_first": _pinned_first(pinned),
    }
    queries = (
        *_ALWAYS,
        *(_OF_LAST_NIGHT if last else ()),
        *(_OF_BOOK if nights.book else ()),
        *(_OF_CHANGES if before else ()),
    )
    answers = {name: run_query(connection, name, **sql) for name in queries}
    answers |= _load_values(connection, nights)
    gaps = run_query(connection, "gaps")
    states = states_by_day(nights.snapshots.rows, gaps.rows)
    values: dict[str, Any] = {"gaps": gaps, "states": states, "counted": Counter(states.values())}
    if last:
        counts = compare_counts(last, nights.other_book)
        values["night_counts"] = answers["night_counts"].with_rows(counts)
        values["age"] = now - last["started_at"]
        values["is_late"] = values["age"] > LATE
    if before:
        by_asset = answers["changes_by_asset"]
        values["moved"] = by_asset.with_rows(moves(by_asset.rows))
        for change in ("new", "gone"):
            values[f"{change}_accounts"] = run_query(
                connection, "changed_accounts", change=literal(change), **sql
            )
    return {**answers, **values}


def _load_values(connection: DuckDBPyConnection, nights: Nights) -> dict[str, Any]:
    """Return the values of the book and of its groups, or only None if no currency is set."""
    query = "select max(currency) from internal.price_settings"
    currency, day = scalar(connection, query), nights.book_day
    if not currency or not day:
        return {"currency": None}
    values = {"quote": literal(currency), "day": f"date {literal(day.isoformat())}"}
    book, *groups = (
        (scope, run_query(connection, "value", groups=groups_query(scope, currency, day)))
        for scope in scopes(connection)
    )
    return {
        "currency": currency,
        "value": book[1],
        "value_groups": groups,
        "unpriced": run_query(connection, "unpriced", **values),
    }


def _pinned_first(pinned: Sequence[str]) -> str:
    """Return the SQL sort key that puts the pinned assets first, in the given order."""
    position = f"list_position([{', '.join(map(literal, pinned))}]::varchar[], asset_id)"
    return f"case when not is_custom_asset then {position} end nulls last"
