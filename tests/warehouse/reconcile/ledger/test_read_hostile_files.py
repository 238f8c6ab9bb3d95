"""Tests of files that are damaged or built to break their reader: cases 36, 38 and 40."""

import io
import shutil
import struct
import subprocess
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import openpyxl
import pytest
import xlsxwriter

from tests.support.books import Amount
from tests.support.reconciliation_home import HEAD, Desk
from tests.warehouse.reconcile.ledger.test_read_formats import archive
from warehouse.isolation import (
    ChildKilled,
    ChildLimits,
    ChildNotStarted,
    ChildStopped,
    ChildTimedOut,
)
from warehouse.reconcile import service
from warehouse.reconcile.ledger.titles import count_fields
from warehouse.reconcile.model import Ledger
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.terms import NotReconciled
from warehouse.spreadsheet.reading import workbook
from warehouse.spreadsheet.reading.files import UnreadableSpreadsheet
from warehouse.spreadsheet.reading.grid import open_file

pytestmark = pytest.mark.isolated
Write = Callable[..., Path]
Read = Callable[..., Ledger]
OFFICE = shutil.which("soffice")
SHEET = "xl/worksheets/sheet1.xml"
TITLES = zip("ABC", ("asset", "account", "amount"), strict=True)
CELLS = [f'<c r="{place}1" t="str"><v>{title}</v></c>' for place, title in TITLES]
HEADER = f'<row r="1">{"".join(CELLS)}</row>'
ROW = '<row r="2"><c r="A2" t="str"><v>BTC</v></c><c r="C2" t="str"><v>10</v></c></row>'


def sheet(rows: str, size: str = "A1:C2") -> bytes:
    """Return a workbook of one sheet with these rows, given as XML."""
    made, changed = io.BytesIO(), io.BytesIO()
    book = xlsxwriter.Workbook(made)
    book.add_worksheet().write_string(0, 0, "asset")
    book.close()
    xml = (
        '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
        f'<dimension ref="{size}"/><sheetData>{rows}</sheetData></worksheet>'
    )
    with zipfile.ZipFile(made) as old, zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            new.writestr(info.filename, xml if info.filename == SHEET else old.read(info))
    return changed.getvalue()


def table(rows: str) -> bytes:
    """Return an OpenDocument workbook of one table with these rows."""
    content = (
        '<office:document-content xmlns:office="o" xmlns:table="t" xmlns:text="x" '
        'xmlns:calcext="c"><office:body><office:spreadsheet><table:table table:name="S">'
        f"{rows}</table:table></office:spreadsheet></office:body></office:document-content>"
    )
    return archive(
        {
            "mimetype": b"application/vnd.oasis.opendocument.spreadsheet",
            "META-INF/manifest.xml": b"<manifest/>",
            "content.xml": content.encode(),
        }
    )


def open_row(cells: str, times: int = 1) -> str:
    """Return an OpenDocument row that is repeated."""
    return f'<table:table-row table:number-rows-repeated="{times}">{cells}</table:table-row>'


def nothing(times: int) -> str:
    """Return an empty OpenDocument cell that is repeated."""
    return f'<table:table-cell table:number-columns-repeated="{times}"/>'


