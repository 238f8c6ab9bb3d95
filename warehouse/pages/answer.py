"""Answers to requests for pages, and for the same tables as CSV and JSON.

An answer reads one published version, and its ETag names this version and the request.
"""

# ruff: noqa: S608 - names are our own and quoted by warehouse.contract.model; values are bound

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import duckdb
from duckdb import DuckDBPyConnection

from warehouse.contract.model import quote_identifier
from warehouse.exact import total
from warehouse.export.staged_tables import (
    BATCH,
    BYTE_ORDER_MARK,
    csv_lines,
    field,
    harmless,
    line_columns,
    quoted_columns,
)
from warehouse.pages import render
from warehouse.pages.request import NOT_FOUND, START, TRACE, PageRequest, Refused
from warehouse.pages.tables import COLUMNS, exact_order
from warehouse.pages.version import Version, Versions
from warehouse.query.errors import QueryFailed
from warehouse.query.facts.figures import FigureSelection
from warehouse.query.formats import QueryResult, as_jsonl

PAGE_ROWS = 200
OK, NOT_MODIFIED = 200, 304
HTML, CSV, JSON = "text/html; charset=utf-8", "text/csv; charset=utf-8", "application/json"
_NAMED = re.compile(r"\$(\w+)")
# The table that lists all IDs of each kind in a book.
_IDS = {"portfolio_id": "portfolios", "asset_id": "positions", "venue_id": "accounts"}


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: its status, its headers, and its body in parts."""

    status: int
    headers: Mapping[str, str]
    body: Iterator[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The facts for pages that only the caller knows.

    `note` returns why the newest book is not from tonight, or an empty string. `trace` traces
    amounts, with the errors of `warehouse.query.facts.figures.figures`.
    """

    program: str
    is_demo: bool
    note: Callable[[], str]
    trace: Callable[[DuckDBPyConnection, FigureSelection], Any]


def answer(
    versions: Versions, request: PageRequest, context: Context, if_none_match: str
) -> Answer:
    """Answer a request from the current version.

    Raises `Refused`, or the errors of `warehouse.query.connect.connect`.
    """
    version = versions.current()
    try:
        return _answer(version, request, context, if_none_match)
    except (duckdb.Error, QueryFailed):
        newer = versions.current()
        if newer is version:
            raise
        # Files of the last version were removed while it was read.
        return _answer(newer, request, context, if_none_match)


def problem(status: int, message: str, program: str) -> Answer:
    """Return a page that explains why there is no answer."""
    page = render.page("problem", program, title=f"No answer ({status})", message=message)
    return Answer(status, {"content-type": HTML}, iter([page]))


def _answer(version: Version, request: PageRequest, context: Context, if_none_match: str) -> Answer:
    if request.page == START:
        version.start = version.start or _start(version)
        page = render.page("start", context.program, context=context, **version.start)
        return Answer(OK, {"content-type": HTML}, iter([page]))
    if request.page == TRACE:
        page = render.page("trace", context.program, **_trace(version, request, context))
        return Answer(OK, {"content-type": HTML}, iter([page]))
    table = PageTable(version, request)
    etag = version.etag(request.page, request.format, repr(request.texts), context.program)
    headers = {"etag": etag}
    tags = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
    if tags & {etag, "*"}:
        return Answer(NOT_MODIFIED, headers, iter(()))
    if request.format:
        kind = CSV if request.format == "csv" else JSON
        name = f"{request.page}.{request.format}"
        headers |= {"content-type": kind, "content-disposition": f'attachment; filename="{name}"'}
        return Answer(OK, headers, table.download())
    page = render.page("table", context.program, **table.page())
    return Answer(OK, {"content-type": HTML, **headers}, iter([page]))


