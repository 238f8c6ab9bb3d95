"""The fast reader: records exactly as the document describes them, a batch at a time, in Arrow.

It takes only what is beyond doubt. Anything else (an unknown or repeated key, a missing or wrong
value) raises `NotPlain`, and the whole batch is read again by `pipelines.records.tolerant_reader`.

Arrow's JSON reader must not see a null where none is documented, nor a record that is no object:
it can end the process or give lists of a wrong length. So where a batch has those four letters
anywhere, or such a record, typed decoding has to prove it first; all else Arrow refuses itself.
No Python object is made for a row.
"""

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from msgspec import NODEFAULT

from pipelines.records.issues import UNKNOWN_VALUE, Notes
from pipelines.records.json_text import text_of
from pipelines.records.schema import (
    DOCUMENTED,
    INSTRUMENT,
    PORTFOLIO,
    VENUE,
    Form,
    RecordShape,
    arrow_fields,
    every_field,
)

_BRACE = ord("{")
FEW = 8  # records of one parent that are held against each other one by one


class NotPlain(Exception):
    """A batch holds something that the document does not describe."""


def read(raws: Sequence[bytes | msgspec.Raw], shape: RecordShape) -> pa.StructArray:
    """Return records as nested columns; raises `NotPlain`."""
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
        raise NotPlain(str(error)) from None
    if table.num_rows != len(raws):
        raise NotPlain("a batch has another number of records than it was given")
    records = pa.StructArray.from_arrays(
        [table.column(name).combine_chunks() for name in schema.names], fields=list(schema)
    )
    _require(records, shape)
    return records


def _has_lists(shape: RecordShape) -> bool:
    return any(field.form in (Form.OBJECTS, Form.TEXTS) for field in every_field(shape))


def _are_objects(body: bytes, raws: Sequence[bytes | msgspec.Raw]) -> bool:
    """Return whether each record begins with a brace; in the body they stand on lines."""
    sizes = np.fromiter(map(len, raws), np.int64, len(raws)) + 1
    return bool((np.frombuffer(body, np.uint8)[np.cumsum(sizes) - sizes] == _BRACE).all())


def _model(shape: RecordShape) -> type[msgspec.Struct]:
    """Return a shape as a type that holds nothing else."""
    fields: list[tuple[str, Any, Any]] = []
    for field in shape.fields.values():
        kind: Any = {Form.FLAG: bool, Form.TEXTS: list[str]}.get(field.form, str)
        if field.shape is not None:
            inner: Any = _model(field.shape)
            kind = inner if field.form is Form.OBJECT else list[inner]
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
        raise NotPlain(str(error)) from None


def _require(records: pa.StructArray, shape: RecordShape) -> None:
    """Raise unless every required field is there in every record."""
    for field in shape.fields.values():
        values = pc.struct_field(records, field.name)
        if field.required and values.null_count != records.null_count:
            raise NotPlain(f"{field.source} is missing or null")
        if field.shape is not None and field.form is Form.OBJECT:
            _require(values, field.shape)
        elif field.form in (Form.OBJECTS, Form.TEXTS):
            elements = pc.list_flatten(values)
            if elements.null_count:
                raise NotPlain(f"{field.source} holds null")
            if field.shape is not None:
                _require(elements, field.shape)


def note_words(records: pa.StructArray, shape: RecordShape, notes: Notes) -> None:
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
            notes.saw(f"data[].{pattern}", UNKNOWN_VALUE, word, text_of(word), count)


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
        raise NotPlain("a key stands twice")


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
