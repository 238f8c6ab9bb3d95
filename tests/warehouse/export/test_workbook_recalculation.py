"""Tests that compare the cached values of the workbook with a recalculation by LibreOffice."""

import shutil
import subprocess
import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from tests.support.books import Amount, night, published
from warehouse.export import workbook
from warehouse.query.book import book
from warehouse.storage.layout import Layout

SOFFICE = shutil.which("soffice")
ALWAYS = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry">
<item oor:path="/org.openoffice.Office.Calc/Formula/Load"><prop oor:name="OOXMLRecalcMode"
 oor:op="fuse"><value>0</value></prop></item>
</oor:items>
"""
AMOUNTS = (
    *(Amount(f"{place}.{place:018d}", account=f"a{place}") for place in range(40)),
    *(Amount(f"0.{place}", asset="eth", account=f"a{place}") for place in range(1, 10)),
    Amount("123456789012345678.5", asset="ETH"),
    Amount("-123456789012345678", asset="ETH", account="short"),
    Amount("1", asset="*"),
    Amount("2", asset="<>eth", custom=True),
    Amount("3", asset="1e5"),
    Amount("4", asset="100000"),
    Amount("9" * 400, asset="=1+1"),
    Amount("5", asset="n\u00e4me & <b>\x07"),
)


def recalculated(path: Path, folder: Path) -> Path:
    """Open, recalculate and save the workbook in LibreOffice, and return the new file."""
    assert SOFFICE is not None
    profile = folder / "profile"
    (profile / "user").mkdir(parents=True)
    (profile / "user" / "registrymodifications.xcu").write_text(ALWAYS)
    out = folder / "out"
    command = [SOFFICE, "--headless", f"-env:UserInstallation={profile.as_uri()}"]
    command += ["--convert-to", "xlsx", "--outdir", str(out), str(path)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return out / path.name


def values(path: Path) -> dict[tuple[str, str], Any]:
    """Return all values of a workbook by sheet and cell, with the cached values of formulas."""
    made = openpyxl.load_workbook(path, data_only=True)
    return {
        (sheet.title, cell.coordinate): cell.value
        for sheet in made
        for row in sheet.iter_rows()
        for cell in row
        if cell.value not in (None, "")
    }


def is_same(ours: Any, theirs: Any) -> bool:
    """Return whether values are equal, or are numbers that differ only by the order of addition."""
    if isinstance(ours, int | float) and isinstance(theirs, int | float):
        return abs(Decimal(ours) - Decimal(theirs)) <= abs(Decimal(ours)) * Decimal("1e-11")
    return bool(ours == theirs)


@pytest.mark.torture
@pytest.mark.skipif(SOFFICE is None, reason="LibreOffice (soffice) is not on this machine")
@pytest.mark.parametrize("rows_per_sheet", [1000, 20], ids=["whole", "split"])
def test_recalculation_changes_no_cell(tmp_path: Path, rows_per_sheet: int) -> None:
    """Recalculation changes no cell, and no cell is an error."""
    layout = Layout(tmp_path)
    published(layout, [night("20261120T021500Z", AMOUNTS)], "a")
    path = tmp_path / "positions.xlsx"
    with book(layout.database, None) as source:
        workbook.write(source, path, program_version="1", rows_per_sheet=rows_per_sheet)
    ours, theirs = values(path), values(recalculated(path, tmp_path))
    different = {
        place: (value, theirs.get(place))
        for place, value in ours.items()
        if not is_same(value, theirs.get(place))
    }
    assert different == {}
    assert not [
        value for value in theirs.values() if str(value).startswith(("#NAME", "#VALUE", "Err:"))
    ]
    with zipfile.ZipFile(path) as archive:
        assert b"SUMPRODUCT" in archive.read("xl/worksheets/sheet1.xml")


@pytest.mark.torture
@pytest.mark.skipif(SOFFICE is None, reason="LibreOffice (soffice) is not on this machine")
def test_the_comparison_finds_a_wrong_cached_value(tmp_path: Path) -> None:
    """The comparison finds a cached value that is off by one."""
    layout = Layout(tmp_path)
    published(layout, [night("20261120T021500Z", [Amount("1"), Amount("2", account="b")])], "a")
    path, wrong = tmp_path / "positions.xlsx", tmp_path / "wrong.xlsx"
    with book(layout.database, None) as source:
        workbook.write(source, path, program_version="1")
    with zipfile.ZipFile(path) as given, zipfile.ZipFile(wrong, "w") as made:
        for name in given.namelist():
            made.writestr(
                name,
                given.read(name)
                .replace(b"<v>3</v></c>", b"<v>4</v></c>")
                .replace(b"<v>3.0</v></c>", b"<v>4.0</v></c>"),
            )
    ours, theirs = values(wrong), values(recalculated(wrong, tmp_path))
    assert [place for place in ours if not is_same(ours[place], theirs.get(place))]
