"""XML workbooks that calamine cannot read or misreads: OpenDocument and Excel 2003.

OpenDocument is zipped (ods) or flat (fods). calamine fails on whitespace between cells, which
Gnumeric and SheetJS write, and returns error cells as empty. SpreadsheetML 2003 is Excel's flat XML
format. Such files may also have the extension xls.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import IO, Any
from xml.parsers import expat

from warehouse.spreadsheet.reading.files import MAX_CELLS

_CHUNK = 1_000_000
MAX_COLUMNS = 16_384  # the maximum number of columns in spreadsheet programs
MAX_ROWS = 1_048_576
Span = tuple[tuple[int, int], tuple[int, int]]
# LibreOffice keeps old results when it opens and saves a file, and drops the request to calculate.
NOT_CALCULATED = (
    "a formula whose result may be old: open the file in a spreadsheet program, recalculate "
    "everything (in LibreOffice with Ctrl+Shift+F9), and save it"
)
NO_VALUE = "a formula without a value: open the file in a spreadsheet program, and save it"
_CELLS = ("table-cell", "covered-table-cell")
_NUMBERS = ("float", "percentage", "currency")
NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_TIME = re.compile(r"(-?)P(?:(\d+)D)?T?(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:[.,](\d{1,6})\d*)?S)?")
_ERROR = re.compile(r"#[^\W\d_]|Err:[0-9]")
_SPACES = re.compile(r"[\t\r\n][ \t\r\n]*| [ \t\r\n]+")
_HIDDEN = ("collapse", "filter")

# Elements that contain the text of a cell. Other elements are notes, pictures and so on.
_TEXT_ELEMENTS = ("p", "h", "span", "a", "s", "tab", "line-break", "ruby", "ruby-base", "bookmark")

_MAX_SPACES = 10_000
_MAX_REPEATS = 2**31


class FormatError(Exception):
    """A file is not in the expected format. The message describes the problem."""


class Handler(ABC):
    """A handler for the XML events of one file format. It receives names without prefixes."""

    def __init__(self) -> None:
        self.sheets: list[SheetRows] = []
        self._path: list[str] = []
        self._next_column = 0  # index of the next column that the file declares
        self._row: Mapping[str, str] = {}
        self._cells: list[tuple[object, int]] = []
        self._column_index = 0
        self._cell: Mapping[str, str] = {}

    def read(self, file: IO[bytes]) -> "list[SheetRows]":
        """Read the sheets from a file."""
        parse(file, self)
        return self.sheets

    @abstractmethod
    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Handle the start of an element."""

    @abstractmethod
    def end(self, name: str) -> None:
        """Handle the end of an element."""

    @abstractmethod
    def text(self, characters: str) -> None:
        """Handle a piece of text."""


class _LocalNames(dict[str, str]):
    """A cache that maps XML names to the names without their prefixes."""

    def __missing__(self, name: str) -> str:
        local = self[name] = name.rpartition(":")[2]
        return local


class TooWideError(Exception):
    """A sheet spans more cells than any ledger needs."""


