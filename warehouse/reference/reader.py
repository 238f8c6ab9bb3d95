"""The reader of one reference file, which runs in a child process with limits.

The result is a Parquet file with the rows, and the rows that were rejected.
"""

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.contract.reference import PRICES, PROVENANCE
from warehouse.reference.child import FileRows, ReadRequest, UnusedLine, refuse
from warehouse.reference.prices import PRICE_RULES
from warehouse.reference.row_rules import RowRules
from warehouse.reference.thresholds import THRESHOLD_RULES
from warehouse.reference.transactions import TRANSACTION_RULES
from warehouse.spreadsheet.reading import workbook
from warehouse.spreadsheet.reading.delimited_text import rows_of
from warehouse.storage.parquet import arrow_schema

RULES = {rules.table.name: rules for rules in (PRICE_RULES, THRESHOLD_RULES, TRANSACTION_RULES)}
MAX_REJECTS = 100
MAX_COLUMNS = 200
MAX_ROWS = 1_000_000
MAX_CELL = 10_000
MAX_VALUE = 100
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_DELIMITERS = ",;\t|"
Row = tuple[int, Sequence[str]]


class _UnusableFileError(Exception):
    def __init__(self, code: str, reason: str) -> None:
        super().__init__(code, reason)


def read_in_child(request: bytes) -> bytes:
    """Read a file in the child process."""
    return msgspec.msgpack.encode(_read(msgspec.msgpack.decode(request, type=ReadRequest)))


def _read(request: ReadRequest) -> FileRows:
    rules = RULES.get(request.table)
    try:
        titles, rows = _grid(request)
        if rules:
            titles = [f"{name}_text" if f"{name}_text" in rules.needed else name for name in titles]
        _require_titles(titles)
        if rules:
            _require_known_titles(titles, rules)
            found = list(rules.rows(_cells(titles, rows)))
            schema = arrow_schema(rules.table)
        else:
            found = [dict.fromkeys(titles) | cells for cells in _labels(titles, rows)]
            kinds = [(name, pa.string()) for name in titles]
            own = arrow_schema(PRICES)
            schema = pa.schema([*kinds, *(own.field(column.name) for column in PROVENANCE)])
    except _UnusableFileError as error:
        return refuse(*error.args)
    return pack_rows(request, schema, found)


def pack_rows(
    request: ReadRequest, schema: pa.Schema, found: Sequence[dict[str, Any] | UnusedLine]
) -> FileRows:
    """Return the rows as Parquet, with the name and digest of their file, and the rejects."""
    rejects = [reject for reject in found if isinstance(reject, UnusedLine)]
    good = [row for row in found if isinstance(row, dict)]
    same = {"file": request.file, "sha256": request.sha256, "received_at": request.received_at}
    columns = [
        pa.array([same.get(name) or row[name] for row in good], schema.field(name).type)
        for name in schema.names
    ]
    out = io.BytesIO()
    pq.write_table(pa.table(columns, schema=schema), out, compression="zstd")
    shown = [
        msgspec.structs.replace(reject, value=reject.value[:MAX_VALUE])
        for reject in rejects[:MAX_REJECTS]
    ]
    return FileRows(out.getvalue(), len(good), tuple(shown), len(rejects))


def _require_titles(titles: Sequence[str]) -> None:
    """Raise `_UnusableFileError` if the titles are not distinct names of columns."""
    own = {column.name for column in PROVENANCE}
    for title in titles:
        if not _NAME.fullmatch(title) or title in own or titles.count(title) > 1:
            problem = f"the title {title[:MAX_VALUE]!r} is not a name, is reserved, or is repeated"
            reason = f"{problem}. The first row must have a title for each column, such as asset_id"
            raise _UnusableFileError("wrong_title", reason)


def _require_known_titles(titles: Sequence[str], rules: RowRules) -> None:
    """Raise `_UnusableFileError` if a column is missing, or if a column would not be used."""
    expected = f"Expected: {', '.join(rules.names)}"
    if missing := [name for name in rules.needed if name not in titles]:
        raise _UnusableFileError("no_column", f"the column {missing[0]} is missing. {expected}")
    if unknown := [name for name in titles if name not in rules.names]:
        # A column such as `unit` could change the meaning of the row.
        raise _UnusableFileError(
            "unknown_column", f"the column {unknown[0]} is not known. {expected}"
        )


