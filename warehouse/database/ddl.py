"""The contract as DDL: schemas, tables, views, macros and their comments.

This module does not open a database. Names never include a catalog, so the file can be attached
under any name.
"""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model; values are parameters

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date

from warehouse.contract.book import BOOK
from warehouse.contract.lake import lake_contract
from warehouse.contract.model import Column, Kind, Table, literal, quote_identifier
from warehouse.contract.ops import OPS
from warehouse.contract.reconciliation import RECONCILED
from warehouse.contract.reference import CONTRACTED, REFERENCED
from warehouse.database.materialized_views import (
    compression,
    control_totals,
    create_rows_of,
    history_of,
    materialized_views,
)
from warehouse.sql.catalog import (
    BEFORE,
    MATERIALIZED,
    Macro,
    checks,
    history_views,
    macros,
    ops_views,
    views,
)
from warehouse.sql.header import SqlFile
from warehouse.storage.layout import STORAGE_SETTINGS, STORAGE_VERSION

# The settings that the price macros read.
PRICE_SETTINGS = "internal.price_settings"
# The rows of all labels. A key that the label does not have is NULL.
LABELS = "internal.labels"
LABEL_KEYS = ("portfolio_id", "venue_id", "asset_id", "account_name")


def stored_as(table: Table) -> str:
    """Return a declared table's name in the database, quoted and with its schema."""
    schema = "history" if table.schema == "main" else table.schema
    return f"{schema}.{quote_identifier(table.name)}"


def structure() -> Iterator[str]:
    """Yield the statements that create an empty warehouse: schemas, tables and their comments."""
    yield "create schema history"
    yield "create schema ops"
    # Keep the helpers of macros and views in a separate schema, so that SQL clients do not suggest
    # the helpers to users.
    yield "create schema internal"
    yield "create schema reference"
    yield (
        f"create table {PRICE_SETTINGS} (sources varchar[], max_age_days integer, "
        "currency varchar, cross_asset varchar, cross_quote varchar, cross_source varchar)"
    )
    keys = ", ".join(f"{key} varchar" for key in LABEL_KEYS)
    yield f"create table {LABELS} (label varchar, {keys}, is_custom_asset boolean, value varchar)"
    for table in (*BOOK, *OPS, *RECONCILED, *REFERENCED, *CONTRACTED):
        yield create_table(table)
        yield from comments_on("table", stored_as(table), table.meaning, meanings_of(table))
    for view in materialized_views():
        yield create_rows_of(view)
        yield history_of(view)
        yield from comments_on(
            "view", f"history.{quote_identifier(view.name)}", view.comment, view.entries
        )


def rows_of_day(source: str, day: date) -> str:
    """Return a query for one day's rows in a table or view."""
    # Use a literal for the day, not a parameter or a subquery, so that DuckDB can skip row groups
    # during planning. A query for the newest book then does not read other nights.
    return f"select * from {source} where snapshot_date = date {literal(day.isoformat())}"


def rows_in_history(name: str, day: date) -> str:
    """Return a query for the rows of one date in a table of the schema `history`."""
    return rows_of_day(f"history.{quote_identifier(name)}", day)


def newest_book(
    newest: date | None, before: date | None, rows: Callable[[str, date], str] = rows_in_history
) -> Iterator[str]:
    """Yield the statements that make the views in schema main show a book and the previous book.

    `rows` maps a table name and a day to a query for that day's rows.
    """
    for table in BOOK:
        yield _view_of_day(table.name, table.name, newest, rows)
        if table.name in BEFORE:
            yield _view_of_day(table.name, f"{table.name}_before", before, rows)
    for view in materialized_views():
        yield _view_of_day(view.name, view.name, newest, rows)
    shown = "false" if newest is None else f"snapshot_date <= date {literal(newest.isoformat())}"
    yield (
        "create or replace view internal.books as "
        f"select * from ops.snapshots where is_book and {shown}"
    )
    yield "comment on view internal.books is 'All books up to the book that the main schema shows.'"


def book_comments() -> Iterator[str]:
    """Yield the statements that restore the comments on the views of the newest book.

    Replacing a view drops its comments.
    """
    for table in BOOK:
        yield from comments_on(
            "view", f"main.{quote_identifier(table.name)}", table.meaning, meanings_of(table)
        )
        if table.name in BEFORE:
            meaning = f"The rows of `{table.name}` in the previous book. {table.meaning}"
            name = f"main.{quote_identifier(f'{table.name}_before')}"
            yield from comments_on("view", name, meaning, meanings_of(table))
    for view in materialized_views():
        yield from comments_on(
            "view", f"main.{quote_identifier(view.name)}", view.comment, view.entries
        )


