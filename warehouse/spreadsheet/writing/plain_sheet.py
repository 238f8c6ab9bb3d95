"""A sheet whose plain cells are written in one step each, in place of a dozen.

XlsxWriter prepares each cell for whatever it may be: a formula alone is searched for thirty names
of functions. For 2,500 breaks that took a tenth of a whole reconciliation (measured).
"""

import re
from typing import Any

from xlsxwriter.utility import xl_rowcol_to_cell_fast
from xlsxwriter.worksheet import Worksheet

_PLAIN = re.compile(r"[A-Za-z0-9.:/-](?:[A-Za-z0-9 .:/-]*[A-Za-z0-9.:/-])?")


class PlainSheet(Worksheet):  # type: ignore[misc] # the library has no types
    """A sheet of the library; what is not plain is left to it, byte for byte."""

    def _prepare_formula(self, formula: str, expand_future_functions: bool = False) -> str:  # noqa: FBT001, FBT002, ARG002 - as the library calls it
        """Take a formula of ours, which has no function that came after Excel 2007."""
        return formula.removeprefix("=")

    def _write_cell(self, row: int, col: int, cell: Any) -> None:
        """Write one cell."""
        kind = type(cell).__name__
        inside = None
        if cell.format is None:
            pass
        elif kind == "Number":
            inside = f"><v>{cell.number:.16G}</v></c>"
        elif kind == "Blank":
            inside = "/>"
        elif kind == "String" and _PLAIN.fullmatch(cell.string):
            inside = f' t="inlineStr"><is><t>{cell.string}</t></is></c>'
        if inside is None:
            super()._write_cell(row, col, cell)
        else:
            style = cell.format._get_xf_index()  # noqa: SLF001 - the library asks it so itself
            self.fh.write(f'<c r="{xl_rowcol_to_cell_fast(row, col)}" s="{style}"{inside}')
