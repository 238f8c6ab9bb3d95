"""Tests of the workbook: correct formulas, no formulas from data, and complete data."""

import csv
import math
import re
import shutil
import subprocess
import zipfile
from decimal import Decimal
from pathlib import Path

import openpyxl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl.utils import column_index_from_string, range_boundaries

from tests.support.books import Amount
from tests.support.reconciliation_home import HEAD, Desk
from tests.support.shared import tries
from warehouse.reconcile.workbook import write
from warehouse.spreadsheet.writing.cells import can_be_live, difference, fixed_point

OFFICE = shutil.which("soffice")
ALWAYS = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry">
<item oor:path="/org.openoffice.Office.Calc/Formula/Load">
<prop oor:name="OOXMLRecalcMode" oor:op="fuse"><value>0</value></prop></item>
</oor:items>
"""
HOSTILE = [
    "=1+1",
    "=cmd|'/c calc'!A0",
    "@SUM(1)",
    "+1",
    "-1",
    "\t=1",
    'a"b',
    "x" * 300,
    "a\x01b",
    "<r><t>1</r>",
]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Create a home with breaks of all kinds, tiny and huge amounts, and hostile names."""
    made = Desk(tmp_path)
    rows = [
        Amount("1523.123456789012345678"),
        Amount("589000000000000.12", asset="SHIB"),
        Amount("5.000000000000000000", asset="ETH"),
        Amount("123456789012345678901234.5", asset="HUGE"),
        Amount("7", asset="SOL"),
        *(Amount(str(n + 1), asset="DOT", account=name) for n, name in enumerate(HOSTILE)),
    ]
    made.publish(rows)
    made.put(
        HEAD
        + "p1;BTC;v1;main;1523.123456789012345679\np1;SHIB;v1;main;589000000000000.15\n"
        + "p1;ETH;v1;main;4.999999999999999999\np1;HUGE;v1;main;1\n"
        + "p1;SOL;v1;main;7.0\np1;XBT;v1;=2+2;-3\np1;DOT;v1;main;TBC\n"
    )
    return made


def recalculated(book: Path, place: Path) -> Path:
    """Recalculate every formula of a workbook in LibreOffice, and return the new file's path."""
    user = place / "profile" / "user"
    user.mkdir(parents=True)
    (user / "registrymodifications.xcu").write_text(ALWAYS, encoding="utf-8")
    command = [OFFICE or "", f"-env:UserInstallation=file://{place}/profile", "--headless"]
    command += ["--convert-to", "xlsx", "--outdir", str(place), str(book)]
    subprocess.run(command, check=True, capture_output=True, timeout=180)
    return place / book.name


@pytest.mark.torture
@pytest.mark.skipif(OFFICE is None, reason="LibreOffice is not installed")
def test_cached_values_equal_the_results_of_their_formulas(desk: Desk, tmp_path: Path) -> None:
    """Every cached value equals the result of its formula, and no cell has an error."""
    book = desk.run().files[0]
    ours = openpyxl.load_workbook(book, data_only=True)
    theirs = openpyxl.load_workbook(recalculated(book, tmp_path / "office"), data_only=True)
    formulas = openpyxl.load_workbook(book)
    compared = 0
    for sheet in formulas:
        for row in sheet.iter_rows():
            for cell in row:
                if cell.data_type != "f":
                    continue
                one = ours[sheet.title][cell.coordinate].value
                other = theirs[sheet.title][cell.coordinate].value
                where = f"{sheet.title}!{cell.coordinate} {cell.value}"
                if isinstance(one, int | float):
                    assert math.isclose(one, other, rel_tol=1e-11, abs_tol=1e-30), where
                else:
                    assert (one or "") == (other or ""), where
                compared += 1
    assert compared > 50
    texts = [str(cell.value) for sheet in theirs for row in sheet.iter_rows() for cell in row]
    assert not [text for text in texts if re.match(r"#|Err:", text)]


def test_only_our_formula_columns_contain_formulas(desk: Desk) -> None:
    """Only nightbook's own formula columns contain formulas, and hostile names are text.

    The workbook has no links and no macros.
    """
    book = desk.run().files[0]
    made = openpyxl.load_workbook(book)
    where: dict[str, set[str]] = {}
    for sheet in made:
        for row in sheet.iter_rows():
            for cell in row:
                if cell.data_type == "f":
                    where.setdefault(sheet.title, set()).add(cell.column_letter)
    assert where == {
        "Summary": {"A", "B", "C", "D", "E", "F"},
        "Breaks": {"J", "K", "V"},
        "Tie-out": {"H"},
    }
    names = {cell.value for cell in made["All positions"]["D"]}
    spoken = {name for name in HOSTILE if "\x01" not in name}
    assert spoken | {"=2+2"} <= names
    assert spoken <= {cell.value for cell in made["Breaks"]["F"]}
    with zipfile.ZipFile(book) as parts:
        assert not [name for name in parts.namelist() if "vba" in name or "external" in name]
        assert b"hyperlink" not in b"".join(
            parts.read(name) for name in parts.namelist() if name.startswith("xl/worksheets/sheet")
        )


