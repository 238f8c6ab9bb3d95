"""The firm's book as DDL: tables with a source column, and views that show the newest night.

View rows are copied from each source's warehouse. A portfolio that several sources can see counts
only once. Schema `internal` stores all rows, and each view omits the rows that count for another
source. The few views that add up portfolios are then recomputed from the same SQL.
"""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model; values are parameters

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
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
    reading,
    tables_in,
    views,
    views_of,
)
from warehouse.sql.header import SqlFile

# Views that are copied only for a source's newest book, and views that are copied for every book.
NEWEST = (
    *((view, "main") for view in views() if view.name not in MATERIALIZED),
    *((view, "ops") for view in ops_views()),
)
NIGHTLY_VIEWS = tuple(view for view in views() if view.name in MATERIALIZED)
_OF_PORTFOLIOS = "portfolio_id"
# Nightly views that add up portfolios, and views that compare the newest book with the previous
# book. The same portfolio may belong to different sources in the two books.
_SUMS = ("holdings_by_asset", "holdings_by_venue")
_COMPARED = ("changes", "roll_forward", "asset_moves")
# Do not filter this view by portfolio, because its rows describe all data of a source and contain
# no amounts to add up.
_UNFILTERED = "findings"
_BOOKS = "select snapshot_id, snapshot_date from ops.snapshots where source = $source and is_book"
# `asset_moves` also reads these two relations. Recompute both for each source, because a source's
# own control totals include portfolios that count for other sources.
_MOVED = {
    "internal.books": _BOOKS,
    "ops.control_totals": "select snapshot_id, 'sum' as measure, asset_id, is_custom_asset, "
    "exact_sum(amount_text) as in_lake from history.balances as balances "
    f"inner join ({_BOOKS} order by snapshot_date desc limit 2) as books using (snapshot_date) "
    "where source = $source group by snapshot_id, asset_id, is_custom_asset",
}
_SET_ASIDE = (
    "create view internal.set_aside as select source, snapshot_date, portfolio_id "
    "from ops.shared_portfolios where source <> counted_for"
)
# The public macros that a firm's book copies. All other public macros query the nights of a single
# organisation.
_PURE = ("exact_sum",)
_NEWEST_BOOK = (
    "select coalesce(book_date, error('no book on or before ' "
    "|| coalesce(day::date::varchar, 'NULL') || ': see ops.nights')) from "
    "(select max(snapshot_date) as book_date from ops.nights "
    "where is_in_book and snapshot_date <= day::date)"
)


def structure() -> Iterator[str]:
    """Yield the statements that create the schemas and tables of an empty firm's book.

    `tables_of_views` creates the tables that store rows of views.
    """
    yield "create schema history"
    yield "create schema ops"
    yield "create schema internal"
    for table in (*map(_optional, OF_SOURCES), *GATE, *RECONCILED, BUILD):
        stored = stored_as(table)
        yield ddl.create_table(table, stored)
        yield from ddl.comments_on("table", stored, table.meaning, ddl.meanings_of(table))
    yield _SET_ASIDE


def _optional(table: Table) -> Table:
    """Make all non-key columns of an ops table nullable. Return a table of the book unchanged.

    Rows of an unreadable source are copied from an older file, which may lack some columns.
    """
    if table.schema == "main":
        return table
    columns = (
        column if column.name in table.key else replace(column, nullable=True)
        for column in table.columns
    )
    return replace(table, columns=tuple(columns))


def stored_as(table: Table) -> str:
    """Return the quoted, qualified name of the table that stores a declared table's rows."""
    if table.schema == "main" and _OF_PORTFOLIOS in table.names:
        return f"internal.{quote_identifier(table.name)}"
    return ddl.stored_as(table)


def rows_of(view: SqlFile) -> str:
    """Return the quoted, qualified name of the table that stores a view's rows."""
    schema = "history" if view.name == _UNFILTERED else "internal"
    return f"{schema}.{quote_identifier(view.name)}"


def tables_of_views(pattern: str) -> Iterator[str]:
    """Yield the statements that create an empty table for the rows of each view.

    The columns are copied from the views in `pattern`, the name of an attached warehouse.
    """
    for view, schema in (*NEWEST, *((view, "main") for view in NIGHTLY_VIEWS)):
        yield (
            f"create table {rows_of(view)} as select ''::varchar as {SOURCE.name}, * "
            f"from {pattern}.{schema}.{quote_identifier(view.name)} limit 0"
        )


def surface(
    newest: date | None, shared: Collection[str] = (), shared_lately: Collection[str] = ()
) -> Iterator[str]:
    """Yield the statements that create the macros and views. `newest` is the newest book's date.

    `shared` contains the sources that have a portfolio which counts for another source on at least
    one date. `shared_lately` contains the sources that have such a portfolio in the newest book or
    in the previous book.
    """
    for macro in macros():
        if macro.schema == "internal" or macro.name in _PURE:
            yield from ddl.create_macro(macro)
    yield from _history(shared)
    yield from _as_of_macros()
    day = "null::date" if newest is None else f"date {literal(newest.isoformat())}"
    yield (
        "create or replace view internal.tonight as select source, "
        f"{day} as snapshot_date from ops.nights where is_in_book and snapshot_date = {day}"
    )
    for table in map(of_firm, BOOK):
        yield from _view_of_day(table.name, day, table.meaning, ddl.meanings_of(table))
        if table.name in BEFORE:
            yield from _view_of_day_before(table, day)
    for view in NIGHTLY_VIEWS:
        yield from _view_of_day(view.name, day, view.comment, _entries(view))
    for view, schema in NEWEST:
        name = f"{schema}.{quote_identifier(view.name)}"
        yield f"create or replace view {name} as {_newest_query(view, day, shared_lately)}"
        yield from ddl.comments_on("view", name, view.comment, _entries(view))
    for view in firm_views():
        yield f"create or replace view main.{quote_identifier(view.name)} as\n{view.sql}"
        yield from ddl.comments_on(
            "view", f"main.{quote_identifier(view.name)}", view.comment, view.entries
        )


