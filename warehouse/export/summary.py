"""The positions workbook's first sheet: date, source, and whether everything ties out.

Only this sheet has formulas. They count and add up the rows of the other sheets, so that readers
can check the figures themselves. We use exact decimals, never a formula, to decide whether a figure
ties out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from warehouse.export.sheets import TOTAL, yes
from warehouse.export.totals import (
    ACCOUNTS,
    HOLDINGS,
    VENUES,
    ExpectedTotals,
    TotalLine,
    numbers_of,
)
from warehouse.query.book import Exhibit, OpenBook
from warehouse.query.group_values import group_values
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
    MIN_DECIMALS,
    SheetColumnKind,
    TableSheet,
    fitting,
)

SHEET = "Summary"
_FIGURES = range(2, 6)
SHOWN_ASSETS = 30
SHOWN_GROUPS = 10
_DETAILS = (ACCOUNTS, HOLDINGS, VENUES)
# A sum of doubles has this many leading digits that do not depend on the order of the additions.
_SAFE_DIGITS = 13
# Limit the number of account rows times the number of assets with a live formula, because a larger
# file takes too long to open.
LIVE_COMPARISONS = 10_000_000
_WIDTHS = (24, 22, 26, 26, 34, 34, 10)
_HELP = """
Use the number columns to read, sort and add up amounts. A number cell keeps only 15 digits, so \
each number column has an exact column, which contains the true amount as text. The Digits column \
shows whether the two are equal. A figure that begins with ~ has more digits than its cell shows.
If an amount is blank, the API did not send it. A dash means zero. Amounts of different assets \
are never added together.
The book contains the positions of one night, which nightbook read from the API. The JSON is the \
data as the API sent it, and the warehouse is the database that stores the book.
Each of the other sheets has more columns to the right, which are not printed. They contain IDs \
and the exact text of each amount. Point at the header of a column to see its meaning.
You can use these names in formulas: as_of, snapshot_id (the ID of the book), and one for each \
column, for example accounts_total or holdings_asset_id. If a table is split over several sheets, \
its columns have no names.
""".strip().splitlines()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures that the summary shows."""

    source: OpenBook
    sheets: Mapping[str, tuple[TableSheet, ...]]
    expected: tuple[ExpectedTotals, ...]
    lines: list[TotalLine]
    notices: tuple[str, ...]


class _SummaryWriter:
    """A writer that fills the summary sheet from top to bottom. The next row has index `row`."""

    def __init__(self, draft: Draft) -> None:
        self.worksheet = draft.book.add_worksheet(SHEET)
        self.formats = draft.formats
        self.row = 0
        self._draft = draft
        self._amounts: dict[tuple[int, bool], Any] = {}

    def amount_style(self, total: str, *numbers: float) -> Any:
        """Return a number format for the digits that a total and the sum of its parts share."""
        # A sum of doubles may differ in the last digits from the double nearest to the exact total.
        # So the cells show only the digits that the two numbers have in common. The exact total is
        # in the next column.
        decimals = min(DECIMALS, max(0, _SAFE_DIGITS - len(f"{abs(numbers[0]):.0f}")))
        while decimals and len({f"{number_:.{decimals}f}" for number_ in numbers}) > 1:
            decimals -= 1
        given = len(total.partition(".")[2])
        decimals = min(decimals, max(given, MIN_DECIMALS))
        key = decimals, given > decimals
        if key not in self._amounts:
            form = amount_format(decimals, is_rounded=key[1])
            self._amounts[key] = self._draft.book.add_format(AMOUNT_LINE | {"num_format": form})
        return self._amounts[key]

    def text(self, column: int, text: str, style: Any = None) -> None:
        must(self.worksheet.write_string(self.row, column, text, style))

    def formula(self, column: int, formula: str, style: Any, value: object) -> None:
        must(self.worksheet.write_formula(self.row, column, formula, style, value))

    def headers(self, *titles: str) -> None:
        """Write a header row. Columns 3 to 6 contain figures, so their titles are right-aligned."""
        self.worksheet.set_row(self.row, 20)
        for column, title in enumerate(titles):
            style = self.formats.header_right if column in _FIGURES else self.formats.header
            self.text(column, title, style)
        self.row += 1

    def across(self, text: str, style: Any) -> None:
        """Write a paragraph in a merged row that is tall enough for it."""
        width = sum(_WIDTHS)
        self.worksheet.set_row(self.row, 16 * math.ceil(max(len(text), 1) / width) + 4)
        must(self.worksheet.merge_range(self.row, 0, self.row, len(_WIDTHS) - 1, text, style))
        self.row += 1


