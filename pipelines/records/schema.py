"""What a record looks like, derived from the models and the contract: nothing is listed twice.

`pipelines.edge.models` says which fields a record has and which are required; the contract in
`warehouse.contract.book` says which of them are keys, amounts or times. From both come the nested
Arrow types of the fast reader and the rules of the tolerant one.
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


class JsonType(Enum):
    """What stands at a field in JSON."""

    TEXT = "text"
    FLAG = "true or false"
    OBJECT = "an object"
    TEXTS = "an array of text"
    OBJECTS = "an array of objects"


@dataclass(frozen=True, slots=True)
class Field:
    """One field: `source` names it as the contract does, like `Account.venueId`."""

    name: str
    source: str
    json_type: JsonType
    required: bool
    shape: "RecordShape | None" = None

    @property
    def is_key(self) -> bool:
        """Whether a record without it has no row."""
        return self.source in KEYS

    @property
    def kind(self) -> Kind:
        """AMOUNT and MOMENT where the text must be one."""
        if self.source.partition(".")[0] in MONEY:
            return Kind.AMOUNT
        return KINDS.get(self.source, Kind.TEXT)

    @property
    def carries_money(self) -> bool:
        """Whether amounts are, or may be, in it."""
        return self.source in HOLDS_MONEY or self.source.partition(".")[0] in MONEY


@dataclass(frozen=True, slots=True)
class RecordShape:
    """A model as fields by their JSON name."""

    name: str
    fields: dict[str, Field]


KINDS = {column.source: column.kind for table in BOOK for column in table.columns}
KEYS = {
    column.source
    for table in BOOK
    for column in table.columns
    if column.name in table.key and "*" not in column.source and "." in column.source
} - {"Account.balance", "Venue.type"}


def shape_of(model: type[msgspec.Struct]) -> RecordShape:
    """Return the shape of a model and of all models below it."""
    info = inspect.type_info(model)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{model} is no struct")
    return _shape(info)


def _shape(info: inspect.StructType) -> RecordShape:
    name = info.cls.__name__
    return RecordShape(name, {field.encode_name: _field(name, field) for field in info.fields})


def _field(model: str, field: inspect.Field) -> Field:
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
    raise TypeError(f"{kind} has no form: teach pipelines/records/schema.py to read it")


OTHER = pa.list_(
    pa.struct([("bucket", pa.string()), ("state", pa.string()), ("amount", pa.string())])
)


def arrow_fields(shape: RecordShape, *, tolerant: bool) -> list[pa.Field]:
    """Return the nested Arrow type of a shape.

    With `tolerant`, also what only the tolerant reader knows: how many elements each list had
    before broken ones were taken out (`name#`), and for accounts the amounts of unknown balance
    kinds (`other`), how many amounts were stated (`balance#`) and the `duplicate#`.
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
    match field.json_type:
        case JsonType.FLAG:
            return pa.bool_()
        case JsonType.TEXTS:
            return pa.list_(pa.string())
        case JsonType.TEXT:
            return pa.string()
    if field.shape is None:
        raise TypeError(f"{field.source} is {field.json_type.value} without a shape")
    inner = pa.struct(arrow_fields(field.shape, tolerant=tolerant))
    return inner if field.json_type is JsonType.OBJECT else pa.list_(inner)


# The kinds of a balance (2.5) are those of the model, and every field of theirs is an amount.
_KINDS = shape_of(models.Balance).fields
BALANCE = models.Balance.__name__
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
    """Yield all fields of a shape and of the shapes below it."""
    for field in shape.fields.values():
        yield field
        if field.shape is not None:
            yield from every_field(field.shape)