@dataclass(slots=True)
class SheetRows:
    """The rows of one sheet, collected during parsing. Limits are checked before allocating memory.

    Rows end at their last filled cell, and the sheet ends at its last filled row. `errors` maps
    row and column index to the text of each error cell.
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
        """The index of the next row."""
        return len(self.rows) + self.blank

    def skip(self, times: int) -> None:
        """Add blank rows."""
        self.blank += times

    def add(self, cells: Sequence[tuple[object, int]], times: int, *, is_hidden: bool) -> None:
        """Add `times` copies of a row. Each of the `cells` is a value and a repeat count."""
        filled = len(cells)
        while filled and cells[filled - 1][0] == "":
            filled -= 1
        if not filled:
            self.skip(times)
            return
        self.width = max(self.width, sum(count for _, count in cells[:filled]))
        if self.width * (self.row + times) > MAX_CELLS:
            raise TooWideError
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
        """Record a merged range that begins in the next row and includes `below` further rows."""
        self.merged.append(((self.row, left), (self.row + below, right)))


class OpenDocument(Handler):
    """A handler for OpenDocument. It skips the rows of sheets whose names start with `skipped`."""

    def __init__(self, skipped: str = "") -> None:
        super().__init__()
        self._skipped = skipped
        self._hidden_styles: set[str] = set()
        self._style = ""
        self._ignored = 0  # the nesting depth inside an element that is skipped, or 0
        self._sheet: SheetRows | None = None
        self._paragraphs: list[str] = []

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Handle the start of an element."""
        parent = self._path[-1] if self._path else ""
        self._path.append(name)
        if self._ignored:
            self._ignored += 1
        elif parent in _CELLS or parent in _TEXT_ELEMENTS:
            self._start_text(name, attributes)
        elif name == "table" and parent == "spreadsheet":
            self._start_sheet(attributes)
        elif name == "style" and attributes.get("family") == "table":
            self._style = attributes.get("name", "")
        elif name == "table-properties" and attributes.get("display") == "false":
            self._hidden_styles.add(self._style)
        elif self._sheet is not None:
            self._start_in_sheet(self._sheet, name, attributes)
        elif not parent and name not in ("document", "document-content"):
            raise FormatError(f"its root element {name[:40]!r} does not belong to a spreadsheet")

    def _start_sheet(self, attributes: Mapping[str, str]) -> None:
        name = attributes.get("name", "")
        self._sheet = SheetRows(
            name,
            is_read=not (self._skipped and name.startswith(self._skipped)),
            is_visible=attributes.get("style-name", "") not in self._hidden_styles,
        )
        self._next_column = 0
        self.sheets.append(self._sheet)

    def _start_in_sheet(self, sheet: SheetRows, name: str, attributes: Mapping[str, str]) -> None:
        if name == "table-column":
            times = _repetitions(attributes, "number-columns-repeated")
            if attributes.get("visibility") in _HIDDEN:
                last = min(self._next_column + times, MAX_COLUMNS)
                sheet.hidden_columns.update(range(self._next_column, last))
            self._next_column += times
        elif name == "table-row":
            self._row, self._cells, self._column_index = attributes, [], 0
        elif name in _CELLS:
            self._cell, self._paragraphs = attributes, []
        elif name in ("shapes", "forms"):
            self._ignored = 1

    def _start_text(self, name: str, attributes: Mapping[str, str]) -> None:
        if name not in _TEXT_ELEMENTS:
            self._ignored = 1
        elif name in ("p", "h"):
            self._paragraphs.append("")
        elif self._paragraphs and name in ("s", "tab", "line-break"):
            count = min(_repetitions(attributes, "c"), _MAX_SPACES)
            self._paragraphs[-1] += {"s": "\0" * count, "tab": "\t"}.get(name, "\n")

    def text(self, characters: str) -> None:
        """Handle a piece of text. Only paragraphs in cells are kept."""
        if self._paragraphs and not self._ignored and self._path[-1] in _TEXT_ELEMENTS:
            # Several consecutive whitespace characters count as one space, because the file stores
            # additional spaces as elements.
            if _SPACES.search(characters):
                characters = _SPACES.sub(" ", characters)
            self._paragraphs[-1] += characters

    def end(self, name: str) -> None:
        """Handle the end of an element."""
        self._path.pop()
        if self._ignored:
            self._ignored -= 1
        elif self._sheet is None:
            return
        elif name in _CELLS:
            self._end_cell(self._sheet)
        elif name == "table-row":
            is_hidden = self._row.get("visibility") in _HIDDEN
            times = _repetitions(self._row, "number-rows-repeated")
            self._sheet.add(self._cells, times, is_hidden=is_hidden)
        elif name == "table":
            self._sheet = None

    def _end_cell(self, sheet: SheetRows) -> None:
        times = _repetitions(self._cell, "number-columns-repeated")
        text = "\n".join([part.strip(" ").replace("\0", " ") for part in self._paragraphs])
        value = _value(self._cell, text)
        if isinstance(value, CellError):
            rows = _repetitions(self._row, "number-rows-repeated")
            if times * rows <= _MAX_SPACES:
                for row in range(sheet.row, sheet.row + rows):
                    for column in range(self._column_index, self._column_index + times):
                        sheet.errors[row, column] = value.text
            # Use the error message as the cell's value, so that the cell is not blank.
            value = value.text
        across = _repetitions(self._cell, "number-columns-spanned")
        below = _repetitions(self._cell, "number-rows-spanned")
        if across > 1 or below > 1:
            sheet.merge(self._column_index, self._column_index + across - 1, below - 1)
        self._cells.append((value, times))
        self._column_index += times
        self._paragraphs = []


