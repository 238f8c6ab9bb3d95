"""A writer for workbook sheets, which adds rows from top to bottom.

A string is never written as a formula. A number cell contains the number nearest to the exact
amount, and another column contains the exact amount as a string.
"""

import textwrap
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from xlsxwriter.utility import xl_col_to_name

from warehouse.reconcile.model import in_cell
from warehouse.spreadsheet.writing.cells import (
    MAX_NUMBER_LENGTH,
    SIGNIFICANT,
    is_hostile,
)
from warehouse.spreadsheet.writing.format import (
    LIGHT,
    TINY,
    Draft,
    amount_format,
    must,
    print_set_up,
    sizes,
    write_text,
)
from warehouse.spreadsheet.writing.layout import (
    DECIMALS,
    MIN_DECIMALS,
    SheetColumnKind,
    shown_decimals,
)

_MAX_WHOLE = 15  # maximum number of digits that fit in a column before the decimal point
_LINE_HEIGHT, _ROW_MARGIN = 12.5, 2.5  # the height of a line and the margin of a row, in points
# Wrap only this many characters of a string, because more characters do not fit in the tallest row.
_MAX_CHARACTERS = 2000
_MAX_LINES = 12  # number of lines in the tallest row
_MAX_WIDTH = 60.0
# Show at most this many digits, because longer numbers would make a column too wide.
MAX_SHOWN = 20

