"""Materialized views: rows are stored every night, so a query over a year only reads stored rows.

When a night is loaded, its rows are taken from the view in schema `internal`. `history.NAME` shows
them for all nights, and `main.NAME` for the newest book. In views with many rows, the exact text of
an amount is stored only if DECIMAL(38,18) cannot hold the amount; otherwise it is computed from the
number. If a control total is the same in the JSON, the lake and the database, it is stored once.
"""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model; values are parameters

from collections.abc import Sequence

from warehouse.contract.model import Kind, quote_identifier
from warehouse.sql.catalog import MATERIALIZED, views
from warehouse.sql.header import SqlFile

# The compression methods of large columns. If a column has no method, DuckDB tries several methods,
# which doubles the time.
_COMPRESSIONS = dict.fromkeys(
    ("portfolio_id", "asset_id", "venue_id", "account_name", "bucket", "state"), "dictionary"
)
_COMPRESSIONS |= dict.fromkeys(("portfolio_name", "venue_name", "severity", "kind"), "dictionary")
_COMPRESSIONS["amount_text"] = "fsst"
# Store this marker instead of a total that equals the total in the previous column. The marker
# saves two thirds of the bytes (measured).
_SAME = "'='"
_IN_LAKE = f"case in_lake when {_SAME} then in_json else in_lake end"
STORED_LAKE_TOTAL = f"case when in_lake = in_json then {_SAME} else in_lake end as in_lake"
_INTEGERS = ("accounts", "venues", "portfolios", "severity_rank")


def compression(column: str) -> str:
    """Return a column's compression clause, or an empty string to use DuckDB's default."""
    return f" using compression {_COMPRESSIONS[column]}" if column in _COMPRESSIONS else ""


def materialized_views() -> tuple[SqlFile, ...]:
    """Return the views that are materialized."""
    return tuple(view for view in views() if view.name in MATERIALIZED)


def materialized_as(name: str) -> str:
    """Return the quoted schema and name of the table that stores a view's rows."""
    return f"internal.{quote_identifier(f'materialized_{name}')}"


def amounts_of(view: SqlFile) -> list[str]:
    """Return a view's amount columns, which are the columns with exact text next to them."""
    return [name for name in view.entries if f"{name}_text" in view.entries]


def create_rows_of(view: SqlFile) -> str:
    """Return the statement that creates the table for a view's rows."""
    columns = ",\n    ".join(
        f"{quote_identifier(name)} {_kind(name, amounts_of(view)).value}{compression(name)}"
        for name in view.entries
    )
    return f"create table {materialized_as(view.name)} (\n    {columns}\n)"


def history_of(view: SqlFile) -> str:
    """Return the statement that creates `history.NAME`, which shows a view for all nights."""
    name = quote_identifier(view.name)
    return f"create or replace view history.{name} as {rows_with_texts(view)}"


def rows_with_texts(view: SqlFile) -> str:
    """Return a query for a view's stored rows, with the exact text of each amount filled in."""
    texts = ", ".join(
        f"coalesce({name}_text, regexp_replace({name}::varchar, '\\.?0+$', '')) as {name}_text"
        for name in amounts_of(view)
    )
    replaced = f" replace ({texts})" if texts else ""
    return f"select *{replaced} from {materialized_as(view.name)}"


def stored_total(total: str) -> str:
    """Return SQL for a total, or for a short marker if the total equals the lake's total."""
    return f"case when {total} = {_IN_LAKE} then {_SAME} else {total} end"


def control_totals() -> str:
    """Return a query for the control totals, with each marker replaced by its total."""
    here = f"case in_warehouse when {_SAME} then {_IN_LAKE} else in_warehouse end"
    return (
        f"select * replace ({_IN_LAKE} as in_lake, {here} as in_warehouse) "
        f"from {materialized_as('control_totals')}"
    )


def _kind(name: str, amounts: Sequence[str]) -> Kind:
    if name in amounts:
        return Kind.AMOUNT
    if name in _INTEGERS:
        return Kind.COUNT
    if name == "snapshot_date":
        return Kind.DAY
    return Kind.FLAG if name.startswith("is_") else Kind.TEXT
