"""Landed resources, and the conversion of their records to table rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipelines.flatten.columns import UnfitValue
from pipelines.records import fast_reader, tolerant_reader
from pipelines.records.identity import Element
from pipelines.records.notes import Inexact, Notes
from pipelines.records.schema import (
    RecordShape,
    arrow_fields,
)

MergeRepeats = Callable[
    [dict[str, Any], tolerant_reader.TolerantReader, tolerant_reader.JsonPath], None
]


@dataclass(frozen=True, slots=True)
class TableBatch:
    """One batch as table rows, the values that do not fit in their columns, and the unique keys.

    Each entry in `keys` is a set of columns whose combined values must be unique. If a combination
    is repeated, the tolerant reader reads the batch again.
    """

    tables: dict[str, pa.RecordBatch]
    unfit: list[UnfitValue]
    keys: tuple[dict[str, pa.Array], ...] = ()


@dataclass(frozen=True, slots=True)
class Resource:
    """The schema of a landed resource, and the functions that turn its records into rows.

    `fill` converts a batch of nested records to rows. `merge_repeats` is called for each record
    from the tolerant reader. It merges or drops repeated parts of the record, and reports dropped
    parts as rejects.
    """

    shape: RecordShape
    carries_money: bool
    fill: Callable[[pa.StructArray], TableBatch]
    merge_repeats: MergeRepeats | None = None


def build_rows(batch: list[Element], resource: Resource, notes: Notes) -> dict[str, pa.RecordBatch]:
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
    return resource.fill(pa.array(list(_tolerant_records(batch, resource, notes)), kind)).tables


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
        if resource.merge_repeats is not None:
            resource.merge_repeats(record, reader, place)
        yield record
