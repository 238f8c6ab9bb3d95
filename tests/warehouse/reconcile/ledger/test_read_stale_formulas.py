"""Tests of formula cells: a stored value that is older than its inputs is named and not used."""

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import xlsxwriter

from tests.warehouse.reconcile.ledger.test_read_hostile_files import sheet
from warehouse.reconcile.ledger.titles import fingerprint
from warehouse.reconcile.model import Ledger
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.settings.layout import Shape
from warehouse.spreadsheet.reading.xml_workbooks import NOT_CALCULATED

Write = Callable[..., Path]
Read = Callable[..., Ledger]


def book(path: Path, amounts: Mapping[str, float], free: float = 5) -> Path:
    """Write a row for each formula and its stored value. B (`free`) and C (2) are the inputs."""
    with xlsxwriter.Workbook(path) as made:
        page = made.add_worksheet()
        page.write_row(0, 0, ("asset", "free", "locked", "account", "amount"))
        for row, (formula, value) in enumerate(amounts.items(), 1):
            page.write_row(row, 0, ("BTC", free, 2, f"a{row}"))
            page.write_formula(row, 4, formula, None, value)
    return path


def calculated(path: Path) -> Path:
    """Remove the request to calculate from a workbook, as a program does that has calculated."""
    with zipfile.ZipFile(path) as given:
        parts = {name: given.read(name) for name in given.namelist()}
    asks = b'fullCalcOnLoad="1"'
    assert asks in parts["xl/workbook.xml"]
    parts["xl/workbook.xml"] = parts["xl/workbook.xml"].replace(asks, b"")
    with zipfile.ZipFile(path, "w") as made:
        for name, content in parts.items():
            made.writestr(name, content)
    return path


SETTINGS = ("free", "locked")


def amounts(ledger: Ledger) -> list[str]:
    """Return the amounts that were read."""
    return [line.amount.text for line in ledger.lines]


def read_book(read: Read, path: Path) -> Ledger:
    """Read a ledger with a setting that leaves its input columns unused."""
    name = fingerprint(("asset", "free", "locked", "account", "amount"))
    return read(path, config=Config(shapes={name: Shape(unused=SETTINGS)}))


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("=B2+C2", "7"),
        ("=SUM(B2:C2)", "7"),
        ("=SUM(A2:C2, 1)", "8"),
        ("=-(B2-C2)*2/4", "-1.5"),
        ("=$B$2 - 0.5", "4.5"),
        ("=E3*2", "14"),
    ],
)
def test_a_stale_formula_value_is_rejected(
    tmp_path: Path, read: Read, formula: str, value: str
) -> None:
    """A stored value that differs from its formula's result is rejected, and both are reported.

    A program that does not calculate stores 0, or leaves the previous value.
    """
    path = book(tmp_path / "ledger.xlsx", {formula: 0, "=B3+C3": 7})
    ledger = read_book(read, path)
    assert amounts(ledger) == ["7"]
    (row,) = ledger.rejected
    words = f"E2 is 0, but its formula says {value}: open the file in the program that created it"
    words += ", and save it"
    assert row.reason == f"the cell with the amount contains an error: {words}"


@pytest.mark.parametrize(
    "formula",
    [
        "=ROUND(B2,0)",
        "=Other!B2",
        "=B2^2",
        "=A2+B2",
        "=E2",
        "=SUM(B2:E2)",
        "=B2/0",
        "=" + "(" * 900,
    ],
)
def test_the_value_of_an_unchecked_formula_is_used(
    tmp_path: Path, read: Read, formula: str
) -> None:
    """If a formula cannot be checked, its stored value is the amount.

    Examples are an unsupported function, a different sheet, a text input or a circular reference.
    """
    path = calculated(book(tmp_path / "ledger.xlsx", {formula: 42}))
    assert amounts(read_book(read, path)) == ["42"]


@pytest.mark.parametrize(
    ("formula", "stored"),
    [
        ("=ROUND(499.6,0)", 0),
        ("=IF(1=1,500,0)", 0),
        ("=VLOOKUP(A2,A2:B2,2)", 0),
        ("=SUMIFS(B2:B3,A2:A3,A2)", 0),
        ("=LET(x,5,x)", 0),
        ("=PRODUCT(5,100)", 0),
        ("=ROUND(B2+1,8)", 5),
        ("=Other!B2", 42),
        ('=A2&"x"', 0),
    ],
)
def test_a_workbook_that_asks_to_be_calculated_has_no_results(
    tmp_path: Path, read: Read, formula: str, stored: float
) -> None:
    """A stored result is not used if the workbook asks to be calculated, unless it is proved."""
    path = book(tmp_path / "ledger.xlsx", {formula: stored, "=B3+C3": 7})
    ledger = read_book(read, path)
    assert amounts(ledger) == ["7"]
    [row] = ledger.rejected
    assert row.reason == f"the cell with the amount contains an error: {NOT_CALCULATED}"


