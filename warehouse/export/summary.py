"""The first sheet of the positions workbook: of when, from what, and whether it ties out.

It has the only formulas of the workbook. They count and add up what the other sheets hold, for the
reader to see; whether a figure ties is said by exact decimals, never by a formula.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from warehouse.export.sheets import TOTAL, yes
from warehouse.export.totals import ExpectedTotals, TotalLine, numbers_of
from warehouse.query.book import EXHIBITS, OpenBook
from warehouse.spreadsheet.writing.cells import Digits, is_portable, number
from warehouse.spreadsheet.writing.format import (
    AMOUNT_LINE,
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
    TableSheet,
    fitting,
)

SHEET = "Summary"
_FIGURES = range(2, 6)
SHOWN_ASSETS = 30
_SAFE_DIGITS = 13  # of a sum of doubles: the last ones depend on the order of adding
LIVE_COMPARISONS = 10_000_000  # rows times assets: beyond, opening the file would take too long
_WIDTHS = (24, 22, 26, 26, 34, 34, 10)
_HELP = """
A number column is for reading, sorting and adding up: a spreadsheet keeps 15 digits. The exact \
column beside it is the truth. Digits says whether the two are the same. A figure that begins with \
~ has more digits than its cell shows.
A blank amount is one that the API does not state; a dash is zero. Different assets are never \
added up.
Columns right of those that are printed have the portfolio's id and the exact text of every part. \
Hold the pointer over a header for its meaning.
Names for formulas: as_of, snapshot_id, and each column, like accounts_total or holdings_asset_id \
(none for a table that goes on over several sheets).
""".strip().splitlines()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What the summary shows: the source, the sheets, the control totals."""

    source: OpenBook
    sheets: Mapping[str, tuple[TableSheet, ...]]
    promises: tuple[ExpectedTotals, ...]
    lines: tuple[TotalLine, ...]
    notices: tuple[str, ...]


class _SummaryWriter:
    """A sheet that is written from top to bottom."""

    def __init__(self, draft: Draft) -> None:
        self.worksheet = draft.book.add_worksheet(SHEET)
        self.formats = draft.formats
        self.row = 0
        self._draft = draft
        self._amounts: dict[tuple[int, bool], Any] = {}

    def amount_shape(self, total: str, *numbers: float) -> Any:
        """Return the format in which a total and the sum of its parts are the same figure."""
        # A sum of doubles may differ from the double of the sum in its last digits. So only the
        # digits on which both agree are shown, and the exact total is in the column beside them.
        decimals = min(DECIMALS, max(0, _SAFE_DIGITS - len(f"{abs(numbers[0]):.0f}")))
        while decimals and len({f"{number_:.{decimals}f}" for number_ in numbers}) > 1:
            decimals -= 1
        behind = len(total.partition(".")[2])
        decimals = min(decimals, max(behind, FEWEST_DECIMALS))
        key = decimals, behind > decimals
        if key not in self._amounts:
            form = amount_format(decimals, is_rounded=key[1])
            self._amounts[key] = self._draft.book.add_format(AMOUNT_LINE | {"num_format": form})
        return self._amounts[key]

    def text(self, column: int, text: str, shape: Any = None) -> None:
        must(self.worksheet.write_string(self.row, column, text, shape))

    def formula(self, column: int, formula: str, shape: Any, value: object) -> None:
        must(self.worksheet.write_formula(self.row, column, formula, shape, value))

    def heads(self, *titles: str) -> None:
        """Write a header row: columns 3 to 6 hold figures, which are aligned right."""
        self.worksheet.set_row(self.row, 20)
        for column, title in enumerate(titles):
            shape = self.formats.header_right if column in _FIGURES else self.formats.header
            self.text(column, title, shape)
        self.row += 1

    def across(self, text: str, shape: Any) -> None:
        """Write a paragraph over the whole width, with room for its lines."""
        width = sum(_WIDTHS)
        self.worksheet.set_row(self.row, 16 * math.ceil(max(len(text), 1) / width) + 4)
        must(self.worksheet.merge_range(self.row, 0, self.row, len(_WIDTHS) - 1, text, shape))
        self.row += 1


def summary(draft: Draft, figures: Figures, program_version: str) -> None:
    """Write the first sheet."""
    on = _SummaryWriter(draft)
    longest = max((len(line.of) for line in figures.lines if line.kind == "total"), default=0)
    for column, width in enumerate(_WIDTHS):
        on.worksheet.set_column(
            column, column, max(width, fitting(longest)) if not column else width
        )
    _head(draft, on, figures.source, program_version)
    for notice in figures.notices:
        on.across(notice[:2000], on.formats.notice)
    on.row += 1
    _verdict(on, figures)
    on.row += 1
    _rows(on, figures)
    on.row += 1
    _assets(draft, on, figures)
    on.row += 1
    for text in _HELP:
        on.across(text, on.formats.wrapped)
    on.worksheet.hide_gridlines(2)
    on.worksheet.print_area(0, 0, on.row, len(_WIDTHS) - 1)
    print_set_up(on.worksheet, footer=f"Positions as of {figures.source.day}, {SHEET}")


