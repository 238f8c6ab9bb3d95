"""Tests of the files that contain ledgers: cases 32 to 42 of `test_run_cases`."""

import io
import shutil
import subprocess
import time
import zipfile
from collections.abc import Callable, Sequence
from datetime import date, datetime
from pathlib import Path

import openpyxl
import pytest

from tests.warehouse.reconcile.conftest import DAY
from warehouse.reconcile.ledger.header_settings import ReadingContext
from warehouse.reconcile.ledger.read import read_ledger
from warehouse.reconcile.ledger.titles import count_fields
from warehouse.reconcile.model import Ledger
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.settings.layout import Shape
from warehouse.reconcile.terms import Ambiguous, NotReconciled
from warehouse.spreadsheet.reading.files import UnreadableSpreadsheet
from warehouse.spreadsheet.reading.grid import Grid, OpenedFile, is_ledger_name, open_file

Write = Callable[..., Path]
Read = Callable[..., Ledger]
OFFICE = shutil.which("soffice")


def used(ledger: Ledger) -> list[tuple[str, str]]:
    """Return the asset and the amount of each used row."""
    return [(line.names[1], line.amount.text) for line in ledger.lines]


@pytest.mark.parametrize(
    ("content", "account"),
    [
        ("asset,account,amount\nBTC,Z\u00fcrich,1.5\n".encode("cp1252"), "Z\u00fcrich"),
        ("asset;account;amount\nBTC;Z\u00fcrich;1.5\n".encode("utf-16"), "Z\u00fcrich"),
        ("asset\taccount\tamount\nBTC\tZ\u00fcrich\t1.5\n".encode("utf-16-le"), "Z\u00fcrich"),
        ("\ufeffasset|account|amount\r\nBTC|Z\u00fcrich|1.5\r\n".encode(), "Z\u00fcrich"),
        (b"sep=;\r\nasset;account;amount\r\nBTC;a;1.5\r\n", "a"),
        (b'asset,account,amount\nBTC,"a,b\n""c""",1.5\n', 'a,b\n"c"'),
    ],
    ids=["cp1252", "utf16", "utf16_unmarked", "mark_and_bars", "sep_line", "quotes"],
)
def test_case_32_the_format_of_a_text_file_is_detected(
    write: Write, read: Read, content: bytes, account: str
) -> None:
    """The encoding, the delimiter and the quotes of a text file are detected from its content."""
    ledger = read(write(content))
    assert used(ledger) == [("BTC", "1.5")]
    assert ledger.lines[0].names[3] == account


def test_a_merged_cell_below_a_short_row_is_blank() -> None:
    """If the first row of merged cells ends before their column, the rows below get no name."""
    rows = [["amount", "asset", "account"], ["1", "BTC"], ["2", "ETH", ""], ["3", "SOL", "a"]]
    grid = Grid(sheet="", rows=rows, merged=(((1, 2), (2, 2)),))
    file = OpenedFile(path=Path("ledger.xlsx"), sha256="", grids=(grid,))
    ledger = read_ledger([file], ReadingContext(config=Config(), day=DAY))
    assert used(ledger) == [("BTC", "1"), ("ETH", "2"), ("SOL", "3")]
    assert [line.names[3] for line in ledger.lines] == ["", "", "a"]


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_an_infinite_number_or_nan_is_not_a_factor(number: float) -> None:
    """A column with an infinite number or NaN raises a question and does not make the run fail."""
    rows: list[list[object]] = [
        ["asset", "amount", "x"],
        ["BTC", "1", number],
        ["ETH", "2", 2.0],
        ["SOL", "3", 2.0],
    ]
    file = OpenedFile(path=Path("l.xlsx"), sha256="", grids=(Grid(sheet="", rows=rows),))
    with pytest.raises(Ambiguous, match="'x'"):
        read_ledger([file], ReadingContext(config=Config(), day=DAY))


def test_a_decimal_comma_in_a_comma_separated_row_is_rejected(write: Write, read: Read) -> None:
    """A row `BTC,1,5` under `asset,amount` has too many cells, so it is rejected, not read as 1."""
    ledger = read(write("asset,amount\nBTC,1,5\n"))
    assert not ledger.lines
    assert "more cells than the header" in ledger.rejected[0].reason


