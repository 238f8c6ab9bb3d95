"""A workbook's cells in a comparable form that is independent of the program that saved it.

The imprint of a workbook is stored when the workbook is written, so that any copy can be compared
with it. It contains every sheet except the long table of all positions. The Parquet file next to
the workbook has those positions.
"""

import gzip
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from datetime import date, datetime, time
from html import unescape
from itertools import islice
from typing import NamedTuple, Self

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import python_calamine
from msgspec import structs
from xlsxwriter.utility import xl_cell_to_rowcol

from warehouse.reconcile.workbook.content import POSITIONS, UNMATCHED, WORDING, WorkbookContent
from warehouse.spreadsheet.reading.files import UNREADABLE
from warehouse.spreadsheet.reading.openxml import sheet_paths
from warehouse.spreadsheet.reading.text import as_text, fold

# The titles that identify the table of all positions.
POSITION_MARKS = ("Result", "Break ID", "Ledger rows")

_MAX_BYTES = 1 << 30  # maximum size of an unpacked imprint, in bytes

# Compression level 3 is five times as fast as level 9, with output that is only 10 % larger.
_LEVEL = 3

_HEADER_ROWS = 60  # search this many rows for a header, because people may insert rows above it
_BATCH = 16_384

_FORMULA = re.compile(
    rb'<(?:\w+:)?c\b[^>]*?\br="([A-Z]{1,3}[0-9]{1,7})"[^>]*?>\s*<(?:\w+:)?f\b[^>]*>([^<]*)<'
)

# Spreadsheet programs do not preserve spaces, or characters that XML cannot contain (written as
# _xHHHH_). Python and Arrow must interpret the next two patterns in the same way.
_ESCAPED = re.compile("(?:_x005[Ff])+_")

_UNKEPT = re.compile("[\x01-\x20\x7f-\x9f\ufffe\uffff\\x00]+|_x[0-9A-Fa-f]{4}_")

_TOKEN = re.compile(
    r'("(?:[^"]|"")*")|\$?[A-Z]{1,3}\$?[0-9]+|[0-9]+(?:\.[0-9]+)?(?:E[+-]?[0-9]+)?|\s+'
)

# The attributes of `run` and `content` that a workbook shows. The digest in `identity` includes
# their names as well as their values.
_OF_RUN = "name ties resolved notices evidence run_id revision breaks digest fields sources"

_OF_CONTENT = "aliases rolled signatures void names listed over_time"


class Cell(str):
    """The text of a cell, reduced to the characters that spreadsheet programs preserve.

    `text` is the original.
    """

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Self:
        """Remove the characters that spreadsheet programs do not preserve."""
        plain = _ESCAPED.sub("_", text) if "_x" in text else text
        cell = super().__new__(cls, _UNKEPT.sub("", plain))
        cell.text = text
        return cell


@dataclass(frozen=True, slots=True)
class SheetImprint:
    """One sheet: its rows and, for XLSX files, its formulas by zero-based row and column."""

    rows: Sequence[Sequence[str]]
    formulas: Mapping[tuple[int, int], str] = field(default_factory=dict)

    def at(self, place: tuple[int, int]) -> str:
        """Return the cell in a row and column, or an empty string outside the rows."""
        row, column = place
        cells = self.rows[row] if row < len(self.rows) else ()
        return cells[column] if column < len(cells) else ""


class _StoredSheet(msgspec.Struct, frozen=True):
    """One sheet as stored. Each formula is listed with its row and column index."""

    rows: list[list[str]]
    formulas: list[tuple[int, int, str]]


class TableHeader(NamedTuple):
    """A table's header: its row index and the `title_key` of each title."""

    row: int
    titles: list[str]


def comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Reduce a column of strings to the characters that programs preserve, as `Cell` does."""
    for pattern, text in ((_ESCAPED.pattern, "_"), (_UNKEPT.pattern, "")):
        if pc.any(pc.match_substring_regex(column, pattern)).as_py():
            column = pc.replace_substring_regex(column, pattern, text)
    return column


def title_key(title: object) -> str:
    """Normalize a title: ignore case and spaces."""
    return fold(Cell(text_of(title)))


def find_header(rows: Iterable[Sequence[object]], marks: Sequence[str]) -> TableHeader | None:
    """Return the first row near the top that contains all of these titles, in any columns."""
    wanted = set(map(title_key, marks))
    for number, row in enumerate(islice(rows, _HEADER_ROWS)):
        titles = [title_key(cell) for cell in row]
        if wanted <= set(titles):
            return TableHeader(number, titles)
    return None


def identity(content: WorkbookContent) -> str:
    """Return a digest of everything that a workbook shows. Equal cells produce equal digests."""
    run = content.run
    shown_values: dict[str, object] = {name: getattr(run, name) for name in _OF_RUN.split()}
    shown_values |= {name: getattr(content, name) for name in _OF_CONTENT.split()}
    shown_values |= {
        "unused": run.coverage.unused,
        "made_at": content.source.snapshot["finished_at"],
        "forgiven": run.coverage.forgiven,
        "wording": WORDING,
    }
    text = json.dumps(shown_values, default=_plain, sort_keys=True, skipkeys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def read(content: bytes) -> dict[str, SheetImprint]:
    """Read every sheet of a workbook, except the table of all positions.

    Raises `CalamineError` if a sheet cannot be read.
    """
    return _imprints(_stored_sheets(content))


def pack(content: bytes) -> bytes:
    """Return a workbook's imprint, which contains its cells in compressed form."""
    return gzip.compress(msgspec.json.encode(_stored_sheets(content)), _LEVEL, mtime=0)


