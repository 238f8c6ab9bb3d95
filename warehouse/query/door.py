"""The Python API, `from warehouse import open_book`: the published book, read-only and exact.

An open book always shows the version that it was opened with. Reopen it to read a newer one.
"""

import os
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from zoneinfo import ZoneInfo

import duckdb
import pandas as pd
import pyarrow as pa
from duckdb import DuckDBPyConnection

from warehouse.contract.model import and_more, count_of
from warehouse.query.connect import connect, records, scalar
from warehouse.query.errors import NotAQuestion, QueryFailed
from warehouse.query.facts.night_facts import night_facts
from warehouse.query.frames import TEXT_SUFFIX, TypedResult, to_pandas, to_polars, to_texts
from warehouse.query.read import query_error, require_numeric_order
from warehouse.storage.home import DEFAULTS, HOME, TIMEZONE, home_path, merged_environment
from warehouse.storage.layout import DATABASE, Layout

Parameters = Sequence[object] | Mapping[str, object]
# Try several times to open a version, because a publish may remove it in the meantime.
_ATTEMPTS = 5
_MAX_SHOWN_DAYS = 6
_NAME = re.compile(r"[a-z_][a-z0-9_]*")
# Suffixes of macro names. Without its suffix, the name belongs to a view with the same columns.
_MACRO = re.compile(r"_(as_of|between)$")


class NoBookThatDay(LookupError):
    """The requested date has no book. The message lists the nearest dates with a book."""