def test_case_33_titles_totals_and_hidden_rows_are_accounted_for(write: Write, read: Read) -> None:
    """Titles, blanks, totals and repeated headers are skipped and counted. Hidden rows are used."""
    path = write(
        [
            ["Ledger of the fund", None, None],
            [None, None, None],
            ["Position", None, "Balance as of"],
            ["Portfolio", "Asset", "Amount"],
            ["p1", "BTC", 1],
            [None, "ETH", 2],
            [None, None, None],
            ["Portfolio", "Asset", "Amount"],
            ["p1", "SOL", 3],
            ["Total", None, 6],
            ["Summe:", None, 6],
            ["Prepared by A", None, None],
        ]
    )
    book = openpyxl.load_workbook(path)
    book.active.merge_cells("A5:A6")
    book.active.row_dimensions[9].hidden = True
    book.save(path)
    ledger = read(path)
    assert used(ledger) == [("BTC", "1"), ("ETH", "2"), ("SOL", "3")]
    assert [line.names[0] for line in ledger.lines] == ["p1", "p1", "p1"]
    (source,) = ledger.sources
    assert dict(source.skipped) == {
        "blank line": 1,
        "header repeated": 1,
        "title or note": 1,
        "total line": 2,
    }
    assert (source.rows, source.used, source.is_complete) == (8, 3, True)
    assert "1 hidden" in ledger.notices[0].message


def test_reading_time_is_proportional_to_the_number_of_rows() -> None:
    """The reading time grows with the number of rows, not with its square.

    Names that are merged over a few rows each, with a total below each, once took minutes.
    """
    rows: list[Sequence[object]] = [("Asset", "Account", "Amount")]
    merged = []
    for number in range(8_000):
        top = len(rows)
        rows += [(f"A{number}", "main", 1.0), ("", "cold", 2.0), (f"Total A{number}", "", 3.0)]
        merged.append(((top, 0), (top + 1, 0)))
    grid = Grid(sheet="", rows=rows, lines=range(1, len(rows) + 1), merged=tuple(merged))
    file = OpenedFile(path=Path("l.xlsx"), sha256="digest", grids=(grid,))
    before = time.process_time()
    ledger = read_ledger([file], ReadingContext(config=Config(), day=DAY))
    assert time.process_time() - before < 8
    assert (len(ledger.lines), ledger.sources[0].skipped) == (16_000, {"total line": 8_000})
    assert {ledger.lines[number].names[1] for number in (0, 1)} == {"A0"}


def test_an_account_may_have_the_name_of_a_total(write: Write, read: Read) -> None:
    """A total line has no asset, so an account may have the name of a total."""
    ledger = read(write("account;asset;amount\nTotal;BTC;1\nSumme;;1\n"))
    assert used(ledger) == [("BTC", "1")]


def test_case_34_two_sheets_or_an_unknown_sheet_stop_the_run(write: Write, read: Read) -> None:
    """If two sheets may be the ledger, the run stops and the proposed line settles it.

    A sheet name that does not exist is refused with the names of the sheets.
    """
    path = write([["asset", "amount"], ["BTC", 1]])
    book = openpyxl.load_workbook(path)
    other = book.create_sheet("old")
    other.append(["asset", "amount"])
    other.append(["BTC", 9])
    book.save(path)
    with pytest.raises(Ambiguous, match="'Sheet', 'old'") as asked:
        read(path)
    print_ = asked.value.line.split('"')[1]
    ledger = read(path, config=Config(shapes={print_: Shape(sheet="Sheet")}))
    assert used(ledger) == [("BTC", "1")]
    with pytest.raises(NotReconciled, match="has no sheet new; its sheets are Sheet, old"):
        read(path, config=Config(shapes={print_: Shape(sheet="new")}))


def test_case_35_dates_counted_from_1904_are_correct(write: Write, read: Read) -> None:
    """A workbook that counts days from 1904 gives the date that a spreadsheet program shows."""
    path = write([["asset", "amount", "date"], ["BTC", 1, datetime(2026, 11, 20)]])  # noqa: DTZ001 - cells have no zone
    book = openpyxl.load_workbook(path)
    book.epoch = openpyxl.utils.datetime.CALENDAR_MAC_1904
    book.save(path)
    assert read(path).sources[0].as_of == date(2026, 11, 20)


