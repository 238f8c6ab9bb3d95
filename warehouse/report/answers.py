"""What the report reads: one open warehouse, its nights, and answers that know their query.

Every figure on the page is an `Answered`, so that the query shown beside it is the one that was
asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from string import Template
from typing import Any

import duckdb
from duckdb import DuckDBPyConnection

from warehouse.contract.model import literal

SNAPSHOTS = "select * from ops.snapshots order by snapshot_id"
GAPS = "select * from ops.gaps order by snapshot_date desc"
COUNTED = 4096  # rows at once of those that are only counted
Record = Mapping[str, Any]
_QUERIES = Path(__file__).parent / "queries"


def query(name: str, **values: object) -> str:
    """Return the query of a file in `queries/`, with `$name` replaced by SQL of ours."""
    text = (_QUERIES / f"{name}.sql").read_text("utf-8")
    return Template(text).substitute(values).strip()


class ReportFailed(ValueError):
    """The report could not be made; none was written, and yesterday's is as it was."""


@dataclass(frozen=True, slots=True)
class QueryRows:
    """A query, its first rows by column name, and how many rows there are in all."""

    sql: str
    rows: tuple[Record, ...]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Nights:
    """All that was taken: `last` is the newest snapshot, `book` and `before` the newest books.

    `pinned` are the assets that are shown first, in this order.
    """

    all: tuple[Record, ...]
    gaps: tuple[Record, ...]
    last: Record | None
    book: Record | None
    before: Record | None
    pinned: tuple[str, ...] = ()

    @property
    def pinned_first(self) -> str:
        """The SQL that orders assets by their place among the pinned ones, which come first."""
        names = ", ".join(map(literal, self.pinned))
        pinned = f"list_position([{names}]::varchar[], asset_id)"
        return f"case when not is_custom_asset then {pinned} end nulls last"

    @property
    def book_day(self) -> date | None:
        """Date of the newest book."""
        return None if self.book is None else self.book["snapshot_date"]

    @property
    def before_day(self) -> date | None:
        """Date of the book before the newest."""
        return None if self.before is None else self.before["snapshot_date"]


def ask(connection: DuckDBPyConnection, sql: str, most: int | None = None) -> QueryRows:
    """Ask one query; with `most`, fetch so many rows and count the rest."""
    query = sql.strip()
    try:
        result = connection.execute(query)
        names = [str(column[0]) for column in result.description or ()]
        fetched = result.fetchall() if most is None else result.fetchmany(most + 1)
        rows = tuple(dict(zip(names, row, strict=True)) for row in fetched[:most])
        count = len(fetched)
        while most is not None and (more := result.fetchmany(COUNTED)):
            count += len(more)
    except duckdb.Error as error:
        raise ReportFailed(
            f"The warehouse did not answer a query of the report: {error}. No report was written. "
            "Look with `nightbook doctor`, or make the warehouse anew: `nightbook rebuild`."
        ) from error
    return QueryRows(query, rows, count)


def nights(connection: DuckDBPyConnection, pinned: Sequence[str] = ()) -> Nights:
    """Return every snapshot, and which of them the report is about."""
    snapshots = ask(connection, SNAPSHOTS).rows
    books = sorted(
        (row for row in snapshots if row["is_book"]),
        key=lambda row: row["snapshot_date"],
        reverse=True,
    )
    return Nights(
        all=snapshots,
        gaps=ask(connection, GAPS).rows,
        last=snapshots[-1] if snapshots else None,
        book=books[0] if books else None,
        before=books[1] if len(books) > 1 else None,
        pinned=tuple(pinned),
    )
