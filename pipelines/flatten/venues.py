"""Venues and their instruments as rows: venues, venue_types and instruments (2.6 to 2.8)."""

from collections import Counter
from collections.abc import Callable
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.flatten import columns
from pipelines.flatten.columns import Resource, TableBatch, UnfitValue, tail
from pipelines.flatten.listings import Embedded
from pipelines.records.schema import INSTRUMENT, VENUE
from pipelines.records.tolerant_reader import AnswerPath, TolerantReader
from warehouse.contract.book import INSTRUMENTS, VENUE_TYPES, VENUES

VENUE_TABLES = (VENUES, VENUE_TYPES, INSTRUMENTS)


def venues(snapshot_date: date, embedded: Embedded) -> Resource:
    """Return how venues are read; the instruments they embed go to `embedded`, by venue."""
    fill = _fill_venues(snapshot_date, embedded)
    return Resource(VENUE, carries_money=False, fill=fill, settle=_settle_types)


def instruments(snapshot_date: date, venue_id: str, listed: list[pa.StructArray]) -> Resource:
    """Return how instruments of a venue are read: they do not name it themselves (2.8).

    What the venue may say of them too goes to `listed`.
    """
    fill = _fill_instruments(snapshot_date, venue_id, listed)
    return Resource(INSTRUMENT, carries_money=False, fill=fill)


def _fill_venues(snapshot_date: date, embedded: Embedded) -> Callable[[pa.StructArray], TableBatch]:
    def fill(records: pa.StructArray) -> TableBatch:
        level = columns.top_level(records, VENUE)
        day = columns.constant_column(snapshot_date, level.rows, pa.date32())
        rows, odd = columns.pick_columns(VENUES, level.columns, level.rows, {"snapshot_date": day})
        types = level.columns["Venue.type"]
        owners = level.columns["Venue.id"].take(pc.list_parent_indices(types))
        words = pc.list_flatten(types)
        day = columns.constant_column(snapshot_date, len(words), pa.date32())
        computed = {"snapshot_date": day, "venue_id": owners, "type": words}
        pairs, _ = columns.pick_columns(VENUE_TYPES, {}, len(words), computed)
        _embed(level, embedded)
        tables = {VENUES.name: rows, VENUE_TYPES.name: pairs}
        return TableBatch(tables, odd, _at_top, ({"venue": owners, "type": words},))

    return fill


def _embed(level: columns.Level, embedded: Embedded) -> None:
    for venue_id, listed in zip(
        level.columns["Venue.id"].to_pylist(), level.columns["Venue.instruments"], strict=True
    ):
        if listed.is_valid:
            embedded[venue_id] = listed.values


def _fill_instruments(
    snapshot_date: date, venue_id: str, listed: list[pa.StructArray]
) -> Callable[[pa.StructArray], TableBatch]:
    def fill(records: pa.StructArray) -> TableBatch:
        level = columns.top_level(records, INSTRUMENT)
        computed = {
            "snapshot_date": columns.constant_column(snapshot_date, level.rows, pa.date32()),
            "venue_id": columns.constant_column(venue_id, level.rows, pa.string()),
            "stale_since": pa.nulls(level.rows, pa.date32()),
        }
        rows, odd = columns.pick_columns(INSTRUMENTS, level.columns, level.rows, computed)
        listed.append(records)
        return TableBatch({INSTRUMENTS.name: rows}, odd, _at_top)

    return fill


def _at_top(value: UnfitValue, numbers: list[int]) -> tuple[int, str]:
    return value.place, f"data[{numbers[value.place]}]{tail(value)}"


def _settle_types(record: dict[str, Any], reader: TolerantReader, place: AnswerPath) -> None:
    """A type that stands twice says nothing new."""
    words = Counter(record["type"] or ())
    for word, times in words.items():
        if times > 1:
            reason = f"a type that stands once was expected, not {times} times"
            reader.reject(place.member("type"), reason, word, money=False)
    record["type"] = list(words)