def filled(times: int) -> str:
    """Return an OpenDocument cell with content that is repeated."""
    repeated = f' table:number-columns-repeated="{times}"'
    value = 'office:value-type="string" '
    return f"<table:table-cell {value}{repeated}><text:p>1</text:p></table:table-cell>"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Create a home whose book has one account."""
    made = Desk(tmp_path)
    made.publish([Amount("10")])
    made.folder.make()
    return made


# The sheet exceeds the cell limit, the child process ends, or the reader itself fails.
TOO_WIDE = "(.*spans more cells than|.*it has too many cells|is not a complete spreadsheet)"
FAR = "<v>1</v></c>"
WIDE = {
    "far corner": sheet(f'{HEADER}{ROW}<row r="1048576"><c r="XFD1048576">{FAR}</row>'),
    "corner alone": sheet(f'<row r="1048576"><c r="XFD1048576">{FAR}</row>'),
    "far below": sheet(f'{HEADER}<row r="1"><c r="A4000000000">{FAR}</row>'),
    "another order": sheet(f"{HEADER}<row r='1048576'><c s=\">\"\n r = 'xfd1048576'>{FAR}</row>"),
    "no places": sheet(f'<row>{f"<c>{FAR}" * 99}</row><row r="1048576"><c>{FAR}</row>'),
    "prefixed": sheet(f'{HEADER}<row><a-b:c r="XFD1048576"><v>1</v></a-b:c></row>'),
    "long": sheet(
        HEADER
        + "".join(f'<row r="{n}"><c r="A{n}">{FAR}</row>' for n in range(2, 140_000))
        + f'<row r="1048576"><c r="BZ1048576">{FAR}</row>'
    ),
    "open, right and below": table(
        open_row(filled(1)) + open_row(nothing(1), 1_000_000) + open_row(nothing(9_999) + filled(1))
    ),
    "open, repeated": table(open_row(filled(1)) + open_row(filled(99), 1_000_000)),
}


@pytest.mark.torture
@pytest.mark.parametrize("content", WIDE.values(), ids=WIDE.keys())
def test_case_40_a_sheet_with_a_cell_far_away_is_refused(desk: Desk, content: bytes) -> None:
    """A cell far away is refused, and if it needs too much memory, only the child process ends.

    A reader needs memory for the whole rectangle up to this cell.
    """
    ending = "ods" if b"opendocument" in content[:200] else "xlsx"
    (desk.folder.inbox / f"ledger.{ending}").write_bytes(content)
    with pytest.raises(NotReconciled, match=rf"^ledger.{ending} {TOO_WIDE}") as told:
        desk.run()
    assert told.value.exit_code == 2
    assert str(told.value).endswith("Nothing was reconciled.")


@pytest.mark.parametrize(
    "content",
    [
        sheet(f'{HEADER}{ROW}<row r="1048576"><c r="XFD1048576" s="0"/></row>'),
        sheet(f"{HEADER}{ROW}", size="A1:XFD1048576"),
    ],
    ids=["formatted", "stated"],
)
def test_case_40_a_sheet_with_formatted_empty_cells_is_read(
    write: Write, read: Read, content: bytes
) -> None:
    """A sheet that is only formatted to its last cell, or declares this size, is read as usual."""
    ledger = read(write(content, "ledger.xlsx"))
    assert [line.amount.text for line in ledger.lines] == ["10"]


def test_case_40_empty_open_document_cells_do_not_count(desk: Desk) -> None:
    """Empty cells that OpenDocument repeats to the end of a sheet do not count towards its size."""
    rows = open_row(filled(1) + nothing(16_383)) + open_row(nothing(16_384), 1_048_575)
    (desk.folder.inbox / "other.ods").write_bytes(table(rows))
    with pytest.raises(NotReconciled, match=r"other\.ods does not contain a table"):
        desk.run()


def test_case_40_a_run_does_not_unpack_a_zip_bomb(desk: Desk) -> None:
    """A run looks for comments before it reads ledgers, and neither step unpacks a ZIP bomb."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(SHEET, b"run_id" + b"\0" * 110 * 1024**2)
    (desk.folder.inbox / "ledger.xlsx").write_bytes(made.getvalue())
    with pytest.raises(
        NotReconciled, match=r"^ledger\.xlsx is larger when unpacked than the size limit"
    ):
        desk.run()


def test_foreign_files_in_the_out_folder_do_not_stop_a_run(desk: Desk) -> None:
    """Foreign files in the `out` folder do not stop a run, even if they are bombs or too wide."""
    desk.put(HEAD + "p1;BTC;v1;main;10\n")
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(SHEET, b"\0" * 110 * 1024**2)
    (desk.folder.out / "other.xlsx").write_bytes(made.getvalue())
    (desk.folder.out / "wide.xlsx").write_bytes(WIDE["far corner"])
    assert desk.run().exit_code == 0


