"""The firm's book as DDL: tables with their source in front, and views that show its newest night.

No view of a source is written again: their rows are taken as the source's own warehouse gives them.
"""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model; values are parameters

import hashlib
from collections.abc import Iterator, Mapping
from datetime import date

from warehouse.contract.book import BOOK
from warehouse.contract.firm import GATE, OF_SOURCES, SOURCE, of_firm
from warehouse.contract.model import Table, literal, quote_identifier
from warehouse.contract.ops import BUILD
from warehouse.contract.reconciliation import RECONCILED
from warehouse.database import ddl
from warehouse.sql.catalog import (
    AS_OF,
    BEFORE,
    MATERIALIZED,
    at_day_of_each,
    firm_views,
    macros,
    ops_views,
    views,
)
from warehouse.sql.header import SqlFile

# What the newest book of a source says is taken of these, and what every book says of the others.
NEWEST = (
    *((view, "main") for view in views() if view.name not in MATERIALIZED),
    *((view, "ops") for view in ops_views()),
)
NIGHTLY_VIEWS = tuple(view for view in views() if view.name in MATERIALIZED)
# The other macros ask the nights of one organisation: in its own warehouse.
_PURE = ("exact_sum",)
_NEWEST_BOOK = (
    "select coalesce(book_date, error('no book on or before ' "
    "|| coalesce(day::date::varchar, 'NULL') || ': see ops.nights')) from "
    "(select max(snapshot_date) as book_date from ops.nights "
    "where is_in_book and snapshot_date <= day::date)"
)


def structure() -> Iterator[str]:
    """Yield the statements that make the tables of an empty firm's book, but those of views."""
    yield "create schema history"
    yield "create schema ops"
    yield "create schema internal"
    for table in (*OF_SOURCES, *GATE, *RECONCILED, BUILD):
        yield ddl.create_table(table)
        yield from ddl.comments_on(
            "table", ddl.stored_as(table), table.meaning, ddl.meanings_of(table)
        )


def rows_of(view: SqlFile) -> str:
    """Return the table that keeps the rows of a view, schema and name, quoted."""
    schema = "history" if view.name in MATERIALIZED else "internal"
    return f"{schema}.{quote_identifier(view.name)}"


def tables_of_views(pattern: str) -> Iterator[str]:
    """Yield statements that make those tables, with the columns that the views of a file have."""
    for view, schema in (*NEWEST, *((view, "main") for view in NIGHTLY_VIEWS)):
        yield (
            f"create table {rows_of(view)} as select ''::varchar as {SOURCE.name}, * "
            f"from {pattern}.{schema}.{quote_identifier(view.name)} limit 0"
        )


def surface(newest: date | None) -> Iterator[str]:
    """Yield statements that make macros, and the views that show the book of a date."""
    for macro in macros():
        if macro.schema == "internal" or macro.name in _PURE:
            yield from ddl.create_macro(macro)
    yield from _as_of_macros()
    day = "null::date" if newest is None else f"date {literal(newest.isoformat())}"
    yield (
        "create or replace view internal.tonight as select source, "
        f"{day} as snapshot_date from ops.nights where is_in_book and snapshot_date = {day}"
    )
    for table in map(of_firm, BOOK):
        yield from _show(
            table.name, ddl.stored_as(table), day, table.meaning, ddl.meanings_of(table)
        )
        if table.name in BEFORE:
            yield from _before(table, day)
    for view in NIGHTLY_VIEWS:
        yield from _show(view.name, rows_of(view), day, view.comment, _entries(view))
        yield from ddl.comments_on("table", rows_of(view), view.comment, _entries(view))
    for view, schema in NEWEST:
        name = f"{schema}.{quote_identifier(view.name)}"
        yield (
            f"create or replace view {name} as select * from {rows_of(view)} "
            "where source in (select source from internal.tonight)"
        )
        yield from ddl.comments_on("view", name, view.comment, _entries(view))
    for view in firm_views():
        yield f"create or replace view main.{quote_identifier(view.name)} as\n{view.sql}"
        yield from ddl.comments_on(
            "view", f"main.{quote_identifier(view.name)}", view.comment, view.entries
        )


def schema_version() -> str:
    """Return a digest of all that shapes the file; with another one it is built anew."""
    shape = "\n".join([ddl.schema_version(), *structure(), *surface(None)])
    return hashlib.sha256(shape.encode()).hexdigest()[:16]


def _entries(view: SqlFile) -> dict[str, str]:
    return {SOURCE.name: SOURCE.meaning, **view.entries}


def _show(
    name: str, stored: str, day: str, meaning: str, columns: Mapping[str, str]
) -> Iterator[str]:
    """Yield the view of a date, with its comments."""
    shown = f"main.{quote_identifier(name)}"
    yield f"create or replace view {shown} as select * from {stored} where snapshot_date = {day}"
    yield from ddl.comments_on("view", shown, meaning, columns)


def _before(table: Table, day: str) -> Iterator[str]:
    """Yield the view of the book before, of each source that the newest book holds."""
    name = f"main.{quote_identifier(f'{table.name}_before')}"
    yield (
        f"create or replace view {name} as select * from {ddl.stored_as(table)} "
        "where (source, snapshot_date) in (select (source, max(snapshot_date)) from ops.nights "
        f"where is_in_book and snapshot_date < {day} "
        "and source in (select source from internal.tonight) group by source)"
    )
    meaning = f"`{table.name}` of each source's book before the newest. {table.meaning}"
    yield from ddl.comments_on("view", name, meaning, ddl.meanings_of(table))


def _as_of_macros() -> Iterator[str]:
    stored = {view.name: rows_of(view) for view in NIGHTLY_VIEWS if view.name in AS_OF}
    stored["balances"] = "history.balances"
    queries = {
        name: f"select * from {table} where snapshot_date = ({_NEWEST_BOOK})"
        for name, table in stored.items()
    }
    sources = (
        "select source, snapshot_date from ops.nights "
        f"where is_in_book and snapshot_date = ({_NEWEST_BOOK})"
    )
    queries |= {
        view.name: at_day_of_each(view.sql, sources)
        for view in views()
        if view.name in AS_OF and view.name not in stored
    }
    for name, query in queries.items():
        yield f"create or replace macro {name}_as_of(day) as table\n{query}"
        yield (
            f"comment on macro table {name}_as_of is '{name}_as_of(day): `{name}` of the firm as "
            "it was on a day: the sources that the book of that night holds. day: any date; the "
            "newest book on or before it is used. An error where there is none.'"
        )
