"""Tests of `SheetWriter`, which writes the cells of a table with XlsxWriter."""

import io
from collections.abc import Sequence
from datetime import UTC, date, datetime

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warehouse.reconcile.model import RollForwardLine, Steps, in_cell
from warehouse.reconcile.workbook import imprint
from warehouse.reconcile.workbook.sheet import Formula, Heading, SheetWriter
from warehouse.spreadsheet.writing.format import draft
from warehouse.spreadsheet.writing.splice import splice

HOSTILE = [
    "=1+1",
    "@SUM(1)",
    "\t=1",
    'a"b',
    "<r><t>1</r>",
    "a\x01b",
    "_x0041_",
    "<A&B>",
    "x" * 40_000,
]
HEADINGS = (
    Heading("Text"),
    Heading("Amount", kind="amount"),
    Heading("Exact", kind="exact"),
    Heading("Yellow", kind="yellow"),
    Heading("Count", kind="count"),
    Heading("Day"),
    Heading("Sum"),
)
# XML has no lone surrogates, and spreadsheet programs change line endings.
LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\r")
TEXTS = st.sampled_from(HOSTILE) | st.text(LETTERS, max_size=12)
AMOUNTS = st.decimals(allow_nan=False, allow_infinity=False, places=12).map(lambda n: f"{n:f}")
ROWS = st.tuples(
    st.none() | TEXTS,
    st.none() | AMOUNTS,
    st.none() | AMOUNTS,
    st.none() | TEXTS,
    st.none() | st.integers(0, 10**9),
    st.none() | st.dates(min_value=date(1990, 1, 1), max_value=date(2200, 1, 1)),
    st.integers(0, 9).map(lambda n: Formula(f"1+{n}", float(n + 1)))
    | st.sampled_from(["yes", "NO"]).map(lambda text: Formula('IF(1<2,"yes","NO")', text)),
)


def written(rows: Sequence[tuple[object, ...]]) -> bytes:
    """Return a workbook with one table between a title and a last row."""
    made = draft(title="", made_at=datetime(2026, 3, 1, tzinfo=UTC), about={})
    sheet = SheetWriter(made, "Table", HEADINGS)
    sheet.title("Title")
    sheet.heads()
    sheet.measure(1, [[amount for _, amount, *_ in rows if isinstance(amount, str)]])
    sheet.rows(rows)
    sheet.add("last", len(rows))
    target = io.BytesIO()
    made.book.close()
    splice(made, target)
    return target.getvalue()


@given(st.lists(ROWS, max_size=5))
def test_every_cell_of_a_table_is_read_as_it_was_written(rows: list[tuple[object, ...]]) -> None:
    """Every cell is read back as it was written, and so is the row below the table."""
    sheet = imprint.read(written(rows))["Table"]
    assert sheet.rows[len(rows) + 2][:2] == ["last", str(len(rows))]
    for row, values in enumerate(rows, 2):
        for column, value in enumerate(values):
            cell = sheet.at((row, column))
            if isinstance(value, Formula):
                assert sheet.formulas[row, column] == value.text
            elif HEADINGS[column].kind == "amount" and value is not None:
                # The reader returns 15 digits.
                assert float(cell) == float(f"{float(str(value)):.15g}")
            else:
                assert imprint.Cell(cell) == imprint.Cell(
                    "" if value is None else in_cell(str(value))
                )


@pytest.mark.parametrize(
    "text", ["0", "-12.50", "0.1", "105708270.16711251", "-321683965.826180163", "9" * 40]
)
def test_an_amount_is_the_double_nearest_to_its_text(text: str) -> None:
    """The cell of an amount holds the double that is nearest to its text, with up to 17 digits."""
    book = openpyxl.load_workbook(io.BytesIO(written([(None, text, *[None] * 5)])))
    assert book["Table"].cell(3, 2).value == float(text)


def test_an_amount_too_long_for_its_column_is_marked() -> None:
    """An amount with more decimals than its column has room for is marked with "≈".

    A tiny amount is shown in scientific notation.
    """
    rows: list[tuple[object, ...]] = [
        ("short", "1.5", None, None, None, None, None),
        ("long", "1.123456789012", None, None, None, None, None),
        ("tiny", "0.000000000001", None, None, None, None, None),
    ]
    book = openpyxl.load_workbook(io.BytesIO(written(rows)))
    short, long, tiny = (book["Table"].cell(row, 2).number_format for row in (3, 4, 5))
    assert short.startswith("#,##0.00_0")
    assert long.startswith('"≈"#,##0.0000000000_)')
    assert tiny.startswith("0.00###")


@pytest.mark.parametrize(
    ("ledger", "book", "words"),
    [
        (("", "", "5"), ("", "", "5"), "not checked"),
        (("", "", "5"), ("3", "2", "5"), "book only"),
        (("4", "1", "5"), ("3", "2", "5"), "yes"),
        (("4", "2", "5"), ("3", "2", "5"), "NO"),
        (("", "", "5"), ("3", "1", "5"), "NO"),
    ],
)
def test_a_line_with_an_unknown_opening_is_not_confirmed(
    ledger: Steps, book: Steps, words: str
) -> None:
    """A line with an unknown opening does not say "yes", because its movement was not checked."""
    assert RollForwardLine("BTC", ledger, book, ("0", "0", "0")).line[-1] == words