def write_summary(draft: Draft, figures: Figures, program_version: str) -> None:
    """Write the summary, which is the workbook's first sheet."""
    sheet = _SummaryWriter(draft)
    longest = max((len(line.of) for line in figures.lines if line.kind == "total"), default=0)
    for column, width in enumerate(_WIDTHS):
        sheet.worksheet.set_column(
            column, column, max(width, fitting(longest)) if not column else width
        )
    _head(draft, sheet, figures.source, program_version)
    for notice in figures.notices:
        sheet.across(notice[:2000], sheet.formats.notice)
    sheet.row += 1
    _verdict(sheet, figures)
    sheet.row += 1
    _rows(sheet, figures)
    sheet.row += 1
    if figures.source.currency:
        _values(draft, sheet, figures.source, figures.source.currency)
        sheet.row += 1
    _assets(draft, sheet, figures)
    sheet.row += 1
    for text in _HELP:
        sheet.across(text, sheet.formats.wrapped)
    sheet.worksheet.hide_gridlines(2)
    sheet.worksheet.print_area(0, 0, sheet.row, len(_WIDTHS) - 1)
    print_set_up(
        sheet.worksheet, footer=f"{figures.source.title} as of {figures.source.day}, {SHEET}"
    )


def _head(draft: Draft, sheet: _SummaryWriter, source: OpenBook, program_version: str) -> None:
    sheet.worksheet.set_row(0, 28)
    sheet.text(0, source.title, sheet.formats.title)
    started, finished = source.snapshot["started_at"], source.snapshot["finished_at"]
    facts: dict[str, date | str] = {
        "As of": source.day,
        "Book": source.snapshot_id,
        "Read from the API": f"{started:%Y-%m-%d %H:%M:%S} to {finished:%H:%M:%S} UTC",
        "Made by": f"nightbook {program_version}",
    }
    for sheet.row, (label, value) in enumerate(facts.items(), 2):
        sheet.text(0, label, sheet.formats.label)
        if isinstance(value, date):
            must(sheet.worksheet.write_datetime(sheet.row, 1, value, sheet.formats.day))
        else:
            sheet.text(1, value)
    draft.book.define_name("as_of", f"={SHEET}!$B$3")
    draft.book.define_name("snapshot_id", f"={SHEET}!$B$4")
    sheet.row += 2


def _verdict(sheet: _SummaryWriter, figures: Figures) -> None:
    wrong = [line for line in figures.lines if not line.ties]
    totals = sum(line.kind == "total" for line in figures.lines)
    if wrong:
        examples = ", ".join(f"{line.kind} of {line.of[:40]}" for line in wrong[:5])
        sheet.across(
            f"{len(wrong)} of {len(figures.lines)} control totals DO NOT TIE: {examples}. "
            "See sheet Evidence.",
            sheet.formats.bad,
        )
        return
    places = (
        "in the database of the part"
        if figures.source.is_part
        else "in the API's data, in the stored files, in the database"
    )
    sheet.across(
        f"Everything ties out to the last digit. For all {totals:,} assets, the exact total is "
        f"the same {places} and on each sheet.",
        sheet.formats.good,
    )


def _rows(sheet: _SummaryWriter, figures: Figures) -> None:
    in_both = ("Rows in the warehouse", "Rows in this workbook")
    count = sheet.formats.cells[SheetColumnKind.COUNT]
    sheet.headers("Sheet", "", *in_both, "Rows with rounded numbers", "", "Ties")
    for expected in figures.expected:
        title = expected.exhibit.title
        sheets = figures.sheets[title]
        flags = [sheet.cells("digits", SheetColumnKind.DIGITS) for sheet in sheets]
        counted = "+".join(f"COUNTA({cells})" for cells in flags)
        exact = "+".join(f'COUNTIF({cells},"exact")' for cells in flags)
        line = sheet.row + 1
        sheet.text(0, title)
        sheet.text(1, "" if len(sheets) == 1 else f"on {len(sheets)} sheets")
        must(sheet.worksheet.write_number(sheet.row, 2, expected.rows, count))
        sheet.formula(3, f"={counted}", count, expected.rows)
        sheet.formula(4, f"=D{line}-({exact})", count, expected.rounded)
        sheet.formula(6, f'=IF(C{line}=D{line},"yes","NO")', None, "yes")
        sheet.row += 1
    for title, rows in figures.source.left_out.items():
        sheet.text(0, title)
        sheet.text(1, "left out, see above")
        must(sheet.worksheet.write_number(sheet.row, 2, rows, count))
        sheet.row += 1