def test_our_workbook_with_a_cell_far_away_is_refused_by_name(desk: Desk) -> None:
    """If one of our workbooks has a cell far away, the run and `verify` refuse it by name.

    Otherwise, its comments would be lost silently.
    """
    desk.put(HEAD + "p1;BTC;v1;main;11\n")
    path = desk.run().files[0]
    book = openpyxl.load_workbook(path)
    book["Breaks"]["XFD1048576"] = "x"
    book.save(path)
    with pytest.raises(NotReconciled, match=f"^{path.name} .*(spans more|too many) cells"):
        desk.run()
    with pytest.raises(NotReconciled, match=f"^{path.name} .*(spans more|too many) cells"):
        service.verify(desk.folder.root, path)


def test_a_crashed_reader_is_reported_with_the_file_name(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the child process ends without a result, the error names the ledger or edited workbook."""
    text = desk.put(HEAD + "p1;BTC;v1;main;11\n")
    path = desk.run().files[0]
    text.unlink()
    desk.edit(path, {}, desk.folder.inbox / "edited.xlsx")
    monkeypatch.setattr(workbook, "LIMITS", ChildLimits(seconds=0.01, memory_bytes=1024**3))
    with pytest.raises(NotReconciled, match=r"^edited\.xlsx could not be read") as told:
        desk.run()
    assert told.value.exit_code == 2
    (desk.folder.inbox / "edited.xlsx").unlink()
    path.unlink()
    (desk.folder.inbox / "ledger.xlsx").write_bytes(sheet(HEADER + ROW))
    with pytest.raises(NotReconciled, match=r"^ledger\.xlsx could not be read"):
        desk.run()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (ChildNotStarted, r"process that reads files could not start \(No module\)"),
        (ChildKilled, "process that reads files was killed"),
        (ChildTimedOut, "could not be read within 600 seconds"),
        (ChildStopped, "has too many cells"),
    ],
)
def test_the_reason_why_a_file_was_not_read_is_the_real_one(
    monkeypatch: pytest.MonkeyPatch, kind: type[ChildStopped], words: str
) -> None:
    """Only a reader that crashed leads to the message about too many cells."""

    def stop(*_: object) -> bytes:
        raise kind("No module")

    monkeypatch.setattr(workbook, "run_in_child", stop)
    with pytest.raises(UnreadableSpreadsheet, match=words):
        workbook.read_workbook(Path("ledger.xlsx"), b"")


def damaged(kind: str) -> bytes:
    """Return a workbook whose sheet cannot be unpacked, with this kind of damage."""
    content = bytearray(sheet(HEADER + ROW))
    with zipfile.ZipFile(io.BytesIO(content)) as names:
        info = names.getinfo(SHEET)
    begin = info.header_offset + 30 + len(SHEET)
    listed = content.rindex(SHEET.encode()) - 46
    if kind == "stream":
        content[begin : begin + 4] = b"\xff" * 4
        return bytes(content)
    if kind == "place":
        end = content.rindex(b"PK\x05\x06")
        content[end + 16 : end + 20] = b"\x00\x00\x00\x70"
        return bytes(content)
    content[listed + 20 : listed + 24] = struct.pack("<I", len(content))
    content[begin : begin + info.compress_size] = zipfile_stored(info.compress_size)
    return bytes(content)


def zipfile_stored(size: int) -> bytes:
    """Return the beginning of a deflate block that is longer than any file here."""
    return (b"\x00\xff\xff\x00\x00" + b" " * size)[:size]


@pytest.mark.torture
@pytest.mark.parametrize("kind", ["stream", "end", "place"])
def test_case_38_a_run_names_a_damaged_workbook(desk: Desk, kind: str) -> None:
    """The run names a workbook with a damaged stream, a short stream or no list of parts."""
    (desk.folder.inbox / "ledger.xlsx").write_bytes(damaged(kind))
    with pytest.raises(NotReconciled, match=r"^ledger\.xlsx is not a complete spreadsheet") as told:
        desk.run()
    assert told.value.exit_code == 2


def test_a_folder_or_broken_link_does_not_stop_a_run(desk: Desk) -> None:
    """A folder or a broken link with the name of a workbook does not stop a run."""
    desk.put(HEAD + "p1;BTC;v1;main;10\n")
    (desk.folder.inbox / "old.xlsx").mkdir()
    (desk.folder.inbox / "l.xlsx").symlink_to("nowhere.xlsx")
    assert desk.run().exit_code == 0


@pytest.mark.parametrize("value", ["<v></v>", "<v/>"])
def test_case_36_a_formula_result_may_be_an_empty_text(
    write: Write, read: Read, value: str
) -> None:
    """The result of a formula may be an empty text, as programs write it: the account is blank."""
    empty = f't="str"><f>IF(TRUE,"","x")</f>{value}</c>'
    rows = f"{ROW.replace('<c r=', f'<c r={chr(34)}B2{chr(34)} {empty}<c r=', 1)}"
    path = write(sheet(HEADER + rows), "ledger.xlsx")
    ledger = read(path)
    assert [(line.names[3], line.amount.text) for line in ledger.lines] == [("", "10")]


@pytest.mark.parametrize("cell", ["><f>1+1</f><v></v>", ' t="str"><f>1+1</f>', "><f>1+1</f>"])
def test_case_36_an_uncalculated_formula_is_not_a_blank_cell(
    write: Write, read: Read, cell: str
) -> None:
    """A missing value, or an empty value that is not a text, is not treated as a blank cell."""
    rows = f'<row r="2"><c r="A2" t="str"><v>BTC</v></c><c r="C2"{cell}</c></row>'
    ledger = read(write(sheet(HEADER + rows), "ledger.xlsx"), config=Config(blank="skip"))
    assert "formula without a value" in ledger.rejected[0].reason


@pytest.mark.skipif(OFFICE is None, reason="LibreOffice is not installed")
def test_case_36_empty_texts_from_libreoffice_are_blank(
    write: Write, read: Read, tmp_path: Path
) -> None:
    """LibreOffice calculates empty texts: the account is blank, and a blank amount is skipped."""
    empty = '=IF(1=1,"","x")'
    path = write([["asset", "account", "amount"], ["BTC", empty, 1], ["ETH", "a", empty]])
    profile = f"-env:UserInstallation=file://{tmp_path}/profile"
    command = [OFFICE or "", profile, "--headless", "--convert-to", "xlsx", "--outdir", "saved"]
    subprocess.run(
        [*command, path.name], cwd=tmp_path, check=True, capture_output=True, timeout=120
    )
    ledger = read(tmp_path / "saved" / path.name, config=Config(blank="skip"))
    assert [(line.names[1], line.names[3]) for line in ledger.lines] == [("BTC", "")]
    assert not ledger.rejected
    assert dict(ledger.sources[0].skipped) == {"blank amount": 1}


@pytest.mark.parametrize(
    "line",
    [
        b"-" * 60_000 + b"x",
        b"page 1" + b" " * 60_000 + b"x",
        b"a" * 60_000 + b" \xff",
        b"[" * 60_000,
        b"a" + b"\t" * 60_000 + b"b",
    ],
    ids=["rule", "page line", "one word", "brackets", "blanks"],
)
def test_a_long_line_is_read_in_less_than_a_second(tmp_path: Path, line: bytes) -> None:
    """A line of 60,000 characters is read in less than a second of CPU time.

    A pattern that searches the line again from each of its characters would take minutes.
    """
    path = tmp_path / "ledger.txt"
    path.write_bytes(b"asset   amount\nBTC     10\n" + line + b"\n")
    began = time.process_time()
    open_file(path, count_fields)
    assert time.process_time() - began < 1
