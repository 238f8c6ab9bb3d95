"""The tables of a workbook as columns of texts, found by their headers, wherever they went.

For `verify` alone: a run reads nothing of this.
"""

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc
import python_calamine

from warehouse.exact import EXACT
from warehouse.spreadsheet.reading.text import as_text, fold
from warehouse.spreadsheet.writing.cells import SIGNIFICANT

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,4})?", re.ASCII)
_LOOKED_AT = 60
_BATCH = 16_384
# What a cell may not keep as it was: spaces, and what XML cannot hold, which is written _xHHHH_.
_UNKEPT = r"[\s\x00-\x20\x7f-\x9f\x{FFFE}\x{FFFF}]+|_x[0-9A-Fa-f]{4}_"
_ESCAPED = "(_x005F)+_"


@dataclass(frozen=True, slots=True)
class SheetTable:
    """One table of the workbook: its sheet, the headers that name a row, and those of its figures.

    It is known by the headers `marks`; a row of it has a text like `pattern` under `mark`. Rows of
    one that `adds_up` count as often as they stand there. Of the `values`, `numbers` are number
    cells, of which programs keep 15 digits.
    """

    sheet: str
    marks: tuple[str, ...]
    key: tuple[str, ...]
    values: tuple[str, ...]
    mark: str
    pattern: str = "."
    adds_up: bool = False
    numbers: tuple[str, ...] = ()

    @property
    def titles(self) -> tuple[str, ...]:
        """Every header that is compared."""
        return (*self.key, *self.values)


@dataclass(slots=True)
class TableRows:
    """What stands in a workbook of one page, over all its sheets; `odd` are headers not once there.

    Where no sheet has the table, `sheets` is empty.
    """

    sheets: list[str] = field(default_factory=list)
    tables: list[pa.Table] = field(default_factory=list)
    faulty_titles: dict[str, int] = field(default_factory=dict)


def read_pages(content: bytes, pages: Sequence[SheetTable]) -> dict[str, TableRows]:
    """Read the tables of a workbook by the sheet they were written to.

    Raises `CalamineError` where a sheet cannot be read.
    """
    tables = {page.sheet: TableRows() for page in pages}
    with python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(content)) as book:
        for name in book.sheet_names:
            rows = iter(book.get_sheet_by_name(name).iter_rows())
            for row in islice(rows, _LOOKED_AT):
                titles = [fold(as_text(cell)) for cell in row]
                page = next((page_ for page_ in pages if _has(titles, page_.marks)), None)
                if page is not None:
                    _take_rows(tables[page.sheet], name, page, titles, rows)
                    break
    return tables


def has_header(rows: Iterator[Sequence[object]], page: SheetTable) -> bool:
    """Return whether one of the first rows of a sheet has the headers of a table."""
    first = islice(rows, _LOOKED_AT)
    return any(_has([fold(as_text(cell)) for cell in row], page.marks) for row in first)


def _has(titles: Sequence[str], marks: Sequence[str]) -> bool:
    return all(fold(mark) in titles for mark in marks)


def _take_rows(
    into: TableRows,
    name: str,
    page: SheetTable,
    titles: Sequence[str],
    rows: Iterator[Sequence[object]],
) -> None:
    """Take the rows below a header; a column that is not there is empty, and told."""
    places = {title: titles.index(fold(title)) for title in page.titles if _has(titles, [title])}
    for title in page.titles:
        if titles.count(fold(title)) != 1:
            into.faulty_titles[title] = titles.count(fold(title))
    into.sheets.append(name)
    while batch := list(islice(rows, _BATCH)):
        columns = {
            title: pa.array([as_text(row[places[title]]) for row in batch])
            if title in places
            else pa.repeat("", len(batch))
            for title in page.titles
        }
        is_row = pc.match_substring_regex(columns[page.mark], page.pattern)
        into.tables.append(pa.table(columns).filter(is_row))


def comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts as they are compared: without what some program does not keep in a cell."""
    if not pc.any(pc.match_substring_regex(column, rf"{_UNKEPT}|_x005F")).as_py():
        return column
    spoken = pc.replace_substring_regex(column, _ESCAPED, "_")
    return pc.replace_substring_regex(spoken, _UNKEPT, "")


def is_same_number(number: str, other: str, digits: int = SIGNIFICANT) -> bool:
    """Return whether two number cells differ by at most one unit of their last digit.

    `digits` is the number of digits that every program keeps.
    """
    # A double has 17 digits, and LibreOffice and openpyxl save 15 or 16 of them. A number near the
    # middle between two others is then rounded twice, which can change the last digit by one.
    if number == other:
        return True
    if not (_NUMBER.fullmatch(number) and _NUMBER.fullmatch(other)):
        return False
    amounts = sorted((Decimal(number), Decimal(other)), key=EXACT.abs)
    unit = Decimal(1).scaleb(amounts[1].adjusted() - digits + 1, EXACT)
    return EXACT.abs(EXACT.subtract(*amounts)) <= unit
