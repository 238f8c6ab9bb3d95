"""Tests of printed tables, which are refused, and of text files in any code page."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from warehouse.reconcile.model import Ledger
from warehouse.reconcile.terms import Ambiguous, NotReconciled

Write = Callable[..., Path]
Read = Callable[..., Ledger]
REFUSED = sorted(Path(__file__).with_name("refused").iterdir())
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

2 rows selected.
"""
HEAD = "portfolio  asset  account    amount\n"
NOTE = "\nBalances are provided by Custodian AG as of 20 Nov 2026, 17:00, subject to audit.\n"
TABLES = {
    "pages": PAGES,
    "a misaligned name": f"{HEAD}p1         BTC    Main        1.50\np1   ETH  A long name 4.50\n",
    "commas in amounts and a note": f"{HEAD}p1         BTC    Main    1,234.50\n{NOTE}",
    "a name with a comma": f"{HEAD}p1         BTC    Li, Wei  1,234.50\n",
    "a title with a comma": "asset  account  amount, units\nBTC    Main             1.50\n",
    "spaces between thousands": "asset  account      amount\nBTC    Desk     1 234.50\n",
    "unknown titles": "Papier   Menge in Stück\nBTC           1,234.50\nETH               5.25\n",
    "Markdown": "|asset|account|amount|\n|---|---|---:|\n|BTC|a|1|\n|ETH|a|b|2|\n",
    "Markdown with unknown titles": "| Papier | Menge |\n|--------|------:|\n| BTC    |  1.50 |\n",
    "psql": " asset | amount \n-------+--------\n BTC   |   1.50\n(1 row)\n",
    "psql with unknown titles": " papier | menge \n--------+-------\n BTC    |  1.50\n(1 row)\n",
    "pipes and one rule": "asset | amount\n----------------\nBTC | 1.50\n",
}


@pytest.mark.parametrize("name", TABLES)
def test_a_printed_table_is_refused(write: Write, read: Read, name: str) -> None:
    """A table with pipes and rules or with aligned columns is refused, and never read as CSV."""
    with pytest.raises(NotReconciled, match=r"is a printed table.* save it as xlsx or CSV"):
        read(write(TABLES[name], "spool.txt"))


@pytest.mark.parametrize("sample", REFUSED, ids=lambda path: path.name)
def test_a_sample_of_a_refused_kind_is_refused(sample: Path, tmp_path: Path, read: Read) -> None:
    """Printed tables of nine programs and xls files with a wrong code page name the remedy."""
    path = Path(shutil.copy(sample, tmp_path))
    with pytest.raises(NotReconciled, match=r"save it as xlsx or CSV. Nothing was reconciled"):
        read(path)


@pytest.mark.parametrize(
    "text",
    ["Depot;Papier;Menge\na  b;BTC;1.50\na;ETH;2\n", "Depot   ;Menge   \nBTC     ;    1.50\n"],
    ids=["two spaces in a name", "padded cells"],
)
def test_a_csv_with_unknown_titles_is_not_a_printed_table(
    write: Write, read: Read, text: str
) -> None:
    """Spaces in a CSV do not make it a printed table, so a question asks for its columns."""
    with pytest.raises(Ambiguous, match="no row has titles for the asset and the amount"):
        read(write(text))


def test_a_control_line_above_the_header_is_ignored(write: Write, read: Read) -> None:
    """The first line of a DATEV export does not affect how the rest of the file is read.

    It has more fields than the header, and its texts contain commas and bars.
    """
    control = '"EXTF";700;21;"Salden, alle, auch asset, amount";3;20261120;;"R|E|x";"";;1001;456'
    ledger = read(write(f"{control}\nportfolio;asset;account;amount\np1;BTC;a;1,5\n", "datev.csv"))
    assert [(line.names[3], line.amount.text, line.line) for line in ledger.lines] == [
        ("a", "1.5", 3)
    ]


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
