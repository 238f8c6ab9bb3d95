"""Tests of the printed workbook, measured on the pages that LibreOffice makes of it."""

import re
import shutil
import subprocess
from pathlib import Path

import openpyxl
import pytest

from assets.cli import main
from tests.support.books import Amount
from tests.support.demo import nightbook_of, take_demo
from tests.support.reconciliation_home import HEAD, Desk

TOOLS = ("soffice", "pdftohtml")
MAX_PAGES, SMALLEST = 14, 8
_ZOOM = 3  # because pdftohtml gives sizes in whole points of the zoomed page
_FONT = re.compile(r'<fontspec id="([0-9]+)" size="([0-9]+)"')
_TEXT = re.compile(r'<text [^>]*font="([0-9]+)"')


@pytest.mark.torture
@pytest.mark.skipif(any(shutil.which(tool) is None for tool in TOOLS), reason=f"needs {TOOLS}")
def test_a_large_workbook_prints_on_few_legible_pages(tmp_path: Path) -> None:
    """The demo's workbook has at most 14 pages, and text on Breaks has at least 8 points."""
    home = tmp_path / "data"
    take_demo(home)
    assert main(("reconcile", "run"), nightbook_of(home)) == 3
    (book,) = (home / "reconcile" / "out").glob("*/recon_*.xlsx")
    profile = f"-env:UserInstallation=file://{tmp_path}/profile"
    command = ["soffice", profile, "--headless", "--convert-to", "pdf", "--outdir", str(tmp_path)]
    subprocess.run([*command, str(book)], check=True, capture_output=True, timeout=180)
    paper = tmp_path / f"{book.stem}.pdf"
    command = ["pdftohtml", "-xml", "-i", "-zoom", str(_ZOOM), "-stdout", str(paper)]
    pages = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    sizes = {font: int(size) for font, size in _FONT.findall(pages)}
    each = pages.split("<page ")[1:]
    assert len(each) <= MAX_PAGES
    (breaks,) = [page for page in each if re.search(r"run [0-9a-f-]+, Breaks<", page)]
    fonts = _TEXT.findall(breaks)
    assert len(fonts) > 50
    assert min(sizes[font] for font in fonts) >= _ZOOM * SMALLEST


def test_a_hidden_sheet_is_not_printed(tmp_path: Path) -> None:
    """A hidden sheet has no print area, because LibreOffice prints hidden sheets that have one."""
    desk = Desk(tmp_path)
    desk.publish([Amount("10")])
    desk.put(f"{HEAD}p1;BTC;v1;main;10\n")
    sheets = openpyxl.load_workbook(desk.run().files[0]).worksheets
    printed = {(sheet.sheet_state, bool(sheet.print_area)) for sheet in sheets}
    assert printed == {("visible", True), ("hidden", False)}