def _cells(titles: Sequence[str], rows: Iterable[Row]) -> Iterator[tuple[int, Mapping[str, str]]]:
    for line, cells in rows:
        yield line, dict(zip(titles, cells, strict=True))


def _labels(titles: Sequence[str], rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    for line, cells in rows:
        yield dict(zip(titles, (cell or None for cell in cells), strict=True)) | {"line": line}


def _grid(request: ReadRequest) -> tuple[list[str], list[Row]]:
    """Return the titles and the rows, which all have as many cells as there are titles."""
    try:
        if request.file.lower().endswith(".parquet"):
            found: Iterable[tuple[int, Sequence[object]]] = _parquet(request.content)
        elif request.file.lower().endswith(".xlsx"):
            found = _workbook(request)
        else:
            found = _text(request.content)
        filled = _rows_with_cells(found)
        _, first = next(filled, (0, ()))
        titles = [re.sub(r"\s+", "_", cell.lower()) for cell in first]
        if not titles:
            raise _UnusableFileError("empty", "the file has no rows")
        if len(titles) > MAX_COLUMNS:
            reason = f"the file has {len(titles):,} columns, more than {MAX_COLUMNS}"
            raise _UnusableFileError("too_wide", reason)
        return titles, [_fit(row, len(titles)) for row in _limit(filled)]
    except (ValueError, pa.ArrowException, OSError) as error:
        reason = f"the file cannot be read: {str(error).partition(chr(10))[0][:300]}"
        raise _UnusableFileError("unreadable", reason) from error


def _rows_with_cells(rows: Iterable[tuple[int, Sequence[object]]]) -> Iterator[Row]:
    """Yield the rows that are not blank, as text without surrounding spaces."""
    for line, row in rows:
        cells = [_text_of(cell) for cell in row]
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            yield line, cells


def _limit(rows: Iterable[Row]) -> Iterator[Row]:
    for number, row in enumerate(rows):
        if number == MAX_ROWS:
            raise _UnusableFileError("too_long", f"the file has more than {MAX_ROWS:,} rows")
        yield row


def _fit(row: Row, width: int) -> Row:
    line, cells = row
    if len(cells) > width:
        raise _UnusableFileError("ragged", f"line {line} has more cells than the first row")
    if max(map(len, cells)) > MAX_CELL:
        raise _UnusableFileError("long_cell", f"line {line} has a cell that is too long")
    return line, [*cells, *[""] * (width - len(cells))]


def _text_of(cell: object) -> str:
    """Return a cell as text. A workbook's date without a time is a date."""
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, datetime) and cell.time() == time():
        return cell.date().isoformat()
    if isinstance(cell, date | time):
        return cell.isoformat()
    return "" if cell is None else str(cell).strip()


def _text(content: bytes) -> Iterator[tuple[int, Sequence[object]]]:
    is_wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    text = content.decode("utf-16" if is_wide else "utf-8-sig")
    head = text.partition("\n")[0]
    delimiter = max(_DELIMITERS, key=head.count)
    if head.count(delimiter) > MAX_COLUMNS:
        raise ValueError(f"the first line has more than {MAX_COLUMNS} columns")
    for row, line in rows_of(text, delimiter):
        yield line, row


def _workbook(request: ReadRequest) -> Iterator[tuple[int, Sequence[object]]]:
    packed = msgspec.msgpack.encode(workbook.WorkbookRequest(request.file, request.content))
    reply = workbook.decode_reply(workbook.read_in_child(packed))
    if reply.refused:
        raise ValueError(reply.refused)
    sheets = [grid for grid in reply.grids if grid.rows]
    if len(sheets) > 1:
        names = ", ".join(grid.sheet for grid in sheets)
        raise ValueError(f"it has several sheets with cells ({names}), but a table is one sheet")
    for grid in sheets:
        for number, cells in enumerate(grid.rows):
            row = [grid.errors.get((number, column), cell) for column, cell in enumerate(cells)]
            yield grid.line(number), row


def _parquet(content: bytes) -> Iterator[tuple[int, Sequence[object]]]:
    with pq.ParquetFile(io.BytesIO(content)) as file:
        if file.metadata.num_columns > MAX_COLUMNS or file.metadata.num_rows > MAX_ROWS:
            raise ValueError(f"it has more than {MAX_COLUMNS} columns or {MAX_ROWS:,} rows")
        table = file.read(use_threads=False)
    columns = [column.cast(pa.string()).to_pylist() for column in table.columns]
    yield 0, table.column_names
    yield from enumerate(zip(*columns, strict=True), 1)