# Widths of a digit, a separator and both margins in Arial, in the unit of column widths.
_DIGIT, _SEPARATOR, _ENDS = 1.06, 0.53, 1.0
LETTERS = 1.15  # number of text characters per unit of column width
_ROW: dict[str, Any] = {"valign": "vcenter", "bottom": 1, "bottom_color": LIGHT}
# An amount's style: its decimal places, the decimal places that fit in its column, and whether it
# is rounded.
_AmountStyle = tuple[int, int, bool | None]


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula that uses only Excel 2007 functions, and its result.

    If the formula calculates an amount, `amount` is the exact amount as a string.
    """

    text: str
    value: float | str
    amount: str = ""


@dataclass(frozen=True, slots=True)
class Heading:
    """A column's title, width in characters, and kind of cells.

    The kinds are `text`, `exact`, `amount`, `count`, and `yellow` for cells that people fill in.
    """

    title: str
    width: float = 14
    kind: str = "text"
    is_printed: bool = True
    is_hidden: bool = False


def machine_headings(*titles: str, width: float = 34, kind: str = "exact") -> tuple[Heading, ...]:
    """Return headings for unprinted columns, which only programs and lookups need."""
    return tuple(Heading(title, width, kind, is_printed=False) for title in titles)


def help_lines(name: str) -> list[str]:
    """Return the paragraphs of a help text next to this module, each as one line."""
    text = Path(__file__).with_name(name).read_text("utf-8")
    return [" ".join(paragraph.split("\n")).strip() for paragraph in text.split("\n\n")]


class _AllDigits(float):
    """A number that XlsxWriter writes with all its digits. It writes only 16 digits of a float."""

    __slots__ = ()

    def __format__(self, _spec: str, /) -> str:
        return repr(float(self)).removesuffix(".0")


class SheetWriter:
    """One sheet, written from top to bottom. `row` is the index of the next row."""

    def __init__(self, draft: Draft, name: str, headings: Sequence[Heading]) -> None:
        self._draft = draft
        self._widths: dict[int, float] = {}
        self._decimals: dict[int, int] = {}
        self._amount_formats: dict[_AmountStyle, Any] = {}
        self._scale: int | None = None
        self.worksheet = draft.book.add_worksheet(name)
        self.name = name
        self.headings = headings
        self._letters = [xl_col_to_name(column) for column in range(len(headings))]
        self._amounts = [column for column, head in enumerate(headings) if head.kind == "amount"]
        # the columns whose text is wrapped, with their widths in characters
        self._wrapped = [
            (column, int(heading.width * LETTERS))
            for column, heading in enumerate(headings)
            if heading.is_printed and heading.kind not in ("amount", "exact")
        ]
        self.row = 0
        self._formats = draft.formats
        text = _ROW | {"num_format": "@", "text_wrap": True}
        yellow = text | {"bg_color": "#FFF9DB", "locked": False, "border": 4}
        exact = SheetColumnKind.EXACT
        # Each kind has two formats: one for ordinary text, and one for text that looks like a
        # formula.
        self._text_formats = {
            "yellow": self._add_text_formats(yellow),
            "text": self._add_text_formats(text),
            "exact": (self._formats.cells[exact], self._formats.hostile[exact]),
        }
        self._date = draft.book.add_format(_ROW | {"num_format": "yyyy-mm-dd", "align": "left"})
        self._calculated = draft.book.add_format(_ROW)
        for column, heading in enumerate(headings):
            self._set_width(column, heading, heading.width)
        self.worksheet.hide_gridlines(2)

    def _add_text_formats(self, properties: dict[str, Any]) -> tuple[Any, Any]:
        add_format = self._draft.book.add_format
        return add_format(properties), add_format(properties | {"quote_prefix": True})

    def _set_width(self, column: int, heading: Heading, width: float) -> None:
        options = {} if heading.is_printed else {"level": 1}
        options |= {"hidden": 1} if heading.is_hidden else {}
        self.worksheet.set_column(column, column, width, None, options)

    def measure(
        self,
        first: int,
        columns: Iterable[Iterable[str | None]],
        *,
        decimals: int = DECIMALS,
        shown: int = MAX_SHOWN,
    ) -> None:
        """Set the widths of amount columns, starting with column `first`.

        All of these columns get the same number of decimal places: as many as the amounts need, if
        the page has room for them.
        """
        texts = [[text.lstrip("-") for text in amounts if text is not None] for amounts in columns]
        lengths = ([len(text.partition(".")[0]) for text in column] for column in texts)
        wholes = [max((n for n in column if n <= _MAX_WHOLE), default=1) for column in lengths]
        needed = (shown_decimals(text, decimals) for column in texts for text in column)
        room = max(needed, default=MIN_DECIMALS)
        room = max(min(room, shown - max(wholes, default=1)), MIN_DECIMALS)
        for column, whole in enumerate(wholes, first):
            self._decimals[column] = room
            # One extra character is for the mark before rounded figures.
            digits = _DIGIT * (1 + whole + room)
            self._widen(column, digits + _SEPARATOR * (1 + (whole - 1) // 3) + _ENDS)

    def scale(self, first: int, amounts: Iterable[str | None]) -> None:
        """Set the next row's decimal places from its amounts. Call `measure` first."""
        room = self._decimals.get(first, DECIMALS)
        shown = (shown_decimals(text, room) for text in amounts if text is not None)
        self._scale = max(shown, default=MIN_DECIMALS)

    def _amount_format(self, key: _AmountStyle) -> Any:
        decimals, room, is_rounded = key
        if key not in self._amount_formats:
            form = TINY
            if is_rounded is not None:
                form = amount_format(decimals, room, is_rounded=is_rounded)
            self._amount_formats[key] = self._draft.book.add_format(_ROW | {"num_format": form})
        return self._amount_formats[key]

    def title(self, text: str) -> None:
        """Write a title row in large type."""
        self.worksheet.set_row(self.row, 26)
        write_text(self.worksheet, self.row, 0, text, self._formats.title)
        self.row += 1

    def heads(self, titles: Sequence[str] = (), figures: Container[int] = ()) -> None:
        """Write a header row with the given titles, or with the titles of all columns.

        Titles of the columns in `figures` are right-aligned.
        """
        self.worksheet.set_row(self.row, 32)
        if not titles:
            titles = [heading.title for heading in self.headings]
            kinds = enumerate(heading.kind for heading in self.headings)
            figures = [column for column, kind in kinds if kind in ("amount", "exact", "count")]
        for column, text in enumerate(titles):
            shape = self._formats.header_right if column in figures else self._formats.header
            write_text(self.worksheet, self.row, column, text, shape)
        self.row += 1

    def add(self, *values: object) -> None:
        """Write a row of strings, counts, dates and formulas. None leaves a cell unchanged."""
        for column, value in enumerate(values):
            if value is not None:
                self._cell(column, value, "text")
        self.row += 1

    def text(self, column: int, text: str, kind: str = "text") -> None:
        """Write a string as text, even if it looks like a formula or a number."""
        shape = self._text_formats[kind][is_hostile(text)]
        write_text(self.worksheet, self.row, column, in_cell(text), shape)

    # Spreadsheet programs show #### if a number is wider than its column, so widen the column.
    def _widen(self, column: int, width: float) -> None:
        self._widths[column] = max(self._widths.get(column, 0), min(width, _MAX_WIDTH))

    def number(self, column: int, text: str | None) -> None:
        """Write the number nearest to an exact amount. Write nothing if there is no amount."""
        if text is not None and len(text) <= MAX_NUMBER_LENGTH:
            shape = self._shape_of(column, text)
            must(self.worksheet.write_number(self.row, column, _AllDigits(text), shape))

    def _shape_of(self, column: int, text: str) -> Any:
        """Return the format for an amount in the next row. Call `scale` first."""
        room = self._decimals.get(column, DECIMALS)
        decimals = shown_decimals(text, room) if self._scale is None else self._scale
        return self._amount_format(_amount_style(text, decimals, room))

    def formula(self, column: int, formula: Formula, shape: Any = None) -> None:
        """Write a formula. Without a format, it gets the format for its amount or its value."""
        if shape is None and formula.amount:
            shape = self._shape_of(column, formula.amount)
        elif shape is None:
            count = self._formats.cells[SheetColumnKind.COUNT]
            shape = count if isinstance(formula.value, int) else self._calculated
        must(self.worksheet.write_formula(self.row, column, formula.text, shape, formula.value))

    def rows(self, rows: Iterable[Sequence[object]]) -> None:
        """Write a table's rows, formatting each cell by its column's kind. None is an empty cell.

        All amounts in a row get the same number of decimal places.
        """
        for values in rows:
            amounts = [
                str(value.amount if isinstance(value, Formula) else value)
                for value in (values[column] for column in self._amounts)
                if value is not None
            ]
            self.scale(next(iter(self._decimals), 0), filter(None, amounts))
            heights = (_lines(values[column], width) for column, width in self._wrapped)
            lines = max(heights, default=1)
            if lines > 1:
                # If a row has only one line, do not fix its height, so that programs adapt the
                # height to the text that people type.
                points = _LINE_HEIGHT * min(lines, _MAX_LINES) + _ROW_MARGIN
                self.worksheet.set_row(self.row, points)
            for column, value in enumerate(values):
                self._cell(column, value, self.headings[column].kind)
            self.row += 1
        self._scale = None

    def _cell(self, column: int, value: object, kind: str) -> None:
        if isinstance(value, Formula):
            self.formula(column, value)
        elif value is None or (kind == "amount" and len(str(value)) > MAX_NUMBER_LENGTH):
            number = self._formats.cells[SheetColumnKind.NUMBER]
            shape = number if kind == "amount" else self._calculated
            must(self.worksheet.write_blank(self.row, column, None, shape))
        elif kind == "amount":
            self.number(column, str(value))
        elif isinstance(value, date):
            must(self.worksheet.write_datetime(self.row, column, value, self._date))
        elif isinstance(value, int):
            shape = self._formats.cells[SheetColumnKind.COUNT]
            must(self.worksheet.write_number(self.row, column, value, shape))
        else:
            if kind == "exact":
                self._widen(column, len(str(value)) + 3.0)
            self.text(column, str(value), kind if kind in self._text_formats else "text")

    def table(self, rows: Sequence[Sequence[object]], footer: str, frozen: int = 1) -> None:
        """Write a complete table: header, rows, frozen panes, filter and print setup."""
        header = self.row
        self.heads()
        self.rows(rows)
        self.finish(header, footer, frozen)

    def titled_table(self, title: str, rows: Sequence[Sequence[object]], footer: str) -> None:
        """Write a title and a complete table. A sheet without rows is hidden and not printed."""
        self.title(title)
        self.table(rows, footer, frozen=int(len(self.headings) > 1))
        if not rows:
            self.worksheet.hide()
            # LibreOffice also prints a hidden sheet if the sheet has a print area.
            self.worksheet.print_area_range = ""

    def finish(self, header: int, footer: str, frozen: int, paper_rows: int = 0) -> None:
        """Set a table's frozen panes, filter and print setup. `header` is the header row.

        If the table has more than `paper_rows` rows, only that many are printed, and the page
        header says so.
        """
        last = max(self.row - 1, header)
        self.fit(header + 1, last)
        self.worksheet.freeze_panes(header + 1, frozen)
        self.worksheet.autofilter(header, 0, last, len(self.headings) - 1)
        printed = sum(heading.is_printed for heading in self.headings)
        is_cut = 0 < paper_rows < last - header
        self.worksheet.print_area(0, 0, header + paper_rows if is_cut else last, printed - 1)
        self.worksheet.repeat_rows(header)
        words = describe_printed_rows(paper_rows, last - header) if is_cut else ""
        print_set_up(self.worksheet, footer=f"{footer}, {self.name}", header=words)

    def fit(self, first: int, last: int) -> None:
        """Widen columns for their longest amounts. Show extreme amounts in scientific notation."""
        for column, width in self._widths.items():
            if width > self.headings[column].width:
                self._set_width(column, self.headings[column], width)
        for column, heading in enumerate(self.headings):
            if heading.kind == "amount":
                letter = self._letters[column]
                area = f"{letter}{first + 1}:{letter}{max(last, first) + 1}"
                sizes(self._draft, self.worksheet, (area,), self._decimals.get(column, DECIMALS))