def test_every_key_and_every_digit_is_in_the_workbook(desk: Desk) -> None:
    """All positions has each key once, with all digits of its amount as text."""
    found = desk.run()
    sheet = openpyxl.load_workbook(found.files[0])["All positions"]
    rows = list(sheet.iter_rows(min_row=2, values_only=True))
    assert len(rows) == sum(found.counts.values())
    titles = [cell.value for cell in sheet[1]]
    exact = {row[1]: row[titles.index("Book, exact")] for row in rows}
    assert exact["BTC"] == "1523.123456789012345678"
    assert exact["HUGE"] == "123456789012345678901234.5"
    breaks = {row[titles.index("Break ID")] for row in rows} - {None}
    assert breaks == {str(one["id"]) for one in desk.breaks()}


def test_a_difference_too_small_for_a_number_is_shown(desk: Desk) -> None:
    """A difference too small for a number of this size is shown: 0.03 SHIB of 589e12."""
    book = openpyxl.load_workbook(desk.run().files[0], data_only=True)
    rows = {row[3]: row for row in book["Breaks"].iter_rows(min_row=3, values_only=True)}
    assert rows["SHIB"][9] == pytest.approx(0.03, rel=1e-12)
    assert rows["BTC"][9] == pytest.approx(1e-18, rel=1e-12)
    assert rows["ETH"][9] == pytest.approx(-1e-18, rel=1e-12)
    assert rows["SHIB"][21] == "no"
    # A formula is not exact for so many digits, so the cell contains the number itself.
    assert rows["HUGE"][9] == pytest.approx(-1.2345678901234568e23)


def test_the_printed_columns_of_a_sheet_are_its_first_columns(desk: Desk) -> None:
    """The printed columns of a sheet are to the left of all other columns.

    A printed column to the right of an unprinted one would be cut off.
    """
    unprinted = 0
    for sheet in openpyxl.load_workbook(desk.run().files[0]):
        columns = sheet.column_dimensions.items()
        outlined = [
            column_index_from_string(name) for name, column in columns if column.outline_level
        ]
        unprinted += len(outlined)
        last = range_boundaries(sheet.print_area.replace("$", "").rpartition("!")[2])[2] or 0
        assert last < min(outlined, default=last + 1), sheet.title
    assert unprinted > 5


@pytest.mark.torture
def test_no_range_name_is_defined_twice(desk: Desk) -> None:
    """No two ranges have the same name.

    Excel would repair such a file, and LibreOffice would keep only one of the ranges.
    """
    with zipfile.ZipFile(desk.run().files[0]) as archive:
        text = archive.read("xl/workbook.xml").decode()
    names = re.findall(r'<definedName name="([^"]+)"(?! localSheetId)', text)
    assert {"all_positions_ledger", "all_positions_ledger_text", "as_of"} <= set(names)
    assert len(names) == len(set(names))


def test_the_same_inputs_give_an_identical_workbook(desk: Desk, tmp_path: Path) -> None:
    """A different home with the same book and ledger writes an identical workbook."""
    one = desk.run().files[0].read_bytes()
    other = Desk(tmp_path / "other", nights=desk.nights[:-1])
    other.again(desk.nights[-1])
    other.put((desk.folder.inbox / "ledger.csv").read_text("utf-8"))
    assert other.run().files[0].read_bytes() == one


def test_totals_agree_for_every_asset(desk: Desk) -> None:
    """Totals agree for every asset, all rows are counted, and a sheet without rows says so."""
    book = openpyxl.load_workbook(desk.run().files[0], data_only=True)
    assert [sheet.title for sheet in book if sheet.max_row == 2] == [
        sheet.title for sheet in book if str(sheet["A1"].value).endswith((": none", "anything yet"))
    ]
    assert str(book["Resolved"]["A1"].value) == (
        "Breaks resolved since the previous run, as of 2026-11-20: none"
    )
    rows = list(book["Tie-out"].iter_rows(min_row=3, values_only=True))
    assert {row[9] for row in rows if row[0] in ("asset", "venue", "portfolio")} == {"yes"}
    (counted,) = [row for row in rows if row[0] == "ledger.csv"]
    assert counted[3:8] == (7, 6, 0, 1, "yes")
    rolled = list(book["Roll-forward"].iter_rows(min_row=3, values_only=True))
    assert {row[10] for row in rolled} == {"not checked"}


