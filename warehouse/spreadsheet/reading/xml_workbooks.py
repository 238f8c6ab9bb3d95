"""Workbooks in XML that calamine cannot read or reads wrongly: OpenDocument and Excel 2003."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import IO, Any, Protocol
from xml.parsers import expat

from warehouse.spreadsheet.reading.files import MOST_CELLS

_CHUNK = 1_000_000


class NoSuchFormat(Exception):
    """A file is not of the format that its reader knows; the text says what it is instead."""


class Handler(Protocol):
    """What takes the events of a format: elements by their local names."""

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Take the beginning of an element."""

    def end(self, name: str) -> None:
        """Take the end of an element."""

    def text(self, letters: str) -> None:
        """Take some letters."""


def parse(file: IO[bytes], handler: Handler) -> None:
    """Give every event of a file to a handler, to its end.

    Raises `NoSuchFormat` for a file that is no whole XML, and for one that declares entities.
    """
    # Prefixes are whatever a writer chose: names are told apart without them, as elements of the
    # same local name do not stand in the same place.
    local = _LocalNames()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = lambda name, attributes: handler.start(
        local[name], {local[key]: value for key, value in attributes.items()}
    )
    parser.EndElementHandler = lambda name: handler.end(local[name])
    parser.CharacterDataHandler = handler.text
    parser.StartDoctypeDeclHandler = _refuse_declarations
    try:
        while chunk := file.read(_CHUNK):
            parser.Parse(chunk)
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise NoSuchFormat(f"its XML ends or breaks: {error}") from error


def _refuse_declarations(*_: object) -> None:
    raise NoSuchFormat("it declares a document type, as web pages and hostile files do")


class _LocalNames(dict[str, str]):
    """Names without their prefixes, each made once."""

    def __missing__(self, name: str) -> str:
        local = self[name] = name.rpartition(":")[2]
        return local


MOST_COLUMNS = 16_384  # that any program shows
MOST_ROWS = 1_048_576
Span = tuple[tuple[int, int], tuple[int, int]]


class TooWide(Exception):
    """A sheet spans more cells than a ledger has."""


@dataclass(slots=True)
class SheetRows:
    """The rows so far, each as long as it is filled; what is blank at the end is no row.

    `errors` has by row and column from 0 what a cell holds in place of a value.
    """

    name: str
    is_read: bool = True
    is_visible: bool = True
    rows: list[list[Any]] = field(default_factory=list)
    errors: dict[tuple[int, int], str] = field(default_factory=dict)
    merged: list[Span] = field(default_factory=list)
    hidden_rows: int = 0
    hidden_columns: set[int] = field(default_factory=set)
    blank: int = 0
    width: int = 0

    @property
    def row(self) -> int:
        """The number of the next row, from 0."""
        return len(self.rows) + self.blank

    def skip(self, times: int) -> None:
        """Take in blank rows."""
        self.blank += times

    def add(self, cells: Sequence[tuple[object, int]], times: int, *, is_hidden: bool) -> None:
        """Take in a row, so many times, of cells that are each repeated."""
        filled = len(cells)
        while filled and cells[filled - 1][0] == "":
            filled -= 1
        if not filled:
            self.skip(times)
            return
        self.width = max(self.width, sum(count for _, count in cells[:filled]))
        if self.width * (self.row + times) > MOST_CELLS:
            raise TooWide
        if is_hidden:
            self.hidden_rows += times
        if not self.is_read:
            self.skip(times)
            return
        row: list[Any] = []
        for value, count in cells[:filled]:
            row += [value] * count
        self.rows += [[] for _ in range(self.blank)] + [row] * times
        self.blank = 0

    def merge(self, left: int, right: int, below: int) -> None:
        """Take in that a cell of the next row is merged with others."""
        self.merged.append(((self.row, left), (self.row + below, right)))


def filled_spans(rows: Sequence[Sequence[object]], spans: Sequence[Span]) -> tuple[Span, ...]:
    """Return the spans whose first cell stands in the rows."""
    return tuple(
        span for span in spans if span[0][0] < len(rows) and span[0][1] < len(rows[span[0][0]])
    )


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


