"""The fast reader, which parses records that fit the schema."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from msgspec import NODEFAULT

from pipelines.records.identity import Element
from pipelines.records.json_text import text_of
from pipelines.records.notes import UNKNOWN_VALUE, Notes
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


class UndocumentedRecordError(Exception):
    """A batch of records does not match the API document."""


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


def read(raws: Sequence[bytes | msgspec.Raw], shape: RecordShape) -> pa.StructArray:
    """Parse documented records into nested Arrow columns, or raise `UndocumentedRecordError`."""
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
        raise UndocumentedRecordError(str(error)) from None
    if table.num_rows != len(raws):
        raise UndocumentedRecordError("Arrow returned a different number of records")
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
    """Raise `UndocumentedRecordError` if two rows have the same key.

    The tolerant reader then decides which record to keep.
    """
    keys = pa.table(columns)
    if keys.group_by(list(columns)).aggregate([]).num_rows < keys.num_rows:
        raise UndocumentedRecordError("a key is repeated")


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
    """Raise `UndocumentedRecordError` if a record does not match the strict type with this name."""
    decoder = _PROOFS[name]
    try:
        for raw in raws:
            decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UndocumentedRecordError(str(error)) from None


def _require(records: pa.StructArray, shape: RecordShape) -> None:
    """Raise `UndocumentedRecordError` if a required field is missing, or a list contains null."""
    for field in shape.fields.values():
        values = pc.struct_field(records, field.name)
        if field.required and values.null_count != records.null_count:
            raise UndocumentedRecordError(f"{field.source} is missing or null")
        if field.shape is not None and field.json_type is JsonType.OBJECT:
            _require(values, field.shape)
        elif field.json_type in (JsonType.OBJECTS, JsonType.TEXTS):
            elements = pc.list_flatten(values)
            if elements.null_count:
                raise UndocumentedRecordError(f"{field.source} contains null")
            if field.shape is not None:
                _require(elements, field.shape)
