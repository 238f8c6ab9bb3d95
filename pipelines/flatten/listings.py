"""Instruments that venues list, read again from landed responses, or carried over."""

import functools
import mmap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.edge.response import wholeness
from pipelines.edge.response.envelope import raw_records, read_envelope
from pipelines.landing import snapshots, zone
from pipelines.landing.manifest import Manifest, RequestRecord
from pipelines.records.fast_reader import Element, id_of
from pipelines.records.json_text import UNKNOWN_FIELD, Notes
from warehouse.contract.book import INSTRUMENTS
from warehouse.storage.layout import Layout
from warehouse.storage.parquet import arrow_schema, rows_batch

VENUES, LISTS, TYPED = "venues", "instruments", "typed lists"
# Said of an instrument, with its id, both where a venue embeds it and where it is listed (2.7).
TYPE, NAME = "type", "displayName"
# What venues embed, by venue, with these fields; a venue that does not say is not in it.
Embedded = dict[str, pa.StructArray]


def ids(instruments: pa.StructArray) -> list[str | None]:
    """Return their ids, in their order; None where one has none."""
    identities: list[str | None] = pc.struct_field(instruments, "id").to_pylist()
    return identities


def unequal(
    venue_id: str,
    embedded: pa.StructArray | None,
    typed: set[str],
    more: set[str],
    listed: list[pa.StructArray],
) -> list[tuple[str, str, str]]:
    """Return each difference as (venue, instrument, what lacks it or what of it differs), in order.

    `more` are those that only the list without a type has; `listed` is what the lists say.
    """
    rows = [(venue_id, instrument_id, TYPED) for instrument_id in more]
    if embedded is not None:
        known = {instrument_id for instrument_id in ids(embedded) if instrument_id is not None}
        rows += [(venue_id, instrument_id, VENUES) for instrument_id in (typed | more) - known]
        rows += [(venue_id, instrument_id, LISTS) for instrument_id in known - typed - more]
        for batch in listed:
            rows += [(venue_id, *difference) for difference in _differing(embedded, batch)]
    return sorted(rows)


def _differing(embedded: pa.StructArray, listed: pa.StructArray) -> Iterator[tuple[str, str]]:
    """Yield what both say, and not alike; what breaks the contract is a reject elsewhere."""
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
    """Return rows of instruments that only the venue has: their type and name, and nothing else."""
    # The order of a list means nothing: of an instrument that a venue names twice, and not alike,
    # the first type and then the first name in the alphabet counts, what is stated before a null.
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


class LandedAnswer(NamedTuple):
    """One landed answer: its body, and its records in it."""

    body: bytes | mmap.mmap
    elements: list[Element]


def landed_elements(
    layout: Layout, manifest: Manifest, answers: list[RequestRecord], notes: Notes
) -> list[Element]:
    """Split answers into records; what only their envelopes have goes to `notes`."""
    landed = landed_answers(layout, manifest, answers, notes)
    return [element for answer in landed for element in answer.elements]


def landed_answers(
    layout: Layout,
    manifest: Manifest,
    answers: list[RequestRecord],
    notes: Notes,
    on_bytes: Callable[[int], object] = int,
) -> Iterator[LandedAnswer]:
    """Yield answers with their records; what only their envelopes have goes to `notes`."""
    # How deep JSON may nest is counted from where its reader stands: a new thread stands at the
    # bottom, so what could be read when it was pulled can be read again from anywhere.
    with ThreadPoolExecutor(1, "elements") as bottom:
        for answer in answers:
            body = zone.body(layout, manifest, answer, on_bytes)
            elements = bottom.submit(_split, body, answer.request_no, notes).result()
            yield LandedAnswer(body, elements)


def _split(body: bytes | mmap.mmap, request_no: int, notes: Notes) -> list[Element]:
    envelope = read_envelope(body, single=False, with_records=True)
    for path, name, example in wholeness.unknown(envelope):
        notes.add_drift(path, UNKNOWN_FIELD, name, example)
    # What is no object is for the tolerant reader: such a record must not hide its siblings.
    raws = raw_records(envelope)
    return [Element(raw, request_no, number, id_of(raw)) for number, raw in enumerate(raws)]


