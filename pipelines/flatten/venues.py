"""Venues and their instruments as rows: venues, venue_types and instruments (2.6 to 2.8)."""

from collections import Counter
from datetime import date
from functools import partial
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


def venue_resource(snapshot_date: date, embedded: Embedded) -> Resource:
    """Return the rules for reading venues. The instruments they embed are added to `embedded`."""
    fill = partial(_fill_venues, snapshot_date, embedded)
    return Resource(VENUE, carries_money=False, fill=fill, settle=_settle_types)


def instrument_resource(
    snapshot_date: date, venue_id: str, listed: list[pa.StructArray]
) -> Resource:
    """Return the rules for reading the instruments of a venue, which do not name it (2.8).

    The records are also appended to `listed`, because the venue may state some of their fields too.
    """
    fill = partial(_fill_instruments, snapshot_date, venue_id, listed)
    return Resource(INSTRUMENT, carries_money=False, fill=fill)


def _fill_venues(snapshot_date: date, embedded: Embedded, records: pa.StructArray) -> TableBatch:
    level = columns.top_level(records, VENUE)
    day = columns.constant_column(snapshot_date, level.rows, pa.date32())
    rows, unfit = columns.pick_columns(VENUES, level.columns, level.rows, {"snapshot_date": day})
    types = level.columns["Venue.type"]
    owners = level.columns["Venue.id"].take(pc.list_parent_indices(types))
    type_names = pc.list_flatten(types)
    day = columns.constant_column(snapshot_date, len(type_names), pa.date32())
    computed = {"snapshot_date": day, "venue_id": owners, "type": type_names}
    pairs, _ = columns.pick_columns(VENUE_TYPES, {}, len(type_names), computed)
    for venue_id, instruments in zip(
        level.columns["Venue.id"].to_pylist(), level.columns["Venue.instruments"], strict=True
    ):
        if instruments.is_valid:
            embedded[venue_id] = instruments.values
    tables = {VENUES.name: rows, VENUE_TYPES.name: pairs}
    return TableBatch(tables, unfit, _locate, ({"venue": owners, "type": type_names},))


def _fill_instruments(
    snapshot_date: date, venue_id: str, listed: list[pa.StructArray], records: pa.StructArray
) -> TableBatch:
    level = columns.top_level(records, INSTRUMENT)
    computed = {
        "snapshot_date": columns.constant_column(snapshot_date, level.rows, pa.date32()),
        "venue_id": columns.constant_column(venue_id, level.rows, pa.string()),
        "stale_since": pa.nulls(level.rows, pa.date32()),
    }
    rows, unfit = columns.pick_columns(INSTRUMENTS, level.columns, level.rows, computed)
    listed.append(records)
    return TableBatch({INSTRUMENTS.name: rows}, unfit, _locate)


def _locate(unfit: UnfitValue, numbers: list[int]) -> tuple[int, str]:
    return unfit.row, f"data[{numbers[unfit.row]}]{tail(unfit)}"


def _settle_types(record: dict[str, Any], reader: TolerantReader, place: AnswerPath) -> None:
    """Drop repeated types, and report them."""
    counts = Counter(record["type"] or ())
    for type_name, times in counts.items():
        if times > 1:
            reason = f"a type that stands once was expected, not {times} times"
            reader.reject(place.member("type"), reason, type_name, money=False)
    record["type"] = list(counts)
