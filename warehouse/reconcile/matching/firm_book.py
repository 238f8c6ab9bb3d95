"""A firm's book as a reconciliation reads it: a portfolio is told with its organisation.

Everything that asks for a book of one organisation asks the same of this one: in memory stand views
of the firm's tables that have no source, and whose portfolios have it in their id and name.
"""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection

from warehouse.contract.book import BOOK
from warehouse.contract.model import Table, literal, quote_identifier
from warehouse.query.book import OpenBook, book
from warehouse.query.connect import HARDENED
from warehouse.reconcile.terms.dimensions import BETWEEN_SOURCE
from warehouse.sql.catalog import macros


@contextlib.contextmanager
def open_book(database: Path, as_of: date | None) -> Iterator[OpenBook]:
    """Open the book of a day for a reconciliation; raises as `book` does."""
    with book(database, as_of, ()) as source:
        if not source.is_firm:
            yield source
            return
        with contextlib.closing(_by_portfolio(database)) as connection:
            yield replace(source, connection=connection)


def _by_portfolio(database: Path) -> DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": "1"})
    try:
        connection.execute(f"attach {literal(str(database.resolve()))} as firm (read_only)")
        for name in (*HARDENED, "enable_external_access"):
            connection.execute(f"set {name} = false")
        connection.execute("set TimeZone = 'UTC'")
        for schema in ("history", "ops", "internal"):
            connection.execute(f"create schema {schema}")
        for macro in macros():
            if macro.schema == "internal" or macro.name == "exact_sum":
                connection.execute(macro.sql)
        for table in BOOK:
            connection.execute(_view(table))
        connection.execute("create view ops.snapshots as select * from firm.main.firm_nights")
    except BaseException:
        connection.close()
        raise
    return connection


def _view(table: Table) -> str:
    name = quote_identifier(table.name)
    own = f"source || {literal(BETWEEN_SOURCE)} || "
    columns = [
        f"{own}{column} as {column}"
        for column in ("portfolio_id", *(["name"] if table.name == "portfolios" else []))
        if column in table.names
    ]
    replaced = f" replace ({', '.join(columns)})" if columns else ""
    # What a venue is stands in every organisation's list: one row is enough.
    place = ", ".join(table.key)
    once = "" if columns else f"distinct on ({place}) "
    return (
        f"create view history.{name} as select {once}* exclude (source){replaced} "
        f"from firm.history.{name}{'' if columns else f' order by {place}, source'}"
    )
