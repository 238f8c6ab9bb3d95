"""Tests of lookups by key from one workbook into another, for names that are easily confused."""

import shutil
from pathlib import Path

import openpyxl
import pytest

from tests.support.books import Amount
from tests.support.reconciliation_home import HEAD, Desk
from tests.warehouse.reconcile.workbook.test_write import recalculated
from warehouse.export.export import export

OFFICE = shutil.which("soffice")
# Names that a lookup by text would confuse: different case, wildcards, a formula, and long names.
_ACCOUNTS = ("main", "MAIN", "ma*n", "m?in", "~main", "=1+1", "x" * 300, "x" * 300 + "y")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Create a home with a ledger and a book whose account names are easily confused."""
    made = Desk(tmp_path)
    amounts = [Amount(f"{no}.000000000000000001", account=a) for no, a in enumerate(_ACCOUNTS, 1)]
    amounts.append(Amount("99", asset="BTC", custom=True))
    made.publish(amounts)
    made.put(HEAD + "p1;BTC;v1;main;1\np1;BTC;v1;MAIN;2.000000000000000001\n")
    return made


def _books(desk: Desk) -> tuple[Path, Path]:
    layout = desk.layout
    done = export(
        layout.database, layout.exports, as_of=None, formats=["xlsx"], program_version="1"
    )
    return desk.run().files[0], done.files[0]


def _columns(sheet: openpyxl.worksheet.worksheet.Worksheet, row: int = 1) -> dict[str, str]:
    return {str(cell.value): cell.column_letter for cell in sheet[row]}


def test_every_position_has_one_key_in_both_workbooks(desk: Desk) -> None:
    """Both workbooks have the same keys, each only once, and every break has one of them."""
    reconciled, positions = map(openpyxl.load_workbook, _books(desk))
    found = []
    for sheet in (reconciled["All positions"], positions["Accounts"]):
        at = _columns(sheet)
        cells = [cell.value for cell in sheet[at["Key"]][1:]]
        assert len(set(cells)) == len(cells) == len(_ACCOUNTS) + 1
        found.append(set(cells))
    assert found[0] == found[1]
    sheet = reconciled["Breaks"]
    at = _columns(sheet, 2)
    assert {cell.value for cell in sheet[at["Key"]][2:]} < found[0]
    assert {cell.value for cell in sheet[at["Venue id"]][2:]} == {"v1"}
    last = _columns(reconciled["All positions"])
    assert list(last)[-4:] == ["Ledger rows", "Key", "Portfolio id", "Venue id"]


@pytest.mark.torture
@pytest.mark.skipif(OFFICE is None, reason="LibreOffice is not installed")
def test_a_lookup_by_key_finds_the_correct_amount(desk: Desk, tmp_path: Path) -> None:
    """LibreOffice's MATCH and VLOOKUP find the correct amount and venue for every key."""
    reconciled, positions = map(openpyxl.load_workbook, _books(desk))
    source, target = reconciled["All positions"], positions["Accounts"]
    sheet = positions.create_sheet("Looked up")
    ours, theirs = _columns(source), _columns(target)
    key, total, venue = (theirs[name] for name in ("Key", "Total, exact", "Venue name"))
    for no, cells in enumerate(source.iter_rows(min_row=2), 1):
        row = {cell.column_letter: cell.value for cell in cells}
        sheet.cell(no, 1, row[ours["Key"]])
        sheet.cell(no, 2, row[ours["Book, exact"]]).data_type = "s"
        sheet.cell(no, 3, row[ours["Venue"]])
        match = f"MATCH(A{no},Accounts!${key}$1:${key}$99,0)"
        sheet.cell(no, 4, f"=INDEX(Accounts!${total}$1:${total}$99,{match})")
        sheet.cell(no, 5, f"=VLOOKUP(A{no},Accounts!${key}$1:${venue}$99,2,FALSE)")
    path = tmp_path / "lookup.xlsx"
    positions.save(path)
    book = openpyxl.load_workbook(recalculated(path, tmp_path / "office"), data_only=True)
    rows = list(book["Looked up"].iter_rows(values_only=True))
    assert len(rows) == len(_ACCOUNTS) + 1
    assert [row[1] for row in rows] == [row[3] for row in rows]
    assert [row[2] for row in rows] == [row[4] for row in rows] == ["Venue v1"] * len(rows)