@pytest.mark.torture
@pytest.mark.skipif(OFFICE is None, reason="LibreOffice is not installed")
@pytest.mark.parametrize("ending", ["ods", "xls", "xlsm"])
def test_case_35_a_converted_ledger_has_the_same_rows(
    write: Write, read: Read, tmp_path: Path, ending: str
) -> None:
    """A ledger converted by LibreOffice has the same rows, and its error cells are rejected."""
    path = write([["asset", "amount"], ["BTC", "1.000000000000000001"], ["ETH", "=1/0"], ["X", 2]])
    profile = f"-env:UserInstallation=file://{tmp_path}/profile"
    command = [OFFICE or "", profile, "--headless", "--convert-to", ending, path.name]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    ledger = read(path.with_suffix(f".{ending}"))
    assert used(ledger) == [("BTC", "1.000000000000000001"), ("X", "2")]
    assert [row.names[1] for row in ledger.rejected] == ["ETH"]
    skipping = read(path.with_suffix(f".{ending}"), config=Config(blank="skip"))
    assert [row.names[1] for row in skipping.rejected] == ["ETH"]


def test_case_36_errors_and_uncalculated_formulas_are_rejected(write: Write, read: Read) -> None:
    """An #N/A cell and a formula that was never calculated are rejected, and do not become zero."""
    path = write([["asset", "amount"], ["BTC", "#N/A"], ["ETH", "=1+1"], ["SOL", 1]])
    ledger = read(path)
    assert used(ledger) == [("SOL", "1")]
    reasons = {row.names[1]: row.reason for row in ledger.rejected}
    assert "#N/A" in reasons["BTC"]
    assert "formula without a value" in reasons["ETH"]


def test_case_37_numbers_written_as_text_are_exact(write: Write, read: Read) -> None:
    """An amount in a text cell keeps all its digits."""
    ledger = read(write([["asset", "amount"], ["BTC", "123456789.123456789012345678"]]))
    assert used(ledger) == [("BTC", "123456789.123456789012345678")]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("ledger.csv", b"", "0 bytes"),
        ("ledger.xlsx", b"", "0 bytes"),
        ("ledger.xlsx", b"<html><table></table></html>", "web page"),
        ("ledger.csv", b"<!DOCTYPE html><html></html>", "web page"),
        ("ledger.xlsx", b"PK\x03\x04 half", "copy may be incomplete"),
        ("ledger.csv", b"hello\n", "does not contain a table"),
    ],
)
def test_case_38_an_unreadable_file_is_refused_with_its_reason(
    write: Write, read: Read, name: str, content: bytes, words: str
) -> None:
    """Empty, half-copied and misnamed files are each refused with their own reason."""
    with pytest.raises(NotReconciled, match=words) as told:
        read(write(content, name))
    assert told.value.exit_code == 2


def test_case_38_a_header_alone_is_an_empty_ledger(write: Write, read: Read) -> None:
    """A ledger with a header and no rows is complete and has no lines."""
    ledger = read(write("asset;amount\n"))
    assert not ledger.lines
    assert ledger.sources[0].is_complete


def test_case_38_a_file_that_still_grows_is_not_read(write: Write) -> None:
    """A file that changes while it is checked is not read."""
    path = write("asset;amount\nBTC;1\n")

    def grow() -> None:
        with path.open("a") as file:
            file.write("ETH;2\n")

    with pytest.raises(UnreadableSpreadsheet, match="still being written"):
        open_file(path, count_fields, grow)


def test_case_38_lock_files_are_not_ledgers() -> None:
    """Lock files of Excel and LibreOffice, hidden files and PDF files are not ledgers."""
    names = ["~$ledger.xlsx", ".~lock.ledger.ods#", ".ledger.csv", "a.pdf", "ledger.XLSX", "a.csv"]
    assert [is_ledger_name(Path(name)) for name in names] == [False] * 4 + [True] * 2


