"""Tests of exports: the book, the files, CSV for people and for programs, and Parquet."""

import csv
import io
import re
import time
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.books import Amount, Night, exact, night, published
from tests.support.shared import tries
from warehouse.export import staged_tables
from warehouse.export.export import FORMATS, Exported, NotExported, export
from warehouse.export.staged_tables import field, harmless
from warehouse.storage.layout import Layout

HOSTILE = (
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    " =cmd|' /C calc'!A0",
    'a";=1+1',
    "a,=1+1",
    "line\n=1+1",
    "\uff1d1",
    "https://example.test/?a=b",
    "00123",
    "1E5",
    "x\x01\x1f",
    "\U0001f680 moon",
    'Desk "A", EMEA',
    "n" * 32_768,
)
AMOUNTS = (
    *(Amount("0.1", account=name) for name in HOSTILE),
    Amount("0.123456789012345678901234", asset="NEAR"),
    Amount("123456789012345678901234567890", asset="WEI", state="locked"),
    Amount("-0.000000000000000001", asset="=BTC", custom=True),
    Amount("5", bucket="invented", state="lent"),
)
FIRST = night("20261118T021500Z", [Amount("1"), Amount("2", asset="ETH")])
SECOND = night("20261120T021500Z", AMOUNTS)


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Publish a warehouse with two nights, and a night without a book between them."""
    layout = Layout(tmp_path_factory.mktemp("home"))
    held = Night("20261119T021500Z", FIRST.rows, state="held", is_book=False)
    published(layout, [FIRST, held, SECOND], "a")
    return layout


@pytest.fixture(scope="module")
def done(layout: Layout) -> Exported:
    """Export the newest book in every format."""
    return exported(layout, *FORMATS)


def exported(layout: Layout, *formats: str, as_of: date | None = None) -> Exported:
    """Export a book into the home's folder."""
    return export(
        layout.database, layout.exports, as_of=as_of, formats=formats, program_version="1.2.3"
    )


def named(done: Exported, end: str) -> Path:
    """Return the only file whose name ends with `end`."""
    (path,) = [path for path in done.files if path.name.endswith(end)]
    return path


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file, as Python's own reader parses them."""
    text = path.read_bytes().decode().removeprefix(staged_tables.BYTE_ORDER_MARK)
    csv.field_size_limit(10**7)
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_an_export_returns_its_files_and_row_counts(done: Exported) -> None:
    """An export returns thirteen files, each table's row count, the date and the snapshot."""
    assert (done.as_of, done.snapshot_id) == (SECOND.day, SECOND.snapshot_id)
    assert done.rows == {"Accounts": 22, "Holdings": 4, "Assets": 4, "Venues": 4}
    assert len(done.files) == 13
    assert all(path.stat().st_mode & 0o777 == 0o640 for path in done.files)
    assert not [path for path in done.files[0].parent.iterdir() if path.name.startswith(".")]


def test_a_held_date_exports_the_book_before_it(layout: Layout) -> None:
    """For the date of a held night, the last book before it is exported.

    The notices name both nights.
    """
    done = exported(layout, "csv", as_of=date(2026, 11, 19))
    assert done.as_of == FIRST.day
    assert done.notices[0].startswith("2026-11-19 has no book. This is the book of 2026-11-18")
    assert "20261119T021500Z" in done.notices[1]
    assert [
        one["total_text"] for one in rows_of(named(done, "accounts-2026-11-18.machines.csv"))
    ] == [
        "1",
        "2",
    ]


def test_a_date_before_every_book_lists_the_available_dates(layout: Layout) -> None:
    """For a date before every book, nothing is written, and the error lists the available dates."""
    with pytest.raises(NotExported, match="2026-11-18, 2026-11-20, and the latest is 2026-11-20"):
        exported(layout, "csv", as_of=date(2026, 11, 17))
    assert not list(layout.exports.glob("*2026-11-17*"))


def test_a_missing_warehouse_or_book_names_the_next_step(tmp_path: Path) -> None:
    """Before the first night, and if the first night is held, the error names the next step."""
    layout = Layout(tmp_path)
    with pytest.raises(FileNotFoundError, match="nightbook run"):
        exported(layout, "xlsx")
    published(layout, [Night(FIRST.snapshot_id, FIRST.rows, state="held", is_book=False)], "a")
    with pytest.raises(
        NotExported, match=r"no book yet; 20261118T021500Z is held.*nightbook accept"
    ):
        exported(layout, "xlsx")
    assert not layout.exports.exists()


def test_a_file_that_is_not_a_warehouse_gives_a_clear_error(tmp_path: Path) -> None:
    """A file that is not a warehouse gives an error message, not a traceback."""
    (tmp_path / "nightbook.duckdb").write_bytes(b"SQLite format 3\x00" * 1000)
    with pytest.raises(NotExported, match="could not be read as a nightbook warehouse"):
        export(
            tmp_path / "nightbook.duckdb",
            tmp_path,
            as_of=None,
            formats=["csv"],
            program_version="1",
        )


@pytest.mark.parametrize("formats", [(), ("pdf",), ("xlsx", "pdf")])
def test_an_unknown_format_writes_nothing(layout: Layout, formats: tuple[str, ...]) -> None:
    """An unknown format is an error that lists the available formats."""
    with pytest.raises(NotExported, match="xlsx, csv, parquet"):
        exported(layout, *formats)


