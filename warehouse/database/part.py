"""A part of a book: a database file with some portfolios of one book, and their own totals.

The file is built from nothing and receives only the rows of the part, because a copy from which
rows are deleted may still have them in its free blocks.
"""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model; values are parameters

import contextlib
import hashlib
import json
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from duckdb import DuckDBPyConnection

from warehouse.contract.book import BOOK
from warehouse.contract.model import and_more, literal
from warehouse.contract.ops import BUILD, CHECKS, REQUESTS, SNAPSHOTS
from warehouse.contract.part import PART, kept_columns
from warehouse.database import ddl, load
from warehouse.database.materialization import materialize_comparison
from warehouse.database.new_version import check_row
from warehouse.query.book import NotExported, find_book
from warehouse.query.connect import connect, records, scalar
from warehouse.query.facts.night_facts import NamedThing, choose, notices_for_reader
from warehouse.sql.catalog import MATERIALIZED
from warehouse.sql.checks import run_checks
from warehouse.storage.layout import Layout

MAX_SHOWN = 20
# A part has no control totals, which cover the whole book.
CHECKS_LEFT_OUT = ("holdings",)
_OF_PART = "portfolio_id in (select portfolio_id from history.portfolios)"
_ITS_VENUES = (
    "venue_id in (select venue_id from history.accounts "
    "union select venue_id from history.integrations)"
)
_COUNTED = ("portfolio", "account", "balance", "venue", "instrument")
_PRICES = """
create or replace temp table part_prices as
select given.*, prices.as_of_date
from prices_as_of({day}, {quote}) as given
left join reference.prices as prices using (sha256, line)
where price_kind in ('stated', 'quotient')
"""
_INSERT_PRICES = """
insert into reference.prices by name
select
    asset_id, is_custom_asset, quote, price_text, as_of, as_of_date,
    case when as_of_date is null then price_time end as as_of_time,
    source, level, '' as file, '' as sha256,
    row_number() over (order by asset_id, is_custom_asset) as line, received_at
from temp.part_prices
semi join history.positions using (asset_id, is_custom_asset)
"""


def build_part(database: Path, file: Path, names: Sequence[str], as_of: date | None) -> str:
    """Build a file with some portfolios of a book, given by ID or name. Return the part's name.

    The book is the newest one, or the newest one on or before `as_of`. The part's name depends only
    on the IDs of the portfolios.

    Raises `NotInBook` or `AmbiguousName` if a name does not match exactly one portfolio, and the
    errors of `warehouse.query.book.book`.
    """
    database = database.resolve()  # A night may publish another version in the meantime.
    with contextlib.closing(connect(database)) as connection:
        book = find_book(connection, as_of)
        day = book["snapshot_date"]
        query = "select portfolio_id, name from history.portfolios where snapshot_date = ?"
        rows = connection.execute(f"{query} order by all", [day]).fetchall()
        things = [NamedThing(*row) for row in rows]
        place, undone = f"the book of {day}", "exported"
        found = (choose(name, things, noun="portfolio", location=place, undone=undone)
                 for name in names)  # fmt: skip
        chosen = {thing.id: thing for thing in found}
        schema = scalar(connection, "select schema_version from ops.build")
        notices = list(_notices(connection, book, [*chosen.values()], len(things)))
    if schema != ddl.schema_version():
        raise NotExported(
            f"{database} was published by another version of nightbook, so no part was exported "
            "and no file was written. Rebuild it with `nightbook rebuild`, then try again."
        )
    ids = sorted(chosen)
    with contextlib.closing(
        load.create_empty(Layout(file.parent), file, load.MEMORY[-1])
    ) as connection:
        # DuckDB attaches files only between transactions.
        path = literal(str(database))
        connection.execute(f"commit; attach {path} as incoming (read_only); begin")
        _copy(connection, book, ids)
        _complete(connection, day, ids, notices)
    return hashlib.sha256(json.dumps(ids).encode()).hexdigest()[:12]