def _values(draft: Draft, sheet: _SummaryWriter, source: OpenBook, currency: str) -> None:
    """Write the value of the book, and of its largest portfolios, venues and labels."""
    cells = sheet.formats.cells
    counts = ("assets", "unpriced_assets", "stale_assets")
    value, exact = f"Value in {currency}", "Value, exact"
    sheet.headers("Value of", "", value, exact, "Assets", "Without a price", "Stale")
    first = sheet.row + 1
    for scope, group in group_values(source.connection, currency, source.day, SHOWN_GROUPS):
        text = group["value_text"] or "no valid price"
        amount = number(group["value_text"])[0] if group["value_text"] else None
        sheet.text(0, scope)
        label = group["group_name"] or group["group_id"]
        sheet.text(1, label or ("" if scope == "book" else "no label"))
        if amount:
            style = sheet.amount_style(text, float(amount))
            must(sheet.worksheet.write_number(sheet.row, 2, float(amount), style))
        sheet.text(3, text, cells[SheetColumnKind.EXACT])
        for column, name in enumerate(counts, 4):
            must(
                sheet.worksheet.write_number(
                    sheet.row, column, group[name], cells[SheetColumnKind.COUNT]
                )
            )
        sheet.row += 1
    sizes(draft, sheet.worksheet, (f"C{first}:C{sheet.row}",))
    sheet.across(
        "An asset without a valid price is in no value. The sheets Assets, Holdings and Venues "
        f"have the price and the exact value of each row. At most {SHOWN_GROUPS} groups are shown.",
        sheet.formats.wrapped,
    )


def _assets(draft: Draft, sheet: _SummaryWriter, figures: Figures) -> None:
    totals = [line for line in figures.lines if line.kind == "total"]
    # The most detailed sheet that the workbook has. Assets has only one row for each total.
    added = min(
        (exhibit for exhibit in figures.source.exhibits if exhibit.title in _DETAILS),
        key=lambda exhibit: _DETAILS.index(exhibit.title),
    )
    room = LIVE_COMPARISONS // max(figures.source.rows[added.title], 1)
    lines = [line for line in totals if is_portable(line.of)][: min(SHOWN_ASSETS, room)]
    sheet.headers(
        "Asset",
        "Custom",
        "Total",
        f"Sum of the {added.title.lower()}",
        "Total, exact",
        "In the JSON, exact",
        "Ties",
    )
    first = sheet.row + 1
    for line in lines:
        _asset(sheet, figures, line, added)
    if lines:
        sheet.worksheet.ignore_errors({"number_stored_as_text": f"A{first}:F{sheet.row}"})
        sizes(draft, sheet.worksheet, (f"C{first}:D{sheet.row}",))
    if len(lines) < len(totals):
        sheet.across(
            f"This table shows {len(lines)} of {len(totals):,} assets. The sheets Assets and "
            "Evidence contain all of them.",
            sheet.formats.wrapped,
        )


def _asset(sheet: _SummaryWriter, figures: Figures, line: TotalLine, added: Exhibit) -> None:
    cells = sheet.formats.cells
    total = next(text for text in reversed(line.sheets) if text is not None)
    row = sheet.row + 1
    sheet.text(0, line.of, cells[SheetColumnKind.TEXT])
    sheet.text(1, yes(line.is_custom), cells[SheetColumnKind.TEXT])
    value = number(total)[0]
    # The cached value is the sum of the doubles, not the exact total. A spreadsheet calculates the
    # same sum, so no figure changes when a reader opens the file.
    numbers = numbers_of(figures.source, added, (line.of, line.is_custom))
    if value and None not in numbers:
        formula = live_sum(figures.sheets[added.title], row)
        cached = math.fsum(number_ for number_ in numbers if number_ is not None)
        style = sheet.amount_style(total, float(value), cached)
        must(sheet.worksheet.write_number(sheet.row, 2, float(value), style))
        sheet.formula(3, formula, style, cached)
    else:
        sheet.text(2, Digits.TEXT_ONLY.words, cells[SheetColumnKind.EXACT])
        sheet.text(3, Digits.TEXT_ONLY.words, cells[SheetColumnKind.EXACT])
    sheet.text(4, total, cells[SheetColumnKind.EXACT])
    sheet.text(5, line.places[0] or "not stated", cells[SheetColumnKind.EXACT])
    sheet.text(6, "yes" if line.ties else "NO")
    sheet.row += 1


def live_sum(sheets: Sequence[TableSheet], row: int) -> str:
    """Return a formula that adds up the rows for the asset in columns A and B of a row.

    It uses EXACT, because SUMIFS would match `btc` with `BTC`, `1e5` with `100000`, and `*` with
    everything.
    """
    parts = [
        f"SUMPRODUCT(EXACT({sheet.cells('asset_id', SheetColumnKind.TEXT)},A{row})"
        f"*EXACT({sheet.cells('is_custom_asset', SheetColumnKind.TEXT)},B{row}),"
        f"{sheet.cells(TOTAL, SheetColumnKind.NUMBER)})"
        for sheet in sheets
    ]
    return "=" + "+".join(parts)
