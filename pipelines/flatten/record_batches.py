"""Batches of records to batches of rows: the fast reader first, the tolerant one where it must.

What a resource is (its shape, the tables it fills) is in `pipelines.flatten.portfolios` and
`pipelines.flatten.venues`; how its records are read is here, once.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipelines.flatten.columns import UnfitValue
from pipelines.records import fast_reader, tolerant_reader
from pipelines.records.issues import Inexact, Notes
from pipelines.records.schema import INSTRUMENT, PORTFOLIO, VENUE, Form, RecordShape, arrow_fields
from pipelines.records.split import Element
from warehouse.contract.book import BOOK
from warehouse.contract.model import Kind


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
            inner = tails[field.source] if field.form is Form.OBJECT else ""
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
    except fast_reader.NotPlain:
        return _tolerant_rows(batch, resource, notes)


def _plain_rows(
    batch: list[Element], resource: Resource, notes: Notes
) -> dict[str, pa.RecordBatch]:
    records = fast_reader.read([element.raw for element in batch], resource.shape)
    filled = resource.fill(records)
    if not all(odd.legal for odd in filled.unfit):
        raise fast_reader.NotPlain("a text is no amount or no time")
    for key in filled.keys:
        fast_reader.require_distinct(key)
    fast_reader.note_words(records, resource.shape, notes)
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
            record = reader.whole(raw, resource.shape, place, money=money)
        except tolerant_reader.UnusableRecord:
            continue
        if resource.settle is not None:
            resource.settle(record, reader, place)
        yield record
