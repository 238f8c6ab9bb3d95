"""Tests of query results in a narrow window, in Markdown and as a workbook."""

import io
from decimal import Decimal
from typing import Any

import openpyxl
import pytest

from warehouse.query.errors import NotAQuestion
from warehouse.query.formats import QueryResult, as_markdown, as_table
from warehouse.query.workbook import as_workbook

LONG = "1234567890.123456789012345678"


def result(*rows: tuple[Any, ...], columns: str = "name total_text n") -> QueryResult:
    """Return a result with these rows."""
    return QueryResult(tuple(columns.split()), rows, is_cut=False)


def test_a_narrow_window_cuts_texts_but_no_amounts() -> None:
    """Texts are cut with an ellipsis to fit the window. Amounts and numbers keep all digits."""
    shown = as_table(result(("x" * 80, LONG, 5), ("short", "", 12)), window=60)
    lines = shown.splitlines()
    assert max(map(len, lines)) == 60
    assert "x…" in lines[2]
    assert LONG in lines[2]
    assert as_table(result(("x", LONG, 5)), window=60) == as_table(result(("x", LONG, 5)))


def test_a_table_that_cannot_fit_has_one_column_per_line() -> None:
    """If the table is too wide even with cut texts, each column has its own line."""
    assert as_table(result(("x" * 50, LONG, 5)), window=40) == (
        f"-[ row 1 ]-\nname        {'x' * 50}\ntotal_text  {LONG}\nn           5\n"
    )


def test_markdown_escapes_bars_and_line_breaks() -> None:
    """A Markdown table has one line for each row, whatever is in the cells."""
    assert as_markdown(result(("a|b\nc", None, Decimal("1.50")))) == (
        "| name | total_text | n |\n|---|---|---|\n| a\\|b\\nc |  | 1.5 |\n"
    )


def test_a_workbook_rounds_no_number_and_has_no_formula() -> None:
    """Numbers of up to 15 digits are numbers. Longer numbers, texts and formulas are text."""
    given = ("=1+1", Decimal(LONG), Decimal("1.5")), ("<r>x</r>", 2**60, 0.25)
    sheet = openpyxl.load_workbook(io.BytesIO(as_workbook(result(*given)))).active
    assert sheet is not None
    rows = [[(cell.value, cell.data_type) for cell in row] for row in sheet.iter_rows(min_row=2)]
    assert rows == [
        [("=1+1", "s"), (LONG, "s"), (1.5, "n")],
        [("<r>x</r>", "s"), (str(2**60), "s"), (0.25, "n")],
    ]


def test_a_workbook_has_its_evidence_on_a_second_sheet() -> None:
    """The evidence is text on its own sheet, also a query that looks like a formula or is long."""
    facts = {"query": "=1+1" + "x" * 40_000, "row_count": 1, "is_whole": True}
    workbook = openpyxl.load_workbook(io.BytesIO(as_workbook(result(("a", "1", 1)), facts)))
    assert workbook.sheetnames == ["Query", "Evidence"]
    [query, *others] = [[cell.value for cell in row] for row in workbook["Evidence"].iter_rows()]
    assert str(query[1]).startswith("=1+1xx")
    assert str(query[1]).endswith("x ... (cut)")
    assert others == [["row_count", "1"], ["is_whole", "true"]]


def test_a_cell_that_is_too_long_is_refused() -> None:
    """A text that does not fit in a cell is refused, because the cell would lose its end."""
    with pytest.raises(NotAQuestion, match="32,768 characters in the column name"):
        as_workbook(result(("x" * 32_768, "1", 1)))
