"""Table rows for venues, and for instruments from tonight's lists or from an earlier night."""

import mmap
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.edge.response import wholeness
from pipelines.edge.response.envelope import raw_records, read_envelope
from pipelines.flatten import columns
from pipelines.flatten.columns import Resource, TableBatch
from pipelines.landing import snapshots, zone
from pipelines.landing.manifest import Manifest, RequestRecord
from pipelines.records.defects import repeated_type
from pipelines.records.identity import Element, id_of
from pipelines.records.notes import UNKNOWN_FIELD, Notes
from pipelines.records.schema import INSTRUMENT, VENUE
from pipelines.records.tolerant_reader import JsonPath, TolerantReader
from warehouse.contract.book import INSTRUMENTS, VENUE_TYPES, VENUES
from warehouse.sql.files import open_files
from warehouse.storage.layout import Layout
from warehouse.storage.parquet import arrow_schema, rows_batch

VENUES_LIST, LISTS, TYPED = "venues", "instruments", "typed lists"
# An instrument in a venue's record has only an ID and these two fields (2.7). The records in
# instrument lists have these fields too.
TYPE, NAME = "type", "displayName"
# Maps each venue to its embedded instruments (ID, type and name). A venue without an embedded list
# has no entry.
Embedded = dict[str, pa.StructArray]


def ids(instruments: pa.StructArray) -> list[str | None]:
    """Return the ID of each instrument, or None if it has no ID."""
    identities: list[str | None] = pc.struct_field(instruments, "id").to_pylist()
    return identities


def unequal(
    venue_id: str,
    embedded: pa.StructArray | None,
    typed: set[str],
    more: set[str],
    listed: list[pa.StructArray],
) -> list[tuple[str, str, str]]:
    """Return all differences between the instruments in a venue's record and in its lists, sorted.

    Each difference contains the venue, the instrument, and either the list without the instrument
    or the field that differs. `embedded` contains the instruments in the venue's record, `typed`
    the IDs in typed lists, `more` the IDs that are only in the untyped list, and `listed` the
    records of all lists.
    """
    rows = [(venue_id, instrument_id, TYPED) for instrument_id in more]
    if embedded is not None:
        known = {instrument_id for instrument_id in ids(embedded) if instrument_id is not None}
        rows += [(venue_id, instrument_id, VENUES_LIST) for instrument_id in (typed | more) - known]
        rows += [(venue_id, instrument_id, LISTS) for instrument_id in known - typed - more]
        for batch in listed:
            rows += [(venue_id, *difference) for difference in _differing(embedded, batch)]
    return sorted(rows)


def _differing(embedded: pa.StructArray, listed: pa.StructArray) -> Iterator[tuple[str, str]]:
    """Yield the ID of each instrument whose type or name differs, and the field that differs."""
    names = pc.struct_field(listed, "id")
    places = pc.index_in(names, value_set=pc.struct_field(embedded, "id"))
    for label in (TYPE, NAME):
        stated = pc.struct_field(embedded, label).take(places)
        is_other = pc.fill_null(
            pc.not_equal(stated, pc.struct_field(listed, label)), fill_value=False
        )
        for name in names.filter(is_other).to_pylist():
            yield name, label


def rows_beyond(
    day: date, venue_id: str, embedded: pa.StructArray, known: set[str]
) -> pa.RecordBatch | None:
    """Return rows with only type and name for embedded instruments that are not in any list."""
    # The order of a list has no meaning. If a venue embeds an instrument twice with different
    # fields, choose the copy whose type (then name) is alphabetically first. Null sorts last.
    stated: dict[str, tuple[str | None, str | None]] = {}
    for name, instrument in zip(ids(embedded), embedded.to_pylist(), strict=True):
        if name is not None and name not in known:
            texts = (instrument[TYPE], instrument[NAME])
            stated[name] = min(stated.get(name, texts), texts, key=_stated_first)
    if not stated:
        return None
    empty: dict[str, Any] = dict.fromkeys(INSTRUMENTS.names)
    rows = [
        empty
        | {"snapshot_date": day, "venue_id": venue_id, "instrument_id": name}
        | {"type": type_, "display_name": display_name}
        for name, (type_, display_name) in sorted(stated.items())
    ]
    return rows_batch(INSTRUMENTS, rows)


def _stated_first(texts: tuple[str | None, str | None]) -> list[tuple[bool, str]]:
    return [(text is None, text or "") for text in texts]


class LandedResponse(NamedTuple):
    """A landed response: its body and its undecoded records."""

    body: bytes | mmap.mmap
    elements: list[Element]


