"""A sheet to which rows are given whole, as they stand in its file.

XlsxWriter prepares each cell for whatever it may be, in a dozen steps. For 5,500 breaks that took a
fifth of a whole reconciliation (measured).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from html import escape
from typing import Any

from xlsxwriter.utility import xl_col_to_name, xl_rowcol_to_cell_fast
from xlsxwriter.worksheet import Worksheet

from warehouse.spreadsheet.writing.cells import string

_LETTERS = tuple(xl_col_to_name(place) for place in range(100))
_PIXEL = 0.75  # points: programs round the height of a row to them
_DEFAULT = 20  # pixels
_DAY_ZERO = date(1899, 12, 30)


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula of ours, which has no function that came after Excel 2007, and its value.

    An `amount` is the exact text of what it comes to.
    """

    text: str
    value: float | str
    amount: str = ""


class PlainSheet(Worksheet):  # type: ignore[misc] # the library has no types
    """A sheet of the library, written in its constant memory."""

    def add_row(self, row: int, cells: Sequence[str], height: float) -> None:
        """Write a row of cells, each the XML behind its number, or empty where there is none.

        It is whole: neither its height nor another of its cells can be set.
        """
        number = row + 1
        pieces = [
            f'<c r="{letter}{number}{cell}'
            for letter, cell in zip(_LETTERS, cells, strict=False)
            if cell
        ]
        # The library sizes the sheet by its cells, and writes the row before when one begins.
        self._check_dimensions(row, 0)
        self._check_dimensions(row, len(cells) - 1)
        if row > self.previous_row:
            self._write_single_row(row)
        pixels = int(height / _PIXEL + 0.5)
        shape = f' ht="{pixels * _PIXEL:.16g}" customHeight="1"' if pixels != _DEFAULT else ""
        self.fh.write(f'<row r="{number}"{shape}>{"".join(pieces)}</row>')

    def _write_cell(self, row: int, col: int, cell: Any) -> None:
        """Write one cell; the library takes a text between <r> and </r> for XML."""
        if type(cell).__name__ == "String" and cell.format is not None:
            style = style_of(cell.format)
            place = xl_rowcol_to_cell_fast(row, col)
            inside = string(cell.string)
            self.fh.write(f'<c r="{place}" s="{style}" t="inlineStr">{inside}</c>')
        else:
            super()._write_cell(row, col, cell)


def style_of(shape: Any) -> int:
    """Return the number of a format of the library, by which cells name it."""
    return int(shape._get_xf_index())  # noqa: SLF001 - the library asks it so itself


def blank_cell(shape: Any) -> str:
    """Return a cell with nothing but its format, behind the number of its row."""
    return f'" s="{style_of(shape)}"/>'


def number_cell(number: float, shape: Any) -> str:
    """Return a cell with a number."""
    return f'" s="{style_of(shape)}"><v>{number:.16G}</v></c>'


def day_cell(day: date, shape: Any) -> str:
    """Return a cell with a day, which a spreadsheet counts."""
    return number_cell((day - _DAY_ZERO).days, shape)


def formula_cell(formula: Formula, shape: Any) -> str:
    """Return a cell with a formula, and what it comes to for programs that do not calculate."""
    kind = ' t="str"' if isinstance(formula.value, str) else ""
    inside = f"<f>{escape(formula.text, quote=False)}</f><v>{formula.value}</v>"
    return f'" s="{style_of(shape)}"{kind}>{inside}</c>'
