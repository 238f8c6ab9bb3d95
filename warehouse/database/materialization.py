"""Rows of materialized views, stored night by night in a warehouse that is being built."""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model; values are parameters

from collections.abc import Iterable, Iterator, Sequence
from datetime import date

from duckdb import DuckDBPyConnection

from warehouse.contract.lake import HOLDINGS
from warehouse.contract.model import quote_identifier
from warehouse.database.load import TOGETHER, Book, files_of_days
from warehouse.database.materialized_views import amounts_of, materialized_as, materialized_views
from warehouse.sql.catalog import MATERIALIZED
from warehouse.sql.header import SqlFile

# This view compares a book with the book before it, so a loaded night changes the next night's.
COMPARED = "findings"
# This view is small and often read for a whole year, so it stores all its texts. In DuckDB before
# 2.0, computing them takes 180 ms (measured).
WITH_TEXTS = "holdings_by_asset"


def remove_rows(
    connection: DuckDBPyConnection, days: Iterable[date], names: Iterable[str] = MATERIALIZED
) -> None:
    """Delete the rows of these dates."""
    for day in days:
        for name in names:
            connection.execute(
                f"delete from {materialized_as(name)} where snapshot_date = ?", [day]
            )


def materialize_holdings(connection: DuckDBPyConnection, books: Sequence[Book]) -> None:
    """Store the holdings of these books. They are copied from the lake, which has the sums."""
    views = {view.name: view for view in materialized_views()}
    ordered = sorted(books, key=lambda book: book.snapshot_date)
    for start in range(0, len(ordered), TOGETHER):
        some = ordered[start : start + TOGETHER]
        for table in HOLDINGS:
            source = files_of_days(connection, table, some)
            rows = f"(select * exclude (snapshot_id) from {source})"
            connection.execute(_insert(views[table.name], rows))


def materialize_comparison(connection: DuckDBPyConnection, day: date) -> None:
    """Store the comparison of a book with the book before it; schema main must show both."""
    for view in materialized_views():
        if view.name == COMPARED:
            connection.execute(
                f"delete from {materialized_as(view.name)} where snapshot_date = ?", [day]
            )
            source = f"internal.{quote_identifier(view.name)}"
            connection.execute(f"{_insert(view, source)} order by all")


def _insert(view: SqlFile, source: str) -> str:
    texts = ", ".join(
        f"case when {name} is null then {name}_text end as {name}_text"
        for name in amounts_of(view)
        if view.name != WITH_TEXTS
    )
    replaced = f" replace ({texts})" if texts else ""
    return f"insert into {materialized_as(view.name)} by name select *{replaced} from {source}"


def followers(days: Iterable[date], changed: Iterable[date]) -> Iterator[date]:
    """Yield the unchanged dates whose previous book changed."""
    ordered, others = sorted(days), set(changed)
    after = {next((day for day in ordered if day > other), None) for other in others}
    yield from sorted(day for day in after if day is not None and day not in others)
