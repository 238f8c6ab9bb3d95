"""Tests that `verify` reports every changed cell that nightbook wrote, on every sheet."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from tests.support.books import Amount
from tests.support.reconciliation_home import HEAD, NOW, SNAPSHOT, Desk
from tests.support.shared import some_daily
from warehouse.reconcile import service
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.workbook import imprint, sheet_comparison
from warehouse.reconcile.workbook.imprint import SheetImprint
from warehouse.reconcile.workbook.sheet_comparison import compare_sheets
from warehouse.reconcile.workbook.verify import VerifyResult

OFFICE = shutil.which("soffice")
ACCEPTED = "Explained - accepted"
YELLOW = ("Status", "Owner", "Rootcause", "Comment")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """Create a home with a signature, whose second night has rows on every sheet."""
    made = Desk(tmp_path_factory.mktemp("forged"))
    made.publish([Amount("10"), Amount("20", asset="ETH")], "20261119T021500Z")
    made.put(HEAD + "p1;BTC;v1;main;11\np1;ETH;v1;main;22\n")
    made.run()
    made.publish([Amount("10"), Amount("20", asset="ETH"), Amount("5", asset="SOL")], SNAPSHOT)
    rows = "p1;XBT;v1;main;10\np1;eth ;v1;main;22.5\np1;SOL;v1;main;5\np1;ETH;v1;main;x\n"
    made.put(HEAD + rows)
    made.settle('[alias.asset]\nXBT = "BTC"\n')
    made.run()
    service.sign(made.folder.root, role="preparer", who="Ada", comment="seen", now=NOW)
    made.run()
    return made


def _book(desk: Desk) -> Path:
    return desk.folder.out / "2026-11-20" / "recon_2026-11-20.xlsx"


@pytest.fixture(scope="module")
def sheets(desk: Desk) -> Mapping[str, SheetImprint]:
    """Return the imprint of the workbook, with every cell."""
    return imprint.read(_book(desk).read_bytes())


@pytest.mark.parametrize("place", [0, 12, 200])
def test_a_damaged_imprint_is_reported_as_not_compared(
    desk: Desk, tmp_path: Path, place: int
) -> None:
    """If the stored imprint is damaged, Summary and other sheets are reported as not compared.

    The rest of the workbook is compared with the result.
    """
    root = Path(shutil.copytree(desk.folder.root, tmp_path / "copy"))
    copy = Record(root)
    for row in copy.select("select identity from imprints"):
        content = bytearray(copy.imprint(row["identity"]) or b"")
        content[place] ^= 0xFF
        copy.add_imprint(row["identity"], bytes(content))
    checked = service.verify(root, _book(desk))
    assert checked.is_whole
    assert any("Summary and other sheets were not compared" in w for w in checked.uncompared)


def _forged(
    sheets: Mapping[str, SheetImprint],
) -> Iterator[tuple[str, int, int, dict[str, SheetImprint]]]:
    """Yield each cell's sheet, row and column, and the sheets with only this cell changed."""
    for name, sheet in sheets.items():
        for number, row in enumerate(sheet.rows):
            for place, cell in enumerate(row):
                rows = [list(line) for line in sheet.rows]
                rows[number][place] = f"{cell}9" if cell else "forged"
                yield name, number, place, {**sheets, name: replace(sheet, rows=rows)}


def _is_of_people(name: str, sheet: SheetImprint, number: int, place: int) -> bool:
    row = sheet.rows[number]
    if name == "Summary":
        return row[0] in ("Preparedby", "Reviewedby") and place in (1, 2)
    return name == "Breaks" and row[0].startswith("B-") and sheet.rows[1][place] in YELLOW


@pytest.mark.torture
def test_every_forged_cell_is_reported(sheets: Mapping[str, SheetImprint]) -> None:
    """Every cell of every sheet is compared, even an empty one, except the cells for people."""
    assert not list(compare_sheets(sheets, sheets))
    unseen, forged = [], 0
    for name, number, place, given in _forged(sheets):
        found = list(compare_sheets(sheets, given))
        forged += 1
        assert all(words.startswith(f"{name}") or name == "Breaks" for words in found), found
        if not found and not _is_of_people(name, sheets[name], number, place):
            unseen.append((name, number, place))
    assert forged > 500
    assert not unseen


