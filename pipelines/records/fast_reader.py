"""The fast reader, which parses records that fit the schema and removes repeated records."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from msgspec import NODEFAULT

from pipelines.records.defects import conflicting_record, repeated_record
from pipelines.records.json_text import UNKNOWN_VALUE, Members, Notes, Reject, read_json, text_of
from pipelines.records.schema import (
    DOCUMENTED,
    INSTRUMENT,
    PORTFOLIO,
    VENUE,
    JsonType,
    RecordShape,
    arrow_fields,
    every_field,
)

_BRACE = ord("{")
BATCH_BYTES = 4 * 1024 * 1024
_LEADING_ID = re.compile(rb'\{"id":"([ !#-\[\]-~]*)"[,}]')


class UndocumentedRecord(Exception):
    """A batch of records does not match the API document."""


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


def _model(shape: RecordShape) -> type[msgspec.Struct]:
    """Return a msgspec type that accepts only records that match a schema exactly."""
    fields: list[tuple[str, Any, Any]] = []
    for field in shape.fields.values():
        kind: Any = {JsonType.FLAG: bool, JsonType.TEXTS: list[str]}.get(field.json_type, str)
        if field.shape is not None:
            inner: Any = _model(field.shape)
            kind = inner if field.json_type is JsonType.OBJECT else list[inner]
        fields.append((field.name, *((kind, NODEFAULT) if field.required else (kind | None, None))))
    return msgspec.defstruct(shape.name, fields, forbid_unknown_fields=True, kw_only=True, gc=False)


_PROOFS = {
    shape.name: msgspec.json.Decoder(_model(shape)) for shape in (PORTFOLIO, VENUE, INSTRUMENT)
}

_ID = msgspec.json.Decoder(_Id)

_VENUE = msgspec.json.Decoder(_EmbeddingVenue)


def read(raws: Sequence[bytes | msgspec.Raw], shape: RecordShape) -> pa.StructArray:
    """Parse documented records into nested Arrow columns, or raise `UndocumentedRecord`."""
    # Arrow rejects unknown fields, wrong types, repeated keys and lone surrogates.
    body = b"\n".join(raws)
    # Arrow wrongly accepts null in lists. So if the schema has lists and the bytes contain "null",
    # check the records with msgspec too. The search is cheap, and if "null" occurs only in a name,
    # the check passes.
    if (_has_lists(shape) and b"null" in body) or not _are_objects(body, raws):
        _prove(raws, shape.name)
    schema = pa.schema(arrow_fields(shape, tolerant=False))
    try:
        table = pj.read_json(
            pa.BufferReader(body),
            # Use one block for the whole batch, because Arrow cannot read a record that spans two
            # blocks.
            read_options=pj.ReadOptions(use_threads=False, block_size=len(body) + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="error"
            ),
        )
    except pa.ArrowInvalid as error:
        raise UndocumentedRecord(str(error)) from None
    if table.num_rows != len(raws):
        raise UndocumentedRecord("Arrow returned a different number of records")
    records = pa.StructArray.from_arrays(
        [table.column(name).combine_chunks() for name in schema.names], fields=list(schema)
    )
    _require(records, shape)
    return records


def record_undocumented_values(records: pa.StructArray, shape: RecordShape, notes: Notes) -> None:
    """Count each value that the API document does not list for its field (sections 2 and 3)."""
    for pattern, documented in DOCUMENTED[shape.name].items():
        words = records
        for part in pattern.split("."):
            words = pc.struct_field(words, part.removesuffix("[]"))
            if part.endswith("[]"):
                words = pc.list_flatten(words)
        undocumented = pc.filter(words, pc.invert(pc.is_in(words, pa.array(sorted(documented)))))
        for entry in pc.value_counts(undocumented.drop_null()):
            word = entry["values"].as_py()
            count = entry["counts"].as_py()
            notes.add_drift(f"data[].{pattern}", UNKNOWN_VALUE, word, text_of(word), count)


def require_distinct(columns: dict[str, pa.Array]) -> None:
    """Raise `UndocumentedRecord` if two rows have the same key.

    The tolerant reader then decides which record to keep.
    """
    keys = pa.table(columns)
    if keys.group_by(list(columns)).aggregate([]).num_rows < keys.num_rows:
        raise UndocumentedRecord("a key is repeated")


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
            chosen += _settle(copies, notes, shape, carries_money=carries_money)
        else:
            chosen += copies
    return chosen


def batches(elements: list[Element]) -> Iterator[list[Element]]:
    """Split records into batches of about `BATCH_BYTES` bytes, to limit memory use."""
    batch: list[Element] = []
    size = 0
    for element in elements:
        batch.append(element)
        size += len(element.raw)
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _has_lists(shape: RecordShape) -> bool:
    """Return whether a record schema has any list fields."""
    return any(
        field.json_type in (JsonType.OBJECTS, JsonType.TEXTS) for field in every_field(shape)
    )


def _are_objects(body: bytes, raws: Sequence[bytes | msgspec.Raw]) -> bool:
    """Return whether every record starts with a brace. `body` contains one record per line."""
    sizes = np.fromiter(map(len, raws), np.int64, len(raws)) + 1
    return bool((np.frombuffer(body, np.uint8)[np.cumsum(sizes) - sizes] == _BRACE).all())


def _prove(raws: Sequence[bytes | msgspec.Raw], name: str) -> None:
    """Raise `UndocumentedRecord` if a record does not match the strict type with this name."""
    decoder = _PROOFS[name]
    try:
        for raw in raws:
            decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UndocumentedRecord(str(error)) from None


def _require(records: pa.StructArray, shape: RecordShape) -> None:
    """Raise `UndocumentedRecord` if a required field is missing, or a list contains null."""
    for field in shape.fields.values():
        values = pc.struct_field(records, field.name)
        if field.required and values.null_count != records.null_count:
            raise UndocumentedRecord(f"{field.source} is missing or null")
        if field.shape is not None and field.json_type is JsonType.OBJECT:
            _require(values, field.shape)
        elif field.json_type in (JsonType.OBJECTS, JsonType.TEXTS):
            elements = pc.list_flatten(values)
            if elements.null_count:
                raise UndocumentedRecord(f"{field.source} contains null")
            if field.shape is not None:
                _require(elements, field.shape)


def _settle(
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