def surface() -> Iterator[str]:
    """Yield the statements that create the macros and views."""
    for macro in macros():
        yield from create_macro(macro)
    for view in views():
        yield from create_view("internal" if view.name in MATERIALIZED else "main", view)
    for view in ops_views():
        yield from create_view("ops", view)
    for view in history_views():
        yield from create_view("history", view)


def schema_version() -> str:
    """Return a digest of the database's definitions. A changed digest causes a rebuild."""
    # Include the comments in the digest, because people read them in the database. Comments from a
    # different version would contradict the data dictionary.
    shape = "\n".join(
        [
            STORAGE_VERSION,
            str(STORAGE_SETTINGS),
            lake_contract(),
            *structure(),
            *newest_book(None, None),
            *book_comments(),
            *surface(),
            # Include definitions that only some database files contain (see `lake_nights`).
            control_totals(),
            union_all(["years"] * 3),
        ]
    )
    shape += "\n".join(check.sql for check in checks())
    return hashlib.sha256(shape.encode()).hexdigest()[:16]


def union_all(queries: Sequence[str]) -> str:
    """Combine queries with UNION ALL, in a form that is safe in views for DuckDB 1.2 and later.

    DuckDB 2.0 stores a plain union of three or more queries as a union of unions. With more than
    one thread, DuckDB 1.2 to 1.4 silently omit rows from such a view, or never return.
    """
    rows, *others = queries
    for other in others:
        rows = f"select * from ({rows}) union all {other}"
    return rows


def meanings_of(table: Table) -> dict[str, str]:
    """Return the meanings of a table's columns, by column name."""
    return {column.name: column.meaning for column in table.columns}


def create_table(table: Table, name: str | None = None) -> str:
    """Return the statement that creates a table. The optional `name` must already be quoted."""
    lines = [_column(table, column) for column in table.columns]
    if table.is_small:
        lines.append(f"primary key ({', '.join(map(quote_identifier, table.key))})")
    body = ",\n    ".join(lines)
    return f"create table {name or stored_as(table)} (\n    {body}\n)"


def create_macro(macro: Macro) -> Iterator[str]:
    """Yield the statements that create a macro and its comment."""
    yield macro.sql
    kind = "macro table" if macro.is_table else "macro"
    parameters = " ".join(f"{name}: {text}" for name, text in macro.parameters.items())
    comment = f"{macro.call}: {macro.comment} {parameters}"
    name = f"{macro.schema}.{quote_identifier(macro.name)}"
    yield f"comment on {kind} {name} is {literal(comment)}"


def create_view(schema: str, view: SqlFile) -> Iterator[str]:
    """Yield the statements that create a view and its comments."""
    name = f"{schema}.{quote_identifier(view.name)}"
    yield f"create or replace view {name} as\n{view.sql}"
    yield from comments_on("view", name, view.comment, view.entries)


def comments_on(kind: str, name: str, meaning: str, columns: Mapping[str, str]) -> Iterator[str]:
    """Yield the statements that add comments to a table or view and to its columns."""
    yield f"comment on {kind} {name} is {literal(meaning)}"
    for column, text in columns.items():
        yield f"comment on column {name}.{quote_identifier(column)} is {literal(text)}"


def _view_of_day(table: str, name: str, day: date | None, rows: Callable[[str, date], str]) -> str:
    """Return the statement for a view of one day's rows. If `day` is None, the view is empty."""
    no_rows = f"select * from history.{quote_identifier(table)} where false"
    query = no_rows if day is None else rows(table, day)
    return f"create or replace view main.{quote_identifier(name)} as {query}"


def _column(table: Table, column: Column) -> str:
    name = quote_identifier(column.name)
    null = "" if column.nullable else " not null"
    # Check that counts are not negative. Only tables in the `main` schema have this check, because
    # their rows come from the API. Nullable counts are not checked.
    counted = column.kind is Kind.ORDINAL or (column.kind is Kind.COUNT and not column.nullable)
    check = f" check ({name} >= 0)" if counted and table.schema == "main" else ""
    return f"{name} {column.kind.value}{null}{check}{compression(column.name)}"
