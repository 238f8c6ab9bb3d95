"""Tests of the reader of reference files: formats, refusals and rejected rows."""

import io
import zipfile
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.priced_books import TITLES
from warehouse.reference.child import FileRows, ReadRequest, read_file
from warehouse.reference.reader import MAX_COLUMNS, MAX_REJECTS

NOW = datetime(2026, 11, 20, tzinfo=UTC)


def read(name: str, content: bytes, table: str = "prices") -> FileRows:
    """Read a file in the child process."""
    return read_file(ReadRequest(table, name, NOW, "f" * 64, content))


def rows(result: FileRows) -> list[dict[str, object]]:
    """Return the rows of a file that was read."""
    found: list[dict[str, object]] = pq.read_table(io.BytesIO(result.parquet)).to_pylist()
    return found


def workbook(*cells: object, sheets: int = 1) -> bytes:
    """Return a workbook with a row of titles and a row of cells in each sheet."""
    book, out = openpyxl.Workbook(), io.BytesIO()
    book.remove(book.active)
    for number in range(sheets):
        sheet = book.create_sheet(f"s{number}")
        sheet.append(TITLES.split(","))
        sheet.append(list(cells))
    book.save(out)
    return out.getvalue()


def parquet(**columns: Sequence[object]) -> bytes:
    """Return a Parquet file with these columns."""
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


LINE = "BTC,,USD,1.5,2026-11-20,manual"
PRICE: dict[str, Sequence[object]] = {
    "asset_id": ["BTC"],
    "quote": ["USD"],
    "price_text": ["1.5"],
    "as_of": ["2026-11-20"],
}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", f"{TITLES}\n{LINE}\n".encode()),
        ("a.csv", f"{TITLES}\r\n{LINE}\r\n".encode("utf-8-sig")),
        ("a.csv", f"{TITLES}\n{LINE}\n".encode("utf-16")),
        ("a.CSV", f"{TITLES}\n{LINE}\n".replace(",", ";").encode()),
        ("a.csv", f"{TITLES}\n{LINE}\n".replace(",", "\t").encode()),
        ("a.csv", b"Asset ID, QUOTE ,price,as_of\n BTC , USD , 1.50 , 2026-11-20 \n\n"),
        ("a.xlsx", workbook("BTC", None, "USD", 1.5, date(2026, 11, 20), "manual")),
        ("a.xlsx", workbook("BTC", False, "USD", "1.50", datetime(2026, 11, 20), None)),  # noqa: DTZ001 - no zone
        ("a.parquet", parquet(**PRICE)),
        ("a.parquet", parquet(**{**PRICE, "as_of": [date(2026, 11, 20)], "price_text": [1.5]})),
    ],
)
def test_each_format_gives_the_same_price(name: str, content: bytes) -> None:
    """CSV in several encodings, xlsx and Parquet give the same price."""
    result = read(name, content)
    assert result.rejects == ()
    [row] = rows(result)
    assert (row["asset_id"], row["is_custom_asset"], row["quote"]) == ("BTC", False, "USD")
    assert (row["price_text"], row["as_of_date"]) == ("1.5", date(2026, 11, 20))
    assert (row["file"], row["received_at"]) == (name, NOW)


def test_other_tables_are_text(tmp_path: Path) -> None:
    """A table without a contract keeps its cells as text, and empty cells are NULL."""
    del tmp_path
    [row] = rows(read("a.csv", b"portfolio_id,Desk Name\n007,\n", "desks"))
    assert (row["portfolio_id"], row["desk_name"], row["line"]) == ("007", None, 2)


def bomb() -> bytes:
    """Return a small workbook with a part of a gigabyte of zeros."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        with archive.open("xl/workbook.xml", "w", force_zip64=True) as part:
            for _ in range(1024):
                part.write(bytes(1024**2))
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("a.csv", b"", "empty"),
        ("a.csv", b"\n\n", "empty"),
        ("a.csv", b"\xff\xfe\xfd", "unreadable"),
        ("a.csv", f"{TITLES}\nB\xe9,,".encode("latin-1"), "unreadable"),
        ("a.csv", b"asset_id,quote,price_text,as_of,unit\n", "unknown_column"),
        ("a.csv", b"asset_id,quote,price_text\n", "no_column"),
        ("a.csv", b"asset_id,quote,price,price_text,as_of\n", "wrong_title"),
        ("a.csv", b"asset_id,asset_id\n", "wrong_title"),
        ("a.csv", b"asset_id,sha256\n", "wrong_title"),
        ("a.csv", f"{TITLES}\nBTC,,USD,1,5,2026-11-20,x\n".encode(), "ragged"),
        ("a.csv", f'{TITLES}\n"BTC,,USD,1,2026-11-20,x\n'.encode(), "unreadable"),
        ("a.csv", f"{TITLES}\n{'x' * 20_000},,USD,1,2026-11-20,\n".encode(), "long_cell"),
        ("a.csv", b"," * 1_000_000, "unreadable"),
        ("a.csv", b"\x00" * 1_000_000, "wrong_title"),
        ("a.xlsx", b"PK\x03\x04 not a workbook", "unreadable"),
        ("a.xlsx", workbook("BTC", sheets=2), "unreadable"),
        ("a.xlsx", bomb(), "unreadable"),
        ("a.parquet", b"PAR1PAR1", "unreadable"),
        ("a.parquet", parquet(**{f"c{n}": [1] for n in range(MAX_COLUMNS + 1)}), "unreadable"),
        ("a.parquet", parquet(**{**PRICE, "as_of": [{"a": 1}]}), "unreadable"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_reject(name: str, content: bytes, code: str) -> None:
    """A damaged or hostile file gives no rows, and one reject with a reason."""
    result = read(name, content)
    assert [reject.code for reject in result.rejects] == [code]
    assert (result.rows, result.parquet, result.reject_count) == (0, b"", 1)


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ((1, None, "USD", 1, datetime(2026, 11, 20, 2, 15), None), "no_time_zone"),  # noqa: DTZ001 - no zone
        (("BTC", None, "USD", "#N/A", "2026-11-20", None), "not_an_amount"),
        (("BTC", None, "USD", "=1/0", "2026-11-20", None), "not_an_amount"),
    ],
)
def test_a_cell_that_is_not_a_value_rejects_its_row(row: tuple[object, ...], code: str) -> None:
    """Times without a zone, errors and formulas without a result are not prices."""
    result = read("a.xlsx", workbook(*row))
    assert [(reject.code, reject.line) for reject in result.rejects] == [(code, 2)]


def test_only_the_first_rejects_are_kept_and_all_are_counted() -> None:
    """A file with many bad rows keeps the first rejects, with short values, and counts all."""
    lines = "".join(f"A{n},,USD,{'x' * 500},2026-11-20,\n" for n in range(MAX_REJECTS + 5))
    result = read("a.csv", f"{TITLES}\n{lines}{LINE}\n".encode())
    assert (len(result.rejects), result.reject_count, result.rows) == (MAX_REJECTS, 105, 1)
    assert len(result.rejects[0].value) == 100