def test_the_csv_for_programs_changes_no_value(done: Exported) -> None:
    """The CSV for programs has every name and every digit unchanged.

    NULL is an empty field, and the file has no byte order mark.
    """
    path = named(done, "accounts-2026-11-20.machines.csv")
    rows = rows_of(path)
    assert path.read_bytes().startswith(b'"snapshot_date","portfolio_id"')
    names = sorted(one["account_name"] for one in rows)
    assert names == sorted([*HOSTILE, *["main"] * 4])
    totals = {one["asset_id"]: one["total_text"] for one in rows if one["account_name"] == "main"}
    assert totals["NEAR"] == "0.123456789012345678901234"
    assert totals["WEI"] == "123456789012345678901234567890"
    assert totals["=BTC"] == "-0.000000000000000001"
    (wei,) = [one for one in rows if one["asset_id"] == "WEI"]
    assert (wei["total"], wei["trading_free"], wei["is_custom_asset"]) == ("", "", "false")
    (tiny,) = [one for one in rows if one["asset_id"] == "=BTC"]
    assert tiny["total"] == "-0.000000000000000001"


def test_no_text_in_the_csv_for_people_begins_like_a_formula(done: Exported) -> None:
    """In the CSV for people, no text of ours begins like a formula.

    Amounts keep their sign, because they are numbers.
    """
    path = named(done, "accounts-2026-11-20.people.csv")
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    rows = rows_of(path)
    assert len(rows) == done.rows["Accounts"]
    for one in rows:
        for column in ("Asset id", "Account name", "Portfolio name"):
            assert not one[column].lstrip("\t\r\n ").startswith(("=", "+", "-", "@", "\uff1d"))
    assert {one["Account name"].replace("'", "") for one in rows} >= {
        name.replace("'", "") for name in HOSTILE
    }
    (tiny,) = [one for one in rows if one["Asset id"] == "'=BTC"]
    assert tiny["Total"] == "-0.000000000000000001"


def test_a_long_name_is_escaped_quickly() -> None:
    """Blanks before a possible formula are read only once, so long names are processed quickly."""
    began = time.process_time()
    assert harmless("\t" * 40_000 + "x") == "\t" * 40_000 + "x"
    assert harmless("\t" * 40_000 + "=") == "'\t" * 40_000 + "'="
    assert time.process_time() - began < 1


@settings(max_examples=tries(50, 3000), deadline=None, derandomize=True)
@given(st.text(st.sampled_from("a=+-@ ;,|\t\r\n\"'\uff1d0\x00"), max_size=12))
@example("a;\t=1")
def test_no_part_of_an_escaped_text_is_a_formula(text: str) -> None:
    """No part of a harmless text begins like a formula, at whichever separator a program splits it.

    Only apostrophes are added, and no character is lost.
    """
    safe = harmless(text)
    for piece in re.split('[;,|\t\r\n"]', safe):
        assert not piece.lstrip(" \x00").startswith(("=", "+", "-", "@", "\uff1d"))
    assert safe.replace("'", "") == text.replace("'", "")
    assert next(csv.reader(io.StringIO(field(safe), newline="")), [""]) == [safe]


def test_parquet_files_keep_types_and_comments(done: Exported) -> None:
    """Parquet files have the types of the views, and their comments.

    An amount that does not fit its type is NULL.
    """
    table = pq.read_table(named(done, "accounts-2026-11-20.parquet"))
    assert str(table.schema.field("total").type) == "decimal128(38, 18)"
    assert table.schema.field("total").metadata[b"comment"].startswith(b"Sum of all")
    by_asset = {one["asset_id"]: one for one in table.to_pylist() if one["account_name"] == "main"}
    assert by_asset["=BTC"]["total"] == Decimal("-0.000000000000000001")
    wei = by_asset["WEI"]
    assert (wei["total"], wei["total_text"]) == (None, "123456789012345678901234567890")
    assert table.num_rows == done.rows["Accounts"]


def test_every_file_adds_up_to_the_exact_totals(done: Exported) -> None:
    """For each asset, each table adds up to the exact sum of the published amounts."""
    expected: dict[tuple[str, str], list[str]] = {}
    for amount in AMOUNTS:
        key = (amount.asset, str(amount.custom).lower())
        expected.setdefault(key, []).append(amount.text)
    for name in ("accounts", "holdings", "assets", "venues"):
        found: dict[tuple[str, str], list[str]] = {}
        for one in rows_of(named(done, f"{name}-2026-11-20.machines.csv")):
            key = (one["asset_id"], one["is_custom_asset"])
            found.setdefault(key, []).append(one["total_text"])
        assert {key: exact(texts) for key, texts in found.items()} == {
            key: exact(texts) for key, texts in expected.items()
        }


def test_two_exports_have_the_same_bytes(layout: Layout, done: Exported) -> None:
    """Two exports of the same book by the same program are equal, byte for byte."""
    before = [path.read_bytes() for path in done.files]
    again = exported(layout, *FORMATS)
    assert [path.read_bytes() for path in again.files] == before


def test_an_empty_book_gives_files_without_rows(tmp_path: Path) -> None:
    """A night without any position gives files with headers and no rows."""
    layout = Layout(tmp_path)
    published(layout, [night("20261120T021500Z", [])], "a")
    done = exported(layout, *FORMATS)
    assert set(done.rows.values()) == {0}
    assert rows_of(named(done, "accounts-2026-11-20.people.csv")) == []