def _head(draft: Draft, on: _SummaryWriter, source: OpenBook, program_version: str) -> None:
    on.worksheet.set_row(0, 28)
    on.text(0, "Positions", on.formats.title)
    started, finished = source.snapshot["started_at"], source.snapshot["finished_at"]
    facts: dict[str, date | str] = {
        "As of": source.day,
        "Book": source.snapshot_id,
        "Read from the API": f"{started:%Y-%m-%d %H:%M:%S} to {finished:%H:%M:%S} UTC",
        "Made by": f"nightbook {program_version}",
    }
    for on.row, (label, value) in enumerate(facts.items(), 2):
        on.text(0, label, on.formats.label)
        if isinstance(value, date):
            must(on.worksheet.write_datetime(on.row, 1, value, on.formats.day))
        else:
            on.text(1, value)
    draft.book.define_name("as_of", f"={SHEET}!$B$3")
    draft.book.define_name("snapshot_id", f"={SHEET}!$B$4")
    on.row += 2


def _verdict(on: _SummaryWriter, figures: Figures) -> None:
    wrong = [line for line in figures.lines if not line.ties]
    totals = sum(line.kind == "total" for line in figures.lines)
    if wrong:
        some = ", ".join(f"{line.kind} of {line.of[:40]}" for line in wrong[:5])
        on.across(
            f"{len(wrong)} of {len(figures.lines)} control totals DO NOT TIE: {some}. "
            "See sheet Evidence.",
            on.formats.bad,
        )
        return
    on.across(
        f"Everything ties out to the last digit: the exact total of each of {totals:,} assets is "
        "the same in the JSON of the API, in the lake, in the warehouse, and over the rows of "
        "each sheet.",
        on.formats.good,
    )


def _rows(on: _SummaryWriter, figures: Figures) -> None:
    in_both = ("Rows in the warehouse", "Rows in this workbook")
    on.heads("Sheet", "", *in_both, "Rows with rounded numbers", "", "Ties")
    for promised in figures.promises:
        title = promised.exhibit.title
        sheets = figures.sheets[title]
        flags = [sheet.cells("digits", SheetColumnKind.DIGITS) for sheet in sheets]
        counted = "+".join(f"COUNTA({cells})" for cells in flags)
        exact = "+".join(f'COUNTIF({cells},"exact")' for cells in flags)
        count = on.formats.cells[SheetColumnKind.COUNT]
        line = on.row + 1
        on.text(0, title)
        on.text(1, "" if len(sheets) == 1 else f"on {len(sheets)} sheets")
        must(on.worksheet.write_number(on.row, 2, promised.rows, count))
        on.formula(3, f"={counted}", count, promised.rows)
        on.formula(4, f"=D{line}-({exact})", count, promised.rounded)
        on.formula(6, f'=IF(C{line}=D{line},"yes","NO")', None, "yes")
        on.row += 1


def _assets(draft: Draft, on: _SummaryWriter, figures: Figures) -> None:
    totals = [
        line
        for line in figures.lines
        if line.kind == "total" and not (figures.source.is_firm and line.is_custom)
    ]
    room = LIVE_COMPARISONS // max(figures.source.rows[EXHIBITS[0].title], 1)
    lines = [line for line in totals if is_portable(line.of)][: min(SHOWN_ASSETS, room)]
    on.heads(
        "Asset",
        "Custom",
        "Total",
        "Sum of the accounts",
        "Total, exact",
        "In the JSON, exact",
        "Ties",
    )
    first = on.row + 1
    for line in lines:
        _asset(on, figures, line)
    if lines:
        on.worksheet.ignore_errors({"number_stored_as_text": f"A{first}:F{on.row}"})
        sizes(draft, on.worksheet, (f"C{first}:D{on.row}",))
    if len(lines) < len(totals):
        on.across(
            f"{len(lines)} of {len(totals):,} assets; all of them are on the sheets Assets and "
            "Evidence.",
            on.formats.wrapped,
        )


def _asset(on: _SummaryWriter, figures: Figures, line: TotalLine) -> None:
    cells = on.formats.cells
    total = next(text for text in reversed(line.sheets) if text is not None)
    row = on.row + 1
    on.text(0, line.of, cells[SheetColumnKind.TEXT])
    on.text(1, yes(line.is_custom), cells[SheetColumnKind.TEXT])
    value = number(total)[0]
    # The cached value of the formula is what a spreadsheet will calculate: the sum of the doubles,
    # not the exact total, so that opening the file changes no figure.
    numbers = numbers_of(figures.source, (line.of, line.is_custom))
    if value and None not in numbers:
        formula = live_sum(figures.sheets[EXHIBITS[0].title], row)
        cached = math.fsum(number_ for number_ in numbers if number_ is not None)
        shape = on.amount_shape(total, float(value), cached)
        must(on.worksheet.write_number(on.row, 2, float(value), shape))
        on.formula(3, formula, shape, cached)
    else:
        on.text(2, Digits.TEXT_ONLY.words, cells[SheetColumnKind.EXACT])
        on.text(3, Digits.TEXT_ONLY.words, cells[SheetColumnKind.EXACT])
    on.text(4, total, cells[SheetColumnKind.EXACT])
    on.text(5, line.places[0] or "not stated", cells[SheetColumnKind.EXACT])
    on.text(6, "yes" if line.ties else "NO")
    on.row += 1


def live_sum(sheets: Sequence[TableSheet], row: int) -> str:
    """Return the formula that adds up the accounts of the asset in columns A and B of a row.

    SUMIFS would take `btc` for `BTC`, `1e5` for `100000` and `*` for everything; EXACT does not.
    """
    parts = [
        f"SUMPRODUCT(EXACT({sheet.cells('asset_id', SheetColumnKind.TEXT)},A{row})"
        f"*EXACT({sheet.cells('is_custom_asset', SheetColumnKind.TEXT)},B{row}),"
        f"{sheet.cells(TOTAL, SheetColumnKind.NUMBER)})"
        for sheet in sheets
    ]
    return "=" + "+".join(parts)
