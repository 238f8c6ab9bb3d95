"""The statement of one portfolio: one page with its exact amounts as of a second, to be signed."""

import contextlib
import hashlib
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from duckdb import DuckDBPyConnection

from warehouse.contract.model import literal
from warehouse.query.book import find_book
from warehouse.query.connect import open_database, records, scalar
from warehouse.query.facts.night_facts import NamedThing, choose, notices_for_reader
from warehouse.report.data import ReportFailed, run_query
from warehouse.report.formats import duration
from warehouse.report.render import render_statement
from warehouse.storage.layout import written_aside

_READ = """
select snapshots.snapshot_date, max(requests.received_at) as read_at
from ops.snapshots as snapshots
inner join ops.requests as requests on requests.snapshot_id = snapshots.snapshot_id
where snapshots.is_book and requests.operation = 'list_portfolios' and requests.purpose = 'book'
group by snapshots.snapshot_date
order by read_at
"""
_VALUE_COLUMNS = (
    ", prices.price_text, prices.price_state, prices.as_of, prices.source, "
    "case when prices.price_state = 'priced' then "
    "internal.exact_product(holdings.total_text, prices.price_text) end as value_text"
)


def write_statement(
    database: Path,
    folder: Path,
    *,
    portfolio: str,
    at: datetime | None,
    now: datetime,
    zone: ZoneInfo,
    program_version: str,
) -> Path:
    """Write the statement of a portfolio, given by ID or name. Return its path.

    The book is the newest one, or the newest one whose portfolios were read at or before the second
    `at`. Times on the page are in `zone`.

    Raises `ReportFailed` if there is no such book, and `NotInBook` or `AmbiguousName` if the name
    does not match exactly one portfolio.
    """
    with contextlib.closing(open_database(database)) as connection:
        book, read_at = _find_read(connection, at, zone)
        day = book["snapshot_date"]
        query = "select portfolio_id, name from history.portfolios where snapshot_date = ?"
        things = [NamedThing(*row) for row in connection.execute(query, [day]).fetchall()]
        location = f"the book of {day}"
        thing = choose(portfolio, things, noun="portfolio", location=location, undone="written")
        age = max((at or now) - read_at, timedelta())  # a clock may be behind
        until = f" that was read at or before {in_zone(at, zone)}" if at else ""
        moment = "that moment" if at else "this page was made"
        html = render_statement(
            **_load(connection, book, thing),
            notices=[*notices_for_reader(connection, book, [thing.id], at)],
            chosen=f"It is the newest book{until}, and was read {duration(age)} before {moment}.",
            read_at=in_zone(read_at, zone),
            made_at=in_zone(now, zone),
            program_version=program_version,
        )
    # Names and IDs never become part of a path.
    digest = hashlib.sha256(thing.id.encode()).hexdigest()[:12]
    file = folder / f"statement-{day}-{digest}.html"
    with written_aside(file) as out:
        out.write(html.encode())
    return file


def in_zone(moment: datetime, zone: ZoneInfo) -> str:
    """Format a moment to the second, with its zone and offset, which differ when clocks change.

    >>> in_zone(datetime.fromisoformat("2026-11-20T02:15:07.9Z"), ZoneInfo("Europe/Zurich"))
    '2026-11-20 03:15:07 Europe/Zurich (CET, UTC+01:00)'
    """
    local = moment.astimezone(zone)
    offset = local.isoformat(timespec="seconds")[19:]
    return f"{local:%Y-%m-%d %H:%M:%S} {zone} ({local.tzname()}, UTC{offset})"


def _find_read(
    connection: DuckDBPyConnection, at: datetime | None, zone: ZoneInfo
) -> tuple[dict[str, Any], datetime]:
    """Return the book, and the second when its portfolios were read."""
    books = [
        (row["snapshot_date"], row["read_at"].replace(microsecond=0))
        for row in records(connection, _READ)
    ]
    found = [book for book in books if at is None or book[1] <= at]
    if not found:
        moment = f" at or before {in_zone(at, zone)}" if at else ""
        first = f" The first one was read at {in_zone(books[0][1], zone)}." if books else ""
        raise ReportFailed(
            f"No book was read{moment}.{first} No statement was written. List the nights with "
            "`nightbook snapshots`."
        )
    day, read_at = max(found)
    return find_book(connection, day), read_at


def _load(
    connection: DuckDBPyConnection, book: dict[str, Any], thing: NamedThing
) -> dict[str, Any]:
    """Return the rows of the statement's tables."""
    day = f"date {literal(book['snapshot_date'].isoformat())}"
    currency = scalar(connection, "select max(currency) from internal.price_settings")
    sql = {
        "day": day,
        "portfolio": literal(thing.id),
        "snapshot": literal(book["snapshot_id"]),
        "value_columns": _VALUE_COLUMNS if currency else "",
        "prices": f"left join prices_as_of({day}, {literal(currency)}) as prices "
        "using (asset_id, is_custom_asset)"
        if currency
        else "",
    }
    names = ("assets", "accounts", "requests")
    rows = {name: run_query(connection, f"statement_{name}", **sql).rows for name in names}
    values = [row["value_text"] for row in rows["assets"] if currency and row["value_text"]]
    query = "select exact_sum(text) from (select unnest(?::varchar[]) as text)"
    return rows | {
        "snapshot": book,
        "portfolio": thing,
        "build": records(connection, "from ops.build")[0],
        "currency": currency,
        "value": scalar(connection, query, values) if values else None,
        "unpriced": [row for row in rows["assets"] if currency and row["value_text"] is None],
    }
