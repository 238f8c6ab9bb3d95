"""`from warehouse import open_book`: the published book in Python, read-only and exact.

A book that is open shows the night on which it was opened, complete, whatever is published
meanwhile; open it again for the new one.
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
from warehouse.query.connect import QueryFailed, connect, records, scalar
from warehouse.query.facts.night_facts import night_facts
from warehouse.query.frames import TWIN, TypedAnswer, to_pandas, to_polars, to_texts
from warehouse.query.origins import Origin, Origins
from warehouse.query.read import NotAQuestion
from warehouse.storage.home import DEFAULTS, HOME, TIMEZONE, home_path, merged_environment
from warehouse.storage.layout import DATABASE, Layout

Parameters = Sequence[object] | Mapping[str, object]
_TRIES = 5  # a version may be swapped out, and its folder removed, between two steps
_SHOWN_DAYS = 6
_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_MACRO = re.compile(r"_(as_of|between)$")  # what a macro returns is what its view has


class NoBookThatDay(LookupError):
    """No book is of the date that was asked for; the message says which dates have one."""


def open_book(
    home: str | os.PathLike[str] | None = None,
    *,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> "ReadOnlyBook":
    """Open the published book: of the home given, or of the settings' as for every command.

    `home` may also be the DuckDB file itself, in its home or copied elsewhere. `clock` says what
    time it is, for `attrs["night"]["is_tonights"]`. Raises `FileNotFoundError` where nothing is
    published there, `QueryFailed` where the file cannot be read or is not a book.
    """
    settings = DEFAULTS | {
        name: value
        for name, value in merged_environment(Path(), os.environ).items()
        if value.strip()
    }
    given = home_path(os.fspath(home) if home is not None else settings[HOME])
    places = (Layout(given).database, given, given / DATABASE, given / "current" / DATABASE)
    database = next((place for place in places if place.is_file()), None)
    if database is None:
        origin = "the path given" if home is not None else f"{HOME}, or its default"
        raise FileNotFoundError(
            f"There is no book at {places[0]}: {given} is {origin}. Give the home or the file, "
            "open_book('/path/to/data'), or take a first night with `nightbook run`, or try "
            "`nightbook demo`."
        )
    return ReadOnlyBook(database, clock=clock, timezone=ZoneInfo(settings[TIMEZONE]))


def _open_version(database: Path) -> tuple[Path, DuckDBPyConnection]:
    """Open the version that a path leads to, by its own name: it stays what it is."""
    # Between looking and opening a new version may be swapped in, and the old one removed.
    for turn in range(_TRIES):
        file = database.resolve()
        try:
            return file, connect(file, is_apart=True, max_temp_directory_size="0B")
        except (FileNotFoundError, QueryFailed):
            if turn == _TRIES - 1:
                raise
    raise AssertionError


class ReadOnlyBook:
    """One version of the book, open for questions; also a context manager.

    Frames have in `attrs["columns"]` what each column means, and in `attrs["night"]` which night
    they are of and what is known of it.
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
                f"{self.file} is a DuckDB file, but not a book of nightbook: it has no ops.build. "
                "Give the home, open_book('/path/to/data'), or the file in it."
            )

    def __repr__(self) -> str:
        """Say which book it is, and what to ask it."""
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
            "a newer version is published, open it again": night["is_replaced"],
        }
        tonights = "tonight's" if night["is_tonights"] else "not tonight's"
        return "; ".join(
            [
                f"book of {self.days[-1]} ({tonights})",
                f"{count_of(holdings, 'holding')} in {count_of(portfolios, 'portfolio')}",
                f"{count_of(len(self.days), 'night')} since {self.days[0]}",
                *(note for note, is_so in notes.items() if is_so),
                "ask .query(sql), .holdings(), .balances(), .history(table)",
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
        """Close the file; frames that were taken stay."""
        self._connection.close()

    @cached_property
    def days(self) -> tuple[date, ...]:
        """The dates that have a book, oldest first."""
        rows = self._connection.execute(
            "select distinct snapshot_date from ops.snapshots where is_book order by all"
        )
        return tuple(day for (day,) in rows.fetchall())

    def query(self, sql: str, params: Parameters = ()) -> pd.DataFrame:
        """Answer one question of SQL as a pandas frame.

        `params` fill `?` or `$name`. Raises `NotAQuestion` with DuckDB's words, and `NotExact`
        where a number of the answer may be missing for its size.
        """
        return self._frame(sql, params, None)

    def arrow(self, sql: str, params: Parameters = ()) -> pa.Table:
        """Answer one question as an Arrow table; amounts are text, for Arrow's own sums wrap."""
        return to_texts(self._answer(sql, params))

    def polars(self, sql: str, params: Parameters = ()) -> Any:
        """Answer one question as a polars frame, if polars is there; amounts are text."""
        return to_polars(self.arrow(sql, params))

    def holdings(self, as_of: date | str | None = None, by: str = "portfolio") -> pd.DataFrame:
        """Return what is held by portfolio, `venue` or `asset`: of the newest book, or of a date.

        Raises `NoBookThatDay` where that date has none.
        """
        views = {
            "portfolio": "holdings",
            "venue": "holdings_by_venue",
            "asset": "holdings_by_asset",
        }
        if by not in views:
            raise ValueError(f"by={by!r}: holdings are by {', '.join(views)}.")
        return self._of_day(views[by], as_of)

    def balances(self, as_of: date | str | None = None) -> pd.DataFrame:
        """Return every amount that the API stated, by account. Raises as `holdings`."""
        return self._of_day("balances", as_of)

    def history(
        self, table: str, since: date | str | None = None, until: date | str | None = None
    ) -> pd.DataFrame:
        """Return a table or view of schema `history` over all nights, or from and until a date."""
        if table not in self._histories:
            raise NotAQuestion(
                f"There is no history of {table!r}; there is of {', '.join(self._histories)}."
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

    def _of_day(self, view: str, as_of: date | str | None) -> pd.DataFrame:
        day = _day(as_of)
        if day is None:
            return self._frame(f"from {view} order by all", (), None)
        if day not in self.days:
            raise NoBookThatDay(self._no_book(day))
        return self._frame(f"from {view}_as_of(?) order by all", [day], day)

    def _no_book(self, day: date) -> str:
        if not self.days:
            return "The file has no book yet; see `nightbook snapshots`."
        gaps = records(self._connection, "select reason from ops.gaps where snapshot_date = ?", day)
        why = f" ({gaps[0]['reason']})" if gaps else ""
        near = sorted(sorted(self.days, key=lambda book: abs(book - day))[:_SHOWN_DAYS])
        return (
            f"{day} has no book{why}. {len(self.days)} dates have one, from {self.days[0]} to "
            f"{self.days[-1]}; the nearest are "
            f"{and_more([book.isoformat() for book in near], _SHOWN_DAYS)}. Ask for one of them, "
            "or leave as_of out for the newest."
        )

    def _frame(self, sql: str, params: Parameters, day: date | None) -> pd.DataFrame:
        frame = to_pandas(self._answer(sql, params))
        comments = self._comments(sql)
        frame.attrs["columns"] = {
            name: comments[name] for name in frame.columns if name in comments
        }
        frame.attrs["night"] = self.night(day)
        return frame

    def _answer(self, sql: str, params: Parameters) -> TypedAnswer:
        try:
            answer = self._connection.sql(
                sql, params=dict(params) if isinstance(params, Mapping) else list(params)
            )
            if answer is None:
                raise NotAQuestion(
                    "What was asked has no rows to show: ask one `select` or `from`."
                )
            types = [str(kind) for kind in answer.types]
            table = answer.to_arrow_table()
            origins = Origins(self._connection, sql, self._amounts)
        except duckdb.Error as error:
            raise _query_error(error) from error
        return TypedAnswer(
            table=table,
            types=types,
            origins=[
                origins.column(place, name, kind)
                for place, (name, kind) in enumerate(zip(table.column_names, types, strict=True))
            ],
            has_gaps=lambda: self._has_gaps,
        )

    @cached_property
    def _has_gaps(self) -> bool:
        """Whether an amount, or a sum of amounts or a difference of sums, can be too large.

        The largest sum of a night is taken without the signs, with room for a difference.
        """
        sql = (
            "select count(*) > 0 from (from history.balances select 1 "
            "group by snapshot_date, asset_id, is_custom_asset "
            "having bool_or(amount is null) or sum(abs(amount::double)) >= 4e19)"
        )
        try:
            return bool(scalar(self._connection, sql)) or self._has_gaps_in_breaks()
        except duckdb.Error as error:
            raise _query_error(error) from error

    def _has_gaps_in_breaks(self) -> bool:
        sql = (
            "select count(*) > 0 from ops.breaks where difference is null and difference_text > ''"
        )
        has_breaks = any(row["table_name"] == "breaks" for row in self._descriptions)
        return has_breaks and bool(scalar(self._connection, sql))

    def night(self, day: date | None = None) -> dict[str, Any]:
        """Return what is known of a night, by default the newest: values that JSON can hold.

        See `night_facts`. `is_newest` says whether it is the newest book of this file,
        `is_tonights` whether it is of today's business date, and `is_replaced` whether a newer
        version was published since the book was opened. Empty where there is no book.
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
    def _amounts(self) -> dict[str, Origin]:
        """The columns of the book that are amounts, or texts of amounts."""
        kinds = {row["column_name"]: row["data_type"] for row in self._descriptions}
        texts = {name: Origin.TEXT for name in kinds if name.endswith(TWIN)}
        numbers = {
            name: Origin.NUMBER | (Origin.GAPPED if f"{name}{TWIN}" in kinds else Origin.NOTHING)
            for name, kind in kinds.items()
            if kind.startswith("DECIMAL")
        }
        return texts | numbers

    def _comments(self, sql: str) -> dict[str, str]:
        """Return what the columns mean of the tables and views that a question names."""
        words = {_MACRO.sub("", word) for word in _NAME.findall(sql)}
        comments: dict[str, set[str]] = defaultdict(set)
        for row in self._descriptions:
            if row["table_name"] in words and row["comment"]:
                comments[row["column_name"]].add(row["comment"])
        # What two tables mean differently is said by neither.
        return {name: texts.pop() for name, texts in comments.items() if len(texts) == 1}


def _query_error(error: duckdb.Error) -> QueryFailed:
    by_machine = isinstance(error, duckdb.OperationalError | duckdb.InternalError)
    kind = QueryFailed if by_machine else NotAQuestion
    return kind(f"DuckDB could not answer: {error}")


def _day(day: date | str | None) -> date | None:
    if isinstance(day, datetime):
        return day.date()
    return date.fromisoformat(day) if isinstance(day, str) else day