class PageTable:
    """A table of one version with the filters and the order of a request."""

    def __init__(self, version: Version, request: PageRequest) -> None:
        self._version, self._request = version, request
        listing = request.listing
        [settings] = version.rows("select max(currency) as currency from internal.price_settings")
        self.currency = settings["currency"]
        if "$currency" in listing.query and not self.currency:
            raise Refused(
                f"/{request.page} shows values, and no currency is set. Set NIGHTBOOK_CURRENCY, "
                "and publish a night.",
                NOT_FOUND,
            )
        values: dict[str, Any] = {"currency": self.currency, **request.values}
        if "$day" in listing.query:
            values["day"] = _book(version, request.values.get("as_of"))
        if "$since" in listing.query:
            since = request.values.get("since")
            values["since"] = _book(version, since or values["day"], is_before=not since)
            if values["since"] >= values["day"]:
                raise Refused(f"since {since} is not before the book of {values['day']}.")
        self._values, self.day, self.since = values, values.get("day"), values.get("since")
        filters = [name for name in listing.filters if name in request.values]
        tests = [f"{quote_identifier(name)} = ${name}" for name in filters]
        self._where = f" where {' and '.join(tests)}" if tests else ""
        names = (*listing.columns, *(listing.valued if self.has_values else ()))
        self.columns = [COLUMNS[name] for name in names]

    @property
    def has_values(self) -> bool:
        """True if values are joined to the table."""
        return bool(self.currency and self._request.listing.values)

    def page(self) -> dict[str, Any]:
        """Return the values of the table's page."""
        request, number = self._request, int(str(self._request.values.get("page", 1)))
        [counted] = self._rows(
            f"select count(*) as rows from ({request.listing.query}){self._where}"
        )
        count = counted["rows"]
        if not count:
            self._require_known_ids()
        pages = max(1, -(-count // PAGE_ROWS))
        if number > pages:
            raise Refused(
                f"The table does not have a page {number}. Its last page is {pages}.", NOT_FOUND
            )
        names = dict.fromkeys(
            key for each in self.columns for key in (*each.keys, *each.parameters)
        )
        rows = self._rows(
            f"{self._select(_list(names))} limit {PAGE_ROWS} offset {PAGE_ROWS * (number - 1)}"
        )
        history = rows if "history" in request.page else []
        if history and pages > 1:
            history = self._rows(self._select(_list(names)))
        # The template gets only plain values, because it would keep the version open for longer.
        return {
            "request": request,
            "title": request.listing.title,
            "columns": self.columns,
            "day_of_book": self.day,
            "since": self.since,
            "currency": self.currency if self.has_values else None,
            "rows": rows,
            "history": history,
            "count": count,
            "number": number,
            "pages": pages,
        }

    def download(self) -> Iterator[bytes]:
        """Run the query, and return the whole table as CSV or JSON in parts."""
        parts = self._parts()
        next(parts)  # runs the query, so that an error is not in the middle of a file
        return parts

    def _parts(self) -> Iterator[bytes]:
        is_csv = self._request.format == "csv"
        with self._version.cursor() as cursor:
            cursor.execute(*self._bind(f"{self._select('*')} limit 0"))
            kinds = {str(name): str(kind) for name, kind, *_ in cursor.description or ()}
            # Only the exact text of each amount.
            kinds = {name: kind for name, kind in kinds.items() if f"{name}_text" not in kinds}
            columns = line_columns(kinds) if is_csv else _list(kinds)
            cursor.execute(*self._bind(self._select(columns)))
            first = cursor.fetchmany(BATCH)
            if not first:
                self._require_known_ids()
            yield b""
            batches = _batches(first, cursor)
            if is_csv:
                yield f"{BYTE_ORDER_MARK}{','.join(map(field, kinds))}\r\n".encode()
                is_text = quoted_columns(kinds)
                yield from (csv_lines(rows, is_text, harmless).encode() for rows in batches)
            else:
                yield from _json(tuple(kinds), batches)

    def _select(self, columns: str) -> str:
        listing, request = self._request.listing, self._request
        source = f"({listing.query})"
        if self.has_values:
            valued = f"select *, $currency::varchar as currency from ({listing.values})"
            source += f" left join ({valued}) using ({', '.join(listing.key)})"
        order = listing.order
        if sort := request.values.get("sort"):
            ways = " desc" if request.values.get("order") == "desc" else ""
            sorted_by = next((each for each in self.columns if each.sort == sort), None)
            if sorted_by is None:
                raise Refused(f"The table has no column {sort}, because no currency is set.")
            keys = (
                exact_order(quote_identifier(key))
                if key.endswith("_text")
                else quote_identifier(key)
                for key in sorted_by.keys
            )
            order = ", ".join((*(f"{key}{ways} nulls last" for key in keys), order))
        return f"select {columns} from {source}{self._where} order by {order}"

    def _rows(self, query: str) -> list[dict[str, Any]]:
        query, values = self._bind(query)
        return self._version.rows(query, **values)

    def _bind(self, query: str) -> tuple[str, dict[str, Any]]:
        """Return a query with the values that it names."""
        return query, {name: self._values[name] for name in set(_NAMED.findall(query))}

    def _require_known_ids(self) -> None:
        """Raise `Refused` if an ID of the request is not in the book, because it may be a typo."""
        for name, table in _IDS.items():
            query = (
                f"select 1 from history.{table} where {name} = $id "
                "and ($day is null or snapshot_date = $day) limit 1"
            )
            known = name not in self._values or self._version.rows(
                query, id=self._values[name], day=self.day
            )
            if not known:
                raise Refused(f"The book does not have this {name}. Nothing was read.", NOT_FOUND)


def _book(version: Version, last: object, *, is_before: bool = False) -> date:
    """Return the date of the newest book on a day or before it. Raises `Refused` if there is none.

    If `is_before` is set, the book of the day itself does not count.
    """
    [newest] = version.rows(
        "select max(snapshot_date) as day from ops.snapshots where is_book "
        "and snapshot_date <= coalesce($last::date, 'infinity') "
        "and not ($is_before and snapshot_date = $last::date)",
        last=last,
        is_before=is_before,
    )
    if newest["day"] is None:
        which = f" {'' if is_before else 'on or '}before {last}" if last else ""
        raise Refused(f"The warehouse does not have a book{which}.", NOT_FOUND)
    found: date = newest["day"]
    return found


def _list(names: Iterable[str]) -> str:
    return ", ".join(map(quote_identifier, names))


def _batches(
    first: list[tuple[Any, ...]], cursor: DuckDBPyConnection
) -> Iterator[list[tuple[Any, ...]]]:
    while first:
        yield first
        first = cursor.fetchmany(BATCH)


def _json(names: tuple[str, ...], batches: Iterator[list[tuple[Any, ...]]]) -> Iterator[bytes]:
    """Yield an array of objects in parts."""
    before = "["
    for rows in batches:
        lines = as_jsonl(QueryResult(names, tuple(rows), is_cut=False)).splitlines()
        yield (before + "\n" + ",\n".join(lines)).encode()
        before = ","
    yield (b"[" if before == "[" else b"") + b"\n]\n"


def _start(version: Version) -> dict[str, Any]:
    rows = version.rows
    nights = rows("select * from ops.snapshots order by snapshot_date desc, snapshot_id desc")
    book = next((night for night in nights if night["is_book"]), None)
    values: dict[str, Any] = {}
    if book:
        day = {"day": book["snapshot_date"]}
        [settings] = rows("select max(currency) as currency from internal.price_settings")
        values = {
            "currency": settings["currency"],
            "findings": rows(
                "select severity, kind, portfolio_name, portfolio_id, venue_name, venue_id, words "
                "from history.findings where snapshot_date = $day "
                "order by severity_rank, kind, words",
                **day,
            ),
            "portfolios": rows(
                "select portfolio_id, name as portfolio_name, position_count "
                "from history.portfolios where snapshot_date = $day order by name, portfolio_id",
                **day,
            ),
        }
        if currency := settings["currency"]:
            query = "select price_state, value_text from value_by_asset($currency, $day)"
            values["value"] = _value(rows(query, currency=currency, **day))
    return {
        "title": "The book",
        "nights": nights,
        "book": book,
        "gaps": rows("select * from ops.gaps order by snapshot_date desc"),
        "attention": rows("select * from ops.attention"),
        **values,
    }


def _value(assets: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the value of the book, as in `value_by_night`, which needs three times the CPU."""
    states = Counter(row["price_state"] for row in assets)
    texts = [row["value_text"] for row in assets if row["value_text"] is not None]
    return {
        "assets": len(assets),
        "unpriced_assets": states["missing"],
        "stale_assets": states["stale"],
        "value_text": total(texts) if texts else None,
    }


def _trace(version: Version, request: PageRequest, context: Context) -> dict[str, Any]:
    values: Any = request.values
    selection = FigureSelection(
        portfolio=values["portfolio_id"],
        asset=values["asset_id"],
        is_custom=values["is_custom_asset"],
        venue=values.get("venue_id"),
        account=values.get("account_name"),
        as_of=values.get("as_of"),
    )
    try:
        with version.cursor() as cursor:
            trace = context.trace(cursor, selection)
    except LookupError as error:
        raise Refused(str(error), NOT_FOUND) from error
    return {"title": "Trace to the bytes", "trace": trace, "request": request}
