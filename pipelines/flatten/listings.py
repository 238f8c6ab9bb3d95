"""Instruments in a venue's record, compared with the instruments in its lists."""

from collections.abc import Iterator
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from warehouse.contract.book import INSTRUMENTS
from warehouse.storage.parquet import rows_batch

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


def _stated_first(texts: tuple[str | None, str | None]) -> list[tuple[bool, str]]:
    return [(text is None, text or "") for text in texts]