def describe_printed_rows(printed: int, rows: int) -> str:
    """Return the page header for a sheet that is only partly printed."""
    return (
        f"Only the first {printed:,} of {rows:,} rows are printed. To print all rows, clear the "
        "print area"
    )


def _amount_style(text: str, decimals: int, room: int) -> _AmountStyle:
    whole, _, part = text.lstrip("-").partition(".")
    digits = (whole + part).strip("0")
    # Tiny amounts have their own number format (`is_rounded` is None). Do not use a conditional
    # format, because some programs apply only one per cell, and accepted breaks already have a
    # conditional format for their colour.
    is_rounded: bool | None = len(part) > decimals or len(digits) > SIGNIFICANT
    if digits and not whole.strip("0") and not part[:decimals].strip("0"):
        is_rounded = None
    return decimals, room, is_rounded


def _lines(value: object, width: int) -> int:
    """Return the number of lines that a value needs in a column of `width` characters."""
    if value is None or isinstance(value, Formula):
        return 1
    text = str(value)
    if len(text) <= width and "\n" not in text:
        # Do not wrap strings that fit on one line, as most strings do, because wrapping a string
        # takes as long as writing it (measured).
        return 1
    parts = text.split("\n")[:_MAX_LINES]
    return sum(len(textwrap.wrap(part[:_MAX_CHARACTERS], width)) or 1 for part in parts)
