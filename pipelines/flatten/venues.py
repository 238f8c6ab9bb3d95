"""Table rows for venues and for the instruments in their lists."""

from collections import Counter
from datetime import date
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.flatten import columns
from pipelines.flatten.listings import Embedded
from pipelines.flatten.resources import Resource, TableBatch
from pipelines.records.defects import repeated_type
from pipelines.records.schema import INSTRUMENT, VENUE
from pipelines.records.tolerant_reader import JsonPath, TolerantReader
from warehouse.contract.book import INSTRUMENTS, VENUE_TYPES, VENUES

VENUE_TABLES = (VENUES, VENUE_TYPES, INSTRUMENTS)


def venue_resource(snapshot_date: date, embedded: Embedded) -> Resource:
    """Return the rules that turn venues into rows and add their instruments to `embedded`."""
    fill = partial(_fill_venues, snapshot_date, embedded)
    return Resource(VENUE, carries_money=False, fill=fill, merge_repeats=_merge_repeated_types)


def instrument_resource(
    snapshot_date: date, venue_id: str, listed: list[pa.StructArray]
) -> Resource:
    """Return the rules that turn a venue's instruments into rows and add the records to `listed`.

    The records do not contain the venue (2.8), so the rows get `venue_id`. `listed` is used to
    compare the records with the instruments in the venue's record.
    """
    fill = partial(_fill_instruments, snapshot_date, venue_id, listed)
    return Resource(INSTRUMENT, carries_money=False, fill=fill)


def _fill_venues(snapshot_date: date, embedded: Embedded, records: pa.StructArray) -> TableBatch:
    level = columns.top_level(records, VENUE)
    day = columns.constant_column(snapshot_date, level.rows, pa.date32())
    rows, unfit = columns.pick_columns(
        VENUES, level, level.columns, {"snapshot_date": day}, level.rows
    )
    types = level.columns["Venue.type"]
    owners = level.columns["Venue.id"].take(pc.list_parent_indices(types))
    type_names = pc.list_flatten(types)
    day = columns.constant_column(snapshot_date, len(type_names), pa.date32())
    computed = {"snapshot_date": day, "venue_id": owners, "type": type_names}
    pairs, _ = columns.pick_columns(VENUE_TYPES, level, {}, computed, len(type_names))
    for venue_id, instruments in zip(
        level.columns["Venue.id"].to_pylist(), level.columns["Venue.instruments"], strict=True
    ):
        if instruments.is_valid:
            embedded[venue_id] = instruments.values
    tables = {VENUES.name: rows, VENUE_TYPES.name: pairs}
    return TableBatch(tables, unfit, ({"venue": owners, "type": type_names},))


def _fill_instruments(
    snapshot_date: date, venue_id: str, listed: list[pa.StructArray], records: pa.StructArray
) -> TableBatch:
    level = columns.top_level(records, INSTRUMENT)
    computed = {
        "snapshot_date": columns.constant_column(snapshot_date, level.rows, pa.date32()),
        "venue_id": columns.constant_column(venue_id, level.rows, pa.string()),
        "stale_since": pa.nulls(level.rows, pa.date32()),
    }
    rows, unfit = columns.pick_columns(INSTRUMENTS, level, level.columns, computed, level.rows)
    listed.append(records)
    return TableBatch({INSTRUMENTS.name: rows}, unfit)


def _merge_repeated_types(record: dict[str, Any], reader: TolerantReader, place: JsonPath) -> None:
    """Remove repeated types from a venue's record, and add them to the rejects."""
    counts = Counter(record["type"] or ())
    for type_name, times in counts.items():
        if times > 1:
            reader.reject(place.member("type"), repeated_type(times), type_name, money=False)
    record["type"] = list(counts)
