"""The schema of records, which is derived from the models and the contract.

`pipelines.edge.models` defines the fields of a record and whether they are required. The contract
in `warehouse.contract.book` defines the keys, amounts and timestamps. The fast reader derives its
nested Arrow types from this schema, and the tolerant reader its rules, so no field is listed twice.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import msgspec
import pyarrow as pa
from msgspec import inspect

from pipelines.edge import models
from warehouse.contract.book import BOOK
from warehouse.contract.model import Kind

KINDS = {column.source: column.kind for table in BOOK for column in table.columns}
KEYS = {
    column.source
    for table in BOOK
    for column in table.columns
    if column.name in table.key and "*" not in column.source and "." in column.source
} - {"Account.balance", "Venue.type"}
# Maps each amount and timestamp field to its table and column, for `ops.inexact`.
COLUMNS = {
    column.source: (table.name, column.name)
    for table in BOOK
    for column in table.columns
    if column.kind in (Kind.AMOUNT, Kind.MOMENT)
}
OTHER = pa.list_(
    pa.struct([("bucket", pa.string()), ("state", pa.string()), ("amount", pa.string())])
)
BALANCE = models.Balance.__name__


class JsonType(Enum):
    """The JSON type of a field. Never change these strings, because stored lessons contain them."""

    TEXT = "text"
    FLAG = "true or false"
    OBJECT = "an object"
    TEXTS = "an array of text"
    OBJECTS = "an array of objects"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record. `source` is its name in the contract, like `Account.venueId`."""

    name: str
    source: str
    json_type: JsonType
    required: bool
    shape: "RecordShape | None" = None

    @property
    def is_key(self) -> bool:
        """True if a record cannot become a row without this field."""
        return self.source in KEYS

    @property
    def kind(self) -> Kind:
        """The kind of the field's table column (such as AMOUNT), or TEXT if it has no column."""
        if self.source.partition(".")[0] in MONEY:
            return Kind.AMOUNT
        return KINDS.get(self.source, Kind.TEXT)

    @property
    def carries_money(self) -> bool:
        """True if the field is an amount or contains amounts at any depth."""
        return self.source in HOLDS_MONEY or self.source.partition(".")[0] in MONEY


@dataclass(frozen=True, slots=True)
class RecordShape:
    """The schema of a record: its fields by JSON name."""

    name: str
    fields: dict[str, Field]


def shape_of(model: type[msgspec.Struct]) -> RecordShape:
    """Return the record schema for a model, including nested models."""
    info = inspect.type_info(model)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{model} is not a struct")
    return _shape(info)


def _shape(info: inspect.StructType) -> RecordShape:
    """Return the record schema for an inspected msgspec struct."""
    name = info.cls.__name__
    return RecordShape(name, {field.encode_name: _field(name, field) for field in info.fields})


def _field(model: str, field: inspect.Field) -> Field:
    """Return the schema of a field of a model."""
    json_type, shape = _json_type(field.type)
    source = f"{model}.{field.encode_name}"
    return Field(
        name=field.encode_name,
        source=source,
        json_type=json_type,
        required=field.required,
        shape=shape,
    )


def _json_type(kind: inspect.Type) -> tuple[JsonType, RecordShape | None]:
    """Return a field's JSON type and, if the field contains objects, the objects' schema."""
    match kind:
        case inspect.UnionType(types=types):
            return _json_type(next(t for t in types if not isinstance(t, inspect.NoneType)))
        case inspect.StrType():
            return JsonType.TEXT, None
        case inspect.BoolType():
            return JsonType.FLAG, None
        case inspect.StructType():
            return JsonType.OBJECT, _shape(kind)
        case inspect.ListType(item_type=inspect.StructType() as item):
            return JsonType.OBJECTS, _shape(item)
        case inspect.ListType(item_type=inspect.StrType()):
            return JsonType.TEXTS, None
    raise TypeError(f"{kind} has no JSON type: add it to pipelines/records/schema.py")


def arrow_fields(shape: RecordShape, *, tolerant: bool) -> list[pa.Field]:
    """Return the nested Arrow fields for a record schema.

    With `tolerant`, add the columns that only the tolerant reader fills: the length of each list,
    including unreadable elements (`name#`), and for accounts the undocumented amounts (`other`),
    the number of amounts in the response (`balance#`) and the number of the duplicate
    (`duplicate#`).
    """
    fields = []
    for field in shape.fields.values():
        fields.append(pa.field(field.name, _arrow_type(field, tolerant=tolerant)))
        if tolerant and field.json_type in (JsonType.OBJECTS, JsonType.TEXTS):
            fields.append(pa.field(f"{field.name}#", pa.int32()))
    if tolerant and shape.name == models.Account.__name__:
        fields += [
            pa.field("other", OTHER),
            pa.field("balance#", pa.int32()),
            pa.field("duplicate#", pa.int32()),
        ]
    return fields


def _arrow_type(field: Field, *, tolerant: bool) -> pa.DataType:
    """Return the Arrow type for a field of a record."""
    match field.json_type:
        case JsonType.FLAG:
            return pa.bool_()
        case JsonType.TEXTS:
            return pa.list_(pa.string())
        case JsonType.TEXT:
            return pa.string()
    if field.shape is None:
        raise TypeError(f"{field.source} is {field.json_type.value} but has no schema")
    inner = pa.struct(arrow_fields(field.shape, tolerant=tolerant))
    return inner if field.json_type is JsonType.OBJECT else pa.list_(inner)


# Each field of the model is a balance kind (2.5), and each field of a balance kind is an amount.
_KINDS = shape_of(models.Balance).fields
BALANCE_KINDS = frozenset(_KINDS)
MONEY = {field.shape.name for field in _KINDS.values() if field.shape is not None}
HOLDS_MONEY = {"Portfolio.positions", "Position.accounts", "Account.balance"} | {
    field.source for field in _KINDS.values()
}

PORTFOLIO = shape_of(models.Portfolio)
VENUE = shape_of(models.Venue)
INSTRUMENT = shape_of(models.Instrument)
DOCUMENTED = {
    PORTFOLIO.name: models.VALUES[models.Portfolio],
    VENUE.name: models.VALUES[models.Venue],
    INSTRUMENT.name: models.VALUES[models.Instrument],
}


def every_field(shape: RecordShape) -> Iterator[Field]:
    """Yield all fields of a record schema, including the fields of nested schemas."""
    for field in shape.fields.values():
        yield field
        if field.shape is not None:
            yield from every_field(field.shape)