# How long empty lists are answered with the rows of the last good night.
BELIEVED_AFTER = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class CarriedInstruments:
    """Rows by venue, with `stale_since`; and the venues that were not empty in the book before."""

    rows: dict[str, pa.Table] = field(default_factory=dict)
    emptied: tuple[str, ...] = ()


_OF_LISTS = ("feed_id", "venue_symbol", "base_asset", "term_asset", "created_at", "updated_at")

# Takes the venues that failed and those whose lists are empty; gives what is carried over.
Carry = Callable[[set[str], set[str]], CarriedInstruments]


def nothing(_failed: set[str], _empty: set[str]) -> CarriedInstruments:
    """Return where there is no night before."""
    return CarriedInstruments()


def from_last(layout: Layout, manifest: Manifest) -> Carry:
    """Return what the book before a snapshot has of such venues."""

    def carry(failed: set[str], empty: set[str]) -> CarriedInstruments:
        rows = _last_rows(layout, manifest, failed | empty)
        emptied = []
        # A venue that failed shows all it had; one that answered with nothing loses what expired,
        # and after a week all the rest.
        for venue in sorted(empty & rows.keys()):
            credible = _still_credible(rows[venue], manifest)
            if len(credible) and credible["stale_since"].null_count:
                emptied.append(venue)
            rows[venue] = credible
        dated = {venue: _set_date(each, manifest) for venue, each in rows.items() if len(each)}
        return CarriedInstruments(dated, tuple(emptied))

    return carry


def _last_rows(layout: Layout, manifest: Manifest, venues: set[str]) -> dict[str, pa.Table]:
    """Return the instruments of these venues in the book before, as they stand there."""
    path = _last_file(layout, manifest) if venues else None
    if path is None:
        return {}
    wanted = pa.array(sorted(venues), pa.string())
    with pq.ParquetFile(path) as file:
        column = file.read(columns=["venue_id"])["venue_id"]
        there = pc.is_in(column, wanted)
        if not pc.any(there).as_py():
            return {}
        rows = file.read(list(INSTRUMENTS.names)).filter(there)
    rows = rows.filter(_is_listed(rows))
    there = pc.unique(rows["venue_id"]).to_pylist()
    return {venue: rows.filter(pc.equal(rows["venue_id"], venue)) for venue in there}


def _is_listed(rows: pa.Table) -> pa.ChunkedArray:
    """Tell rows of a list from those that only a venue had: type and name, no more."""
    is_stated = [pc.is_valid(rows[name]) for name in _OF_LISTS]
    return functools.reduce(pc.or_, is_stated)


def _last_file(layout: Layout, manifest: Manifest) -> Path | None:
    """Return where it lies; None where it was pruned before this rebuild."""
    moment = datetime.fromisoformat(manifest.finished_at)
    landed = snapshots.landed_snapshots(layout)
    last = next(snapshots.accepted_before(landed, manifest.snapshot_id, moment), None)
    if last is None:
        return None
    placed = layout.parquet(INSTRUMENTS.name, last.snapshot_date, last.snapshot_id)
    places = (placed, layout.staged_file(INSTRUMENTS.name, last.snapshot_id))
    return next((path for path in places if path.is_file()), None)


def _still_credible(rows: pa.Table, manifest: Manifest) -> pa.Table:
    """Return what an empty list does not explain: neither expired, nor gone for long."""
    started = pa.scalar(datetime.fromisoformat(manifest.started_at), rows["expiration"].type)
    oldest = pa.scalar(manifest.snapshot_date - BELIEVED_AFTER, pa.date32())
    expired = pc.fill_null(pc.less_equal(rows["expiration"], started), fill_value=False)
    long_gone = pc.fill_null(pc.less(rows["stale_since"], oldest), fill_value=False)
    return rows.filter(pc.invert(pc.or_(expired, long_gone)))


def _set_date(rows: pa.Table, manifest: Manifest) -> pa.Table:
    since = pc.coalesce(rows["stale_since"], rows["snapshot_date"])
    day = pa.repeat(pa.scalar(manifest.snapshot_date, pa.date32()), len(rows))
    return _with(_with(rows, "snapshot_date", day), "stale_since", since)


def _with(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    schema = arrow_schema(INSTRUMENTS)
    return rows.set_column(rows.column_names.index(name), schema.field(name), values).cast(schema)
