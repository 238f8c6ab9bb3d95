"""Sheets that are written cell by cell: no text becomes a formula, no number is the truth."""

import textwrap
from collections.abc import Container, Iterable, Sequence, Sized
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any

from xlsxwriter.utility import xl_col_to_name

from warehouse.reconcile.model import in_cell
from warehouse.spreadsheet.writing.cells import LONGEST_NUMBER, SIGNIFICANT, is_hostile, text_cell
from warehouse.spreadsheet.writing.format import (
    LIGHT,
    TINY,
    Draft,
    amount_format,
    must,
    print_set_up,
    sizes,
)
from warehouse.spreadsheet.writing.layout import (
    DECIMALS,
    FEWEST_DECIMALS,
    SheetColumnKind,
    shown_decimals,
)
from warehouse.spreadsheet.writing.plain_sheet import (
    Formula,
    PlainSheet,
    blank_cell,
    day_cell,
    formula_cell,
    number_cell,
    style_of,
)

_WHOLE = 15  # digits before the point that a column has room for

_LINE, _AROUND = 12.5, 2.5  # points: a line of text, and what is free around all of them

_LONG = 2000  # letters: more fill the highest row anyway

_MOST_LINES = 12  # of a text that make its row higher

_REMEMBERED = 10_000

_WIDEST = 60.0

MOST_SHOWN = 20  # digits of a number: more make a column too wide

_DIGIT, _SEPARATOR, _ENDS = 1.06, 0.53, 1.0  # widths in Arial, in the letters of a column's width

_ROW: dict[str, Any] = {"valign": "vcenter", "bottom": 1, "bottom_color": LIGHT}

LETTERS = 1.15  # of a text, for each of those letters


@dataclass(frozen=True, slots=True)
class Heading:
    """A column: its title, its width in letters, and what kind of cell it has.

    Kinds beyond the workbook's own: `date`, and `yellow` for what people write.
    """

    title: str
    width: float = 14
    kind: str = "text"
    is_printed: bool = True
    is_hidden: bool = False


def machine_headings(*titles: str, width: float = 34, kind: str = "exact") -> tuple[Heading, ...]:
    """Return columns that are there to be looked up, and are not printed."""
    return tuple(Heading(title, width, kind, is_printed=False) for title in titles)


class _AmountKind(Enum):
    """How an amount is shown: all its digits, rounded and marked, or by a power of ten."""

    PLAIN = 1
    ROUNDED = 2
    TINY = 3


