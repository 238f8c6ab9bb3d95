"""Tests of files as programs print them: pages, rules and space-aligned columns, any code page."""

import re
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from warehouse.reconcile.ledger.header_settings import ReadingContext
from warehouse.reconcile.ledger.read import read_ledger
from warehouse.reconcile.ledger.titles import count_fields
from warehouse.reconcile.model import Ledger
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.terms import Ambiguous, reading_files
from warehouse.spreadsheet.reading.grid import open_file

Write = Callable[..., Path]
Read = Callable[..., Ledger]
PAGES = """\
                    Positions                  Page 1
                   20 Nov 2026

PORTFOLIO   ASSET   ACCOUNT NAME           AMOUNT
---------   -----   ------------   --------------
alpha       BTC     Main desk               12.50
alpha       ETH     Cold desk          -48,211.07

\f                  Positions                  Page 2
                   20 Nov 2026

PORTFOLIO   ASSET   ACCOUNT NAME           AMOUNT
---------   -----   ------------   --------------
beta        BTC     Main desk                3.00

beta        ETH     Cold desk        1,000,000.25

PORTFOLIO   ASSET   ACCOUNT NAME           AMOUNT
---------   -----   ------------   --------------
beta        SOL     Main desk                1.25
                                   --------------
Total                                  951,805.93

5 rows selected.
"""


def rows(ledger: Ledger) -> list[tuple[str, ...]]:
    """Return the portfolio, asset, account, amount and line number of each row."""
    return [
        (line.names[0], line.names[1], line.names[3], line.amount.text, str(line.line))
        for line in ledger.lines
    ]


def test_every_row_of_a_paged_report_has_its_line_number(write: Write, read: Read) -> None:
    """Each row has its line number, and a row between a blank line and a header is read."""
    ledger = read(write(PAGES, "spool.txt"))
    assert rows(ledger) == [
        ("alpha", "BTC", "Main desk", "12.5", "6"),
        ("alpha", "ETH", "Cold desk", "-48211.07", "7"),
        ("beta", "BTC", "Main desk", "3", "14"),
        ("beta", "ETH", "Cold desk", "1000000.25", "16"),
        ("beta", "SOL", "Main desk", "1.25", "20"),
    ]
    (source,) = ledger.sources
    assert (source.rejected, source.is_complete) == (0, True)
    assert source.skipped["header repeated"] == 2
    assert source.skipped["total line"] == 1


HEAD = "portfolio  asset  account    amount\n"


@pytest.mark.parametrize(
    "lines",
    [
        f"{HEAD}p1         BTC    Main        1.50\np1         ETH    A long name here 4.50\n",
        "portfolio  asset account    amount\np1         BTC 12  Main        1.50\n",
        "asset  account       amount\nBTC    Desk 1 234.50\nETH    Desk     5.25\n",
    ],
    ids=["a name over the edge", "two values in a column", "a number in a name or thousands"],
)
def test_unclear_space_aligned_columns_raise_a_question(
    write: Write, read: Read, lines: str
) -> None:
    """If a line does not fit the columns, a question asks for them before anything is read.

    Otherwise, the line might be cut in the wrong place.
    """
    with pytest.raises(
        Ambiguous, match="is a table whose columns are separated by spaces"
    ) as asked:
        read(write(lines, "spool.txt"))
    assert asked.value.line.startswith('[file."spool.txt"]\ncolumn_starts = [1, ')


def test_a_row_with_a_word_across_a_column_edge_is_rejected(write: Write, read: Read) -> None:
    """If a word crosses the edge of a column, its row is rejected and the word is not cut."""
    text = f"{HEAD}p1         BTC    Main        1.50\np1         ETH    A long name here 4.50\n"
    path = write(text, "spool.txt")
    with pytest.raises(Ambiguous) as asked:
        read(path)
    starts = [int(number) for number in re.findall("[0-9]+", asked.value.line.split("[")[-1])]
    with reading_files():
        file = open_file(path, count_fields, starts=starts)
    ledger = read_ledger([file], ReadingContext(config=Config(), day=date(2026, 11, 20)))
    assert [line.amount.text for line in ledger.lines] == ["1.5"]
    assert [row.line for row in ledger.rejected] == [3]


def test_a_row_with_a_bar_in_a_name_is_rejected(write: Write, read: Read) -> None:
    """A bar in a name gives the row too many cells, so the row is rejected with this reason."""
    ledger = read(
        write("|asset|account|amount|\n|---|---|---:|\n|BTC|a|1|\n|ETH|a|b|2|\n", "spool.txt")
    )
    assert [line.amount.text for line in ledger.lines] == ["1"]
    assert [row.reason for row in ledger.rejected] == ["the row has more cells than the header"]


def test_a_control_line_above_the_header_is_ignored(write: Write, read: Read) -> None:
    """The first line of a DATEV export does not affect how the rest of the file is read.

    It has more fields than the header, and its texts contain commas and bars.
    """
    control = '"EXTF";700;21;"Salden, alle, auch asset, amount";3;20261120;;"R|E|x";"";;1001;456'
    ledger = read(write(f"{control}\nportfolio;asset;account;amount\np1;BTC;a;1,5\n", "datev.csv"))
    assert rows(ledger) == [("p1", "BTC", "a", "1.5", "3")]


WORDS = {
    "cp1252": "Crédit Agricole;Zürich;São Paulo",
    "cp1250": "Łódź;Wrocław;Kraków",
    "cp1251": "Сбербанк;Основной счёт;банк",
    "cp1253": "Εθνική Τράπεζα;Πειραιώς;Αθήνα",
    "cp1254": "İş Bankası;Yapı Kredi;Türkiye",  # noqa: RUF001 - Turkish
    "cp1257": "Šiaulių bankas;Vilniaus;Kauno",
    "iso8859-2": "śląsk;Wrocław;Łódź",
    "iso8859-15": "5 € Zürich;Genève;Crédit",
    "koi8-r": "Сбербанк;Москва;Основной",
    "cp850": "Müller;Straße;Zürich",
    "mac-roman": "Zürich;Crédit;Société",
}


@pytest.mark.parametrize("codec", WORDS)
def test_case_32_the_code_page_of_a_text_is_detected(write: Write, read: Read, codec: str) -> None:
    """The code page of a text that is not UTF-8 is found by its words, and a notice names it."""
    names = WORDS[codec].split(";")
    text = "asset;account;amount\n" + "".join(f"BTC;{name};1.5\n" for name in names)
    ledger = read(write(text.encode(codec)))
    assert [line.names[3] for line in ledger.lines] == names
    assert ledger.notices[0].message.startswith("read as ")


def test_a_notice_shows_both_readings_of_an_ambiguous_name(write: Write, read: Read) -> None:
    """If two code pages are possible, the notice shows both readings of a name."""
    ledger = read(write("asset;account;amount\nBTC;Plzeň;1.5\n".encode("cp1250")))
    assert (
        "'Plzeò' would be 'Plzeň'. To be sure, save the file as UTF-8" in ledger.notices[0].message
    )
