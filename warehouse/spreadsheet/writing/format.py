"""Everything in a sheet except its rows: formats, header, notes, widths, panes and printing."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from io import BytesIO
from typing import Any

import xlsxwriter
from xlsxwriter.utility import xl_col_to_name

from warehouse.spreadsheet.writing.cells import CELL_LIMIT, looks_like_xml, safe_xml
from warehouse.spreadsheet.writing.layout import (
    DECIMALS,
    MIN_DECIMALS,
    SheetColumn,
    SheetColumnKind,
    TableSheet,
)
from warehouse.spreadsheet.writing.rows import RowsXml, Styles

# The format for amounts with an unknown number of decimal places.
AMOUNT = '#,##0.00????????_);[Red]-#,##0.00????????_);"-"??????????_)'
ROUNDED = "≈"  # the prefix of a number that has more digits than its cell shows
TINY = "0.00#####E+00_)"
HUGE = "0.00000000000000E+00_)"
BLUE, AMBER, GREY, LIGHT = "#1F3864", "#FFF2CC", "#595959", "#D9D9D9"
A4 = 9
AMOUNT_LINE: dict[str, object] = {"valign": "vcenter", "bottom": 1, "bottom_color": LIGHT}
_FROZEN_COLUMNS = 2  # number of columns that stay visible when a table is scrolled sideways
_SMALL_FONT = 11  # font size of the page header and footer, in points
# Write rows to disk immediately, and never convert text to a formula, a link or a number.
_WRITER_OPTIONS = {
    "constant_memory": True,
    "strings_to_formulas": False,
    "strings_to_urls": False,
    "strings_to_numbers": False,
}
# Every program has Arial or a font with the same widths, so text widths are known. With a font
# scheme, Excel would use the font of its theme instead.
_FONT = {"font_name": "Arial", "font_size": 10, "font_scheme": False}


class Formats:
    """The cell formats of a workbook, with an attribute for each purpose.

    `amounts` contains one format for each number of decimal places. The last format is for amounts
    that have more decimal places than a cell shows.
    """

    def __init__(self, book: Any) -> None:
        def add(**properties: object) -> Any:
            return book.add_format(properties)

        line = AMOUNT_LINE
        text = line | {"num_format": "@"}
        cells = {
            SheetColumnKind.TEXT: text,
            SheetColumnKind.DIGITS: text,
            SheetColumnKind.COUNT: line | {"num_format": "#,##0_)"},
            SheetColumnKind.NUMBER: line | {"num_format": AMOUNT},
            SheetColumnKind.EXACT: text | {"align": "right", "indent": 1},
        }
        heading = {"bold": True, "font_color": "white", "bg_color": BLUE, "valign": "vcenter"}
        heading |= {"text_wrap": True, "border": 1}
        self.header = add(**heading)
        self.header_right = add(**heading | {"align": "right", "indent": 1})
        self.cells = {kind: add(**shape) for kind, shape in cells.items()}
        self.hostile = {kind: add(**shape, quote_prefix=True) for kind, shape in cells.items()}
        numbers = [amount_format(decimals) for decimals in range(MIN_DECIMALS, DECIMALS + 1)]
        numbers.append(amount_format(DECIMALS, is_rounded=True))
        self.amounts = [add(**line, num_format=number) for number in numbers]
        self.tiny = add(num_format=TINY)
        self.huge = add(num_format=HUGE)
        self.rounded = add(italic=True)
        self.title = add(bold=True, font_size=18, font_color=BLUE)
        self.label = add(bold=True, font_color=GREY, valign="top")
        self.wrapped = add(text_wrap=True, valign="top", num_format="@")
        self.day = add(bold=True, num_format="yyyy-mm-dd", align="left")
        self.notice = add(text_wrap=True, valign="vcenter", bg_color=AMBER, num_format="@")
        self.good = add(bold=True, font_color="#375623", bg_color="#E2EFDA")
        self.fair = add(bold=True, font_color="#7F6000", bg_color=AMBER)
        self.bad = add(bold=True, font_color="#9C0006", bg_color="#FFC7CE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """A table's rows, which `splice` writes in place of the model row.

    Row numbers start with 1, and the model row is the first row. `render` receives the style number
    of each cell of the model row, and generates the rows as XML.
    """

    first_row: int
    last_row: int
    last_column: str
    cells: int
    render: Callable[[Sequence[str]], Iterable[RowsXml]]


@dataclass(frozen=True, slots=True)
class Draft:
    """An unfinished workbook: its in-memory file, its writer, its formats and its tables.

    `fillings` maps the number of a sheet (from 1) to the rows of its table, if it has one.
    """

    file: BytesIO
    book: Any
    formats: Formats
    fillings: dict[int, Filling] = field(default_factory=dict)

    def add_rows(
        self,
        worksheet: Any,
        first: int,
        shape: tuple[int, int],
        formats: Sequence[Any],
        render: Callable[[Sequence[str]], Iterable[RowsXml]],
    ) -> None:
        """Add a table's rows to the newest sheet, starting at row index `first`.

        `shape` is the number of rows and columns. `render` receives the style numbers of `formats`.
        """
        for column, style in enumerate(formats):
            must(worksheet.write_blank(first, column, None, style))
        rows, columns = shape
        self.fillings[len(self.book.worksheets())] = Filling(
            first_row=first + 1,
            last_row=first + max(rows, 1),
            last_column=xl_col_to_name(columns - 1),
            cells=rows * columns,
            render=render,
        )


def amount_format(decimals: int, room: int = DECIMALS, *, is_rounded: bool = False) -> str:
    """Return an amount's number format, which aligns the decimal points in a column.

    `room` is the number of decimal places that fit in the column. If an amount has more digits than
    its cell shows, the cell begins with `ROUNDED`.
    """
    # In a number format, `_0` leaves space for a missing digit. The space is as wide as a digit in
    # every program, while the space for `?` is as wide as a digit only in Excel.
    point = "." if decimals else "_."
    shown = f"#,##0{point}{'0' * decimals}{'_0' * (room - decimals)}_)"
    if is_rounded:
        return f'"{ROUNDED}"{shown};[Red]"{ROUNDED}"-{shown};"{ROUNDED}"{shown}'
    return f'{shown};[Red]-{shown};"-"_.{"_0" * room}_)'


def draft(*, title: str, made_at: datetime, about: dict[str, str]) -> Draft:
    """Start a workbook. `made_at` is its creation time, and `about` its custom properties."""
    file = BytesIO()
    # XlsxWriter modifies the font dictionary, so pass a copy.
    book = xlsxwriter.Workbook(file, {**_WRITER_OPTIONS, "default_format_properties": dict(_FONT)})
    created = made_at.replace(tzinfo=None, microsecond=0)
    book.set_properties({"title": title, "author": "nightbook", "created": created})
    for name, text in about.items():
        book.set_custom_property(name, text, "text")
    return Draft(file, book, Formats(book))


def must(code: object) -> None:
    """Raise `ValueError` if XlsxWriter returned an error code instead of writing a cell."""
    if code not in (0, None):
        raise ValueError(f"XlsxWriter could not write a cell (code {code}), so no file was written")


def write_text(worksheet: Any, row: int, column: int, text: str, shape: Any) -> None:
    """Write a string unchanged, even if it looks like an escape or like rich-text XML."""
    # XlsxWriter escapes only the first of two overlapping escapes, so escape the string here. In
    # constant-memory mode, XlsxWriter writes a string that begins with <r> and ends with </r> as
    # XML, but still escapes its underscores. So write each underscore as a character reference.
    if looks_like_xml(text):
        escaped = safe_xml(text).replace("_", "&#95;")
        markup = f'<r><t xml:space="preserve">{escaped}</t></r>'
        text = markup if len(markup) <= CELL_LIMIT else text
    must(worksheet.write_string(row, column, text, shape))


def long_table(
    workbook: Draft,
    sheet: TableSheet,
    render: Callable[[Styles], Iterable[RowsXml]],
    *,
    footer: str,
    header: str = "",
    paper_rows: int = 0,
) -> None:
    """Add a sheet for a long table. `render` generates the table's rows.

    If the table has more than `paper_rows` rows, only that many are printed, and `header` is the
    page header that says so.
    """
    worksheet = workbook.book.add_worksheet(sheet.name)
    _set_columns(worksheet, sheet)
    for index, column in enumerate(sheet.columns):
        must(worksheet.write_string(0, index, column.title, heading(workbook.formats, column)))
        note = {"x_scale": 2.2, "y_scale": 1.2, "author": "nightbook", "font_size": 9}
        must(worksheet.write_comment(0, index, column.meaning, note))
    letters = [xl_col_to_name(index) for index in range(len(sheet.columns))]
    cells = [workbook.formats.cells[column.kind] for column in sheet.columns]
    hostile = [workbook.formats.hostile[column.kind] for column in sheet.columns]

    def render_with(numbers: Sequence[str]) -> Iterable[RowsXml]:
        count = len(letters)
        plain = dict(zip(letters, numbers[:count], strict=True))
        others = dict(zip(letters, numbers[count : 2 * count], strict=True))
        return render(Styles(plain, others, numbers[2 * count :]))

    formats = [*cells, *hostile, *workbook.formats.amounts]
    workbook.add_rows(worksheet, 1, (sheet.rows, len(letters)), formats, render_with)
    worksheet.freeze_panes(1, _FROZEN_COLUMNS)
    worksheet.autofilter(0, 0, sheet.last_row - 1, len(sheet.columns) - 1)
    _add_conditions(workbook, worksheet, sheet)
    printed = sum(column.is_printed for column in sheet.columns)
    is_cut = 0 < paper_rows < sheet.rows
    worksheet.print_area(0, 0, paper_rows if is_cut else sheet.last_row - 1, printed - 1)
    worksheet.repeat_rows(0)
    print_set_up(worksheet, footer=f"{footer}, {sheet.name}", header=header if is_cut else "")


def heading(formats: Formats, column: SheetColumn) -> Any:
    """Return the format of a column's header, which is right-aligned above figures."""
    is_left = column.kind in (SheetColumnKind.TEXT, SheetColumnKind.DIGITS)
    return formats.header if is_left else formats.header_right