def test_a_long_table_continues_on_more_sheets(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that is too long for one sheet continues on more sheets and is complete."""
    monkeypatch.setattr(write.write, "__kwdefaults__", {"rows_per_sheet": 4})
    found = desk.run()
    book = openpyxl.load_workbook(found.files[0])
    parts = [sheet for sheet in book if sheet.title.startswith("All positions")]
    assert sum(sheet.max_row - 1 for sheet in parts) == sum(found.counts.values())
    assert len(parts) == -(-sum(found.counts.values()) // 4)


def test_the_csv_file_contains_every_text_unchanged(desk: Desk) -> None:
    """The CSV file of breaks contains every name and difference unchanged."""
    found = desk.run()
    with found.files[1].open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["account"] for row in rows} >= set(HOSTILE)
    assert {row["break_id"]: row["difference"] for row in rows} == {
        one["id"]: one["difference"] for one in desk.breaks()
    }


amounts = st.decimals(
    min_value=Decimal(-(10**15)) + 1, max_value=Decimal(10**15) - 1, places=18, allow_nan=False
)


@given(amounts, amounts)
@settings(max_examples=tries(40, 3000))
def test_the_difference_formula_is_exact_enough(one: Decimal, other: Decimal) -> None:
    """Calculated with doubles, as in a spreadsheet, the formula is exact to 4e-15."""
    ours, theirs = fixed_point(format(one, "f")), fixed_point(format(other, "f"))
    assert can_be_live(ours, theirs)
    python = difference("a", "b").removeprefix("=")
    python = re.sub(r'IF\(LEFT\((\w)\)="-",-1,1\)', r"(-1.0 if \1[0]=='-' else 1.0)", python)
    python = re.sub(r"VALUE\(LEFT\((\w),LEN\(\w\)-19\)\)", r"float(\1[:-19])", python)
    python = re.sub(r"VALUE\(MID\((\w),LEN\(\w\)-17,9\)\)", r"float(\1[-18:-9])", python)
    python = re.sub(r"VALUE\(RIGHT\((\w),9\)\)", r"float(\1[-9:])", python)
    found = eval(python, {"a": ours, "b": theirs})  # noqa: S307 - our own formula
    assert math.isclose(found, float(one - other), rel_tol=4e-15, abs_tol=1e-30)


def test_a_name_too_long_for_a_cell_is_complete_in_the_csv(tmp_path: Path) -> None:
    """A name too long for a cell is shortened, with a digest. The CSV file has the whole name."""
    long = "=cmd|'/c calc'!A0" + "x" * 32_751
    made = Desk(tmp_path)
    made.publish([Amount("1", account=long), Amount("2", account=long + "y")])
    made.put(HEAD + f"p1;BTC;v1;{long};1\n")
    done = made.run()
    assert (done.counts["Matched"], done.counts["Not in ledger"]) == (1, 1)
    sheet = openpyxl.load_workbook(done.files[0])["All positions"]
    cells = [row[3] for row in sheet.iter_rows(min_row=2, values_only=True)]
    assert len(set(cells)) == 2
    assert all(str(cell).startswith("=cmd") and "letters, " in str(cell) for cell in cells)
    assert all(cell.data_type == "s" for cell in sheet["D"])
    csv.field_size_limit(100_000)
    with done.files[1].open(encoding="utf-8", newline="") as file:
        (found,) = csv.DictReader(file)
    assert found["account"] == long + "y"
    assert [one["names"]["account"] for one in made.breaks()] == [long + "y"]


def test_keys_that_are_not_listed_are_in_the_parquet_file(tmp_path: Path) -> None:
    """If there are more keys than `listed`, the sheet Not matched has only those that differ.

    A notice says so, and the Parquet file has all keys.
    """
    made = Desk(tmp_path)
    made.publish([Amount(str(number), asset=f"A{number}") for number in range(1, 10)])
    made.put(HEAD + "".join(f"p1;A{n};v1;main;{n if n != 3 else 4}\n" for n in range(1, 10)))
    made.settle("listed = 8\n")
    done = made.run()
    book = openpyxl.load_workbook(done.files[0])
    assert "All positions" not in book.sheetnames
    assert [row[1].value for row in book["Not matched"].iter_rows(min_row=2)] == ["A3"]
    (told,) = [one.message for one in done.notices if "Not matched" in one.message]
    assert "9 positions" in told
    assert done.files[2].name in told
    rows = pq.read_table(done.files[2]).to_pylist()
    assert [row["asset_id"] for row in rows] == [f"A{number}" for number in range(1, 10)]
    (odd,) = [row for row in rows if row["result"] != "Matched"]
    assert (odd["ledger_text"], odd["snapshot_text"]) == ("4", "3")
    assert odd["break_id"] == made.breaks()[0]["id"]
    made.settle("listed = 9\n")
    assert "All positions" in openpyxl.load_workbook(made.run().files[0]).sheetnames


def test_the_parquet_file_contains_every_key(desk: Desk) -> None:
    """The Parquet file has every key, with custom assets, all names and amounts of any length."""
    found = desk.run()
    rows = pq.read_table(found.files[2]).to_pylist()
    assert len(rows) == sum(found.counts.values())
    broken = {row["break_id"]: row for row in rows if row["break_id"]}
    for one in desk.breaks():
        row = broken.pop(one["id"])
        assert (row["ledger_text"], row["snapshot_text"]) == (one["ledger"], one["snapshot"])
        assert row["result"] == one["result"]
    assert not broken
    assert "123456789012345678901234.5" in {row["snapshot_text"] for row in rows}
    assert not any("\x1f" in row["asset_id"] for row in rows)
