"""Nested columns to flat ones: the one way rows are made, for both readers.

A `Level` is all records of one model in a batch, as columns named by their source in the contract
(`Account.venueId`), with the index of each record's parent. A table's columns are then picked by
source; amounts and times are cast without ever rounding, and what the cast could not do is told.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.records import amounts, timestamps
from pipelines.records.schema import Form, RecordShape
from warehouse.contract.model import Kind, Table
from warehouse.storage.parquet import conform


class UnfitValue(NamedTuple):
    """A value that its column cannot hold: told where `legal`, else left to the tolerant reader."""

    table: str
    column: str
    place: int
    text: str
    legal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """Records of one model: columns by source, and for inner ones their list and their parents."""

    rows: int
    columns: dict[str, Any]
    shape: RecordShape
    list_name: str = ""
    parent: "Level | None" = None
    parents: Any = None

    def path(self, place: int, numbers: list[int]) -> str:
        """Return the path of a record; `numbers` are those of the outermost records."""
        if self.parent is None:
            return f"data[{numbers[place]}]"
        # Parents ascend, so the first record with this parent is found by bisection, and the
        # distance to it is the number in its list.
        above = int(self.parents[place])
        number = place - int(np.searchsorted(self.parents, above))
        return f"{self.parent.path(above, numbers)}.{self.list_name}[{number}]"


def top_level(records: pa.StructArray, shape: RecordShape) -> Level:
    """Return the outermost records of a batch."""
    return Level(rows=len(records), columns=_columns(records, shape), shape=shape)


def inner_level(above: Level, name: str) -> Level:
    """Flatten the records of a list field, with the index of the record each came from."""
    field = above.shape.fields[name]
    if field.shape is None:
        raise TypeError(f"{field.source} is no list of records")
    lists = above.columns[field.source]
    records = pc.list_flatten(lists)
    parents = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
    return Level(
        rows=len(records),
        columns=_columns(records, field.shape),
        shape=field.shape,
        list_name=name,
        parent=above,
        parents=parents,
    )


def _columns(records: pa.StructArray, shape: RecordShape) -> dict[str, Any]:
    """Return the fields of struct records by source; those of a plain sub-object beside them."""
    columns: dict[str, Any] = {}
    for field in shape.fields.values():
        child = pc.struct_field(records, field.name)
        columns[field.source] = child
        if field.form is Form.OBJECT and field.shape is not None:
            columns |= _columns(child, field.shape)
    documented = {field.name for field in shape.fields.values()}
    for extra in records.type.names:
        if extra not in documented:
            columns[f"{shape.name}.{extra}"] = pc.struct_field(records, extra)
    return columns


def inherit_columns(level: Level, sources: tuple[str, ...]) -> dict[str, Any]:
    """Return columns of a level and of the levels above it, one value per record of this level."""
    inherited = {source: level.columns[source] for source in sources if source in level.columns}
    missing = tuple(source for source in sources if source not in inherited)
    if missing and level.parent is not None:
        indices = pa.array(level.parents)
        for source, column in inherit_columns(level.parent, missing).items():
            inherited[source] = column.take(indices)
    return inherited


def list_lengths(level: Level, source: str) -> pa.Array:
    """Return how many elements a list has: as the API listed them, broken ones too."""
    listed = level.columns.get(f"{source}#")
    if listed is not None:
        return listed
    return pc.list_value_length(level.columns[source]).cast(pa.int32())


def pick_columns(
    table: Table, sources: dict[str, Any], rows: int, computed: dict[str, Any]
) -> tuple[pa.RecordBatch, list[UnfitValue]]:
    """Return a batch of a table, by source or as computed, and what its columns cannot hold."""
    columns: dict[str, Any] = {}
    unfit: list[UnfitValue] = []
    for column in table.columns:
        if column.name in computed:
            columns[column.name] = computed[column.name]
            continue
        texts = sources[column.source]
        if column.kind is Kind.AMOUNT:
            columns[column.name], places = amounts.column(texts)
            unfit += _amounts_odd(table.name, column.name, texts, places)
        elif column.kind is Kind.MOMENT:
            columns[column.name], wrong, cut = timestamps.column(texts)
            unfit += _odd_values(table.name, column.name, texts, wrong, legal=False)
            unfit += _odd_values(table.name, column.name, texts, cut, legal=True)
        else:
            columns[column.name] = texts
    return conform(table, columns, rows), unfit


def _amounts_odd(table: str, column: str, texts: pa.Array, places: list[int]) -> list[UnfitValue]:
    return [
        UnfitValue(
            table=table,
            column=column,
            place=place,
            text=text,
            legal=amounts.parse(text) is not None,
        )
        for place in places
        if (text := texts[place].as_py()) is not None
    ]


def _odd_values(
    table: str, column: str, texts: pa.Array, places: list[int], *, legal: bool
) -> list[UnfitValue]:
    return [
        UnfitValue(table=table, column=column, place=place, text=texts[place].as_py(), legal=legal)
        for place in places
    ]


def constant_column(value: Any, rows: int, kind: pa.DataType) -> pa.Array:
    """Return a column of one value."""
    return pa.repeat(pa.scalar(value, kind), rows)
