"""Sheets of OpenDocument, packed (ods) or flat (fods), as any program writes them.

The common reader takes no whitespace between cells, as Gnumeric and SheetJS put there, and gives
out error cells as empty.
"""

import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import IO

from warehouse.spreadsheet.reading.formats.flat_xml import NoSuchFormat, parse
from warehouse.spreadsheet.reading.formats.sheet_rows import MOST_COLUMNS, SheetRows

NO_VALUE = "a formula without a value: open the file and save it once"
_CELLS = ("table-cell", "covered-table-cell")
_NUMBERS = ("float", "percentage", "currency")
NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_TIME = re.compile(r"(-?)P(?:(\d+)D)?T?(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:[.,](\d{1,6})\d*)?S)?")
_ERROR = re.compile(r"#[^\W\d_]|Err:[0-9]")
_SPACES = re.compile(r"[\t\r\n][ \t\r\n]*| [ \t\r\n]+")
_HIDDEN = ("collapse", "filter")
# Elements within a cell whose letters are the cell's; all others are notes, pictures and the like.
_LETTERS = ("p", "h", "span", "a", "s", "tab", "line-break", "ruby", "ruby-base", "bookmark")
_MOST_SPACES = 10_000
_MOST_REPEATS = 2**31


class OpenDocument:
    """The sheets of one document; those whose name begins with `skipped` are opened, not read."""

    def __init__(self, skipped: str = "") -> None:
        self.sheets: list[SheetRows] = []
        self._skipped = skipped
        self._hidden_styles: set[str] = set()
        self._style = ""
        self._path: list[str] = []
        self._ignored = 0  # how deep in an element that is not read
        self._sheet: SheetRows | None = None
        self._column = 0  # of the columns that are declared
        self._row: Mapping[str, str] = {}
        self._cells: list[tuple[object, int]] = []
        self._place = 0
        self._cell: Mapping[str, str] = {}
        self._paragraphs: list[str] = []

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Take the beginning of an element."""
        parent = self._path[-1] if self._path else ""
        self._path.append(name)
        if self._ignored:
            self._ignored += 1
        elif parent in _CELLS or parent in _LETTERS:
            self._start_letters(name, attributes)
        elif name == "table" and parent == "spreadsheet":
            self._start_sheet(attributes)
        elif name == "style" and attributes.get("family") == "table":
            self._style = attributes.get("name", "")
        elif name == "table-properties" and attributes.get("display") == "false":
            self._hidden_styles.add(self._style)
        elif self._sheet is not None:
            self._start_in_sheet(self._sheet, name, attributes)
        elif not parent and name not in ("document", "document-content"):
            raise NoSuchFormat(f"its first element is {name[:40]!r}")

    def _start_sheet(self, attributes: Mapping[str, str]) -> None:
        name = attributes.get("name", "")
        self._sheet = SheetRows(
            name,
            is_read=not (self._skipped and name.startswith(self._skipped)),
            is_visible=attributes.get("style-name", "") not in self._hidden_styles,
        )
        self._column = 0
        self.sheets.append(self._sheet)

    def _start_in_sheet(self, sheet: SheetRows, name: str, attributes: Mapping[str, str]) -> None:
        if name == "table-column":
            times = _count(attributes, "number-columns-repeated")
            if attributes.get("visibility") in _HIDDEN:
                last = min(self._column + times, MOST_COLUMNS)
                sheet.hidden_columns.update(range(self._column, last))
            self._column += times
        elif name == "table-row":
            self._row, self._cells, self._place = attributes, [], 0
        elif name in _CELLS:
            self._cell, self._paragraphs = attributes, []
        elif name in ("shapes", "forms"):
            self._ignored = 1

    def _start_letters(self, name: str, attributes: Mapping[str, str]) -> None:
        if name not in _LETTERS:
            self._ignored = 1
        elif name in ("p", "h"):
            self._paragraphs.append("")
        elif self._paragraphs and name in ("s", "tab", "line-break"):
            count = min(_count(attributes, "c"), _MOST_SPACES)
            self._paragraphs[-1] += {"s": "\0" * count, "tab": "\t"}.get(name, "\n")

    def text(self, letters: str) -> None:
        """Take some letters: those of a paragraph in a cell count."""
        if self._paragraphs and not self._ignored and self._path[-1] in _LETTERS:
            # Whitespace in a paragraph is one space: what is more is written as an element.
            if _SPACES.search(letters):
                letters = _SPACES.sub(" ", letters)
            self._paragraphs[-1] += letters

    def end(self, name: str) -> None:
        """Take the end of an element."""
        self._path.pop()
        if self._ignored:
            self._ignored -= 1
        elif self._sheet is None:
            return
        elif name in _CELLS:
            self._end_cell(self._sheet)
        elif name == "table-row":
            is_hidden = self._row.get("visibility") in _HIDDEN
            times = _count(self._row, "number-rows-repeated")
            self._sheet.add(self._cells, times, is_hidden=is_hidden)
        elif name == "table":
            self._sheet = None

    def _end_cell(self, sheet: SheetRows) -> None:
        times = _count(self._cell, "number-columns-repeated")
        text = "\n".join([part.strip(" ").replace("\0", " ") for part in self._paragraphs])
        value = _value(self._cell, text)
        if isinstance(value, CellError):
            rows = _count(self._row, "number-rows-repeated")
            if times * rows <= _MOST_SPACES:
                for row in range(sheet.row, sheet.row + rows):
                    for column in range(self._place, self._place + times):
                        sheet.errors[row, column] = value.text
            value = value.text  # so that it is a filled cell, and no blank
        across = _count(self._cell, "number-columns-spanned")
        below = _count(self._cell, "number-rows-spanned")
        if across > 1 or below > 1:
            sheet.merge(self._place, self._place + across - 1, below - 1)
        self._cells.append((value, times))
        self._place += times
        self._paragraphs = []


class CellError:
    """What a cell holds that has no value."""

    def __init__(self, text: str) -> None:
        self.text = text


def read_open_document(file: IO[bytes], skipped: str = "") -> list[SheetRows]:
    """Read the sheets of a flat document, or of the content of a packed one."""
    document = OpenDocument(skipped)
    parse(file, document)
    return document.sheets


def _count(attributes: Mapping[str, str], name: str) -> int:
    text = attributes.get(name)
    if text is None:
        return 1
    return min(max(int(text), 1), _MOST_REPEATS) if text.isdecimal() and len(text) < 16 else 1  # noqa: PLR2004 - beyond are no counts, and slow to read


def _value(cell: Mapping[str, str], text: str) -> object:
    """Return what a cell holds by its type: a writer that states none wrote a text."""
    kind = cell.get("value-type", "")
    stored = cell.get("string-value", text) if kind == "string" else text
    # Some programs give an error the type of its formula, with the value 0 or the empty text.
    is_error = _ERROR.match(text) and (kind in _NUMBERS or not stored)
    if kind == "error" or is_error:
        return CellError(text or "error")
    if not kind and "formula" in cell and not text:
        return CellError(NO_VALUE)
    if kind in _NUMBERS:
        number = cell.get("value", "")
        return float(number) if NUMBER.fullmatch(number) else CellError(f"no number: {number!r}")
    if kind == "boolean":
        return cell.get("boolean-value") == "true"
    return _moment(kind, cell, text) if kind in ("date", "time") else stored


def _moment(kind: str, cell: Mapping[str, str], text: str) -> object:
    """Return a date or a time, or its text where it is none."""
    try:
        if kind == "time":
            return _duration(cell.get("time-value", ""))
        day = cell.get("date-value", "")
        return datetime.fromisoformat(day) if "T" in day else date.fromisoformat(day)
    except (ValueError, OverflowError):
        return text


def _duration(text: str) -> timedelta:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    days, hours, minutes, seconds = (int(match[place] or 0) for place in range(2, 6))
    fraction = timedelta(microseconds=int((match[6] or "").ljust(6, "0")))
    length = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds) + fraction
    return -length if match[1] else length
