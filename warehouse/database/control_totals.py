"""Control totals of a book, recomputed from the rows in the database."""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model; values are parameters

from collections.abc import Iterable
from typing import Any

from duckdb import DuckDBPyConnection

from warehouse.contract.book import BOOK
from warehouse.contract.model import literal, quote_identifier
from warehouse.contract.ops import CONTROL_TOTALS
from warehouse.database.ddl import stored_as
from warehouse.database.load import Book
from warehouse.database.materialized_views import materialized_as, stored_total

_KEY = ("table_name", "measure", "asset_id", "is_custom_asset", "bucket")


def count_totals(
    connection: DuckDBPyConnection, book: Book, *, is_deduplicated: bool
) -> tuple[str, ...]:
    """Fill in_warehouse of the control totals of the book in schema main.

    Return a message for each total that differs from the lake. Differences between the JSON and
    the lake are not reported here, because the guards check them and a person may have accepted
    them. If `is_deduplicated`, equal totals are stored once and `ops.control_totals` is a view.
    """
    # Measure into a temporary table, so that the comparison and the update use the same figures.
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
    return tuple(_difference(row) for row in differences)


def forget_totals(
    connection: DuckDBPyConnection, snapshot_ids: Iterable[str], *, is_deduplicated: bool
) -> None:
    """Clear in_warehouse of nights whose rows are removed from the database."""
    name = materialized_as(CONTROL_TOTALS.name) if is_deduplicated else stored_as(CONTROL_TOTALS)
    for snapshot_id in snapshot_ids:
        connection.execute(
            f"update {name} set in_warehouse = null where snapshot_id = ?", [snapshot_id]
        )


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


def _difference(row: tuple[Any, ...]) -> str:
    table, measure, asset, bucket, in_json, in_lake, in_warehouse = row
    details = f", asset {asset!r} in {bucket!r}" if asset else ""
    return (
        f"{measure} of {table}{details}: {in_json} in the JSON, {in_lake} in the lake, "
        f"{in_warehouse} in the database"
    )
