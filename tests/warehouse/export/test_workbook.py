"""Tests of the positions workbook: exact, harmless, complete, formatted and reproducible."""

import re
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl.utils.escape import unescape

from tests.support.books import Amount, exact, night, published
from tests.support.priced_books import drop, read_at
from tests.support.priced_books import publish as priced_publish
from tests.support.shared import tries
from warehouse.export import sheets, workbook
from warehouse.export.export import NotExported, export
from warehouse.query.book import book
from warehouse.spreadsheet.writing.cells import Digits, number, pieces, safe_xml, units
from warehouse.spreadsheet.writing.rows import RowsQuery, RowsXml, stream_rows
from warehouse.storage.layout import Layout

SHEETS = ["Summary", "Accounts", "Holdings", "Assets", "Venues", "Evidence"]
LONG = "=" + "\U0001f680" * 16_384 + "<&>"
HOSTILE = (
    "=1+1",
    '=HYPERLINK("https://example.test","x")',
    "=cmd|' /C calc'!A0",
    "+1",
    "-1",
    "@SUM(A1)",
    "https://example.test",
    "mailto:a@example.test",
    "00123",
    "1E5",
    "TRUE",
    " padded ",
    "tab\tline\nreturn\rend",
    "bell\x07 escape\x1b[31m",
    "_x0041_ is no A",
    "<b>&amp;</b> ]]>",
    "\U0001f680",
    "\ufffe\uffff",
    "e\u0301 \u202eright to left",
    LONG,
)
AMOUNTS = (
    *(Amount(f"{place}.5", account=name) for place, name in enumerate(HOSTILE)),
    *(Amount("1", asset=name, portfolio="p2") for name in HOSTILE[:4]),
    Amount("123456789.123456789012345678", asset="ETH"),
    Amount("0.123456789012345678901234", asset="NEAR"),
    Amount("9" * 400, asset="WEI"),
    Amount("-0.000000000000000001", asset="btc", custom=True, state="locked"),
    Amount("-0", asset="btc", bucket="staking", state="locked"),
    Amount("7", asset="*", bucket="invented", state="lent"),
)
GOLDEN = """
Portfolio | Asset | Custom | Venue | Account | Total | Digits | Total, exact | Trading free | \
Trading locked | Margin locked | Staking locked | Custody free | Custody locked | Other | \
Portfolio id | Duplicate no. | Amounts stated | Trading free, exact | Trading locked, exact | \
Margin locked, exact | Staking locked, exact | Custody free, exact | Custody locked, exact | \
Other, exact | Key | Venue name
Portfolio p1 | BTC | no | v1 | main | 4 | exact | 4 | 1.5 | 2.5 | . | . | . | . | . | p1 | 0 | 2 \
| 1.5 | 2.5 | . | . | . | . | . | K-0F2A1640892F4775 | Venue v1
Portfolio p1 | ETH | no | v2 | cold | 1.2345678901234567 | rounded | 1.23456789012345678 | . | . \
| . | . | 1.2345678901234567 | . | . | p1 | 0 | 1 | . | . | . | . | 1.23456789012345678 | . | . \
| K-529B3255C07A2E5B | Venue v2
"""


