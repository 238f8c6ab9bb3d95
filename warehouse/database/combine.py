"""The newest books of several homes in one read-only file.

Books are copied and never recomputed. If several homes see a portfolio, venue or instrument, its
rows come from the first of these homes.
"""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model; values are parameters

import contextlib
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
from duckdb import DuckDBPyConnection

from warehouse.contract.book import BOOK, PORTFOLIOS
from warehouse.contract.combination import (
    CHECKS_LEFT_OUT,
    HOLDING_VALUES,
    LEFT_OUT,
    SHARED,
    SOURCE,
    SOURCES,
)
from warehouse.contract.model import literal, quote_identifier
from warehouse.database import ddl, load
from warehouse.query.connect import records, scalar
from warehouse.sql.catalog import macros, reading, views
from warehouse.sql.checks import run_checks
from warehouse.storage.layout import (
    PUBLISHED_MODE,
    Layout,
    change_mode,
    make_directory,
    sync_directory,
)

Rows = list[dict[str, Any]]
# The view holdings_by_venue joins venues by date. But a venue is in the file once, and the books
# may have different dates.
_VENUES = (
    "select venues.* replace (days.snapshot_date as snapshot_date) from main.venues as venues "
    "cross join (select distinct snapshot_date from ops.sources) as days"
)
# The ID columns of each kind of thing. The first kind that fits decides about a table's rows.
_KINDS = {
    "portfolio": ("portfolio_id",),
    "instrument": ("venue_id", "instrument_id"),
    "venue": ("venue_id",),
}
_CUSTOM_ASSETS = """
insert into ops.shared
select distinct 'custom asset', '', asset_id, source
from positions inner join portfolios using (portfolio_id)
where is_custom_asset
qualify min(source) over (partition by asset_id) <> max(source) over (partition by asset_id)
order by all
"""


class NotCombined(Exception):
    """The books were not combined, so the earlier file is unchanged."""

    def __init__(self, problem: str, out: Path, advice: str) -> None:
        super().__init__(f"{problem}. Nothing was combined, and {out} was not changed. {advice}")


def work_of(out: Path) -> Layout:
    """Return the folder for the draft of a file. The caller of `combine` holds its lock."""
    return Layout(out.with_name(f".{out.name}.work"))


def combine(homes: Mapping[str, Path], out: Path) -> tuple[Rows, Rows]:
    """Write the newest books of homes to one file, in one atomic step.

    `homes` maps the name of each home to its folder, and the first home that sees something wins.
    Return the rows of `ops.sources` and `ops.shared`. Raises `NotCombined` if a home has no
    readable book, or if the new file fails a check.
    """
    work = work_of(out).work
    shutil.rmtree(work, ignore_errors=True)  # Remove the draft of a killed command.
    make_directory(work)
    try:
        draft = work / out.name
        with contextlib.closing(load.connect(work_of(out), draft, load.MEMORY[-1])) as connection:
            combined = _build(connection, homes, out)
        change_mode(draft, PUBLISHED_MODE)
        sync_directory(draft)  # This also flushes a file.
        draft.replace(out)
        sync_directory(out.parent)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return combined


def _build(
    connection: DuckDBPyConnection, homes: Mapping[str, Path], out: Path
) -> tuple[Rows, Rows]:
    load.run_all(connection, _definitions())
    for name, home in homes.items():
        try:
            problem, command = _copy(connection, name, home)
        except (duckdb.Error, OSError) as error:
            reason = str(error).partition("\n")[0]
            problem, command = f"could not be copied: {reason}", "verify"
        if problem:
            advice = f"Type: nightbook --home {shlex.quote(str(home))} {command}"
            raise NotCombined(f"{name} ({home}) {problem}", out, advice)
    connection.execute(_CUSTOM_ASSETS)
    results = run_checks(connection, CHECKS_LEFT_OUT)
    if failures := [result.failure for result in results if result.stops]:
        advice = "Rebuild each home with nightbook rebuild, then try again."
        raise NotCombined(f"The combined book is wrong: {'; '.join(failures)}", out, advice)
    sources, shared = (records(connection, f"from ops.{name}") for name in ("sources", "shared"))
    load.complete(connection)
    return sources, shared


