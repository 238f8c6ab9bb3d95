"""Columns and record batches of the flattened tables."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.records import amounts, timestamps
from pipelines.records.schema import (
    INSTRUMENT,
    PORTFOLIO,
    VENUE,
    JsonType,
    RecordShape,
)
from warehouse.contract.model import Kind, Table
from warehouse.storage.parquet import conform

_CONVERTERS = {Kind.AMOUNT: amounts.column, Kind.MOMENT: timestamps.column}


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """All records of one model in a batch, as columns named after its fields (`Portfolio.id`).

    If the records are in a list field of other records, the level also has the name of the list,
    the level of the parent records, and the index of each record's parent.
    """

    rows: int
    columns: dict[str, Any]
    shape: RecordShape
    list_name: str = ""
    parent: "Level | None" = None
    parents: Any = None

    def locate(self, row: int, numbers: list[int]) -> tuple[int, str]:
        """Return the index of the outermost record that contains row `row`, and the row's path.

        `numbers` contains the index of each outermost record in its response.
        """
        if self.parent is None:
            return row, f"data[{numbers[row]}]"
        # Parents are in ascending order, so a binary search finds the first record of this parent.
        # The index in the list is the distance from that record.
        above = int(self.parents[row])
        number = row - int(np.searchsorted(self.parents, above))
        top, path = self.parent.locate(above, numbers)
        return top, f"{path}.{self.list_name}[{number}]"


class UnfitValue(NamedTuple):
    """A string that its column cannot store exactly, or that is not valid for its column.

    The value belongs to the record `row` of `level`, and `tail` is the end of its JSON path. If the
    value is `legal`, it is recorded in `ops.inexact`. Otherwise the tolerant reader reads the
    batch.
    """

    table: str
    column: str
    level: Level
    row: int
    tail: str
    text: str
    legal: bool


def top_level(records: pa.StructArray, shape: RecordShape) -> Level:
    """Return the level that contains the outermost records of a batch."""
    return Level(rows=len(records), columns=_columns(records, shape), shape=shape)


def inner_level(above: Level, name: str) -> Level:
    """Return the level that contains the records in a list field, with their parents' indexes."""
    field = above.shape.fields[name]
    if field.shape is None:
        raise TypeError(f"{field.source} is not a list of records")
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


def inherit_columns(level: Level, sources: tuple[str, ...]) -> dict[str, Any]:
    """Return columns of a level and its parent levels, with one value per record of the level."""
    inherited = {source: level.columns[source] for source in sources if source in level.columns}
    missing = tuple(source for source in sources if source not in inherited)
    if missing and level.parent is not None:
        indices = pa.array(level.parents)
        for source, column in inherit_columns(level.parent, missing).items():
            inherited[source] = column.take(indices)
    return inherited


def list_lengths(level: Level, source: str) -> pa.Array:
    """Return the length of each list in a column, including elements that could not be read."""
    listed = level.columns.get(f"{source}#")
    if listed is not None:
        return listed
    return pc.list_value_length(level.columns[source]).cast(pa.int32())


def pick_columns(
    table: Table, level: Level, sources: dict[str, Any], computed: dict[str, Any], rows: int
) -> tuple[pa.RecordBatch, list[UnfitValue]]:
    """Build a record batch for a table. Also return the values that do not fit in their columns.

    `computed` contains finished columns by name. All other columns are converted from `sources`,
    whose values come from the records of `level`.
    """
    columns: dict[str, Any] = {}
    unfit: list[UnfitValue] = []
    for column in table.columns:
        if column.name in computed:
            columns[column.name] = computed[column.name]
            continue
        texts = sources[column.source]
        if column.kind not in _CONVERTERS:
            columns[column.name] = texts
            continue
        # For an amount in a balance, `locate_amount` sets the path later, because it includes the
        # bucket.
        columns[column.name], invalid, inexact = _CONVERTERS[column.kind](texts)
        unfit += [
            UnfitValue(
                table=table.name,
                column=column.name,
                level=level,
                row=row,
                tail=TAILS.get(column.source, ""),
                text=texts[row].as_py(),
                legal=legal,
            )
            for legal, found in ((False, invalid), (True, inexact))
            for row in found
        ]
    return conform(table, columns, rows), unfit


def constant_column(value: Any, rows: int, kind: pa.DataType) -> pa.Array:
    """Return a column that contains the same value in every row."""
    return pa.repeat(pa.scalar(value, kind), rows)


def _columns(records: pa.StructArray, shape: RecordShape) -> dict[str, Any]:
    """Return a column for each field of the records, including the fields of nested objects."""
    columns: dict[str, Any] = {}
    for field in shape.fields.values():
        child = pc.struct_field(records, field.name)
        columns[field.source] = child
        if field.json_type is JsonType.OBJECT and field.shape is not None:
            columns |= _columns(child, field.shape)
    documented = {field.name for field in shape.fields.values()}
    for extra in records.type.names:
        if extra not in documented:
            columns[f"{shape.name}.{extra}"] = pc.struct_field(records, extra)
    return columns


def _tails(shape: RecordShape, above: str = "") -> dict[str, str]:
    tails = {}
    for field in shape.fields.values():
        tails[field.source] = f"{above}.{field.name}"
        if field.shape is not None:
            inner = tails[field.source] if field.json_type is JsonType.OBJECT else ""
            tails |= _tails(field.shape, inner)
    return tails


# The JSON path of each field, relative to its record.
TAILS = _tails(PORTFOLIO) | _tails(VENUE) | _tails(INSTRUMENT)