def _set_columns(worksheet: Any, sheet: TableSheet) -> None:
    worksheet.set_row(0, 32)
    for index, column in enumerate(sheet.columns):
        options = {} if column.is_printed else {"level": 1}
        worksheet.set_column(index, index, column.width, None, options)
    texts = [_data_range(sheet, column) for column in sheet.columns if _is_text(column)]
    worksheet.ignore_errors({"number_stored_as_text": " ".join(texts)})


def _is_text(column: SheetColumn) -> bool:
    return column.kind in (SheetColumnKind.TEXT, SheetColumnKind.EXACT)


def _data_range(sheet: TableSheet, column: SheetColumn) -> str:
    letter = sheet.letter(column.source, column.kind)
    return f"{letter}2:{letter}{sheet.last_row}"


def _add_conditions(workbook: Draft, worksheet: Any, sheet: TableSheet) -> None:
    flags = [column for column in sheet.columns if column.kind is SheetColumnKind.DIGITS]
    numbers = [column for column in sheet.columns if column.kind is SheetColumnKind.NUMBER]
    areas = tuple(_data_range(sheet, column) for column in numbers)
    if areas:
        sizes(workbook, worksheet, areas)
    if areas and flags:
        flag = sheet.letter(flags[0].source, SheetColumnKind.DIGITS)
        _add_rule(worksheet, areas, f'=${flag}2<>"exact"', workbook.formats.rounded)


