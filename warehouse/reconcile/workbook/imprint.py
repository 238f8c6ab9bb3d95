"""What was written into a workbook, cell by cell, kept so that any copy can be held against it.

Every sheet but the long table of all keys, which stands in the Parquet file beside the workbook.
"""

import gzip
import hashlib
import io
import json
import posixpath
import re
import zipfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from datetime import date, datetime, time
from html import unescape
from typing import Self

import msgspec
import python_calamine
from msgspec import structs
from xlsxwriter.utility import xl_cell_to_rowcol

from warehouse.reconcile.record.record import Record
from warehouse.reconcile.workbook.content import POSITIONS, UNMATCHED, WORDING, WorkbookContent
from warehouse.spreadsheet.reading.safety import UNREADABLE
from warehouse.spreadsheet.reading.text import as_text

_MOST_BYTES = 1 << 30  # of the cells that are kept of a workbook, unpacked

_LEVEL = 3  # a fifth of the time of 9, a tenth larger

_RELATION = re.compile(r"<(?:\w+:)?Relationship\b[^>]*>")

_SHEET = re.compile(r"<(?:\w+:)?sheet\b[^>]*>")

_CELL = re.compile(
    rb'<(?:\w+:)?c\b[^>]*?\br="([A-Z]{1,3}[0-9]{1,7})"[^>]*?>\s*<(?:\w+:)?f\b[^>]*>([^<]*)<'
)

# What a cell may not keep as it was: spaces, and what XML cannot hold, which is written _xHHHH_.
_UNKEPT = re.compile(r"(?:_x005[Ff])+(?=_)|[\s\x00-\x20\x7f-\x9f\ufffe\uffff]+|_x[0-9A-Fa-f]{4}_")

_TOKEN = re.compile(
    r'("(?:[^"]|"")*")|\$?[A-Z]{1,3}\$?[0-9]+|[0-9]+(?:\.[0-9]+)?(?:E[+-]?[0-9]+)?|\s+'
)