def exported(layout: Layout) -> Path:
    """Export the workbook of a home's newest book, and return its path."""
    done = export(
        layout.database, layout.exports, as_of=None, formats=["xlsx"], program_version="1.2.3"
    )
    return done.files[0]


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Publish a warehouse with names that are as hostile as the API may send them."""
    layout = Layout(tmp_path_factory.mktemp("home"))
    published(layout, [night("20261120T021500Z", AMOUNTS)], "a")
    return layout


@pytest.fixture(scope="module")
def path(layout: Layout) -> Path:
    """Export the workbook of that warehouse."""
    return exported(layout)


def table(path: Path, sheet: str) -> list[dict[str, Any]]:
    """Return the rows of a sheet by their headers, with texts as a spreadsheet shows them."""
    rows = openpyxl.load_workbook(path)[sheet].iter_rows(values_only=True)
    heads = [str(head) for head in next(rows)]
    return [
        {
            head: unescape(value) if isinstance(value, str) else value
            for head, value in zip(heads, row, strict=True)
        }
        for row in rows
    ]


def test_a_small_workbook_has_the_expected_content(tmp_path: Path) -> None:
    """A workbook of two accounts has exactly the expected sheets, titles and cells.

    People's lookups depend on them.
    """
    given = [
        Amount("1.50"),
        Amount("2.5", state="locked"),
        Amount("1.23456789012345678", asset="ETH", venue="v2", account="cold", bucket="custody"),
    ]
    published(Layout(tmp_path), [night("20261120T021500Z", given)], "a")
    made = openpyxl.load_workbook(exported(Layout(tmp_path)))
    assert made.sheetnames == SHEETS
    lines = [
        " | ".join("." if value is None else str(value) for value in row)
        for row in made["Accounts"].iter_rows(values_only=True)
    ]
    assert lines == GOLDEN.strip().splitlines()
    assert made["Summary"]["B3"].value == datetime(2026, 11, 20)  # noqa: DTZ001 - cells lack a zone
    assert made["Summary"]["B4"].value == "20261120T021500Z"


def test_hostile_names_are_read_back_as_text(path: Path) -> None:
    """Every hostile name can be read back unchanged, as text.

    A name that is too long for a cell is complete on the sheet Long texts.
    """
    names = {row["Account"] for row in table(path, "Accounts")}
    assert names >= set(HOSTILE) - {LONG}
    (cut,) = names - set(HOSTILE) - {"main"}
    assert cut.startswith(LONG[:200])
    assert cut.endswith("sheet Long texts, no. 1)")
    parts = table(path, "Long texts")
    assert "".join(row["Text"] for row in parts if row["Text no."] == "1") == LONG
    assert {row["Asset"] for row in table(path, "Assets")} >= set(HOSTILE[:4])


def test_formulas_are_only_in_the_summary(path: Path) -> None:
    """No sheet with data has a formula, a link or a table, and there is no macro."""
    with zipfile.ZipFile(path) as archive:
        assert not re.findall("vbaProject|externalLink|hyperlink|/table", str(archive.namelist()))
        for number_ in range(2, 8):
            sheet = archive.read(f"xl/worksheets/sheet{number_}.xml").decode()
            assert not re.search(r"<f[ >]|<hyperlink|<tablePart", sheet)
        summary = archive.read("xl/worksheets/sheet1.xml").decode()
    formulas = re.findall(r"<f>([^<]*)</f><v>([^<]+)</v>", summary)
    assert len(formulas) == summary.count("<f>")
    assert all(
        re.match(r"(COUNTA|SUMPRODUCT|D\d+-\(COUNTIF|IF\(C\d+=D\d+)", found[0])
        for found in formulas
    )


def test_numbers_marked_as_exact_equal_their_text(path: Path) -> None:
    """The fifteen digits of a number marked `exact` are its text, and those of `rounded` are not.

    An amount that does not fit a number has only its text, and never a wrong 0.
    """
    rows = {(row["Asset"], row["Custom"]): row for row in table(path, "Holdings")}
    assert rows["NEAR", "no"]["Digits"] == rows["ETH", "no"]["Digits"] == "rounded"
    assert rows["NEAR", "no"]["Total, exact"] == "0.123456789012345678901234"
    assert rows["WEI", "no"]["Total"] is None
    assert rows["WEI", "no"]["Digits"] == "text only"
    assert rows["WEI", "no"]["Total, exact"] == "9" * 400
    tiny = rows["btc", "yes"]
    assert (tiny["Total"], tiny["Digits"]) == (-1e-18, "exact")
    for row in table(path, "Accounts"):
        if row["Digits"] == "exact":
            assert Decimal(repr(row["Total"])) == Decimal(row["Total, exact"])


@settings(max_examples=tries(60, 4500), deadline=None, derandomize=True)
@given(st.decimals(allow_nan=False, allow_infinity=False, places=18) | st.decimals(-1000, 1000))
def test_an_amount_of_fifteen_digits_is_marked_as_exact(value: Decimal) -> None:
    """A number is marked as exact if its fifteen digits are the amount, or else as rounded."""
    text = exact([str(value)])
    shown, digits = number(text)
    if digits is Digits.TEXT_ONLY:
        assert len(text) > 300
    else:
        fifteen = Decimal(f"{float(shown):.14e}")
        assert (fifteen == Decimal(text)) is (digits is Digits.EXACT)
        assert float(shown) == float(text)


@settings(max_examples=tries(40, 3000), deadline=None, derandomize=True)
@given(st.text(max_size=20) | st.text("_x0F41\x00\ufffe<&\r ", max_size=20))
def test_any_text_is_read_back_unchanged(text: str) -> None:
    """A text in a cell is read back unchanged, whatever its characters are."""
    found = re.sub("_x([0-9A-F]{4})_", lambda one: chr(int(one[1], 16)), safe_xml(text))
    assert found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") == text


@settings(max_examples=tries(10, 750), deadline=None, derandomize=True)
@given(st.text(min_size=1, max_size=9), st.integers(30_000, 70_000))
def test_pieces_of_a_long_text_fit_in_a_cell(letters: str, length: int) -> None:
    """A long text is split into pieces that fit in a cell, and together they are the whole text."""
    text = (letters * length)[:length]
    assert "".join(pieces(text)) == text
    assert max(map(units, pieces(text))) <= 32_767


def test_totals_tie_and_the_evidence_names_the_run(path: Path) -> None:
    """Each asset has the same exact total in every place, and the evidence names the run."""
    rows = table(path, "Evidence")
    totals = {(row["Of"], row["Custom"]): row for row in rows if row["Kind"] == "total"}
    places = ("In the JSON", "In the lake", "In the warehouse", *SHEETS[1:5])
    for (asset, custom), line in totals.items():
        expected = exact(a.text for a in AMOUNTS if (a.asset, a.custom) == (asset, custom == "yes"))
        assert [line[place] for place in places] == [expected] * 7
        assert line["Ties"] == "yes"
    assert len(totals) == len({(a.asset, a.custom) for a in AMOUNTS})
    run = {row["Of"]: row["Value"] for row in rows if row["Kind"] == "run"}
    assert run["book"] == "20261120T021500Z"
    assert run["workbook written by"] == "nightbook 1.2.3"
    assert [row["Accounts"] for row in rows if row["Of"] == "accounts"] == [str(len(AMOUNTS) - 0)]


def test_the_summary_shows_the_same_total_and_sum(tmp_path: Path) -> None:
    """Total and sum show only the digits in which they agree.

    A total with more digits has a `≈` before it.
    """
    layout = Layout(tmp_path)
    amounts = [
        Amount(f"{n * 7919 % 1000003}.{n * 104729 % 10**15:015}", asset=f"A{n % 7}", account=f"{n}")
        for n in range(1, 400)
    ]
    published(layout, [night("20261120T021500Z", [*amounts, Amount("2.5", asset="Z")])], "a")
    rows = openpyxl.load_workbook(exported(layout), data_only=True)["Summary"].iter_rows()
    lines = [row for row in rows if row[6].value == "yes" and row[1].value in ("yes", "no")]
    assert len(lines) == 8
    assert any(row[2].value != row[3].value for row in lines)  # Some sums differ as doubles.
    for row in lines:
        total, added = row[2:4]
        assert total.number_format == added.number_format
        form = total.number_format.partition(";")[0]
        decimals = len(re.search(r"0\.(0+)", form)[1])  # type: ignore[index]  # it has some
        assert f"{total.value:.{decimals}f}" == f"{added.value:.{decimals}f}"
        assert form.startswith('"≈"') == (len(row[4].value.partition(".")[2]) > decimals)


def test_the_summary_names_a_total_that_does_not_tie(layout: Layout, tmp_path: Path) -> None:
    """If a total differs in one place, the summary's banner and the evidence name it."""
    damaged = tmp_path / "nightbook.duckdb"
    damaged.write_bytes(layout.database.read_bytes())
    with duckdb.connect(str(damaged)) as connection:
        connection.execute("update ops.control_totals set in_lake = '8' where asset_id = '*'")
    done = export(damaged, tmp_path, as_of=None, formats=["xlsx"], program_version="1")
    lines = [row[0] for row in openpyxl.load_workbook(done.files[0])["Summary"].values]
    assert "1 of 19 control totals DO NOT TIE: total of *. See sheet Evidence." in lines
    wrong = [row for row in table(done.files[0], "Evidence") if row["Ties"] == "NO"]
    assert [(row["Of"], row["In the JSON"], row["In the lake"]) for row in wrong] == [
        ("*", "7", "8")
    ]