def sizes(workbook: Draft, worksheet: Any, areas: tuple[str, ...], room: int = DECIMALS) -> None:
    """Use scientific notation for numbers that are too small or too large for the cell format."""
    first = areas[0].split(":")[0]
    number = f"ISNUMBER({first})"
    tiny = f"=AND({number},{first}<>0,ABS({first})<1E-{min(room, 8)})"
    _add_rule(worksheet, areas, tiny, workbook.formats.tiny)
    _add_rule(worksheet, areas, f"=AND({number},ABS({first})>=1E+15)", workbook.formats.huge)


def _add_rule(worksheet: Any, areas: tuple[str, ...], formula: str, shape: Any) -> None:
    condition = {"type": "formula", "criteria": formula, "format": shape}
    condition |= {"multi_range": " ".join(areas)} if len(areas) > 1 else {}
    must(worksheet.conditional_format(areas[0], condition))


def print_set_up(worksheet: Any, *, footer: str, header: str = "") -> None:
    """Set up printing: numbered landscape A4 pages, and the sheet scaled to the page width."""
    worksheet.set_paper(A4)
    worksheet.set_landscape()
    worksheet.fit_to_pages(1, 0)
    worksheet.set_margins(left=0.2, right=0.2, top=0.6, bottom=0.6)
    if header:
        worksheet.set_header(f"&L&{_SMALL_FONT}{header}")
    worksheet.set_footer(f"&L&{_SMALL_FONT}{footer}&R&{_SMALL_FONT}Page &P of &N")


def define_names(workbook: Draft, sheet: TableSheet) -> None:
    """Define names for a table and its columns, for example `accounts` and `accounts_total`.

    A table that spans several sheets gets no names, because a name would cover only one part.
    """
    if sheet.parts > 1:
        return
    table = sheet.table.lower().replace(" ", "_")
    last = sheet.letter(sheet.columns[-1].source, sheet.columns[-1].kind)
    workbook.book.define_name(table, f"={sheet.formula_name}!$A$1:${last}${sheet.last_row}")
    for column in sheet.columns:
        cells = sheet.cells(column.source, column.kind)
        workbook.book.define_name(f"{table}_{column_name(column)}", f"={cells}")


def column_name(column: SheetColumn) -> str:
    """Return a column's name for use in formulas. For exact text, the name ends in `_text`."""
    # A number and its exact text may have the same source, but each column needs its own name,
    # because Excel reports a file with duplicate names as damaged.
    name = column.source.removesuffix("_text")
    return {SheetColumnKind.NUMBER: name, SheetColumnKind.EXACT: f"{name}_text"}.get(
        column.kind, column.source
    )