class SheetWriter:
    """One sheet, written from top to bottom."""

    def __init__(self, draft: Draft, name: str, headings: Sequence[Heading]) -> None:
        self._draft = draft
        self._needed: dict[int, float] = {}
        self._rooms: dict[int, int] = {}
        self._amounts: dict[tuple[int, int, _AmountKind], Any] = {}
        self._scale: int | None = None
        self._memory: tuple[dict[object, tuple[str, int]], ...] = tuple({} for _ in headings)
        self.sheet = draft.book.add_worksheet(name, PlainSheet)
        self.name = name
        self.headings = headings
        self.row = 0
        self._formats = draft.formats
        text = _ROW | {"num_format": "@", "text_wrap": True}
        yellow = text | {"bg_color": "#FFF9DB", "locked": False, "border": 4}
        self._yellow = draft.book.add_format(yellow)
        self._quoted_yellow = draft.book.add_format(yellow | {"quote_prefix": True})
        self._wrapped = draft.book.add_format(text)
        self._quoted = draft.book.add_format(text | {"quote_prefix": True})
        self._date = draft.book.add_format(_ROW | {"num_format": "yyyy-mm-dd", "align": "left"})
        self._calculated = draft.book.add_format(_ROW)
        for place, heading in enumerate(headings):
            options = {} if heading.is_printed else {"level": 1}
            options |= {"hidden": 1} if heading.is_hidden else {}
            self.sheet.set_column(place, place, heading.width, None, options)
        self.sheet.hide_gridlines(2)

    def measure(
        self,
        first: int,
        columns: Iterable[Iterable[str | None]],
        *,
        decimals: int = DECIMALS,
        shown: int = MOST_SHOWN,
    ) -> None:
        """Make room for columns of amounts, from the first on, all with one number of decimals.

        It is as many decimals as the amounts have, and as paper has room for.
        """
        texts = [[text.lstrip("-") for text in amounts if text is not None] for amounts in columns]
        wholes = [
            max((at for text in of if (at := len(text.partition(".")[0])) <= _WHOLE), default=1)
            for of in texts
        ]
        needed = (shown_decimals(text, decimals) for of in texts for text in of)
        room = max(needed, default=FEWEST_DECIMALS)
        room = max(min(room, shown - max(wholes, default=1)), FEWEST_DECIMALS)
        for place, whole in enumerate(wholes, first):
            self._rooms[place] = room
            self._memory[place].clear()
            digits = _DIGIT * (1 + whole + room)  # with the mark of rounded figures
            self._widen(place, digits + _SEPARATOR * (1 + (whole - 1) // 3) + _ENDS)

    def scale(self, first: int, amounts: Iterable[str | None]) -> None:
        """Set the decimals of the amounts of the next line, from a measured column on."""
        room = self._rooms.get(first, DECIMALS)
        shown = (shown_decimals(text, room) for text in amounts if text is not None)
        self._scale = max(shown, default=FEWEST_DECIMALS)

    def _amount_shape(self, place: int, text: str) -> Any:
        room = self._rooms.get(place, DECIMALS)
        decimals = shown_decimals(text, room) if self._scale is None else self._scale
        whole, _, part = text.lstrip("-").partition(".")
        digits = (whole + part).strip("0")
        kind = _AmountKind.PLAIN
        if len(part) > decimals or len(digits) > SIGNIFICANT:
            kind = _AmountKind.ROUNDED
        # Not by a condition: some programs take only one of several that apply to a cell, and an
        # accepted break has one for its colour.
        if digits and not whole.strip("0") and not part[:decimals].strip("0"):
            kind = _AmountKind.TINY
        if (decimals, room, kind) not in self._amounts:
            form = TINY
            if kind is not _AmountKind.TINY:
                is_rounded = kind is _AmountKind.ROUNDED
                form = amount_format(decimals, room, is_rounded=is_rounded)
            shape = self._draft.book.add_format(_ROW | {"num_format": form})
            self._amounts[decimals, room, kind] = shape
        return self._amounts[decimals, room, kind]

    def title(self, text: str) -> None:
        """Write a line in large letters."""
        self.sheet.set_row(self.row, 26)
        must(self.sheet.write_string(self.row, 0, text, self._formats.title))
        self.row += 1

    def heads(self, titles: Sequence[str] = (), figures: Container[int] = ()) -> None:
        """Write the header, of all columns or of other ones; above figures to the right."""
        self.sheet.set_row(self.row, 32)
        if not titles:
            kinds = enumerate(heading.kind for heading in self.headings)
            figures = [place for place, kind in kinds if kind in ("amount", "exact", "count")]
        for place, text in enumerate(titles or [heading.title for heading in self.headings]):
            shape = self._formats.header_right if place in figures else self._formats.header
            must(self.sheet.write_string(self.row, place, text, shape))
        self.row += 1

    def text(self, place: int, text: str, kind: str = "text") -> None:
        """Write a text, whatever it looks like."""
        plain, quoted = self._text_shapes(kind)
        shape = quoted if is_hostile(text) else plain
        must(self.sheet.write_string(self.row, place, in_cell(text), shape))

    def _text_shapes(self, kind: str) -> tuple[Any, Any]:
        """Return the format of a text, and that of one which looks like a formula."""
        if kind == "yellow":
            return self._yellow, self._quoted_yellow
        if kind == "exact":
            exact = SheetColumnKind.EXACT
            return self._formats.cells[exact], self._formats.hostile[exact]
        return self._wrapped, self._quoted

    # A number that is wider than its column is shown as ####, so columns grow with their contents.
    def _widen(self, place: int, width: float) -> None:
        self._needed[place] = max(self._needed.get(place, 0), min(width, _WIDEST))

    def number(self, place: int, text: str | None) -> None:
        """Write an exact text as the number nearest to it, where a number can be."""
        if text is not None and len(text) <= LONGEST_NUMBER:
            shape = self._amount_shape(place, text)
            must(self.sheet.write_number(self.row, place, float(text), shape))

    def count(self, place: int, number: int) -> None:
        """Write a count."""
        shape = self._formats.cells[SheetColumnKind.COUNT]
        must(self.sheet.write_number(self.row, place, number, shape))

    def day(self, place: int, day: date) -> None:
        """Write a date."""
        must(self.sheet.write_datetime(self.row, place, day, self._date))

    def formula(self, place: int, formula: str, value: object, kind: str = "text") -> None:
        """Write a formula of ours with what it comes to."""
        shape = {
            "count": self._formats.cells[SheetColumnKind.COUNT],
            "good": self._formats.good,
            "fair": self._formats.fair,
            "bad": self._formats.bad,
            "warning": self._formats.label,
        }.get(kind, self._calculated)
        must(self.sheet.write_formula(self.row, place, formula, shape, value))

    def line(self, values: Sequence[object]) -> None:
        """Write one row by the kinds of the columns; None is an empty cell."""
        amounts = [
            str(value.amount if isinstance(value, Formula) else value)
            for value, heading in zip(values, self.headings, strict=True)
            if heading.kind == "amount" and value is not None
        ]
        self.scale(next(iter(self._rooms), 0), filter(None, amounts))
        cells, longest = [], 1
        for place, (value, memory) in enumerate(zip(values, self._memory, strict=True)):
            # Names and words come again and again: each is made a cell once.
            known = (value, self._scale) if self.headings[place].kind == "amount" else value
            cell = memory.get(known)
            if cell is None:
                cell = self._cell(place, value)
                if len(memory) < _REMEMBERED and not isinstance(value, Formula):
                    memory[known] = cell
            cells.append(cell[0])
            longest = max(longest, cell[1])
        self.sheet.add_row(self.row, cells, _LINE * min(longest, _MOST_LINES) + _AROUND)
        self.row += 1

    def _cell(self, place: int, value: object) -> tuple[str, int]:
        """Return a cell behind the number of its row, and how many lines it takes."""
        heading = self.headings[place]
        kind = heading.kind
        if value is None:
            blank = self._formats.cells[SheetColumnKind.NUMBER]
            return blank_cell(blank if kind == "amount" else self._calculated), 1
        if isinstance(value, Formula):
            return formula_cell(value, self._formula_shape(place, value)), 1
        if kind == "amount":
            return self._amount_cell(place, str(value)), 1
        lines = _lines(str(value), heading) if heading.is_printed else 1
        if isinstance(value, int):
            return number_cell(value, self._formats.cells[SheetColumnKind.COUNT]), lines
        if isinstance(value, date):
            return day_cell(value, self._date), lines
        text = str(value)
        if kind == "exact":
            self._widen(place, len(text) + 3.0)
        plain, quoted = (str(style_of(shape)) for shape in self._text_shapes(kind))
        return text_cell(in_cell(text), plain, quoted), lines

    def _amount_cell(self, place: int, text: str) -> str:
        """Return the number nearest to an exact text, where a number can be."""
        if len(text) > LONGEST_NUMBER:
            return ""
        return number_cell(float(text), self._amount_shape(place, text))

    def _formula_shape(self, place: int, formula: Formula) -> Any:
        if formula.amount:
            return self._amount_shape(place, formula.amount)
        is_count = isinstance(formula.value, int)
        return self._formats.cells[SheetColumnKind.COUNT] if is_count else self._calculated

    def table(self, rows: Iterable[Sequence[object]], footer: str, frozen: int = 1) -> None:
        """Write a whole table: header, rows, panes, filter and print set-up."""
        first = self.row
        self.heads()
        for row in rows:
            self.line(row)
        self.finish(first, footer, frozen)

    def hide_if_empty(self, rows: Sized) -> None:
        """Hide a sheet without rows, so that no empty page is printed."""
        if not len(rows):
            self.sheet.hide()

    def finish(self, header: int, footer: str, frozen: int, paper_rows: int = 0) -> None:
        """Set panes, filter and print set-up of a table by the row of its header.

        Of more than `paper_rows` only the first are printed, and the paper says so.
        """
        last = max(self.row - 1, header)
        self.fit(header + 1, last)
        self.sheet.freeze_panes(header + 1, frozen)
        self.sheet.autofilter(header, 0, last, len(self.headings) - 1)
        printed = sum(heading.is_printed for heading in self.headings)
        is_cut = 0 < paper_rows < last - header
        self.sheet.print_area(0, 0, header + paper_rows if is_cut else last, printed - 1)
        self.sheet.repeat_rows(header)
        words = cut_words(paper_rows, last - header) if is_cut else ""
        print_set_up(self.sheet, footer=f"{footer}, {self.name}", header=words)

    def fit(self, first: int, last: int) -> None:
        """Make room for the longest amounts, and show the smallest and largest by their powers."""
        for place, needed in self._needed.items():
            heading = self.headings[place]
            if needed > heading.width:
                options = {} if heading.is_printed else {"level": 1}
                self.sheet.set_column(place, place, needed, None, options)
        for place, heading in enumerate(self.headings):
            if heading.kind == "amount":
                letter = xl_col_to_name(place)
                area = f"{letter}{first + 1}:{letter}{max(last, first) + 1}"
                sizes(self._draft, self.sheet, (area,), self._rooms.get(place, DECIMALS))


def cut_words(printed: int, rows: int) -> str:
    """Return what stands above a page on which not all rows are."""
    return (
        f"Printed: the first {printed:,} of {rows:,} rows. All are on the screen; to print them, "
        "clear the print area"
    )


def _lines(text: str, heading: Heading) -> int:
    if heading.kind in ("amount", "exact"):
        return 1
    wide = int(heading.width * LETTERS)
    if len(text) <= wide and "\n" not in text:
        return 1  # most cells: wrapping them costs as much as writing them (measured)
    return sum(
        len(textwrap.wrap(part[:_LONG], wide)) or 1 for part in text.split("\n")[:_MOST_LINES]
    )
