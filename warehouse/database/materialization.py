"""Tables that are filled from views, and the database's control totals."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date

from duckdb import DuckDBPyConnection

from warehouse.contract.book import BOOK
from warehouse.contract.lake import HOLDINGS
from warehouse.contract.model import literal, quote_identifier
from warehouse.contract.ops import CONTROL_TOTALS
from warehouse.database.ddl import stored_as
from warehouse.database.load import TOGETHER, Book, files_of_days
from warehouse.database.materialized_views import (
    amounts_of,
    materialized_as,
    materialized_views,
    stored_total,
)
from warehouse.sql.catalog import MATERIALIZED
from warehouse.sql.header import SqlFile

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model; values are parameters


# A view that compares each book with the previous book. If a night is reloaded, the comparison of
# the next night changes too.
COMPARED = "findings"
# Store the strings of all amounts in this view, because the view is small and people often read a
# whole year of it. Before DuckDB 2.0, computing the strings takes 180 ms (measured).
WITH_TEXTS = "holdings_by_asset"


# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model; values are parameters


_KEY = ("table_name", "measure", "asset_id", "is_custom_asset", "bucket")


def remove_rows(
    connection: DuckDBPyConnection, days: Iterable[date], names: Iterable[str] = MATERIALIZED
) -> None:
    """Delete the rows of materialized views for these dates."""
    for day in days:
        for name in names:
            connection.execute(
                f"delete from {materialized_as(name)} where snapshot_date = ?", [day]
            )


def materialize_holdings(connection: DuckDBPyConnection, books: Sequence[Book]) -> None:
    """Store these books' holdings by copying the sums from the lake."""
    views = {view.name: view for view in materialized_views()}
    ordered = sorted(books, key=lambda book: book.snapshot_date)
    for start in range(0, len(ordered), TOGETHER):
        some = ordered[start : start + TOGETHER]
        for table in HOLDINGS:
            source = files_of_days(connection, table, some)
            rows = f"(select * exclude (snapshot_id) from {source})"
            connection.execute(_insert(views[table.name], rows))


def materialize_comparison(
    connection: DuckDBPyConnection, day: date, names: Sequence[str] = (COMPARED,)
) -> None:
    """Store the comparison of a book with the previous book, or the rows of these views.

    Before the call, the views in schema main must show these two books.
    """
    remove_rows(connection, [day], names)
    for view in materialized_views():
        if view.name in names:
            source = f"internal.{quote_identifier(view.name)}"
            connection.execute(f"{_insert(view, source)} order by all")


def followers(days: Iterable[date], changed: Iterable[date]) -> Iterator[date]:
    """Yield the dates whose previous book changed, but whose own book did not."""
    ordered, others = sorted(days), set(changed)
    after = {next((day for day in ordered if day > other), None) for other in others}
    yield from sorted(day for day in after if day is not None and day not in others)


def count_totals(
    connection: DuckDBPyConnection, book: Book, *, is_deduplicated: bool
) -> tuple[str, ...]:
    """Compute the database's control totals for the book that the views in schema main show.

    Store the totals in the column in_warehouse. Return a message for each total that differs from
    the lake. Differences between the JSON and the lake are not reported here, because the guards
    check them and a person may have accepted them. If `is_deduplicated`, equal totals are stored
    once and `ops.control_totals` is a view.
    """
    # Store the measured totals in a temporary table, so that the comparison and the update use the
    # same figures.
    _measure(connection)
    differences = connection.execute(
        "select table_name, measure, asset_id, bucket, in_json, in_lake, measured.total "
        f"from (select * from {stored_as(CONTROL_TOTALS)} where snapshot_id = ?) "
        f"full join measured using ({', '.join(_KEY)}) "
        "where internal.plain_digits(in_lake) is distinct from coalesce(measured.total, '0') "
        "order by all",
        [book.snapshot_id],
    ).fetchall()
    total = stored_total("measured.total") if is_deduplicated else "measured.total"
    name = materialized_as(CONTROL_TOTALS.name) if is_deduplicated else stored_as(CONTROL_TOTALS)
    is_same = " and ".join(f"totals.{column} = measured.{column}" for column in _KEY)
    connection.execute(
        f"update {name} as totals set in_warehouse = {total} "
        f"from measured where {is_same} and snapshot_id = ?",
        [book.snapshot_id],
    )
    connection.execute("drop table measured")
    return tuple(
        f"{measure} of {table}{f', asset {asset!r} in {bucket!r}' if asset else ''}: {in_json} in "
        f"the JSON, {in_lake} in the lake, {in_warehouse} in the database"
        for table, measure, asset, bucket, in_json, in_lake, in_warehouse in differences
    )


def forget_totals(
    connection: DuckDBPyConnection, snapshot_ids: Iterable[str], *, is_deduplicated: bool
) -> None:
    """Clear the column in_warehouse for nights whose rows are removed from the database."""
    name = materialized_as(CONTROL_TOTALS.name) if is_deduplicated else stored_as(CONTROL_TOTALS)
    for snapshot_id in snapshot_ids:
        connection.execute(
            f"update {name} set in_warehouse = null where snapshot_id = ?", [snapshot_id]
        )


def _insert(view: SqlFile, source: str) -> str:
    texts = ", ".join(
        f"case when {name} is null then {name}_text end as {name}_text"
        for name in amounts_of(view)
        if view.name != WITH_TEXTS
    )
    replaced = f" replace ({texts})" if texts else ""
    return f"insert into {materialized_as(view.name)} by name select *{replaced} from {source}"


def _measure(connection: DuckDBPyConnection) -> None:
    rows = " union all ".join(
        f"select {literal(table.name)} as table_name, 'rows' as measure, '' as asset_id, "
        f"false as is_custom_asset, '' as bucket, count(*)::varchar as total "
        f"from main.{quote_identifier(table.name)}"
        for table in BOOK
    )
    connection.execute(
        f"create or replace temp table measured as {rows} union all "
        "select 'balances', 'sum', asset_id, is_custom_asset, bucket, "
        "internal.exact_sums([internal.exact_part(amount, amount_text)])[1].text "
        "from main.balances group by asset_id, is_custom_asset, bucket"
    )
