"""Materialized views: their rows are stored night by night, so that a year of them is only read.

A night's rows are taken from the view itself, which is in schema `internal`, when the night is put
in, and shown as `history.NAME`; `main.NAME` is those of the newest book. Where there are many, the
exact text of an amount is stored only where DECIMAL(38,18) cannot hold it; else it is made from the
number. Of a control total that is the same in JSON, lake and database, the text is stored once.
"""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model; values are parameters

from collections.abc import Sequence

from warehouse.contract.model import Kind, quote_identifier
from warehouse.sql.catalog import MATERIALIZED, views
from warehouse.sql.header import SqlFile

# What suits columns of many rows: DuckDB need not try what else would, which costs as much again.
_COMPRESSIONS = dict.fromkeys(
    ("portfolio_id", "asset_id", "venue_id", "account_name", "bucket", "state"), "dictionary"
)
_COMPRESSIONS |= dict.fromkeys(("portfolio_name", "venue_name", "severity", "kind"), "dictionary")
_COMPRESSIONS["amount_text"] = "fsst"
# In the place of a total that is the one to the left of it: two thirds of their bytes (measured).
_SAME = "'='"
_IN_LAKE = f"case in_lake when {_SAME} then in_json else in_lake end"
STORED_LAKE_TOTAL = f"case when in_lake = in_json then {_SAME} else in_lake end as in_lake"
_INTEGERS = ("accounts", "venues", "portfolios", "severity_rank")


def compression(column: str) -> str:
    """Return how a column is compressed, where that is known to suit it."""
    return f" using compression {_COMPRESSIONS[column]}" if column in _COMPRESSIONS else ""


def materialized_views() -> tuple[SqlFile, ...]:
    """Return the views that are materialized."""
    return tuple(view for view in views() if view.name in MATERIALIZED)


def materialized_as(name: str) -> str:
    """Return the table of a view's rows, schema and name, quoted."""
    return f"internal.{quote_identifier(f'materialized_{name}')}"


def amounts_of(view: SqlFile) -> list[str]:
    """Return the sums of a view, which have a twin with their exact text."""
    return [name for name in view.entries if f"{name}_text" in view.entries]


def _kind(name: str, amounts: Sequence[str]) -> Kind:
    if name in amounts:
        return Kind.AMOUNT
    if name in _INTEGERS:
        return Kind.COUNT
    if name == "snapshot_date":
        return Kind.DAY
    return Kind.FLAG if name.startswith("is_") else Kind.TEXT


def create_rows_of(view: SqlFile) -> str:
    """Return the statement that makes the table of a view's rows."""
    columns = ",\n    ".join(
        f"{quote_identifier(name)} {_kind(name, amounts_of(view)).value}{compression(name)}"
        for name in view.entries
    )
    return f"create table {materialized_as(view.name)} (\n    {columns}\n)"


def history_of(view: SqlFile) -> str:
    """Return the statement that makes the view of all nights."""
    name = quote_identifier(view.name)
    return f"create or replace view history.{name} as {rows_with_texts(view)}"


def rows_with_texts(view: SqlFile) -> str:
    """Return a query for the stored rows, each amount with its text."""
    texts = ", ".join(
        f"coalesce({name}_text, regexp_replace({name}::varchar, '\\.?0+$', '')) as {name}_text"
        for name in amounts_of(view)
    )
    replaced = f" replace ({texts})" if texts else ""
    return f"select *{replaced} from {materialized_as(view.name)}"


def stored_total(total: str) -> str:
    """Return how a total of the rows here is stored, beside that of the lake."""
    return f"case when {total} = {_IN_LAKE} then {_SAME} else {total} end"


def control_totals() -> str:
    """Return a query for the stored control totals, each with all of its texts."""
    here = f"case in_warehouse when {_SAME} then {_IN_LAKE} else in_warehouse end"
    return (
        f"select * replace ({_IN_LAKE} as in_lake, {here} as in_warehouse) "
        f"from {materialized_as('control_totals')}"
    )