def test_a_name_from_a_formula_needs_a_calculation_too(tmp_path: Path, read: Read) -> None:
    """A name that is a formula is not used if the workbook asks to be calculated."""
    path = tmp_path / "ledger.xlsx"
    with xlsxwriter.Workbook(path) as made:
        page = made.add_worksheet()
        page.write_row(0, 0, ("asset", "account", "amount"))
        page.write_formula(1, 0, '=UPPER("btc")', None, "btc")
        page.write_row(1, 1, ("a", 5))
        page.write_row(2, 0, ("ETH", "a", 6))
    ledger = read(path)
    assert amounts(ledger) == ["6"]
    assert "the cell with the asset contains an error" in ledger.rejected[0].reason


def test_a_value_that_differs_in_its_last_digits_is_used(tmp_path: Path, read: Read) -> None:
    """A stored value that differs only in the last digits is used.

    A different order of additions can change these digits.
    """
    path = book(tmp_path / "ledger.xlsx", {"=B2+0.1+0.2": 5.3, "=B3*0.1": 0.5}, free=5)
    assert amounts(read_book(read, path)) == ["5.3", "0.5"]


def test_a_shared_formula_uses_the_inputs_of_each_row(write: Write, read: Read) -> None:
    """A shared formula is stored once for a column, and is calculated with each row's own inputs.

    The second row contains only the index of the formula.
    """
    cells = ('"A{0}" t="str"><v>BTC</v>', '"B{0}"><v>{1}</v>', '"C{0}"><f {2}</f><v>{3}</v>')
    titles = zip("ABC", ("asset", "price", "amount"), strict=True)
    header = "".join(f'<c r="{at}1" t="str"><v>{title}</v></c>' for at, title in titles)
    rows = f'<row r="1">{header}</row>'
    for row, (free, formula, stored) in enumerate(
        [(5, 't="shared" ref="C2:C3" si="0">B2*2', 10), (6, 't="shared" si="0">', 10)], 2
    ):
        made = "".join(f"<c r={cell}</c>" for cell in cells).format(row, free, formula, stored)
        rows += f'<row r="{row}">{made}</row>'
    ledger = read(write(sheet(rows), "ledger.xlsx"))
    assert amounts(ledger) == ["10"]
    assert "C3 is 10, but its formula says 12" in ledger.rejected[0].reason


def test_the_work_to_check_a_running_total_is_limited(tmp_path: Path, read: Read) -> None:
    """Of 3,000 sums of growing ranges, only the first are checked, because the work is limited."""
    formulas = {f"=SUM(B$2:B{row})": 0.0 for row in range(2, 3002)}
    ledger = read_book(read, calculated(book(tmp_path / "ledger.xlsx", formulas)))
    assert len(ledger.rejected) + len(ledger.lines) == 3000
    assert min(len(ledger.rejected), len(ledger.lines)) > 1000


@pytest.mark.parametrize(
    ("code", "columns"),
    [("#,##0,", "C"), ('0.0,,"m"', "C"), ("#,##0.00", ""), ('0.0", k"', ""), ("0", "")],
)
def test_a_column_displayed_in_thousands_is_reported(
    tmp_path: Path, read: Read, code: str, columns: str
) -> None:
    """If a column shows numbers in thousands, the unscaled values are read and a notice says so.

    It explains why a reader sees 1,250 instead of 1,250,000.
    """
    path = tmp_path / "ledger.xlsx"
    with xlsxwriter.Workbook(path) as made:
        page = made.add_worksheet("Spot")
        page.write_row(0, 0, ("asset", "account", "amount"))
        page.write_row(1, 0, ("BTC", "a"))
        page.write_number(1, 2, 1_250_000, made.add_format({"num_format": code}))
    ledger = read(path)
    assert amounts(ledger) == ["1250000"]
    told = [
        f"Spot: column {name} shows its numbers in thousands or millions (format {code!r}). The "
        "unscaled cell values were read"
        for name in columns
    ]
    assert [notice.message for notice in ledger.notices] == told