class CellError:
    """The value of a cell that contains an error. `text` describes the error."""

    def __init__(self, text: str) -> None:
        self.text = text


class SpreadsheetML(Handler):
    """A handler for SpreadsheetML 2003."""

    def __init__(self) -> None:
        super().__init__()
        self._kind = ""
        self._characters: list[str] = []

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Handle the start of an element."""
        if not self._path and name != "Workbook":
            raise FormatError(f"its root element {name[:40]!r} does not belong to a spreadsheet")
        self._path.append(name)
        if name == "Worksheet":
            self.sheets.append(SheetRows(attributes.get("Name", "")))
            self._next_column = 0
        elif name == "Column" and self._path[-2] == "Table":
            self._start_column(self.sheets[-1], attributes)
        elif name == "Row" and self._path[-2] == "Table":
            self._start_row(self.sheets[-1], attributes)
        elif name == "Cell" and self._path[-2] == "Row":
            self._start_cell(attributes)
        elif name == "Data" and self._path[-2] == "Cell":
            self._kind = attributes.get("Type", "String")

    def _start_column(self, sheet: SheetRows, attributes: Mapping[str, str]) -> None:
        first = _number(attributes, "Index", self._next_column + 1) - 1
        last = min(first + _number(attributes, "Span", 0), MAX_COLUMNS)
        if attributes.get("Hidden") == "1":
            sheet.hidden_columns.update(range(first, last + 1))
        self._next_column = last + 1

    def _start_row(self, sheet: SheetRows, attributes: Mapping[str, str]) -> None:
        above = _number(attributes, "Index", sheet.row + 1) - 1 - sheet.row
        if above < 0 or sheet.row + above >= MAX_ROWS:
            raise FormatError("its row numbers are out of order")
        sheet.skip(above)
        self._row, self._cells, self._column_index = attributes, [], 0

    def _start_cell(self, attributes: Mapping[str, str]) -> None:
        before = _number(attributes, "Index", self._column_index + 1) - 1 - self._column_index
        if before < 0 or self._column_index + before >= MAX_COLUMNS:
            raise FormatError("its column numbers are out of order")
        if before:
            self._cells.append(("", before))
        self._column_index += before
        self._cell, self._kind, self._characters = attributes, "", []

    def text(self, characters: str) -> None:
        """Handle a piece of text. All text in cell data is kept, whatever its style."""
        is_data = "Data" in self._path and "Comment" not in self._path
        if is_data or self._path[-1:] == ["Visible"]:
            self._characters.append(characters)

    def end(self, name: str) -> None:
        """Handle the end of an element."""
        self._path.pop()
        parent = self._path[-1] if self._path else ""
        if name == "Cell" and parent == "Row":
            self._end_cell(self.sheets[-1])
        elif name == "Row" and parent == "Table":
            sheet = self.sheets[-1]
            sheet.add(self._cells, 1, is_hidden=self._row.get("Hidden") == "1")
            sheet.skip(_number(self._row, "Span", 0))
        elif name == "Visible" and parent == "WorksheetOptions":
            self.sheets[-1].is_visible = "".join(self._characters).strip() == "SheetVisible"

    def _end_cell(self, sheet: SheetRows) -> None:
        text = "".join(self._characters)
        value: object = text
        if self._kind == "Error" or (not text and not self._kind and "Formula" in self._cell):
            value = text or NO_VALUE
            sheet.errors[sheet.row, self._column_index] = str(value)
        elif self._kind == "Number":
            value = float(text) if NUMBER.fullmatch(text) else text
        elif self._kind == "Boolean":
            value = text.strip() == "1"
        elif self._kind == "DateTime":
            value = _date_time(text)
        across = _number(self._cell, "MergeAcross", 0)
        below = _number(self._cell, "MergeDown", 0)
        if across or below:
            sheet.merge(self._column_index, self._column_index + across, below)
        self._cells.append((value, 1))
        if across:
            self._cells.append(("", min(across, MAX_COLUMNS)))
        self._column_index += 1 + across
        self._characters = []


def parse(file: IO[bytes], handler: Handler) -> None:
    """Pass every XML event of a file to a handler, without building a tree.

    Raises `FormatError` if the file is not complete XML or has a document type declaration.
    """
    # Ignore namespace prefixes, because programs choose different prefixes. Local names are enough,
    # because different elements with the same local name never have the same parent.
    local = _LocalNames()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = lambda name, attributes: handler.start(
        local[name], {local[key]: value for key, value in attributes.items()}
    )
    parser.EndElementHandler = lambda name: handler.end(local[name])
    parser.CharacterDataHandler = handler.text
    parser.StartDoctypeDeclHandler = _refuse_document_type
    try:
        while chunk := file.read(_CHUNK):
            parser.Parse(chunk)
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise FormatError(f"its XML is malformed: {error}") from error


def filled_spans(rows: Sequence[Sequence[object]], spans: Sequence[Span]) -> tuple[Span, ...]:
    """Return the merged cell ranges whose first cell is within the rows."""
    return tuple(
        span for span in spans if span[0][0] < len(rows) and span[0][1] < len(rows[span[0][0]])
    )


def _refuse_document_type(*_: object) -> None:
    raise FormatError("its XML declares a document type, which is not allowed in a spreadsheet")


def _repetitions(attributes: Mapping[str, str], name: str) -> int:
    text = attributes.get(name)
    if text is None:
        return 1
    return min(max(int(text), 1), _MAX_REPEATS) if text.isdecimal() and len(text) < 16 else 1  # noqa: PLR2004 - a longer number is not a count and slow to parse


def _value(cell: Mapping[str, str], text: str) -> object:
    """Convert a cell to a value according to its type. A cell without a type is read as text."""
    kind = cell.get("value-type", "")
    stored = cell.get("string-value", text) if kind == "string" else text
    # If a formula fails, some programs still store the type of its usual result, and use 0 or an
    # empty string as the value. Only the displayed text shows the error.
    is_error = _ERROR.match(text) and (kind in _NUMBERS or not stored)
    if kind == "error" or is_error:
        return CellError(text or "error")
    if not kind and "formula" in cell and not text:
        return CellError(NO_VALUE)
    if kind in _NUMBERS:
        number = cell.get("value", "")
        return float(number) if NUMBER.fullmatch(number) else CellError(f"not a number: {number!r}")
    if kind == "boolean":
        return cell.get("boolean-value") == "true"
    return _read_moment(kind, cell, text) if kind in ("date", "time") else stored


def _read_moment(kind: str, cell: Mapping[str, str], text: str) -> object:
    """Parse an OpenDocument date or time. If the value is invalid, return the cell's text."""
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
    days, hours, minutes, seconds = (int(match[group] or 0) for group in range(2, 6))
    fraction = timedelta(microseconds=int((match[6] or "").ljust(6, "0")))
    length = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds) + fraction
    return -length if match[1] else length


def _number(attributes: Mapping[str, str], name: str, default: int) -> int:
    text = attributes.get(name, "")
    return int(text) if re.fullmatch("[0-9]{1,7}", text) else default


def _date_time(text: str) -> object:
    """Parse a SpreadsheetML date and time. Return an invalid text unchanged."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return text
