"""A comparison of a database with its body: rows of every table, and sums to the last digit."""

from decimal import Decimal
from pathlib import Path

import duckdb

from tests.tools.performance.bodies import Truth
from tests.tools.performance.peers import DLT_TABLES

_SUMS = """
sum(cast(split_part(amount_text, '.', 1) as decimal(38,0))),
sum(
    (case when amount_text like '-%' then -1 else 1 end)
    * cast(rpad(split_part(amount_text, '.', 2), 18, '0') as decimal(38,0))
)
"""


def verdict(database: Path, truth: Truth) -> str:
    """Return `exact`, `exact, as text only`, or a description of the difference."""
    with duckdb.connect(str(database), read_only=True) as connection:
        names = _names(connection)
        tables = {name: name for name in truth.rows}
        if "history.balances" in names:
            connection.execute("set schema = 'history'")
        if "main.portfolios__positions" in names:
            tables = DLT_TABLES
        wrong = [
            name
            for name, count in truth.rows.items()
            if connection.execute(f"select count(*) from {tables[name]}").fetchone() != (count,)
        ]
        if wrong:
            return f"rows differ in {', '.join(wrong)}"
        listed = "instruments" in truth.rows
        return _instruments(connection, truth) if listed else _balances(connection, truth, tables)


def _names(connection: duckdb.DuckDBPyConnection) -> set[str]:
    query = "select table_schema || '.' || table_name from information_schema.tables"
    return {row[0] for row in connection.execute(query).fetchall()}


def _columns(connection: duckdb.DuckDBPyConnection, source: str) -> set[str]:
    return {row[0] for row in connection.execute(f"describe select * from {source}").fetchall()}


def _balances(connection: duckdb.DuckDBPyConnection, truth: Truth, tables: dict[str, str]) -> str:
    source = tables["balances"]
    typed = "amount" in _columns(connection, source)
    # Integer and fraction are added apart, because the largest amounts do not fit the type. All
    # amounts have at most 18 decimals, so this cast never rounds.
    cast = "try_cast(amount_text as decimal(38,18))"
    query = f"select asset_id || ' ' || bucket, {_SUMS} from {source} group by all"
    rows = connection.execute(query).fetchall()
    found = {key: int(whole) + Decimal(int(part)).scaleb(-18) for key, whole, part in rows}
    wrong = sum(found.get(key) != total for key, total in truth.sums.items())
    if typed:
        query = f"select count(*) from {source} where amount is distinct from {cast}"
        wrong += (connection.execute(query).fetchone() or (1,))[0]
    if wrong or len(found) != len(truth.sums):
        return f"{wrong} sums or amounts differ"
    return "exact" if typed else "exact, as text only"


def _instruments(connection: duckdb.DuckDBPyConnection, truth: Truth) -> str:
    sums = ", ".join(f"sum(cast({name} as decimal(38,18)))" for name in truth.sums)
    found = connection.execute(f"select {sums}, typeof(any_value(min_tick)) from instruments")
    *totals, kind = found.fetchone() or ()
    wrong = sum(one != total for one, total in zip(totals, truth.sums.values(), strict=True))
    if wrong:
        return f"{wrong} sums differ"
    return "exact" if str(kind).startswith("DECIMAL") else "exact, as text only"