def test_case_39_an_ambiguous_date_raises_a_question(write: Write, read: Read) -> None:
    """A date like 01/02/2026 raises a question about its month, which a setting settles.

    A date like 13/02/2026 in the same column settles it too.
    """
    with pytest.raises(Ambiguous, match="the day or the month") as asked:
        read(write("asset;amount;date\nBTC;1;01/02/2026\n"))
    print_ = asked.value.line.split('"')[1]
    config = Config(shapes={print_: Shape(dates="month first")})
    settled = read(write("asset;amount;date\nBTC;1;01/02/2026\n"), config=config)
    assert settled.sources[0].as_of == date(2026, 1, 2)
    both = read(write("asset;amount;date\nBTC;1;01/02/2026\nBTC;2;13/02/2026\n"))
    assert both.sources[0].as_of == date(2026, 2, 13)
    assert dict(both.sources[0].skipped) == {"another date": 1}


def test_case_40_a_zip_bomb_is_not_unpacked(write: Write, read: Read) -> None:
    """An archive that unpacks to hundreds of times its size is refused before it is read."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        for number in range(11):
            file.writestr(f"xl/worksheets/sheet{number}.xml", b"\0" * 10 * 1024**2)
    with pytest.raises(NotReconciled, match="is larger when unpacked"):
        read(write(made.getvalue(), "ledger.xlsx"))


def test_case_40_every_row_of_a_long_ledger_is_read(write: Write, read: Read) -> None:
    """A ledger with more rows than a sheet loses no row (tested with a twentieth of the rows)."""
    rows = 52_429
    path = write("asset;account;amount\n" + "".join(f"BTC;a{n};{n}.5\n" for n in range(rows)))
    ledger = read(path)
    assert len(ledger.lines) == ledger.sources[0].rows == rows
    assert ledger.lines[-1].line == rows + 1


def test_unknown_headers_are_shown_with_their_values(write: Write, read: Read) -> None:
    """A question about an unknown header shows its columns with values, and its line settles it."""
    path = write("Foo;Bar\nBTC;1.5\nETH;2\n")
    with pytest.raises(Ambiguous, match=r"'Foo' \(BTC, ETH\); 'Bar' \(1\.5, 2\)") as asked:
        read(path)
    print_ = asked.value.line.split('"')[1]
    shape = Shape(columns={"asset": "Foo", "amount": "Bar"})
    assert used(read(path, config=Config(shapes={print_: shape}))) == [("BTC", "1.5"), ("ETH", "2")]


def test_two_columns_for_one_field_raise_a_question(write: Write, read: Read) -> None:
    """If a file has both a Quantity and a Balance, a setting must say which one is the amount."""
    path = write("Asset;Quantity;Balance\nBTC;1;2\n")
    with pytest.raises(Ambiguous, match="'Quantity' and 'Balance'") as asked:
        read(path)
    print_ = asked.value.line.split('"')[1]
    config = Config(shapes={print_: Shape(columns={"amount": "Balance"})})
    assert used(read(path, config=config)) == [("BTC", "2")]


@pytest.mark.parametrize(
    "header",
    [
        "W\u00e4hrung;Betrag",
        "Devise;Montant",
        "Moneda;Saldo",
        "Betrag;W\u00e4hrung",
        "COIN ; Qty (units)",
    ],
)
def test_headers_are_recognised_in_several_languages(write: Write, read: Read, header: str) -> None:
    """German, French, Spanish and English headers are recognised in any order."""
    cells = "1.5;BTC" if header.startswith("Betrag") else "BTC;1.5"
    assert used(read(write(f"{header}\n{cells}\n"))) == [("BTC", "1.5")]


def test_each_ledger_keeps_its_own_level(write: Write, read: Read) -> None:
    """Several ledgers together have every field that any of them has, and each lists its own."""
    one = write("asset;venue;account;amount\nBTC;v1;a;1\n", "one.csv")
    two = write("asset;venue;amount\nETH;v2;2\n", "two.csv")
    ledger = read(one, two)
    assert ledger.fields == ("asset", "venue", "account")
    assert [one.fields for one in ledger.sources] == [
        ("asset", "venue", "account"),
        ("asset", "venue"),
    ]
    assert [ledger.place(line) for line in ledger.lines] == ["one.csv:2", "two.csv:2"]