def schema_version() -> str:
    """Return a digest of the database's definitions. A changed digest causes a rebuild."""
    shape = "\n".join([ddl.schema_version(), *structure(), *surface(None)])
    return hashlib.sha256(shape.encode()).hexdigest()[:16]


def _entries(view: SqlFile) -> dict[str, str]:
    return {SOURCE.name: SOURCE.meaning, **view.entries}


def _history(shared: Collection[str]) -> Iterator[str]:
    """Yield the statements that create the views in schema history, which show all nights.

    The views omit each source's rows of portfolios that count for another source.
    """
    counted = "anti join internal.set_aside using (source, snapshot_date, portfolio_id)"
    for table in map(of_firm, BOOK):
        if (stored := stored_as(table)) != (name := ddl.stored_as(table)):
            yield f"create or replace view {name} as select * from {stored} {counted}"
            yield from ddl.comments_on("view", name, table.meaning, ddl.meanings_of(table))
    for view in NIGHTLY_VIEWS:
        name, stored = f"history.{quote_identifier(view.name)}", rows_of(view)
        query = f"select * from {stored} {counted}"
        if view.name in _SUMS:
            nights = "(select distinct source, snapshot_date from internal.set_aside)"
            query = f"select * from {stored} anti join {nights} using (source, snapshot_date)"
            dates = "in (select snapshot_date from internal.set_aside where source = $source)"
            query += _recomputed_rows(view, shared, _table_queries(dates))
        if name != stored:
            yield f"create or replace view {name} as {query}"
        kind = "table" if name == stored else "view"
        yield from ddl.comments_on(kind, name, view.comment, _entries(view))


def _table_queries(dates: str, suffix: str = "") -> dict[str, str]:
    """Map the name of each book table to a query for the rows of `$source` on some dates.

    `dates` is an SQL condition without the date column, for example `= date '2026-11-20'`. `suffix`
    is appended to the table names.
    """
    return {
        f"{table.name}{suffix}": "select * exclude (source) from "
        f"history.{quote_identifier(table.name)} where source = $source and snapshot_date {dates}"
        for table in BOOK
    }


def _newest_query(view: SqlFile, day: str, shared: Collection[str]) -> str:
    """Return a query for a view's rows in the newest book, from all sources in that book."""
    query = f"select * from {rows_of(view)} where source in (select source from internal.tonight)"
    if view.name not in _COMPARED:
        ignored = (
            f"(select source, portfolio_id from internal.set_aside where snapshot_date = {day})"
        )
        is_counted = f" and (source, portfolio_id) not in {ignored}"
        return query + is_counted * (_OF_PORTFOLIOS in view.entries)
    if not shared:
        return query
    before = (
        "= (select max(snapshot_date) from ops.nights "
        f"where source = $source and is_in_book and snapshot_date < {day})"
    )
    tables = _table_queries(f"= {day}") | _table_queries(before, "_before") | _MOVED
    names = ", ".join(map(literal, sorted(shared)))
    return f"{query} and source not in ({names}){_recomputed_rows(view, shared, tables)}"


def _recomputed_rows(view: SqlFile, shared: Collection[str], tables: Mapping[str, str]) -> str:
    """Return UNION ALL clauses that add recomputed rows for the `shared` sources to a query.

    The stored rows of these sources include portfolios that count for other sources.
    """
    inner = views_of(view.sql)
    used = {name for sql in (*inner.values(), view.sql) for name in tables_in(sql, {*tables})}
    replacements = {name: tables[name] for name in sorted(used)} | inner
    # Replace the placeholder for the source name last, because the name may contain any characters,
    # including SQL.
    query = f"select $source as source, * from (\n{reading(view.sql, replacements)}\n)"
    return "".join(
        f" union all by name {query.replace('$source', literal(source))}"
        for source in sorted(shared)
    )


def _view_of_day(name: str, day: str, meaning: str, columns: Mapping[str, str]) -> Iterator[str]:
    """Yield the statements that create a view of one date, with its comments."""
    shown = f"main.{quote_identifier(name)}"
    stored = f"history.{quote_identifier(name)}"
    yield f"create or replace view {shown} as select * from {stored} where snapshot_date = {day}"
    yield from ddl.comments_on("view", shown, meaning, columns)


def _view_of_day_before(table: Table, day: str) -> Iterator[str]:
    """Yield the statements that create a view of a table's rows in each source's previous book."""
    name = f"main.{quote_identifier(f'{table.name}_before')}"
    yield (
        f"create or replace view {name} as select * from {ddl.stored_as(table)} "
        "where (source, snapshot_date) in (select (source, max(snapshot_date)) from ops.nights "
        f"where is_in_book and snapshot_date < {day} "
        "and source in (select source from internal.tonight) group by source)"
    )
    meaning = f"The rows of `{table.name}` in each source's previous book. {table.meaning}"
    yield from ddl.comments_on("view", name, meaning, ddl.meanings_of(table))


def _as_of_macros() -> Iterator[str]:
    names = ("balances", *(view.name for view in NIGHTLY_VIEWS if view.name in AS_OF))
    stored = {name: f"history.{quote_identifier(name)}" for name in names}
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
            f"comment on macro table {name}_as_of is '{name}_as_of(day): the rows of `{name}` "
            "for the firm on any day. They include the sources that are in the book of that night. "
            "day: any date. The newest book on or before that date is used. Fails if there is no "
            "such book.'"
        )
