"""Put the rows of materialized views into a warehouse that is being built, night by night."""

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

# What compares a book with the one before it: a night that is put in changes it for the next.
COMPARED = "findings"
# A year of it is asked whole, and small: in DuckDB before 2.0 its texts cost 180 ms (measured).
WITH_TEXTS = "holdings_by_asset"


def remove_rows(
    connection: DuckDBPyConnection, days: Iterable[date], names: Iterable[str] = MATERIALIZED
) -> None:
    """Take the rows of these dates out."""
    for day in days:
        for name in names:
            connection.execute(
                f"delete from {materialized_as(name)} where snapshot_date = ?", [day]
            )


def materialize_holdings(connection: DuckDBPyConnection, books: Sequence[Book]) -> None:
    """Store what these books hold, as their files of the lake have it: nothing is added up."""
    views = {view.name: view for view in materialized_views()}
    ordered = sorted(books, key=lambda book: book.snapshot_date)
    for start in range(0, len(ordered), TOGETHER):
        some = ordered[start : start + TOGETHER]
        for table in HOLDINGS:
            source = files_of_days(connection, table, some)
            rows = f"(select * exclude (snapshot_id) from {source})"
            connection.execute(_insert(views[table.name], rows))


def materialize_comparison(connection: DuckDBPyConnection, day: date) -> None:
    """Store what a book says against the one before: both are shown under the plain names."""
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
    """Yield the dates, not changed themselves, whose book before is another one now."""
    ordered, others = sorted(days), set(changed)
    after = {next((day for day in ordered if day > other), None) for other in others}
    yield from sorted(day for day in after if day is not None and day not in others)
