"""The gate of a firm's book: which source is in which night's book, and why another is not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from duckdb import DuckDBPyConnection

from warehouse.contract.firm import NIGHTS, SOURCES
from warehouse.contract.states import ACCEPTED, NO_SNAPSHOT
from warehouse.database.firm.load import LoadedSource
from warehouse.database.load import fill
from warehouse.query.connect import connect, records

_LAST_NIGHT = (
    "select * from ops.nights where snapshot_date = (select max(snapshot_date) from ops.nights) "
    "order by source"
)
UNREADABLE = "unreadable"
Reading = LoadedSource | str
"""What came of reading a source: what was read, or why it could not be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmNight:
    """One source in the newest night of the firm: whether the book holds it, or why not."""

    source: str
    snapshot_date: date
    is_in_book: bool
    state: str
    snapshot_id: str | None
    as_of: date | None
    reason: str


def last_nights(connection: DuckDBPyConnection) -> tuple[FirmNight, ...]:
    """Return the newest night that was to be taken, source by source."""
    return tuple(FirmNight(**row) for row in records(connection, _LAST_NIGHT))


def read_last_nights(database: Path) -> tuple[FirmNight, ...]:
    """Return the same of a published firm's book; raises as `connect` does."""
    with connect(database) as connection:
        return last_nights(connection)


def known_sources(connection: DuckDBPyConnection) -> dict[str, dict[str, Any]]:
    """Return what the book says of each source, by its name."""
    return {row["source"]: row for row in records(connection, "select * from ops.sources")}


def note_sources(
    connection: DuckDBPyConnection,
    known: Mapping[str, Mapping[str, Any]],
    readings: Mapping[str, Reading],
    now: datetime,
) -> tuple[str, ...]:
    """Write what is known of each source now; sentences on those that came and went come back."""
    rows = [_source_row(name, known.get(name), reading, now) for name, reading in readings.items()]
    for name, row in known.items():
        if name not in readings:
            gone = row["gone_since"] or now
            rows.append({**row, "is_listed": False, "gone_since": gone, "problem": None})
    fill(connection, SOURCES, sorted(rows, key=lambda row: str(row["source"])))
    listed = {name for name, row in known.items() if row["is_listed"]}
    came = sorted(readings.keys() - listed) if known else []
    unread = {name: why for name, why in readings.items() if isinstance(why, str)}
    return (
        *(
            f"{name} cannot be read, so the book has what it had of it: {unread[name]}"
            for name in unread
        ),
        *(f"{name} is new in firm.toml: its nights are in the book now" for name in came),
        *(
            f"{name} is no longer in firm.toml: none of its nights is in the book any more"
            for name in sorted(listed - readings.keys())
        ),
    )


def _source_row(
    name: str, before: Mapping[str, Any] | None, reading: Reading, now: datetime
) -> dict[str, Any]:
    row = dict(before or {"source": name, "since": now, "version": None, "schema_version": None})
    row |= {"is_listed": True, "gone_since": None, "problem": None}
    if isinstance(reading, str):
        return row | {"problem": reading}
    return row | {"version": reading.version, "schema_version": reading.schema_version}


def note_nights(
    connection: DuckDBPyConnection, day: date | None, notes: Mapping[str, str]
) -> date | None:
    """Write the row of each source and date; gives the date of the newest book, if there is one.

    `day` is the night that was to be taken, `notes` are why a source has none of it.
    """
    before = {
        (row["source"], row["snapshot_date"]): row["reason"]
        for row in records(connection, "select * from ops.nights where state = ?", NO_SNAPSHOT)
    }
    sources = records(connection, "select * from ops.sources where is_listed order by source")
    snapshots = records(connection, "select * from ops.snapshots order by snapshot_id")
    dates = sorted({row["snapshot_date"] for row in snapshots} | ({day} if day else set()))
    rows = []
    for source in sources:
        own = [row for row in snapshots if row["source"] == source["source"]]
        for row in _nights_of(source, own, dates):
            key = (row["source"], row["snapshot_date"])
            why = notes.get(row["source"], "") if row["snapshot_date"] == day else ""
            if row["state"] == NO_SNAPSHOT:
                row["reason"] = why or before.get(key) or row["reason"]
            elif row["state"] == UNREADABLE and why:
                row["reason"] += f"; {why}"
            rows.append(row)
    fill(connection, NIGHTS, rows)
    return max((row["snapshot_date"] for row in rows if row["is_in_book"]), default=None)


def _nights_of(
    source: Mapping[str, Any], snapshots: Sequence[Mapping[str, Any]], dates: Sequence[date]
) -> list[dict[str, Any]]:
    """Return a row for each date since the first snapshot of a source; the last date always."""
    newest = {row["snapshot_date"]: row for row in snapshots}
    books = {row["snapshot_date"]: row for row in snapshots if row["is_book"]}
    as_of: date | None = None
    rows = []
    for date_ in dates:
        as_of = date_ if date_ in books else as_of
        if not newest.get(date_) and date_ != dates[-1] and date_ < min(newest, default=date_):
            continue
        row = books.get(date_) or newest.get(date_)
        state = row["state"] if row else NO_SNAPSHOT
        reason = "" if date_ in books else row["reason"] if row else "no night was taken"
        if source["problem"] and date_ not in books:
            state, reason = UNREADABLE, source["problem"]
        rows.append(
            {
                "source": source["source"],
                "snapshot_date": date_,
                "is_in_book": date_ in books,
                "state": ACCEPTED if date_ in books else state,
                "snapshot_id": row["snapshot_id"] if row else None,
                "as_of": as_of,
                "reason": reason,
            }
        )
    return rows
