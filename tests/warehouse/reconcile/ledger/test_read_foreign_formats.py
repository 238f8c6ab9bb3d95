"""Tests of foreign formats that are built to break their reader, or that omit information."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.ledger_samples import ledger_rows, ledger_samples
from tests.warehouse.reconcile.ledger.test_read_hostile_files import table
from warehouse.reconcile.model import Ledger
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.terms import NotReconciled

Write = Callable[..., Path]
Read = Callable[..., Ledger]
SAMPLES = {sample.path.name: sample.path for sample in ledger_samples()}
TITLES = "".join(
    f'<Cell><Data ss:Type="String">{title}</Data></Cell>'
    for title in ("asset", "account", "amount")
)


def flat(rows: str, more: str = "") -> str:
    """Return a SpreadsheetML workbook with these rows below a header."""
    return (
        '<?xml version="1.0"?><Workbook xmlns="urn:schemas-microsoft-com:office:spreadsheet" '
        'xmlns:ss="urn:schemas-microsoft-com:office:spreadsheet"><Worksheet ss:Name="S"><Table>'
        f"<Row>{TITLES}</Row>{rows}</Table>{more}</Worksheet></Workbook>"
    )


def cell(kind: str, text: str, about: str = "") -> str:
    """Return a SpreadsheetML cell."""
    return f'<Cell {about}><Data ss:Type="{kind}">{text}</Data></Cell>'


def open_cell(text: str, about: str = "") -> str:
    """Return an OpenDocument cell."""
    return f"<table:table-cell {about}><text:p>{text}</text:p></table:table-cell>"


def open_rows(*rows: str) -> bytes:
    """Return an OpenDocument workbook with a header, these rows and spaces between elements."""
    titles = "\n ".join(open_cell(title) for title in ("asset", "account", "amount"))
    return table(
        "\n".join(f"<table:table-row>\n {row} </table:table-row>\n" for row in (titles, *rows))
    )


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]>'
FAR = '<Cell ss:Index="16384"><Data ss:Type="Number">1</Data></Cell>'


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("half.fods", "libreoffice.fods", "is not a complete spreadsheet .its XML is malformed"),
        (
            "half.xml",
            "libreoffice-2003.xml",
            "is not a complete spreadsheet .its XML is malformed",
        ),
        ("bomb.xls", flat("").replace("<Workbook", f"{BOMB}<Workbook", 1), "is XML, but not a"),
        ("far.xml", flat(f'<Row ss:Index="1048576">{FAR}</Row>'), "spans more cells than"),
        ("back.xml", flat('<Row ss:Index="1"><Cell/></Row>'), "row numbers are out of order"),
        ("page.xls", "<html><table><tr><td>asset</td></tr></table></html>", "is a web page"),
        ("old.xls", b"\x09\x04\x06\x00\x00\x00\x10\x00" + bytes(600), "older than Excel 95"),
        ("sylk.xls", b"ID;PWXL;N;E\r\n", "is a SYLK file"),
    ],
)
def test_an_unreadable_file_is_refused_with_its_reason(
    write: Write, read: Read, name: str, content: str | bytes, words: str
) -> None:
    """Each of these files is refused with its own reason.

    They are truncated documents, XML entities, a cell that is too far away, rows out of order, and
    files that only have the extension of a spreadsheet.
    """
    if content in SAMPLES:
        content = SAMPLES[str(content)].read_bytes()[:-3000]
    with pytest.raises(NotReconciled, match=rf"^{name} .*{words}"):
        read(write(content, name))


def test_xml_entities_in_an_open_document_are_refused(write: Write, read: Read) -> None:
    """XML entities in an OpenDocument file are detected when it is parsed, not by its beginning."""
    content = SAMPLES["sheetjs.fods"].read_bytes().replace(b"?>", f"?>{BOMB}".encode(), 1)
    with pytest.raises(NotReconciled, match=r"^ledger\.fods .*Save it|save it"):
        read(write(content, "ledger.fods"))


def test_error_cells_of_an_open_document_are_rejected(write: Write, read: Read) -> None:
    """Errors and a formula without a value are rejected, and a note in a cell is not an amount."""
    number = 'office:value-type="float" office:value="{}"'
    path = write(
        open_rows(
            open_cell("BTC") + open_cell("a") + open_cell("1", number.format("1")),
            open_cell("BTC") + open_cell("b") + open_cell("#N/A", number.format("0")),
            open_cell("BTC")
            + open_cell("c")
            + open_cell("#REF!", 'office:value-type="string" office:string-value=""'),
            open_cell("BTC") + open_cell("d") + '<table:table-cell table:formula="of:=1+1"/>',
            open_cell("BTC")
            + open_cell("e")
            + '<table:table-cell office:value-type="float" office:value="5"><office:annotation>'
            "<text:p>6</text:p></office:annotation><text:p>5</text:p></table:table-cell>",
            open_cell("BTC") + open_cell("f") + '<table:table-cell office:value-type="string"/>',
        ),
        "ledger.ods",
    )
    ledger = read(path, config=Config(blank="skip"))
    assert [(line.names[3], line.amount.text) for line in ledger.lines] == [("a", "1"), ("e", "5")]
    assert [row.reason.partition(": ")[2] for row in ledger.rejected] == [
        "#N/A",
        "#REF!",
        "a formula without a value: open the file in a spreadsheet program, and save it",
    ]
    assert dict(ledger.sources[0].skipped) == {"blank amount": 1}


def test_spreadsheet_ml_merged_and_error_cells_are_recognised(write: Write, read: Read) -> None:
    """A cell that is merged down counts for the rows below it, as in other formats.

    Hidden sheets and rows give a notice, and error cells are rejected.
    """
    rows = (
        f"<Row>{cell('String', 'BTC', 'ss:MergeDown=' + chr(34) + '1' + chr(34))}"
        f"{cell('String', 'a')}{cell('Number', '1.5')}</Row>"
        f'<Row ss:Hidden="1">{cell("String", "b", "ss:Index=" + chr(34) + "2" + chr(34))}'
        f"{cell('Number', '2')}</Row>"
        f"<Row>{cell('String', 'ETH')}{cell('String', 'c')}{cell('Error', '#DIV/0!')}</Row>"
    )
    hidden = (
        '<WorksheetOptions xmlns="urn:schemas-microsoft-com:office:excel">'
        "<Visible>SheetHidden</Visible></WorksheetOptions>"
    )
    ledger = read(write(flat(rows, hidden), "ledger.xml"))
    assert [(line.names[1], line.names[3]) for line in ledger.lines] == [("BTC", "a"), ("BTC", "b")]
    assert ledger.rejected[0].reason == "the cell with the amount contains an error: #DIV/0!"
    told = " ".join(notice.message for notice in ledger.notices)
    assert "the sheet is hidden" in told
    assert "1 hidden or filtered rows" in told


def records(content: bytes, wanted: int) -> list[int]:
    """Return the positions of a kind of record in an old workbook with an unfragmented stream."""
    place, places = content.index(b"\x09\x08\x10\x00\x00\x06\x05\x00"), []
    while place + 4 <= len(content):
        kind, length = struct.unpack_from("<HH", content, place)
        if kind == wanted:
            places.append(place)
        if (kind, length) == (0, 0):
            break
        place += 4 + length
    return places


def changed(kind: int, body: bytes) -> bytes:
    """Return an old workbook with `body` in all records of a kind, or without these records."""
    content = bytearray(SAMPLES["xlwt.xls"].read_bytes())
    for place in records(bytes(content), kind):
        if body:
            content[place + 4 : place + 4 + len(body)] = body
        else:
            content[place : place + 2] = b"\x0e\x0e"
    return bytes(content)


@pytest.mark.parametrize(
    ("kind", "body"),
    [(0x200, b""), (0x200, bytes(8)), (0x42, b""), (0xFC, b"\xff" * 7 + b"\x7f")],
    ids=["no dimensions", "wrong dimensions", "no code page", "texts without end"],
)
def test_an_old_workbook_with_missing_records_is_read(
    write: Write, read: Read, kind: int, body: bytes
) -> None:
    """Records that old Perl and PHP writers omitted or filled with zeros are not required.

    If a record declares more texts than any file can contain, no memory is reserved for them.
    """
    ledger = read(write(changed(kind, body), "ledger.xls"))
    assert len(ledger.lines) == len(ledger_rows()) + 1


@pytest.mark.torture
def test_a_text_in_the_last_cell_of_an_old_workbook_is_counted(write: Write, read: Read) -> None:
    """A text in row 65,536 of column IV is counted as a note, and the rows above it as blank.

    The sheet then has a rectangle of 16 million cells.
    """
    content = bytearray(SAMPLES["xlwt.xls"].read_bytes())
    last = records(bytes(content), 0xFD)[-1]
    content[last + 4 : last + 8] = struct.pack("<HH", 65535, 255)
    ledger = read(write(bytes(content), "ledger.xls"))
    assert [(item.reason, item.count) for item in ledger.unused] == [
        ("blank line", 65_518),
        ("title or note", 1),
    ]