class ReadOnlyBook:
    """One version of the book, open for queries. It is also a context manager.

    `attrs["columns"]` of each frame contains the meanings of its columns, and `attrs["night"]` the
    facts about its night.
    """

    def __init__(
        self, database: Path, *, clock: Callable[[], datetime], timezone: ZoneInfo
    ) -> None:
        self._database, self._clock, self._timezone = database, clock, timezone
        self.file, self._connection = _open_version(database)
        self._connection.execute("set TimeZone = 'UTC'")
        self._facts: dict[date, dict[str, Any]] = {}
        if not any(row["table_name"] == "build" for row in self._descriptions):
            self.close()
            raise QueryFailed(
                f"{self.file} is a DuckDB file, but not a nightbook book: it has no ops.build. "
                "Pass the home or the file in it, as in open_book('/path/to/data')."
            )

    def __repr__(self) -> str:
        """Return a short description of the book, and of the methods that query it."""
        try:
            about = self._summary()
        except duckdb.Error:
            about = "closed"
        return f"<nightbook: {about}; {self.file}>"

    def _summary(self) -> str:
        if not self.days:
            return "no book yet"
        night = self.night()
        counts = "(select count(*) from portfolios), (select count(*) from holdings)"
        [(portfolios, holdings)] = self._connection.execute(f"select {counts}").fetchall()
        notes = {
            f"{count_of(len(night['waiting']), 'newer night')} held": night["waiting"],
            f"without {', '.join(night.get('missing_sources', ()))}": night.get("missing_sources"),
            "a newer version has been published: reopen the book": night["is_replaced"],
        }
        tonights = "tonight's" if night["is_tonights"] else "not tonight's"
        return "; ".join(
            [
                f"book of {self.days[-1]} ({tonights})",
                f"{count_of(holdings, 'holding')} in {count_of(portfolios, 'portfolio')}",
                f"{count_of(len(self.days), 'night')} since {self.days[0]}",
                *(note for note, applies in notes.items() if applies),
                "use .query(sql), .holdings(), .balances(), .history(table)",
            ]
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Existing frames remain usable."""
        self._connection.close()

    @cached_property
    def days(self) -> tuple[date, ...]:
        """The dates that have a book, oldest first."""
        rows = self._connection.execute(
            "select distinct snapshot_date from ops.snapshots where is_book order by all"
        )
        return tuple(day for (day,) in rows.fetchall())

    def query(self, sql: str, params: Parameters = ()) -> pd.DataFrame:
        """Run one SQL query and return a pandas frame.

        `params` contains the values for `?` or `$name`. Raises `NotAQuestion` if the query is
        invalid, and `NotExact` if amounts may be rounded, or missing because they are too large.
        """
        return self._frame(sql, params, None)

    def arrow(self, sql: str, params: Parameters = ()) -> pa.Table:
        """Run one query and return an Arrow table.

        Amounts are decimals if their sum has at most 28 digits, which every tool adds exactly. All
        other amounts, and amount texts, are a dictionary of strings in the order of the amounts.
        Raises the same errors as `query`.
        """
        return to_texts(self._answer(sql, params))

    def polars(self, sql: str, params: Parameters = ()) -> Any:
        """Run one query and return a polars frame, if polars is installed.

        Amounts are decimals as in `arrow`, or an `Enum` that is sorted by amount. Raises the same
        errors as `query`, and `ModuleNotFoundError` if polars is missing.
        """
        return to_polars(self.arrow(sql, params))

    def holdings(self, as_of: date | str | None = None, by: str = "portfolio") -> pd.DataFrame:
        """Return holdings by `portfolio`, `venue` or `asset`, by default from the newest book.

        Raises `NoBookThatDay` if the date has no book.
        """
        views = {
            "portfolio": "holdings",
            "venue": "holdings_by_venue",
            "asset": "holdings_by_asset",
        }
        if by not in views:
            raise ValueError(f"by={by!r} is not valid. Choose from {', '.join(views)}.")
        return self._of_day(views[by], as_of)

    @cached_property
    def currency(self) -> str | None:
        """The setting `NIGHTBOOK_CURRENCY` when the book was published."""
        query = "select max(currency) from internal.price_settings"
        currency: str | None = scalar(self._connection, query)
        return currency

    def value(self, quote: str | None = None, as_of: date | str | None = None) -> pd.DataFrame:
        """Return holdings with their prices and values in a unit, by default in `currency`.

        The value of a holding without a valid price is missing. Raises the same errors as
        `holdings`, and `NotAQuestion` if there is no unit.
        """
        quote = quote or self.currency
        if quote is None:
            raise NotAQuestion(
                "The book has no currency. Name one, as in value('USD'), or set NIGHTBOOK_CURRENCY."
            )
        if as_of is None:
            return self._frame("from holdings_value(?) order by all", [quote], None)
        return self._of_day("holdings_value", as_of, quote)

    def balances(self, as_of: date | str | None = None) -> pd.DataFrame:
        """Return all amounts that the API reported, by account, by default from the newest book.

        Raises the same errors as `holdings`.
        """
        return self._of_day("balances", as_of)

    def history(
        self, table: str, since: date | str | None = None, until: date | str | None = None
    ) -> pd.DataFrame:
        """Return the rows of a table or view in schema `history`, for all dates or a date range."""
        if table not in self._histories:
            raise NotAQuestion(
                f"There is no history of {table!r}. The tables and views with a history are "
                f"{', '.join(self._histories)}."
            )
        sql = (
            f"from history.{table} where snapshot_date between "
            "coalesce(?::date, '-infinity') and coalesce(?::date, 'infinity') order by all"
        )
        return self._frame(sql, [_day(since), _day(until)], None)

    @cached_property
    def _histories(self) -> tuple[str, ...]:
        rows = records(
            self._connection,
            "select distinct table_name from duckdb_columns() where not internal "
            "and schema_name = 'history' and column_name = 'snapshot_date' order by all",
        )
        return tuple(row["table_name"] for row in rows)

    def _of_day(self, view: str, as_of: date | str | None, *parameters: str) -> pd.DataFrame:
        day = _day(as_of)
        if day is None:
            return self._frame(f"from {view} order by all", (), None)
        if day not in self.days:
            raise NoBookThatDay(self._no_book(day))
        marks = ", ".join("?" * (len(parameters) + 1))
        return self._frame(f"from {view}_as_of({marks}) order by all", [*parameters, day], day)

    def _no_book(self, day: date) -> str:
        if not self.days:
            return "The file has no book yet. See `nightbook snapshots`."
        gaps = records(self._connection, "select reason from ops.gaps where snapshot_date = ?", day)
        reason = f" ({gaps[0]['reason']})" if gaps else ""
        nearest = sorted(sorted(self.days, key=lambda book: abs(book - day))[:_MAX_SHOWN_DAYS])
        return (
            f"{day} has no book{reason}. The dates with a book are between {self.days[0]} and "
            f"{self.days[-1]}, and the nearest are "
            f"{and_more([book.isoformat() for book in nearest], _MAX_SHOWN_DAYS)}. Choose one of "
            "these dates, or omit as_of for the newest book."
        )

    def _frame(self, sql: str, params: Parameters, day: date | None) -> pd.DataFrame:
        frame = to_pandas(self._answer(sql, params))
        comments = self._comments(sql)
        frame.attrs["columns"] = {
            name: comments[name] for name in frame.columns if name in comments
        }
        frame.attrs["night"] = self.night(day)
        return frame

    def _answer(self, sql: str, params: Parameters) -> TypedResult:
        try:
            require_numeric_order(self._connection, sql)
            answer = self._connection.sql(
                sql, params=dict(params) if isinstance(params, Mapping) else list(params)
            )
            if answer is None:
                raise NotAQuestion("This statement returns no rows: use one `select` or `from`.")
            types = [str(kind) for kind in answer.types]
            table = answer.to_arrow_table()
        except duckdb.Error as error:
            raise query_error(error, str(error)) from error
        return TypedResult(
            table=table,
            types=types,
            sql=sql,
            numbers=self._numbers,
            has_gaps=lambda: self._has_gaps,
        )

    @cached_property
    def _has_gaps(self) -> bool:
        """Whether an amount, a sum or a difference of sums might not fit in DECIMAL(38,18).

        The limit applies to sums of absolute amounts, and is low enough that the difference of two
        sums also fits.
        """
        sql = (
            "select count(*) > 0 from (from history.balances select 1 "
            "group by snapshot_date, asset_id, is_custom_asset "
            "having bool_or(amount is null) or sum(abs(amount::double)) >= 4e19)"
        )
        try:
            return bool(scalar(self._connection, sql)) or self._has_gaps_in_breaks()
        except duckdb.Error as error:
            raise query_error(error, str(error)) from error

    def _has_gaps_in_breaks(self) -> bool:
        sql = (
            "select count(*) > 0 from ops.breaks where difference is null and difference_text > ''"
        )
        has_breaks = any(row["table_name"] == "breaks" for row in self._descriptions)
        return has_breaks and bool(scalar(self._connection, sql))

    def night(self, day: date | None = None) -> dict[str, Any]:
        """Return facts about a date's book as JSON values. The default is the newest book.

        Three facts are added to the result of `night_facts`. `is_newest` is true if the book is the
        newest one in this file, `is_tonights` if it is from today's business date, and
        `is_replaced` if a newer version of the file was published since it was opened. Return {}
        if there is no book.
        """
        if not self.days:
            return {}
        chosen = day or self.days[-1]
        if chosen not in self._facts:
            self._facts[chosen] = night_facts(self._connection, chosen)
        today = self._clock().astimezone(self._timezone).date()
        return self._facts[chosen] | {
            "is_newest": chosen == self.days[-1],
            "is_tonights": chosen == today,
            "is_replaced": self._database.resolve() != self.file,
        }

    @cached_property
    def _descriptions(self) -> list[dict[str, Any]]:
        return records(
            self._connection,
            "select schema_name, table_name, column_name, data_type, comment "
            "from duckdb_columns() where not internal",
        )

    @cached_property
    def _numbers(self) -> frozenset[str]:
        """The decimal columns of the book that have no text, because they contain no amounts."""
        kinds = {row["column_name"]: row["data_type"] for row in self._descriptions}
        return frozenset(
            name
            for name, kind in kinds.items()
            if kind.startswith("DECIMAL") and f"{name}{TEXT_SUFFIX}" not in kinds
        )

    def _comments(self, sql: str) -> dict[str, str]:
        """Return the meaning of each column in the tables and views that a query names."""
        words = {_MACRO.sub("", word) for word in _NAME.findall(sql)}
        comments: dict[str, set[str]] = defaultdict(set)
        for row in self._descriptions:
            if row["table_name"] in words and row["comment"]:
                comments[row["column_name"]].add(row["comment"])
        # Omit columns that have different meanings in different tables.
        return {name: texts.pop() for name, texts in comments.items() if len(texts) == 1}


def open_book(
    home: str | os.PathLike[str] | None = None,
    *,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> "ReadOnlyBook":
    """Open the published book in `home`, or in the configured home if `home` is not given.

    `home` may also be the path of the DuckDB file or of a copy. `clock` returns the current time,
    which `attrs["night"]["is_tonights"]` needs. Raises `FileNotFoundError` if nothing is published
    there, and `QueryFailed` if the file cannot be read or is not a book.
    """
    settings = DEFAULTS | {
        name: value
        for name, value in merged_environment(Path(), os.environ).items()
        if value.strip()
    }
    path = home_path(os.fspath(home) if home is not None else settings[HOME])
    candidates = (Layout(path).database, path, path / DATABASE, path / "current" / DATABASE)
    database = next((candidate for candidate in candidates if candidate.is_file()), None)
    if database is None:
        origin = "the path that you passed" if home is not None else f"{HOME}, or its default"
        raise FileNotFoundError(
            f"There is no book at {candidates[0]} ({path} is {origin}). Pass the home or the file, "
            "as in open_book('/path/to/data'). Or pull a first night with `nightbook run`, or try "
            "`nightbook demo`."
        )
    return ReadOnlyBook(database, clock=clock, timezone=ZoneInfo(settings[TIMEZONE]))


def _open_version(database: Path) -> tuple[Path, DuckDBPyConnection]:
    """Open the version that a path links to. Return its real path and a connection."""
    # Retry, because a publish may replace and remove a version before it is opened.
    for attempt in range(_ATTEMPTS):
        file = database.resolve()
        try:
            return file, connect(file, is_apart=True, max_temp_directory_size="0B")
        except (FileNotFoundError, QueryFailed):
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError


def _day(day: date | str | None) -> date | None:
    if isinstance(day, datetime):
        return day.date()
    try:
        return date.fromisoformat(day) if isinstance(day, str) else day
    except ValueError:
        raise ValueError(
            f"{day!r} is not a valid date. Write it as YYYY-MM-DD, for example 2026-11-20."
        ) from None