class Cell(str):
    """A cell as it is compared, the same whichever program saved it; `text` is how it is read."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Self:
        """Make the text comparable, and keep it as it is."""
        cell = super().__new__(cls, _UNKEPT.sub("", text))
        cell.text = text
        return cell


@dataclass(frozen=True, slots=True)
class SheetImprint:
    """One sheet: its rows of cells, and the formulas of a workbook of Excel by row and column."""

    rows: Sequence[Sequence[str]]
    formulas: Mapping[tuple[int, int], str] = field(default_factory=dict)

    def at(self, place: tuple[int, int]) -> str:
        """Return what stands in a cell; empty rows at the end are not among the rows."""
        row, column = place
        cells = self.rows[row] if row < len(self.rows) else ()
        return cells[column] if column < len(cells) else ""


class _StoredSheet(msgspec.Struct, frozen=True):
    """One sheet as it is kept: a formula stands behind its row and column."""

    rows: list[list[str]]
    formulas: list[tuple[int, int, str]]


def identity(content: WorkbookContent) -> str:
    """Return the name of what a workbook shows: the same for the same cells."""
    left = {"source", "ledger", "outcome", "written"}
    shown_values = {
        name.name: getattr(content, name.name) for name in fields(content) if name.name not in left
    }
    outcome = content.outcome
    shown_values |= {"breaks": outcome.breaks, "aliases": outcome.aliases, "digest": outcome.digest}
    shown_values |= {"sources": content.ledger.sources, "fields": outcome.fields}
    shown_values |= {"forgiven": outcome.forgiven, "wording": WORDING}
    text = json.dumps(shown_values, default=_plain, sort_keys=True, skipkeys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _plain(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        return structs.asdict(value)
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def read(content: bytes, left: Collection[str] = ()) -> dict[str, SheetImprint]:
    """Return every sheet of a workbook but the long table, also where it is `left` by its name.

    Raises `CalamineError` where one cannot be read.
    """
    # The reader of cells gives values and no formulas, so these are taken from the XML, of which
    # only the tags of cells with a formula are looked at.
    formulas = _formulas(content)
    return {
        name: SheetImprint([[Cell(cell) for cell in row] for row in rows], formulas.get(name, {}))
        for name, rows in _rows(content, left).items()
    }


def _rows(content: bytes, left: Collection[str] = ()) -> dict[str, list[list[str]]]:
    with python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(content)) as book:
        return {
            name: [
                [cell if type(cell) is str else text(cell) for cell in row]
                for row in book.get_sheet_by_name(name).to_python(skip_empty_area=False)
            ]
            for name in book.sheet_names
            if name not in left and not name.startswith((POSITIONS, UNMATCHED))
        }


def store_imprint(record: Record, identity_: str, content: bytes) -> None:
    """Keep the cells of a workbook under the name of what it shows."""
    formulas = _formulas(content)
    sheets = {
        name: _StoredSheet(rows, [(*at, formula) for at, formula in formulas.get(name, {}).items()])
        for name, rows in _rows(content).items()
    }
    # Nothing of it is half a letter: the reader of cells gives whole ones.
    written = msgspec.json.encode(sheets)
    record.add_imprint(identity_, gzip.compress(written, _LEVEL, mtime=0))


def read_imprint(record: Record, identity_: str) -> dict[str, SheetImprint] | None:
    """Return the cells that were kept under a name, or None where there are none."""
    content = record.imprint(identity_)
    if content is None:
        return None
    try:
        with gzip.open(io.BytesIO(content)) as file:
            sheets = msgspec.json.decode(file.read(_MOST_BYTES), type=dict[str, _StoredSheet])
    except UNREADABLE:
        return None
    return {
        name: SheetImprint(
            [[Cell(cell) for cell in row] for row in sheet.rows],
            {(row, column): formula for row, column, formula in sheet.formulas},
        )
        for name, sheet in sheets.items()
    }


def text(cell: object) -> str:
    """Return a cell as a text, numbers to 15 digits."""
    if isinstance(cell, datetime) and cell.time() == time():
        cell = cell.date()
    if isinstance(cell, date):
        return cell.isoformat()
    if isinstance(cell, bool):
        return as_text(cell)
    if isinstance(cell, int | float):
        return format(float(cell), ".15g")
    return as_text(cell)


def cell_text(cell: str) -> str:
    """Return a cell as it is read."""
    return cell.text if isinstance(cell, Cell) else cell


def normal_form(formula: str) -> str:
    """Return a formula without what moves with its cells, and with numbers written in one way."""
    return _TOKEN.sub(_normal_form, formula)


def _normal_form(match: re.Match[str]) -> str:
    token = match[0]
    if match[1] or not token.strip():
        return match[1] or ""
    return format(float(token), "g") if token[0].isdigit() else "@"


def with_cells(formula: str) -> str:
    """Return a formula with its cells, and with numbers written in one way."""
    return _TOKEN.sub(
        lambda match: _normal_form(match) if _normal_form(match) != "@" else match[0], formula
    )


def _formulas(content: bytes) -> dict[str, dict[tuple[int, int], str]]:
    """Return the formulas of a workbook of Excel by sheet; none of another."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as names:
            return {
                name: {
                    xl_cell_to_rowcol(match[1].decode()): unescape(match[2].decode())
                    for match in _CELL.finditer(names.read(path))
                }
                for name, path in sheet_paths(names).items()
                if not name.startswith((POSITIONS, UNMATCHED))
            }
    except (zipfile.BadZipFile, KeyError, UnicodeDecodeError):
        return {}


def sheet_paths(names: zipfile.ZipFile) -> dict[str, str]:
    """Return the file of each sheet in a workbook of Excel; none of another."""
    if "xl/workbook.xml" not in names.namelist():
        return {}
    book = names.read("xl/workbook.xml").decode()
    relations = names.read("xl/_rels/workbook.xml.rels").decode()
    targets = {
        _attribute(match, "Id"): _attribute(match, "Target")
        for match in _RELATION.findall(relations)
    }
    paths = {
        _attribute(match, "name"): targets.get(_attribute(match, r"\w+:id"), "")
        for match in _SHEET.findall(book)
    }
    return {
        name: path.lstrip("/") if path.startswith("/") else posixpath.join("xl", path)
        for name, path in paths.items()
        if path
    }


def _attribute(tag: str, name: str) -> str:
    match = re.search(rf"\s{name}\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", tag)
    return unescape(match[1] or match[2] or "") if match else ""
