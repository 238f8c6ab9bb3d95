"""The instruments of a venue, by each way of listing them, held against each other (4.3, 4.5).

A venue embeds its instruments with type and name; its own lists have all the rest. Where they do
not say the same, each difference is told; what only the venue has is kept with what it says.
"""

from collections.abc import Iterator
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from warehouse.contract.book import INSTRUMENTS
from warehouse.storage.parquet import rows_batch

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
    for field in (TYPE, NAME):
        stated = pc.struct_field(embedded, field).take(places)
        is_other = pc.fill_null(
            pc.not_equal(stated, pc.struct_field(listed, field)), fill_value=False
        )
        for name in names.filter(is_other).to_pylist():
            yield name, field


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
