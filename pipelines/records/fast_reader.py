"""The fast reader of records: split a body, and parse records that fit the schema."""

import contextlib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from msgspec import NODEFAULT

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
FEW = 8  # records of one parent that are held against each other one by one


class UndocumentedRecord(Exception):
    """A batch holds something that the document does not describe."""


def read(raws: Sequence[bytes | msgspec.Raw], shape: RecordShape) -> pa.StructArray:
    """Return records as nested columns; raises `UndocumentedRecord`."""
    # Arrow refuses unknown fields, wrong types, repeated keys and halves of surrogate pairs.
    body = b"\n".join(raws)
    # Looking for four letters costs little; a record that merely has them in a name is proved as
    # well, and then read fast all the same. Without lists in it a null is a value like another.
    if (_has_lists(shape) and b"null" in body) or not _are_objects(body, raws):
        _prove(raws, shape.name)
    schema = pa.schema(arrow_fields(shape, tolerant=False))
    try:
        table = pj.read_json(
            pa.BufferReader(body),
            # One block for the whole batch: Arrow would cut a record in two at the end of a block.
            read_options=pj.ReadOptions(use_threads=False, block_size=len(body) + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="error"
            ),
        )
    except pa.ArrowInvalid as error:
        raise UndocumentedRecord(str(error)) from None
    if table.num_rows != len(raws):
        raise UndocumentedRecord("a batch has another number of records than it was given")
    records = pa.StructArray.from_arrays(
        [table.column(name).combine_chunks() for name in schema.names], fields=list(schema)
    )
    _require(records, shape)
    return records


def _has_lists(shape: RecordShape) -> bool:
    return any(
        field.json_type in (JsonType.OBJECTS, JsonType.TEXTS) for field in every_field(shape)
    )


def _are_objects(body: bytes, raws: Sequence[bytes | msgspec.Raw]) -> bool:
    """Return whether each record begins with a brace; in the body they stand on lines."""
    sizes = np.fromiter(map(len, raws), np.int64, len(raws)) + 1
    return bool((np.frombuffer(body, np.uint8)[np.cumsum(sizes) - sizes] == _BRACE).all())


def _model(shape: RecordShape) -> type[msgspec.Struct]:
    """Return a shape as a type that holds nothing else."""
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


def _prove(raws: Sequence[bytes | msgspec.Raw], name: str) -> None:
    decoder = _PROOFS[name]
    try:
        for raw in raws:
            decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UndocumentedRecord(str(error)) from None


def _require(records: pa.StructArray, shape: RecordShape) -> None:
    """Raise unless every required field is there in every record."""
    for field in shape.fields.values():
        values = pc.struct_field(records, field.name)
        if field.required and values.null_count != records.null_count:
            raise UndocumentedRecord(f"{field.source} is missing or null")
        if field.shape is not None and field.json_type is JsonType.OBJECT:
            _require(values, field.shape)
        elif field.json_type in (JsonType.OBJECTS, JsonType.TEXTS):
            elements = pc.list_flatten(values)
            if elements.null_count:
                raise UndocumentedRecord(f"{field.source} holds null")
            if field.shape is not None:
                _require(elements, field.shape)


def record_undocumented_values(records: pa.StructArray, shape: RecordShape, notes: Notes) -> None:
    """Note every word that is not among the documented values of its field (2, 3)."""
    for pattern, documented in DOCUMENTED[shape.name].items():
        words = records
        for part in pattern.split("."):
            words = pc.struct_field(words, part.removesuffix("[]"))
            if part.endswith("[]"):
                words = pc.list_flatten(words)
        strange = pc.filter(words, pc.invert(pc.is_in(words, pa.array(sorted(documented)))))
        for entry in pc.value_counts(strange.drop_null()):
            word = entry["values"].as_py()
            count = entry["counts"].as_py()
            notes.add_drift(f"data[].{pattern}", UNKNOWN_VALUE, word, text_of(word), count)


def require_distinct(columns: dict[str, pa.Array]) -> None:
    """Raise where a key stands twice: what to keep is decided with care.

    Where a column `parent` numbers the records' parents, which ascend, each record is held against
    those of its own parent, one by one if they are few.
    """
    # Positions and accounts of one parent are few, so each is compared with those just before it:
    # column against itself, shifted. A group-by over all of them costs more, and is for parents
    # with many.
    if _most_of_one(columns.get("parent")) <= FEW:
        parents, *others = columns.values()
        twice = _has_twins(parents.to_numpy(zero_copy_only=False), others)
    else:
        keys = pa.table(columns)
        twice = keys.group_by(list(columns)).aggregate([]).num_rows < keys.num_rows
    if twice:
        raise UndocumentedRecord("a key stands twice")


def _most_of_one(parents: pa.Array | None) -> float:
    """Return how many records the parent of most has."""
    if parents is None:
        return math.inf
    starts = np.flatnonzero(np.diff(parents.to_numpy(zero_copy_only=False), prepend=-1))
    return float(np.diff(starts, append=len(parents)).max(initial=0))


def _has_twins(parents: Any, others: list[pa.Array]) -> bool:
    """Return whether a record has the key of one of the `FEW` before it."""
    for step in range(1, min(FEW, len(parents))):
        same = parents[step:] == parents[:-step]
        for column in others if same.any() else ():
            equal = pc.equal(column.slice(step), column.slice(0, len(column) - step))
            same &= equal.to_numpy(zero_copy_only=False)
        if same.any():
            return True
    return False