def _notices(
    connection: DuckDBPyConnection,
    book: dict[str, Any],
    chosen: Sequence[NamedThing],
    count: int,
) -> Iterator[str]:
    shown = and_more([thing.label for thing in chosen], MAX_SHOWN)
    yield (
        f"Part of the book: portfolios {shown}. {count - len(chosen)} of {count} portfolios are "
        "not in this file, and all totals are totals of this part."
    )
    yield from notices_for_reader(connection, book, [thing.id for thing in chosen])


def _copy(connection: DuckDBPyConnection, book: dict[str, Any], ids: list[str]) -> None:
    """Copy the rows of the part, and the facts about its night that do not describe others."""
    day = f"date {literal(book['snapshot_date'].isoformat())}"
    for table in BOOK:
        of_part = _OF_PART if "portfolio_id" in table.names else _ITS_VENUES
        if table is BOOK[0]:
            of_part = f"portfolio_id in ({', '.join(map(literal, ids))})"
        name = ddl.stored_as(table)
        connection.execute(
            f"insert into {name} by name select given.* from incoming.{name} as given "
            f"where snapshot_date = {day} and {of_part}"
        )
    counts = {f"{name}_count": f"(select count(*) from history.{name}s)" for name in _COUNTED}
    counts["request_count"] = "(select count(*) from ops.requests)"
    of_night = f"snapshot_id = {literal(book['snapshot_id'])}"
    of_list = f"{of_night} and operation = 'list_portfolios' and purpose = 'book'"
    blanks = {"stillness": "'unknown'"}
    for table, replaced, wanted in (
        (REQUESTS, {}, of_list),
        (SNAPSHOTS, counts | blanks, of_night),
        (BUILD, {"newest_date": day}, "true"),
    ):
        name, columns = ddl.stored_as(table), ", ".join(kept_columns(table, replaced))
        rows = f"select {columns} from incoming.{name} where {wanted}"
        connection.execute(f"insert into {name} by name {rows}")
    _copy_prices(connection, day)


def _copy_prices(connection: DuckDBPyConnection, day: str) -> None:
    """Copy the valid prices of the part's assets, if the home has a currency."""
    query = "from incoming.internal.price_settings where currency is not null"
    for settings in records(connection, query):
        # The macros of the home read the tables of the database in use.
        connection.execute("use incoming")
        connection.execute(_PRICES.format(day=day, quote=literal(settings["currency"])))
        connection.execute("use draft")
        connection.execute(_INSERT_PRICES)
        values = [settings["max_age_days"], settings["currency"]]
        columns = "sources, max_age_days, currency"
        insert = f"insert into {ddl.PRICE_SETTINGS} ({columns}) values ([], ?, ?)"
        connection.execute(insert, values)


def _complete(
    connection: DuckDBPyConnection, day: date, ids: list[str], notices: Sequence[str]
) -> None:
    """Store the notices and the part's own sums, check them, and write everything to the file."""
    connection.execute(ddl.create_table(PART))
    for statement in ddl.comments_on("table", "ops.part", PART.meaning, ddl.meanings_of(PART)):
        connection.execute(statement)
    load.insert_rows(
        connection, PART, [{"notice_no": no, "notice": text} for no, text in enumerate(notices, 1)]
    )
    load.run_all(connection, ddl.newest_book(day, None))
    materialize_comparison(connection, day, MATERIALIZED)
    # The number of portfolios in a part says nothing about the API's list.
    connection.execute("delete from internal.materialized_findings where kind = 'round_count'")
    load.run_all(connection, ddl.book_comments())
    results = run_checks(connection, CHECKS_LEFT_OUT)
    load.fill(connection, CHECKS, [check_row(day, result) for result in results])
    key = "portfolio_id, asset_id, is_custom_asset"
    wrong = scalar(
        connection,
        f"select count(*) from main.holdings as part full join (from incoming.history.holdings "
        f"where snapshot_date = ? and portfolio_id in (select unnest(?::varchar[]))) as whole "
        f"using ({key}) where part.total_text is distinct from whole.total_text",
        *(day, ids),
    )
    if wrong or any(result.stops for result in results):
        raise NotExported(
            "The part differs from the warehouse, or fails a check. No file was written. Check the "
            "home with `nightbook verify`, and rebuild it with `nightbook rebuild`."
        )
    load.complete(connection)
