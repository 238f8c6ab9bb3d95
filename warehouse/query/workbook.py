"""A query result as a workbook, in which no cell is rounded."""

import io
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import xlsxwriter

from warehouse.query.errors import NotAQuestion
from warehouse.query.formats import QueryResult, text
from warehouse.spreadsheet.writing.cells import CELL_LIMIT, SIGNIFICANT, units
from warehouse.spreadsheet.writing.format import write_text

_SHOWN = 10_000  # characters of a query that is too long for a cell
_MAX_ROWS, _MAX_COLUMNS = 1_048_576, 16_384


def as_workbook(answer: QueryResult, evidence: Mapping[str, Any] | None = None) -> bytes:
    """Return a workbook with one sheet. Numbers of more than 15 digits are written as text.

    With `evidence`, a second sheet has these facts.

    Raises `NotAQuestion` if the result does not fit in a sheet.
    """
    if len(answer.rows) >= _MAX_ROWS or len(answer.columns) > _MAX_COLUMNS:
        raise NotAQuestion(
            f"The result has {len(answer.rows):,} rows and {len(answer.columns):,} columns, and a "
            f"sheet has room for {_MAX_ROWS - 1:,} and {_MAX_COLUMNS:,}. No file was written. "
            "Select less, or write a .parquet or .csv file."
        )
    content = io.BytesIO()
    with xlsxwriter.Workbook(content, {"in_memory": True}) as workbook:
        sheet = workbook.add_worksheet("Query")
        bold = workbook.add_format({"bold": True})
        for number, row in enumerate((answer.columns, *answer.rows)):
            for column, value in enumerate(row):
                cell = text(value)
                if units(cell) > CELL_LIMIT:
                    raise NotAQuestion(
                        f"Row {number} has a text of {units(cell):,} characters in the column "
                        f"{answer.columns[column]}, and a cell has room for {CELL_LIMIT:,}. No "
                        "file was written. Select less of it, or write a .parquet or .csv file."
                    )
                if number and _fits(value):
                    sheet.write_number(number, column, value)
                else:
                    write_text(sheet, number, column, cell, None if number else bold)
        sheet.freeze_panes(1, 0)
        sheet.autofit()
        facts = workbook.add_worksheet("Evidence") if evidence else None
        for number, (name, value) in enumerate((evidence or {}).items()):
            write_text(facts, number, 0, name, bold)
            cell = text(value)
            is_long = units(cell) > CELL_LIMIT
            write_text(facts, number, 1, f"{cell[:_SHOWN]} ... (cut)" if is_long else cell, None)
        if facts is not None:
            facts.autofit()
    return content.getvalue()


def _fits(value: object) -> bool:
    """Return whether a value is a float, or a number that a cell can hold without rounding it."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return False
    return len(Decimal(value).normalize().as_tuple().digits) <= SIGNIFICANT
