"""Columns and record batches of the flattened tables, and what one snapshot became."""

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
from pipelines.records.fast_reader import Element
from pipelines.records.json_text import Drift, Inexact, Notes, Reject
from pipelines.records.schema import (
    INSTRUMENT,
    PORTFOLIO,
    VENUE,
    JsonType,
    RecordShape,
    arrow_fields,
)
from warehouse.contract.book import BOOK
from warehouse.contract.model import Kind, Table
from warehouse.storage.layout import Layout, read_json, write_json
from warehouse.storage.parquet import WrittenFile, conform


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
        if field.json_type is JsonType.OBJECT and field.shape is not None:
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


@dataclass(frozen=True, slots=True)
class TableBatch:
    """Rows of one batch by table; values that do not fit; where such a value stands; keys.

    `where` takes the odd value and the numbers of the batch's records in their answers, and gives
    the outermost record's place in the batch and the JSON path. Each of `keys` is columns that
    together must not repeat; where they do, what to keep is decided with care.
    """

    tables: dict[str, pa.RecordBatch]
    unfit: list[UnfitValue]
    where: Callable[[UnfitValue, list[int]], tuple[int, str]]
    keys: tuple[dict[str, pa.Array], ...] = ()


Settle = Callable[
    [dict[str, Any], tolerant_reader.TolerantReader, tolerant_reader.AnswerPath], None
]


@dataclass(frozen=True, slots=True)
class Resource:
    """What a landed resource holds and how its records become rows.

    `fill` makes rows of nested records; `settle` merges what stands twice in one record of
    the tolerant reader, telling it of what is dropped.
    """

    shape: RecordShape
    carries_money: bool
    fill: Callable[[pa.StructArray], TableBatch]
    settle: Settle | None = None


# Each amount and time once: a source belongs to the table whose rows are its records.
COLUMNS: tolerant_reader.Columns = {
    column.source: (table.name, column.name)
    for table in BOOK
    for column in table.columns
    if column.kind in (Kind.AMOUNT, Kind.MOMENT)
}


def _tails(shape: RecordShape, above: str = "") -> dict[str, str]:
    tails = {}
    for field in shape.fields.values():
        tails[field.source] = f"{above}.{field.name}"
        if field.shape is not None:
            inner = tails[field.source] if field.json_type is JsonType.OBJECT else ""
            tails |= _tails(field.shape, inner)
    return tails


TAILS = _tails(PORTFOLIO) | _tails(VENUE) | _tails(INSTRUMENT)
SOURCES = {place: source for source, place in COLUMNS.items()}


def tail(value: UnfitValue) -> str:
    """Return the last part of a value's path: from its record to its field."""
    return TAILS[SOURCES[value.table, value.column]]


def rows(batch: list[Element], resource: Resource, notes: Notes) -> dict[str, pa.RecordBatch]:
    """Return the rows of a batch by table; what is odd goes to `notes`."""
    try:
        return _plain_rows(batch, resource, notes)
    except fast_reader.UndocumentedRecord:
        return _tolerant_rows(batch, resource, notes)


def _plain_rows(
    batch: list[Element], resource: Resource, notes: Notes
) -> dict[str, pa.RecordBatch]:
    records = fast_reader.read([element.raw for element in batch], resource.shape)
    filled = resource.fill(records)
    if not all(odd.legal for odd in filled.unfit):
        raise fast_reader.UndocumentedRecord("a text is no amount or no time")
    for key in filled.keys:
        fast_reader.require_distinct(key)
    fast_reader.record_undocumented_values(records, resource.shape, notes)
    numbers = [element.number for element in batch]
    for odd in filled.unfit:
        record, path = filled.where(odd, numbers)
        request_no = batch[record].request_no
        notes.inexact.append(
            Inexact(
                request_no=request_no,
                path=path,
                table_name=odd.table,
                column_name=odd.column,
                value=odd.text,
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
        reader = tolerant_reader.TolerantReader(
            element.request_no, notes, COLUMNS, resource.shape.name
        )
        place = tolerant_reader.AnswerPath(f"data[{element.number}]", "data[]")
        try:
            raw, money = bytes(element.raw), resource.carries_money
            record = reader.read_record(raw, resource.shape, place, money=money)
        except tolerant_reader.UnusableRecord:
            continue
        if resource.settle is not None:
            resource.settle(record, reader, place)
        yield record


PORTFOLIOS, VENUES = "portfolios", "venues"


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a staged snapshot; it lies beside the tables as `<part>.json`."""

    tables: Mapping[str, WrittenFile]
    rejects: list[Reject]
    inexact: list[Inexact]
    drift: list[Drift]
    totals: list[ControlTotal]


class VenuesPart(Part, frozen=True, kw_only=True):
    """The part of venues and instruments."""

    listings: list[tuple[str, str, str]]  # venue, instrument, what lacks it or differs
    stale_venues: list[str]  # venues whose instruments were carried over
    emptied: list[str] = []  # venues that answered with no instruments where they had some


@dataclass(frozen=True, slots=True)
class Parts:
    """Both parts of a snapshot."""

    portfolios: Part
    venues: VenuesPart

    def __iter__(self) -> Iterator[Part]:
        """Yield the parts, portfolios first."""
        yield self.portfolios
        yield self.venues

    @property
    def tables(self) -> dict[str, WrittenFile]:
        """The files of all eight tables."""
        return {**self.portfolios.tables, **self.venues.tables}

    @property
    def rejects(self) -> list[Reject]:
        """The rejects of both parts."""
        return [*self.portfolios.rejects, *self.venues.rejects]


def write_part(path: Path, part: Part) -> None:
    """Write a part beside its tables."""
    write_json(path, msgspec.to_builtins(part))


def read_parts(layout: Layout, snapshot_id: str) -> Parts:
    """Read what was staged of a snapshot."""
    portfolios = read_json(layout.part(PORTFOLIOS, snapshot_id))
    venues = read_json(layout.part(VENUES, snapshot_id))
    return Parts(msgspec.convert(portfolios, Part), msgspec.convert(venues, VenuesPart))