def test_sheets_are_formatted_for_reading_and_printing(path: Path) -> None:
    """Sheets have a frozen header, a filter, notes and names.

    They print on A4 landscape, fitted to its width, with a repeated header and page numbers.
    """
    made = openpyxl.load_workbook(path)
    for name in SHEETS[1:]:
        sheet = made[name]
        assert sheet.freeze_panes == "C2"
        assert sheet.auto_filter.ref == sheet.dimensions
        assert sheet.print_title_rows == "$1:$1"
        assert (sheet.page_setup.orientation, sheet.page_setup.paperSize) == ("landscape", 9)
        assert (sheet.page_setup.fitToWidth or 1, sheet.page_setup.fitToHeight) == (1, 0)
        assert "Page &P of &N" in str(sheet.oddFooter.right.text).replace("&11", "")
        assert all(cell.comment and cell.comment.text for cell in sheet[1])
    names = made.defined_names
    assert names["as_of"].attr_text == "Summary!$B$3"
    last = len(AMOUNTS) + 1
    assert names["accounts_total"].attr_text == f"Accounts!$F$2:$F${last}"
    assert names["accounts_total_text"].attr_text == f"Accounts!$H$2:$H${last}"


def test_a_long_table_continues_on_further_sheets(layout: Layout, tmp_path: Path) -> None:
    """A table that is too long for one sheet continues on further sheets, in the same order.

    A notice names these sheets.
    """
    whole, cut = tmp_path / "whole.xlsx", tmp_path / "cut.xlsx"
    with book(layout.database, None) as source:
        workbook.write(source, whole, program_version="1")
        told = workbook.write(source, cut, program_version="1", rows_per_sheet=12)
    parts = [name for name in openpyxl.load_workbook(cut).sheetnames if "Accounts" in name]
    assert parts == ["Accounts", "Accounts 2", "Accounts 3"]
    assert [len(table(cut, part)) for part in parts] == [12, 12, len(AMOUNTS) - 24]
    assert [row for part in parts for row in table(cut, part)] == table(whole, "Accounts")
    assert told[0] == (
        "Accounts has more rows than fit on one sheet, so it continues over 3 sheets, Accounts to "
        "Accounts 3."
    )
    assert told[0] in [row[0].value for row in openpyxl.load_workbook(cut)["Summary"].iter_rows()]
    assert "accounts_total" not in openpyxl.load_workbook(cut).defined_names