def _definitions() -> Iterator[str]:
    """Yield the statements that create the tables, macros and views of the file."""
    yield from ("create schema ops", "create schema internal")
    portfolios = replace(PORTFOLIOS, columns=(*PORTFOLIOS.columns, SOURCE))
    book = (portfolios if table is PORTFOLIOS else table for table in BOOK)
    for table in (*book, SOURCES, SHARED, HOLDING_VALUES):
        name = f"{table.schema}.{table.name}"
        yield ddl.create_table(table, name)
        yield from ddl.comments_on("table", name, table.meaning, ddl.meanings_of(table))
    for macro in macros():
        yield from () if macro.name in LEFT_OUT else ddl.create_macro(macro)
    for view in views():
        is_by_date = view.name == "holdings_by_venue"
        sql = reading(view.sql, {"venues": _VENUES}) if is_by_date else view.sql
        shown = replace(view, sql=sql)
        yield from () if view.name in LEFT_OUT else ddl.create_view("main", shown)


def _copy(connection: DuckDBPyConnection, source: str, home: Path) -> tuple[str, str]:
    """Copy a home's newest book, without the rows that an earlier home has.

    If this is impossible, return the problem and the command that shows or solves it.
    """
    file = Layout(home).database.resolve()
    if not file.exists():
        return "has no published book", "status"
    # DuckDB attaches and detaches files only between transactions.
    connection.execute(f"commit; attach {literal(str(file))} as incoming (read_only); begin")
    [book] = records(
        connection,
        "from incoming.ops.build left join incoming.ops.snapshots "
        "on is_book and snapshot_date = newest_date",
    )
    if book["schema_version"] != ddl.schema_version():
        return "was published by another version of nightbook", "rebuild"
    if book["snapshot_id"] is None:
        return "has no book yet", "status"
    row = [source, str(home), *(book[name] for name in SOURCES.names[2:])]
    connection.execute("insert into ops.sources values (?, ?, ?, ?, ?, ?)", row)
    for kind, ids in _KINDS.items():
        key = f"{ids[0] if len(ids) > 1 else literal('')}, {ids[-1]}"
        shared = f"incoming.main.{kind}s semi join main.{kind}s using ({', '.join(ids)})"
        rows = f"select '{kind}', {key}, ? from {shared} order by all"
        connection.execute(f"insert into ops.shared {rows}", [source])
    _copy_values(connection, source)
    # Copy children before their parents, because the parents show what earlier homes have.
    for table in reversed(BOOK):
        kind, ids = next((kind, ids) for kind, ids in _KINDS.items() if {*ids} <= {*table.names})
        more = f", {literal(source)} as source" * (table is PORTFOLIOS)
        connection.execute(
            f"insert into main.{table.name} by name "
            f"select given.*{more} from incoming.main.{table.name} as given "
            f"anti join main.{kind}s using ({', '.join(ids)})"
        )
    connection.execute("commit; detach incoming; begin")
    return "", ""


def _copy_values(connection: DuckDBPyConnection, source: str) -> None:
    """Copy the values of a home's holdings, if it has a currency."""
    query = "select currency from incoming.internal.price_settings where currency is not null"
    for row in records(connection, query):
        # The macros of the home read the tables of the database in use.
        target = scalar(connection, "select current_database()")
        connection.execute("use incoming")
        quote = literal(row["currency"])
        connection.execute(
            f"create or replace temp table holding_values as select {literal(source)} as source, "
            "portfolio_id, asset_id, is_custom_asset, "
            f"{quote} as currency, price_text, price_state, value_text from holdings_value({quote})"
        )
        connection.execute(f"use {quote_identifier(target)}")
        connection.execute(
            "insert into ops.holding_values by name from temp.holding_values "
            "anti join main.portfolios using (portfolio_id)"
        )