def unpack(packed: bytes | None) -> dict[str, SheetImprint] | None:
    """Return the sheets of a stored imprint, or None if it is missing or damaged."""
    try:
        with gzip.open(io.BytesIO(packed or b"")) as file:
            cells = file.read(_MAX_BYTES)
        return _imprints(msgspec.json.decode(cells, type=dict[str, _StoredSheet]))
    except UNREADABLE:
        return None


def read_columns(
    sheet: python_calamine.CalamineSheet, header: TableHeader, titles: Sequence[str]
) -> Iterator[pa.Table]:
    """Yield a table's columns as strings, in batches. Missing columns are blank."""
    places = {t: header.titles.index(k) for t in titles if (k := title_key(t)) in header.titles}
    rows = islice(sheet.iter_rows(), header.row + 1, None)
    while batch := list(islice(rows, _BATCH)):
        yield pa.table(
            {
                title: pa.array([text_of(row[places[title]]) for row in batch], pa.string())
                if title in places
                else pa.repeat("", len(batch))
                for title in titles
            }
        )


def text_of(cell: object) -> str:
    """Convert a cell's value to a string: numbers with 15 digits, dates as YYYY-MM-DD."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, datetime) and cell.time() == time():
        cell = cell.date()
    if isinstance(cell, date):
        return cell.isoformat()
    if isinstance(cell, int) and not isinstance(cell, bool):
        cell = float(cell)
    return as_text(cell)


def cell_text(cell: str) -> str:
    """Return the original text of a cell, including characters that `Cell` removes."""
    return cell.text if isinstance(cell, Cell) else cell


def normal_form(formula: str, *, keep_cells: bool = False) -> str:
    """Return a formula without spaces and with its numbers in a uniform notation.

    Unless `keep_cells` is set, cell references are replaced, because sorting rows changes them.
    """

    def form(match: re.Match[str]) -> str:
        token = match[0]
        if match[1] or not token.strip():
            return match[1] or ""
        if token[0].isdigit():
            return format(float(token), "g")
        return token if keep_cells else "@"

    return _TOKEN.sub(form, formula)


def _plain(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        return structs.asdict(value)
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def _imprints(sheets: Mapping[str, _StoredSheet]) -> dict[str, SheetImprint]:
    return {
        name: SheetImprint(
            [[Cell(cell) for cell in row] for row in sheet.rows],
            {(row, column): formula for row, column, formula in sheet.formulas},
        )
        for name, sheet in sheets.items()
    }


def _stored_sheets(content: bytes) -> dict[str, _StoredSheet]:
    # Calamine returns values but no formulas, so read the formulas from the XML.
    formulas = _formulas(content)
    return {
        name: _StoredSheet(
            [[text_of(cell) for cell in row] for row in sheet.to_python(skip_empty_area=False)],
            formulas.get(name, []),
        )
        for name, sheet in open_sheets(content, has_positions=False)
    }


def open_sheets(
    content: bytes, *, has_positions: bool
) -> Iterator[tuple[str, python_calamine.CalamineSheet]]:
    """Yield the sheets that have positions, or all other sheets, each with its name."""
    with python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(content)) as book:
        for name in book.sheet_names:
            is_named = name.startswith((POSITIONS, UNMATCHED))
            if is_named and not has_positions:
                # Skip the sheets with positions, because calamine takes long to open a million
                # rows.
                continue
            sheet = book.get_sheet_by_name(name)
            header = is_named or find_header(sheet.iter_rows(), POSITION_MARKS)
            if bool(header) == has_positions:
                yield name, sheet


def _formulas(content: bytes) -> dict[str, list[tuple[int, int, str]]]:
    """Return an XLSX file's formulas by sheet, or an empty mapping for other formats."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as names:
            return {
                name: [
                    (*xl_cell_to_rowcol(match[1].decode()), unescape(match[2].decode()))
                    for match in _FORMULA.finditer(names.read(path))
                ]
                for name, path in sheet_paths(names).items()
                if not name.startswith((POSITIONS, UNMATCHED))
            }
    except (zipfile.BadZipFile, KeyError, UnicodeDecodeError):
        return {}