@pytest.mark.parametrize(
    ("left_out", "added"), [(["Accounts"], "holdings"), (["Accounts", "Holdings"], "venues")]
)
def test_a_short_workbook_says_which_sheets_it_leaves_out(
    layout: Layout, tmp_path: Path, left_out: list[str], added: str
) -> None:
    """Sheets above the limit are left out, named on the summary, and everything still ties out."""
    written = partial(
        export, layout.database, tmp_path, as_of=None, formats=("xlsx",), program_version="1"
    )
    whole = written()
    short = written(workbook_rows=whole.rows[left_out[-1]] - 1)
    found = openpyxl.load_workbook(short.files[0])
    kept = [name for name in SHEETS if name not in left_out]
    assert [name for name in found.sheetnames if name in SHEETS] == kept
    assert all(f"{title} ({whole.rows[title]:,} rows)" in short.notices[0] for title in left_out)
    summary = [[cell.value for cell in row] for row in found["Summary"].iter_rows()]
    assert short.notices[0] in [row[0] for row in summary]
    assert [row[0] for row in summary if row[1] == "left out, see above"] == left_out
    assert any(row[3] == f"Sum of the {added}" for row in summary)
    assert "NO" not in [row[6] for row in summary]
    headers = [cell.value for cell in found["Evidence"][1]]
    assert headers[8:] == kept[1:-1]


def test_a_lost_row_stops_the_export(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a row is lost, the export fails and no file is left.

    The finished workbook is read back and added up, which finds the lost row.
    """

    def losing(connection: Any, query: RowsQuery, *more: Any) -> Iterator[RowsXml]:
        return stream_rows(connection, replace(query, rows=f"{query.rows} and rowid <> 1"), *more)

    monkeypatch.setattr(sheets, "stream_rows", losing)
    with (
        book(layout.database, None) as source,
        pytest.raises(NotExported, match="The new workbook was deleted"),
    ):
        workbook.write(source, tmp_path / "x.xlsx", program_version="1")
    assert list(tmp_path.iterdir()) == []


def test_the_value_of_each_row_is_exact(tmp_path: Path) -> None:
    """With a currency, each row has its price and exact value, and the summary has all groups."""
    drop(tmp_path, "a.csv", "BTC,,USD,0.1,2026-11-20,", "ETH,,USD,1,2026-11-01,")
    drop(tmp_path, "desks/a.csv", "portfolio_id,desk", "p1,=1+1")
    amounts = [Amount("123456789012345678.9"), Amount("5", "p2", "ETH")]
    book_ = [read_at("20261120T021500Z", amounts)]
    layout = priced_publish(tmp_path, book_, currency="USD", max_age=3)
    path = tmp_path / "positions.xlsx"
    with book(layout.database, None, texts_only=True) as source:
        workbook.write(source, path, program_version="0.0.0")
    opened = openpyxl.load_workbook(path)
    rows = list(opened["Holdings"].values)
    titles = {str(title): place for place, title in enumerate(rows[0])}
    shown = [
        tuple(row[titles[title]] for title in ("Asset", "Value, exact", "Price state", "Currency"))
        for row in rows[1:]
    ]
    assert shown == [
        ("BTC", "12345678901234567.89", "priced", "USD"),
        ("ETH", None, "stale", "USD"),
    ]
    summary = [row[:7] for row in opened["Summary"].values]
    assert ("book", "", None, "12345678901234567.89", 2, 0, 1)[3:] in [r[3:] for r in summary]
    assert ("desks", "=1+1") in [row[:2] for row in summary]
    assert ("desks", "no label") in [row[:2] for row in summary]
