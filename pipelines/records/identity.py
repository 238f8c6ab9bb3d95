"""The identity of records: their IDs, and the removal of repeated records."""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

import msgspec

from pipelines.records.defects import conflicting_record, repeated_record
from pipelines.records.json_text import Members, read_json, text_of
from pipelines.records.notes import Notes, Reject
from pipelines.records.schema import (
    RecordShape,
)

_LEADING_ID = re.compile(rb'\{"id":"([ !#-\[\]-~]*)"[,}]')


class Element(msgspec.Struct, frozen=True, gc=False):
    """An undecoded record, with its request number, its index in the response, and its ID."""

    # Use a struct with `gc=False` instead of a tuple. Otherwise, the garbage collector would
    # repeatedly scan 100,000 objects.
    raw: msgspec.Raw
    request_no: int
    number: int
    identity: str | None


class _Id(msgspec.Struct, gc=False):
    id: str


class _EmbeddingVenue(msgspec.Struct):
    instruments: list[msgspec.Raw] | None = None


_ID = msgspec.json.Decoder(_Id)

_VENUE = msgspec.json.Decoder(_EmbeddingVenue)


def id_of(raw: msgspec.Raw) -> str | None:
    """Return the ID of a record, or None if it has no string ID.

    If the record begins with an ID in plain ASCII, the rest is not parsed. A second `id` in the
    rest would not matter, because all readers reject records with a repeated key.
    """
    # The ID is first in nearly every record, so a pattern is faster than a parser.
    if first := _LEADING_ID.match(raw):
        return first[1].decode()
    try:
        return _ID.decode(raw).id
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def embedded_ids(venue: msgspec.Raw) -> set[str] | None:
    """Return the IDs of the instruments in a venue's record, or None if it has no such list."""
    try:
        listed = _VENUE.decode(venue).instruments
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return None if listed is None else ids_of(listed)


def ids_of(raws: Iterable[msgspec.Raw]) -> set[str]:
    """Return the set of IDs of records, and skip records without an ID."""
    return {identity for raw in raws if (identity := id_of(raw)) is not None}


def distinct_records(
    elements: Sequence[Element],
    notes: Notes,
    *,
    carries_money: bool,
    shape: RecordShape | None = None,
) -> list[Element]:
    """Return one record per ID, sorted by ID. Add repeated records to the rejects.

    One of several identical records is kept. Records also count as identical if they differ only in
    fields that are not in `shape`, because no row contains those fields. If records differ in other
    fields, we cannot tell which record is right. If they contain money, all of them are dropped. If
    not, the record that sorts first by content is kept.
    """
    # The API does not guarantee an order (4.6). Sorting by ID, then by content, gives the same rows
    # for the same book every night, and the same files after a rebuild.
    chosen = [element for element in elements if element.identity is None]
    named = (element for element in elements if element.identity is not None)
    identity = attrgetter("identity")
    for _, group in groupby(sorted(named, key=identity), key=identity):
        copies = list(group)
        if len(copies) > 1:
            chosen += _choose_copy(copies, notes, shape, carries_money=carries_money)
        else:
            chosen += copies
    return chosen


def _choose_copy(
    copies: list[Element], notes: Notes, shape: RecordShape | None, *, carries_money: bool
) -> list[Element]:
    """Choose at most one of several records with the same ID. Add all others to the rejects."""
    texts = sorted(
        (_canonical(element_.raw), element_.request_no, element_.number, element_)
        for element_ in copies
    )
    first, repeats = texts[0], texts[1:]
    # Records with equal content are identical, even if keys and lists are in a different order.
    # Compare the documented fields only if the content differs, because the comparison is slow.
    differ = any(text != first[0] for text, *_ in repeats) and _differ(copies, shape)
    refused = texts if differ and carries_money else repeats
    for text, request_no, number, element in refused:
        if differ:
            defect = conflicting_record(first[2], is_one_used=not carries_money)
        else:
            defect = repeated_record(first[2], is_same=text == first[0])
        value = bytes(element.raw).decode()
        notes.rejects.append(
            Reject(
                request_no=request_no,
                path=f"data[{number}]",
                defect=defect,
                value=value,
                carries_money=differ and carries_money,
            )
        )
    return [] if differ and carries_money else [first[3]]


def _differ(copies: list[Element], shape: RecordShape | None) -> bool:
    """Return whether records with the same ID differ in a documented field."""
    if shape is None:
        return True
    try:
        trees = [_documented_part(read_json(bytes(element.raw)), shape) for element in copies]
        return len({text_of(tree, canonical=True) for tree in trees}) > 1
    except (ValueError, RecursionError):
        return True


def _documented_part(value: Any, shape: RecordShape) -> Any:
    """Remove a record's undocumented fields, but keep fields in balances, which may be amounts."""
    if isinstance(value, list):
        return [_documented_part(element, shape) for element in value]
    if not isinstance(value, Members) or shape.name == "Balance":
        return value
    return Members(
        [
            (
                name,
                member
                if (inner := shape.fields[name].shape) is None
                else _documented_part(member, inner),
            )
            for name, member in value.pairs
            if name in shape.fields
        ]
    )


def _canonical(raw: msgspec.Raw) -> str:
    """Return the canonical JSON of a record, or its raw content if it cannot be parsed."""
    try:
        return text_of(read_json(bytes(raw)), canonical=True)
    except (ValueError, RecursionError):
        return bytes(raw).decode()