FORGERIES = (
    ("Summary", "open breaks", '=0&" open breaks (0 in total)"', "open breaks"),
    ("Summary", "open breaks", "0 open breaks (2 in total)", "open breaks"),
    ("Summary", "Rejected", 7, "Rejected: column B was '1' and is now '7'"),
    ("Summary", "Open", 0, "Open"),
    ("Summary", "ETH", 0, "ETH"),
    ("Summary", "Book", "20261121T021500Z", "Book"),
    ("Breaks", "B-", 7, "B-"),
    ("Breaks", "Breaks as of", "Breaks of nobody", "Breaks as of"),
    ("Resolved", "B-", "Amount same", "B-"),
    ("Tie-out", "asset", 7, "asset"),
    ("Tie-out", "ledger.csv", 9, "ledger.csv"),
    ("Roll-forward", "ETH", "7", "ETH"),
    ("Notices", "high", "all is well", "high"),
    ("Mapping", "asset", "DOGE", "asset"),
    ("Evidence", "book", "another", "book"),
    ("Help", "Breaks are", "Nothing is a break", "Breaks are"),
    ("All positions", "Portfolio p1", 7, "Portfolio p1"),
)


def _changed(book: Any, sheet: str, label: str, value: object) -> None:
    """Write a value into a cell of the first row with this label.

    An integer replaces the first number or formula. A text replaces the second cell or the label.
    """
    row = next(
        row
        for row in book[sheet].iter_rows()
        if label in str(row[0].value) and (label != "ETH" or len(row) > 1)
    )
    numbers = [cell for cell in row[1:] if isinstance(cell.value, int | float)]
    live = [cell for cell in row[1:] if str(cell.value).startswith("=")]
    others = [row[1]] if len(row) > 1 and row[1].value is not None else [row[0]]
    chosen = numbers if isinstance(value, int) else [row[0]] if "open" in label else others
    (chosen or live or others)[0].value = value


def _verified(desk: Desk, book: Any) -> VerifyResult:
    book.save(desk.home / "copy.xlsx")
    return service.verify(desk.folder.root, desk.home / "copy.xlsx")


@pytest.mark.parametrize(("sheet", "label", "value", "words"), some_daily(FORGERIES, 4))
def test_a_forged_sheet_is_reported(
    desk: Desk, sheet: str, label: str, value: object, words: str
) -> None:
    """A changed number, total, banner, formula or text on any sheet is reported."""
    book = openpyxl.load_workbook(_book(desk))
    _changed(book, sheet, label, value)
    found = _verified(desk, book)
    assert not found.is_whole
    assert any(words in told for told in found.differences), found.differences
    assert len(found.differences) <= 2, found.differences


def test_entries_of_people_are_not_differences(desk: Desk, tmp_path: Path) -> None:
    """Entries of people, their own columns and sheets, and a renamed sheet are not differences.

    A person's own sheet is reported as not compared.
    """
    break_id = str(desk.breaks()[0]["id"])
    said = {"Status": ACCEPTED, "Owner": "Ada", "Comment": "=1+1", "Root cause": "Fee"}
    edited = desk.edit(_book(desk), {break_id: said}, tmp_path / "mine.xlsx")
    book = openpyxl.load_workbook(edited)
    book["Breaks"].cell(2, 40, "My column")
    book["Breaks"].cell(3, 40, "mine")
    book.create_sheet("My notes").append(["all is well"])
    book["Summary"].title = "First page"
    book.save(edited)
    found = service.verify(desk.folder.root, edited)
    assert found.differences == ()
    assert found.uncompared == ("the 'My notes' sheet was not written by the run",)


@pytest.mark.torture
@pytest.mark.skipif(OFFICE is None, reason="LibreOffice is not installed")
@pytest.mark.parametrize("ending", ["xlsx", "ods"])
def test_a_recalculated_banner_is_not_a_difference(desk: Desk, tmp_path: Path, ending: str) -> None:
    """A banner that LibreOffice recalculated after a break was accepted is not a difference."""
    break_id = str(next(one["id"] for one in desk.breaks() if one["status"] == "Open"))
    edited = desk.edit(_book(desk), {break_id: {"Status": ACCEPTED}}, tmp_path / "mine.xlsx")
    command = [OFFICE or "", f"-env:UserInstallation=file://{tmp_path}/profile", "--headless"]
    command += ["--convert-to", ending, "--outdir", str(tmp_path / "saved"), str(edited)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    saved = tmp_path / "saved" / f"mine.{ending}"
    banner = imprint.read(saved.read_bytes())["Summary"]
    opened = len(desk.breaks()) - 1
    assert any(f"{opened}openbreak" in row[0].casefold() for row in banner.rows)
    assert service.verify(desk.folder.root, saved).differences == ()


def test_an_accepted_break_lowers_the_count_in_the_banner() -> None:
    """An accepted break lowers the count. The number of compared positions stays in the text."""
    banner = ("2openbreaks(2intotal);3of9positionscompared", "")
    breaks = [("Explained - accepted", 1), ("Open", 1)]
    assert sheet_comparison._recount(banner, breaks) == (
        "1openbreak(2intotal);3of9positionscompared",
        "",
    )