BATCH_BYTES = 4 * 1024 * 1024


class Element(msgspec.Struct, frozen=True, gc=False):
    """One record as it came: the answer it stood in, its number there, and its id if it is text."""

    # No tuple: the collector of garbage would walk a hundred thousand of them again and again.
    raw: msgspec.Raw
    request_no: int
    number: int
    identity: str | None


class _Id(msgspec.Struct, gc=False):
    id: str


_ID = msgspec.json.Decoder(_Id)
_FIRST = re.compile(rb'\{"id":"([ !#-\[\]-~]*)"[,}]')


def id_of(raw: msgspec.Raw) -> str | None:
    """Return the id of a record, or None where it has none that is text.

    Where it stands first in plain letters the rest is not looked at: a second `id` would be a key
    that stands twice, and such a record is taken by no reader.
    """
    # A pattern instead of a parser: the id stands first in nearly every record.
    if first := _FIRST.match(raw):
        return first[1].decode()
    try:
        return _ID.decode(raw).id
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


class _PlainVenue(msgspec.Struct):
    instruments: list[_Id] | None = None


class _EmbeddingVenue(msgspec.Struct):
    instruments: list[msgspec.Raw] | None = None


_PLAIN, _VENUE = msgspec.json.Decoder(_PlainVenue), msgspec.json.Decoder(_EmbeddingVenue)


def embedded_ids(venue: msgspec.Raw) -> set[str] | None:
    """Return the ids of the instruments that a venue embeds; None where it does not say."""
    # Nearly every venue is read in one go; only one with a broken instrument is read twice.
    with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        plain = _PLAIN.decode(venue).instruments
        return None if plain is None else {instrument.id for instrument in plain}
    try:
        listed = _VENUE.decode(venue).instruments
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return None if listed is None else ids_of(listed)


def ids_of(raws: Iterable[msgspec.Raw]) -> set[str]:
    """Return the ids of records, of those that have one."""
    return {identity for raw in raws if (identity := id_of(raw)) is not None}


def distinct_records(
    elements: Iterable[Element],
    notes: Notes,
    *,
    carries_money: bool,
    shape: RecordShape | None = None,
) -> list[Element]:
    """Return each id once, ordered; repeated records are told in `ops.rejects`.

    Records that repeat another one word for word are taken once, also where only fields differ
    that a `shape` does not have: those are in no row. Where they differ otherwise nobody knows
    which is right: with money in them none is taken, otherwise the first by content is.
    """
    # The API promises no order (4.6). Sorting by id, and copies of an id by their content, gives
    # the same rows for the same book on every night, and the same files when a night is made again.
    by_id: dict[str, Element] = {}
    again: dict[str, list[Element]] = {}
    elements_once = []
    for element in elements:
        if element.identity is None:
            elements_once.append(element)
        elif by_id.setdefault(element.identity, element) is not element:
            again.setdefault(element.identity, []).append(element)
    for identity, element in sorted(by_id.items()):
        if identity in again:
            several = [element, *again[identity]]
            elements_once += _settle(several, notes, shape, carries_money=carries_money)
        else:
            elements_once.append(element)
    return elements_once


def _settle(
    several: list[Element], notes: Notes, shape: RecordShape | None, *, carries_money: bool
) -> list[Element]:
    texts = sorted(
        (_canonical(element_.raw), element_.request_no, element_.number, element_)
        for element_ in several
    )
    first, repeats = texts[0], texts[1:]
    # Word for word the same is one record, in whatever order its keys and lists came. Only where
    # that differs are the documented parts compared, which is slower.
    differ = any(text != first[0] for text, *_ in repeats) and _differ(several, shape)
    refused = texts if differ and carries_money else repeats
    for text, request_no, number, element in refused:
        same = f"repeats the id of data[{first[2]}]"
        if not differ:
            finding = "is the same" if text == first[0] else "differs in unknown fields alone"
            reason, money = f"{same} and {finding}: taken once", False
        else:
            outcome = "none of them is taken" if carries_money else "the first by content is taken"
            reason, money = f"{same} and differs: {outcome}", carries_money
        value = bytes(element.raw).decode()
        notes.rejects.append(
            Reject(
                request_no=request_no,
                path=f"data[{number}]",
                reason=reason,
                value=value,
                carries_money=money,
            )
        )
    return [] if differ and carries_money else [first[3]]


def _differ(several: list[Element], shape: RecordShape | None) -> bool:
    """Return whether records of one id differ in what is read of them."""
    if shape is None:
        return True
    try:
        trees = [_documented_part(read_json(bytes(element.raw)), shape) for element in several]
        return len({text_of(tree, canonical=True) for tree in trees}) > 1
    except (ValueError, RecursionError):
        return True


def _documented_part(value: Any, shape: RecordShape) -> Any:
    """Return a record without the fields that its shape does not have; a balance may have any."""
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
    try:
        return text_of(read_json(bytes(raw)), canonical=True)
    except (ValueError, RecursionError):
        return bytes(raw).decode()


def batches(elements: list[Element]) -> Iterator[list[Element]]:
    """Yield consecutive elements of about `BATCH_BYTES`, which bounds the memory."""
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