def landed_elements(
    layout: Layout, manifest: Manifest, answers: list[RequestRecord], notes: Notes
) -> list[Element]:
    """Read landed responses and return their records. Add unknown envelope fields to `notes`."""
    landed = landed_responses(layout, manifest, answers, notes)
    return [element for answer in landed for element in answer.elements]


def landed_responses(
    layout: Layout,
    manifest: Manifest,
    answers: list[RequestRecord],
    notes: Notes,
    on_bytes: Callable[[int], object] = int,
) -> Iterator[LandedResponse]:
    """Yield landed responses with their records. Add unknown envelope fields to `notes`."""
    # The call stack limits how deeply JSON can be nested. A new thread starts with an empty stack,
    # so a body that could be read during the pull can be read here as well.
    with ThreadPoolExecutor(1, "elements") as bottom:
        for answer in answers:
            body = zone.body(layout, manifest, answer, on_bytes)
            elements = bottom.submit(_split, body, answer.request_no, notes).result()
            yield LandedResponse(body, elements)


def _split(body: bytes | mmap.mmap, request_no: int, notes: Notes) -> list[Element]:
    envelope = read_envelope(body, single=False)
    for path, name, example in wholeness.unknown_members(envelope):
        notes.add_drift(path, UNKNOWN_FIELD, name, example)
    # The tolerant reader rejects records that are not objects, so that all other records are still
    # read.
    raws = raw_records(envelope)
    return [Element(raw, request_no, number, id_of(raw)) for number, raw in enumerate(raws)]


# If a venue's instrument list is suddenly empty, keep its last known instruments for this long.
BELIEVED_AFTER = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class CarriedInstruments:
    """Instrument rows carried over from the last book, and the venues whose lists became empty."""

    rows: dict[str, pa.Table] = field(default_factory=dict)
    emptied: tuple[str, ...] = ()


_CARRIED = Path(__file__).with_name("carried_instruments.sql").read_text(encoding="utf-8")

# A function with two arguments, the failed venues and the venues with empty lists. It returns the
# last known instruments of these venues.
Carry = Callable[[set[str], set[str]], CarriedInstruments]


def nothing(_failed: set[str], _empty: set[str]) -> CarriedInstruments:
    """Return no instruments, for callers that do not carry over any."""
    return CarriedInstruments()


def carry_from_last(
    layout: Layout, manifest: Manifest, failed: set[str], empty: set[str]
) -> CarriedInstruments:
    """Return the last book's instruments for venues whose lists failed or are empty now."""
    path = _last_file(layout, manifest) if failed or empty else None
    if path is None:
        return CarriedInstruments()
    values = {
        "day": manifest.snapshot_date,
        "failed": sorted(failed),
        "empty": sorted(empty),
        "started_at": datetime.fromisoformat(manifest.started_at),
        "oldest": manifest.snapshot_date - BELIEVED_AFTER,
    }
    with open_files({"instruments": path}) as connection:
        carried = connection.sql(_CARRIED, params=values).to_arrow_table()
    new = carried.filter(carried["is_new"])["venue_id"].to_pylist()
    rows = carried.select(INSTRUMENTS.names).cast(arrow_schema(INSTRUMENTS))
    venues = pc.unique(rows["venue_id"]).to_pylist()
    return CarriedInstruments(
        {venue: rows.filter(pc.equal(rows["venue_id"], venue)) for venue in venues},
        tuple(sorted(empty.intersection(new))),
    )


def _last_file(layout: Layout, manifest: Manifest) -> Path | None:
    """Return the last book's instruments file, or None if it is missing or was pruned."""
    moment = datetime.fromisoformat(manifest.finished_at)
    landed = snapshots.landed_snapshots(layout)
    last = next(snapshots.accepted_before(landed, manifest.snapshot_id, moment), None)
    if last is None:
        return None
    placed = layout.parquet(INSTRUMENTS.name, last.snapshot_date, last.snapshot_id)
    places = (placed, layout.staged_file(INSTRUMENTS.name, last.snapshot_id))
    return next((path for path in places if path.is_file()), None)


VENUE_TABLES = (VENUES, VENUE_TYPES, INSTRUMENTS)


def venue_resource(snapshot_date: date, embedded: Embedded) -> Resource:
    """Return the rules that turn venues into rows and add their instruments to `embedded`."""
    fill = partial(_fill_venues, snapshot_date, embedded)
    return Resource(VENUE, carries_money=False, fill=fill, settle=_settle_types)


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


def _settle_types(record: dict[str, Any], reader: TolerantReader, place: JsonPath) -> None:
    """Remove repeated types from a venue's record, and add them to the rejects."""
    counts = Counter(record["type"] or ())
    for type_name, times in counts.items():
        if times > 1:
            reader.reject(place.member("type"), repeated_type(times), type_name, money=False)
    record["type"] = list(counts)
