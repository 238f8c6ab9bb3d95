"""Columns and record batches of the flattened tables, and the metadata of a flattened snapshot."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.flatten.control_totals.totals import ControlTotal
from pipelines.records import amounts, fast_reader, timestamps, tolerant_reader
from pipelines.records.identity import Element
from pipelines.records.notes import Drift, Inexact, Notes, Reject
from pipelines.records.schema import (
    INSTRUMENT,
    PORTFOLIO,
    VENUE,
    JsonType,
    RecordShape,
    arrow_fields,
)
from warehouse.contract.model import Kind, Table
from warehouse.storage.layout import Layout, read_json, write_json
from warehouse.storage.parquet import WrittenFile, conform


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


_CONVERTERS = {Kind.AMOUNT: amounts.column, Kind.MOMENT: timestamps.column}


def constant_column(value: Any, rows: int, kind: pa.DataType) -> pa.Array:
    """Return a column that contains the same value in every row."""
    return pa.repeat(pa.scalar(value, kind), rows)


@dataclass(frozen=True, slots=True)
class TableBatch:
    """One batch as table rows, the values that do not fit in their columns, and the unique keys.

    Each entry in `keys` is a set of columns whose combined values must be unique. If a combination
    is repeated, the tolerant reader reads the batch again.
    """

    tables: dict[str, pa.RecordBatch]
    unfit: list[UnfitValue]
    keys: tuple[dict[str, pa.Array], ...] = ()


Settle = Callable[[dict[str, Any], tolerant_reader.TolerantReader, tolerant_reader.JsonPath], None]


@dataclass(frozen=True, slots=True)
class Resource:
    """The schema of a landed resource, and the functions that turn its records into rows.

    `fill` converts a batch of nested records to rows. `settle` is called for each record from the
    tolerant reader. It merges or drops repeated parts of the record, and reports dropped parts as
    rejects.
    """

    shape: RecordShape
    carries_money: bool
    fill: Callable[[pa.StructArray], TableBatch]
    settle: Settle | None = None


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


def rows(batch: list[Element], resource: Resource, notes: Notes) -> dict[str, pa.RecordBatch]:
    """Return a batch's rows for each table, and add rejects and other findings to `notes`."""
    try:
        return _plain_rows(batch, resource, notes)
    except fast_reader.UndocumentedRecordError:
        return _tolerant_rows(batch, resource, notes)


def _plain_rows(
    batch: list[Element], resource: Resource, notes: Notes
) -> dict[str, pa.RecordBatch]:
    records = fast_reader.read([element.raw for element in batch], resource.shape)
    filled = resource.fill(records)
    if not all(value.legal for value in filled.unfit):
        raise fast_reader.UndocumentedRecordError("a string is not a valid amount or time")
    for key in filled.keys:
        fast_reader.require_distinct(key)
    fast_reader.record_undocumented_values(records, resource.shape, notes)
    numbers = [element.number for element in batch]
    for value in filled.unfit:
        record, path = value.level.locate(value.row, numbers)
        notes.inexact.append(
            Inexact(
                request_no=batch[record].request_no,
                path=path + value.tail,
                table_name=value.table,
                column_name=value.column,
                value=value.text,
            )
        )
    return filled.tables


def _tolerant_rows(
    batch: list[Element], resource: Resource, notes: Notes
) -> dict[str, pa.RecordBatch]:
    kind = pa.struct(arrow_fields(resource.shape, tolerant=True))
    clean = list(_tolerant_records(batch, resource, notes))
    return resource.fill(pa.array(clean, kind)).tables


def _tolerant_records(
    batch: list[Element], resource: Resource, notes: Notes
) -> Iterator[dict[str, Any]]:
    for element in batch:
        reader = tolerant_reader.TolerantReader(element.request_no, notes, resource.shape.name)
        place = tolerant_reader.JsonPath(f"data[{element.number}]", "data[]")
        try:
            raw, money = bytes(element.raw), resource.carries_money
            record = reader.read_record(raw, resource.shape, place, money=money)
        except tolerant_reader.UnusableRecordError:
            continue
        if resource.settle is not None:
            resource.settle(record, reader, place)
        yield record


PORTFOLIOS, VENUES = "portfolios", "venues"


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of one part of a staged snapshot, stored in `<part>.json` next to its tables."""

    tables: Mapping[str, WrittenFile]
    rejects: list[Reject]
    inexact: list[Inexact]
    drift: list[Drift]
    totals: list[ControlTotal]


class VenuesPart(Part, frozen=True, kw_only=True):
    """The metadata of the part of a snapshot that contains venues and instruments."""

    listings: list[tuple[str, str, str]]  # venue, instrument, and the list or field that differs
    stale_venues: list[str]  # venues whose instruments were carried over
    emptied: list[str] = []  # venues that had instruments before, but returned an empty list


@dataclass(frozen=True, slots=True)
class Parts:
    """The two parts of a flattened snapshot: portfolios and venues."""

    portfolios: Part
    venues: VenuesPart

    def __iter__(self) -> Iterator[Part]:
        """Yield the portfolios part, then the venues part."""
        yield self.portfolios
        yield self.venues

    @property
    def tables(self) -> dict[str, WrittenFile]:
        """The staged files of all eight tables, by table name."""
        return {**self.portfolios.tables, **self.venues.tables}

    @property
    def rejects(self) -> list[Reject]:
        """The rejected values from the portfolios and the venues."""
        return [*self.portfolios.rejects, *self.venues.rejects]


def write_part(path: Path, part: Part) -> None:
    """Write the metadata of one part of a staged snapshot next to its tables."""
    write_json(path, msgspec.to_builtins(part))


def read_parts(layout: Layout, snapshot_id: str) -> Parts:
    """Read the metadata of both parts of a staged snapshot."""
    portfolios = read_json(layout.part(PORTFOLIOS, snapshot_id))
    venues = read_json(layout.part(VENUES, snapshot_id))
    return Parts(msgspec.convert(portfolios, Part), msgspec.convert(venues, VenuesPart))
