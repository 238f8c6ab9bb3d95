"""Sheets that are written cell by cell: no text becomes a formula, no number is the truth."""

import textwrap
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from xlsxwriter.utility import xl_col_to_name

from warehouse.reconcile.comments.annotations import in_cell
from warehouse.spreadsheet.writing.cells import LONGEST_NUMBER, is_hostile
from warehouse.spreadsheet.writing.format import (
    LIGHT,
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
from warehouse.spreadsheet.writing.plain_sheet import PlainSheet

PLACES, _WHOLE = 18, 15
_LINE, _AROUND = 12.5, 2.5  # points: a line of text, and what is free around all of them
_LONG = 2000  # letters: more fill the highest row anyway
_WIDEST = 60.0
MOST_SHOWN = 20  # digits of a number: more make a column too wide
_DIGIT, _SEPARATOR, _ENDS = 1.06, 0.53, 1.0  # widths in Arial, in the letters of a column's width
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


class SheetWriter:
    """One sheet, written from top to bottom."""

    def __init__(self, draft: Draft, name: str, headings: Sequence[Heading]) -> None:
        self._draft = draft
        self._needed: dict[int, float] = {}
        self._rooms: dict[int, int] = {}
        self._amounts: dict[tuple[int, int], Any] = {}
        self._formulas: set[tuple[int, int]] = set()
        self.sheet = draft.book.add_worksheet(name, PlainSheet)
        self.name = name
        self.headings = headings
        self.row = 0
        self._formats = draft.formats
        row = {"valign": "vcenter", "bottom": 1, "bottom_color": LIGHT}
        text = row | {"num_format": "@", "text_wrap": True}
        yellow = text | {"bg_color": "#FFF9DB", "locked": False, "border": 4}
        self._yellow = draft.book.add_format(yellow)
        self._quoted_yellow = draft.book.add_format(yellow | {"quote_prefix": True})
        self._wrapped = draft.book.add_format(text)
        self._quoted = draft.book.add_format(text | {"quote_prefix": True})
        self._date = draft.book.add_format(row | {"num_format": "yyyy-mm-dd", "align": "left"})
        self._calculated = draft.book.add_format(row)
        for place, heading in enumerate(headings):
            options = {} if heading.is_printed else {"level": 1}
            options |= {"hidden": 1} if heading.is_hidden else {}
            self.sheet.set_column(place, place, heading.width, None, options)
        self.sheet.hide_gridlines(2)

    def measure(
        self,
        place: int,
        amounts: Iterable[str | None],
        *,
        decimals: int = DECIMALS,
        shown: int = MOST_SHOWN,
    ) -> None:
        """Make room for amounts: for as many decimals as they have, and as paper has room for."""
        texts = [text.lstrip("-") for text in amounts if text is not None]
        whole = max(
            (at for text in texts if (at := len(text.partition(".")[0])) <= _WHOLE), default=1
        )
        room = max((shown_decimals(text, decimals) for text in texts), default=FEWEST_DECIMALS)
        room = max(min(room, shown - whole), FEWEST_DECIMALS)
        self._rooms[place] = room
        self._widen(place, _DIGIT * (whole + room) + _SEPARATOR * (1 + (whole - 1) // 3) + _ENDS)

    def _amount_shape(self, place: int, text: str) -> Any:
        room = self._rooms.get(place, DECIMALS)
        decimals = shown_decimals(text, room)
        if (decimals, room) not in self._amounts:
            row = {"valign": "vcenter", "bottom": 1, "bottom_color": LIGHT}
            shape = row | {"num_format": amount_format(decimals, room)}
            self._amounts[decimals, room] = self._draft.book.add_format(shape)
        return self._amounts[decimals, room]

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

    def text(self, place: int, text: str, kind: str = "text", shape: Any = None) -> None:
        """Write a text, whatever it looks like."""
        if shape is None:
            plain, quoted = {
                "yellow": (self._yellow, self._quoted_yellow),
                "exact": (
                    self._formats.cells[SheetColumnKind.EXACT],
                    self._formats.hostile[SheetColumnKind.EXACT],
                ),
            }.get(kind, (self._wrapped, self._quoted))
            shape = quoted if is_hostile(text) else plain
        if kind == "exact":
            self._widen(place, len(text) + 3.0)
        must(self.sheet.write_string(self.row, place, in_cell(text), shape))

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

    def live_amount(self, place: int, formula: str, exact: str) -> None:
        """Write a formula that comes to an amount, which is given exactly."""
        self._formulas.add((self.row, place))
        shape = self._amount_shape(place, exact)
        must(self.sheet.write_formula(self.row, place, formula, shape, float(exact)))

    def formula(self, place: int, formula: str, value: object, kind: str = "text") -> None:
        """Write a formula of ours with what it comes to."""
        shape = {
            "count": self._formats.cells[SheetColumnKind.COUNT],
            "good": self._formats.good,
            "bad": self._formats.bad,
            "warning": self._formats.label,
        }.get(kind, self._calculated)
        self._formulas.add((self.row, place))
        must(self.sheet.write_formula(self.row, place, formula, shape, value))

    def line(self, values: Sequence[object]) -> None:
        """Write one row by the kinds of the columns; None is an empty cell."""
        for place, (value, heading) in enumerate(zip(values, self.headings, strict=True)):
            if value is None:
                self._blank(place, heading.kind)
            elif heading.kind == "amount":
                self.number(place, str(value))
            elif isinstance(value, int):
                self.count(place, value)
            elif isinstance(value, date):
                self.day(place, value)
            else:
                self.text(place, str(value), heading.kind)
        longest = max(
            _lines(str(value), heading)
            for value, heading in zip(values, self.headings, strict=True)
            if heading.is_printed and value is not None
        )
        self.sheet.set_row(self.row, _LINE * min(longest, 12) + _AROUND)
        self.row += 1

    def _blank(self, place: int, kind: str) -> None:
        """Write an empty cell, unless a formula stands there: the line below its row goes on."""
        if (self.row, place) in self._formulas:
            return
        amount = self._formats.cells[SheetColumnKind.NUMBER]
        shape = amount if kind == "amount" else self._calculated
        must(self.sheet.write_blank(self.row, place, None, shape))

    def table(self, rows: Iterable[Sequence[object]], footer: str, frozen: int = 1) -> None:
        """Write a whole table: header, rows, panes, filter and print set-up."""
        first = self.row
        self.heads()
        for row in rows:
            self.line(row)
        self.finish(first, footer, frozen)

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
    return sum(len(textwrap.wrap(part[:_LONG], wide)) or 1 for part in text.split("\n")[:12])


def fixed_point(text: str | None) -> str:
    """Return an exact text with 18 decimals, as the difference formula takes it apart."""
    whole, _, part = (text or "0").partition(".")
    return f"{whole}.{part.ljust(PLACES, '0')}"


def can_be_live(*texts: str) -> bool:
    """Return whether the difference formula is exact: 15 whole digits and 18 decimals."""
    return all(
        len(text.partition(".")[0].lstrip("-")) <= _WHOLE and len(text.partition(".")[2]) == PLACES
        for text in texts
    )


def difference(ours: str, theirs: str) -> str:
    """Return the formula of the difference of two cells of fixed texts."""
    # A spreadsheet calculates with 15 digits, so each text is cut into the whole number and twice
    # nine decimals, which are subtracted apart. VALUE never sees a decimal point, which a program
    # in another language would read as a grouping letter.

    def whole(cell: str) -> str:
        return f"VALUE(LEFT({cell},LEN({cell})-19))"

    def sign(cell: str) -> str:
        return f'IF(LEFT({cell})="-",-1,1)'

    def middle(cell: str) -> str:
        return f"{sign(cell)}*VALUE(MID({cell},LEN({cell})-17,9))"

    def last(cell: str) -> str:
        return f"{sign(cell)}*VALUE(RIGHT({cell},9))"

    return (
        f"=((({whole(ours)}-{whole(theirs)})*1E9+{middle(ours)}-{middle(theirs)})*1E9"
        f"+{last(ours)}-{last(theirs)})/1E18"
    )