class SpreadsheetML:
    """The sheets of one workbook."""

    def __init__(self) -> None:
        self.sheets: list[SheetRows] = []
        self._path: list[str] = []
        self._column = 0  # of the columns that are declared
        self._row: Mapping[str, str] = {}
        self._cells: list[tuple[object, int]] = []
        self._place = 0
        self._cell: Mapping[str, str] = {}
        self._kind = ""
        self._letters: list[str] = []

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Take the beginning of an element."""
        if not self._path and name != "Workbook":
            raise NoSuchFormat(f"its first element is {name[:40]!r}")
        self._path.append(name)
        if name == "Worksheet":
            self.sheets.append(SheetRows(attributes.get("Name", "")))
            self._column = 0
        elif name == "Column" and self._path[-2] == "Table":
            self._start_column(self.sheets[-1], attributes)
        elif name == "Row" and self._path[-2] == "Table":
            self._start_row(self.sheets[-1], attributes)
        elif name == "Cell" and self._path[-2] == "Row":
            self._start_cell(attributes)
        elif name == "Data" and self._path[-2] == "Cell":
            self._kind = attributes.get("Type", "String")

    def _start_column(self, sheet: SheetRows, attributes: Mapping[str, str]) -> None:
        first = _number(attributes, "Index", self._column + 1) - 1
        last = min(first + _number(attributes, "Span", 0), MOST_COLUMNS)
        if attributes.get("Hidden") == "1":
            sheet.hidden_columns.update(range(first, last + 1))
        self._column = last + 1

    def _start_row(self, sheet: SheetRows, attributes: Mapping[str, str]) -> None:
        above = _number(attributes, "Index", sheet.row + 1) - 1 - sheet.row
        if above < 0 or sheet.row + above >= MOST_ROWS:
            raise NoSuchFormat("its rows do not follow one another")
        sheet.skip(above)
        self._row, self._cells, self._place = attributes, [], 0

    def _start_cell(self, attributes: Mapping[str, str]) -> None:
        before = _number(attributes, "Index", self._place + 1) - 1 - self._place
        if before < 0 or self._place + before >= MOST_COLUMNS:
            raise NoSuchFormat("its cells do not follow one another")
        if before:
            self._cells.append(("", before))
        self._place += before
        self._cell, self._kind, self._letters = attributes, "", []

    def text(self, letters: str) -> None:
        """Take some letters: those within the data of a cell count, whatever their style."""
        is_data = "Data" in self._path and "Comment" not in self._path
        if is_data or self._path[-1:] == ["Visible"]:
            self._letters.append(letters)

    def end(self, name: str) -> None:
        """Take the end of an element."""
        self._path.pop()
        parent = self._path[-1] if self._path else ""
        if name == "Cell" and parent == "Row":
            self._end_cell(self.sheets[-1])
        elif name == "Row" and parent == "Table":
            sheet = self.sheets[-1]
            sheet.add(self._cells, 1, is_hidden=self._row.get("Hidden") == "1")
            sheet.skip(_number(self._row, "Span", 0))
        elif name == "Visible" and parent == "WorksheetOptions":
            self.sheets[-1].is_visible = "".join(self._letters).strip() == "SheetVisible"

    def _end_cell(self, sheet: SheetRows) -> None:
        text = "".join(self._letters)
        value: object = text
        if self._kind == "Error" or (not text and not self._kind and "Formula" in self._cell):
            value = text or NO_VALUE
            sheet.errors[sheet.row, self._place] = str(value)
        elif self._kind == "Number":
            value = float(text) if NUMBER.fullmatch(text) else text
        elif self._kind == "Boolean":
            value = text.strip() == "1"
        elif self._kind == "DateTime":
            value = _spreadsheet_ml_moment(text)
        across = _number(self._cell, "MergeAcross", 0)
        below = _number(self._cell, "MergeDown", 0)
        if across or below:
            sheet.merge(self._place, self._place + across, below)
        self._cells.append((value, 1))
        if across:
            self._cells.append(("", min(across, MOST_COLUMNS)))
        self._place += 1 + across
        self._letters = []


def read_spreadsheet_ml(file: IO[bytes]) -> list[SheetRows]:
    """Read the sheets of a workbook of SpreadsheetML."""
    workbook = SpreadsheetML()
    parse(file, workbook)
    return workbook.sheets


def _number(attributes: Mapping[str, str], name: str, default: int) -> int:
    text = attributes.get(name, "")
    return int(text) if re.fullmatch("[0-9]{1,7}", text) else default


def _spreadsheet_ml_moment(text: str) -> object:
    """Return a date and time, or the text where it is none."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return text
