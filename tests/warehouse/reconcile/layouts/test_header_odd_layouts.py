"""Tests of odd layouts from programs and people: each is read correctly or raises one question."""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import openpyxl
import pytest

from tests.support.books import Amount
from tests.support.ledger_samples import BOOK
from tests.support.pasted_answers import (
    AMOUNTS,
    FIELDS,
    KEYS,
    AnswerFolder,
    CellRows,
    assert_right,
    csv,
    rows,
)
from tests.support.reconciliation_home import Desk
from tests.support.shared import some_daily

pytestmark = pytest.mark.usefixtures("no_workbook")

TABLE = rows(["Quantity"], AMOUNTS)
HEADER, *LINES = csv(TABLE).splitlines()


def marked(text: str, every: int = 3) -> CellRows:
    """Return the book with this text after one in `every` amounts."""
    marks = [text if number % every == 0 else "" for number in range(len(AMOUNTS))]
    amounts = [f"{amount}{mark}" for amount, mark in zip(AMOUNTS, marks, strict=True)]
    return rows(["Quantity"], amounts)


@pytest.mark.parametrize("cell", ['="{}"', '"=""{}"""'])
def test_a_quoted_formula_in_a_csv_is_read_as_its_text(folder: AnswerFolder, cell: str) -> None:
    """A cell like ="20.62" is read as the text between its quotes, including any commas."""
    amounts = [f"{float(text):,.8f}" for text in AMOUNTS]
    body = [[*key, amount] for key, amount in zip(KEYS, amounts, strict=True)]
    folder.put(csv([[*FIELDS, "Quantity"]]) + csv(wrapped(body, cell)), "ledger.csv")
    ran = folder.paste()
    assert_right(ran)
    assert not ran.asked


def wrapped(table: CellRows, cell: str) -> CellRows:
    """Return a table with each cell written like `cell`."""
    return [[cell.format(text) for text in row] for row in table]


def paged(*heading: str, first: bool = True) -> str:
    """Return the book on three pages, each with these heading lines and the header.

    If `first` is false, the first page does not have the heading lines.
    """
    pages = [LINES[:5], LINES[5:11], LINES[11:]]
    text = ""
    for number, lines in enumerate(pages, 1):
        above = [line.format(number) for line in heading] if first or number > 1 else []
        text += "".join(f"{line}\n" for line in (*above, HEADER, *lines))
    return text


PAGES = {
    "a page number below the amounts": paged("Custody report,,,,Page {}", "20 Nov 2026,,,,"),
    "below the assets": paged(",Custody report,,,Seite {} von 3", ",20 Nov 2026,,,"),
    "in two cells": paged("Custody report,,,Page,{}", "20 Nov 2026,,,,"),
    "not on the first page": paged("Custody report,,,,page {} of 3", first=False),
    "a number alone": paged(",,,,Página {} de 3", first=False),
    "carried forward": paged("Report,,,,Page {}").replace(
        "Report,,,,Page 2", "Carried forward,,,,99.5\nReport,,,,Page 2\nÜbertrag,,,,99.5"
    ),
}


@pytest.mark.parametrize("name", some_daily(PAGES, 3))
def test_page_headings_in_a_csv_are_skipped(folder: AnswerFolder, name: str) -> None:
    """Page headings are skipped without a question, and no row is rejected or lost."""
    folder.put(PAGES[name], "ledger.csv")
    ran = folder.paste()
    assert_right(ran)
    assert not ran.asked


def test_a_line_with_an_amount_is_not_a_page_heading(folder: AnswerFolder) -> None:
    """A line with an amount but without a page number is not skipped as a page heading."""
    folder.put(f"Cash,,,,1000\n{csv(TABLE)}Cash,,,,2000\n", "ledger.csv")
    summary = folder.run()
    assert summary.exit_code == 3
    assert any("row 19" in notice.message for notice in summary.notices)


@pytest.mark.parametrize("mark", some_daily([" (1)", "*", " †", "²", " [2]", " 1)", " **"], 4))
def test_one_line_settles_footnote_marks_of_amounts(folder: AnswerFolder, mark: str) -> None:
    """After the line is pasted, no row is rejected, and the marks are not part of the amounts."""
    folder.put(
        csv(marked(mark)) + f'"{mark.strip()} Includes staked positions",,,,\n', "ledger.csv"
    )
    ran = folder.paste()
    assert_right(ran)
    (asked,) = ran.asked
    assert "Includes staked positions" in asked.message


@pytest.mark.parametrize("note", ["* in thousands", "* owed to the broker", "(k) thousands"])
def test_a_footnote_that_may_change_amounts_needs_a_decision(
    folder: AnswerFolder, note: str
) -> None:
    """If a footnote may change amounts, a person must first remove the `#` from its line."""
    mark = note.partition(" ")[0]
    folder.put(csv(marked(f" {mark}")) + f"{note},,,,\n", "ledger.csv")
    ran = folder.paste()
    assert ran.summary is None
    assert note in ran.asked[0].message


def test_a_new_footnote_mark_is_added_to_the_settled_marks(folder: AnswerFolder) -> None:
    """A new mark raises a question, whose answer lists it together with the settled marks."""
    folder.put(csv(marked("*")), "ledger.csv")
    assert_right(folder.paste())
    folder.put(csv(marked("*")).replace("12.5*", "12.5 (1)"), "ledger.csv")
    ran = folder.paste()
    assert_right(ran)
    assert 'footnotes = ["*", "(1)"]' in ran.asked[0].line


PRICED = [[*key, text, "1.00"] for key, text in zip(KEYS, AMOUNTS, strict=True)]
STATEMENTS = {
    "a German custody statement": (
        ("Depot", "Bezeichnung", "Lagerstelle", "Konto", "Bestand", "Kurs", "Währung"),
        ("EUR",),
    ),
    "security and CCY": (
        ("Portfolio", "Security", "Venue", "Account", "Quantity", "Price", "CCY"),
        ("USD", "EUR"),
    ),
    "a French statement": (
        ("Portefeuille id", "Titre", "Dépositaire", "Compte", "Quantité", "Cours", "Devise"),
        ("CHF",),
    ),
    "a Spanish statement, without a price": (
        ("Cartera", "Denominación", "Custodio", "Cuenta", "Cantidad", "Nr", "Divisa"),
        ("EUR", "USD", "GBP"),
    ),
}


@pytest.mark.parametrize("name", some_daily(STATEMENTS, 2))
def test_the_currency_of_a_price_is_not_read_as_the_asset(folder: AnswerFolder, name: str) -> None:
    """The lines of a question about both columns select the assets, not the price currencies."""
    titles, currencies = STATEMENTS[name]
    body = [[*row, currencies[at % len(currencies)]] for at, row in enumerate(PRICED)]
    folder.put(csv([titles, *body], ";"), "statement.csv")
    ran = folder.paste()
    assert_right(ran)
    assert f'asset = "{titles[1]}"' in ran.asked[0].line


def test_a_currency_column_may_contain_the_assets(folder: AnswerFolder) -> None:
    """A column stays the asset column if any of its assets is not a currency of prices."""
    body = [
        [*key, text, f"Lot {at}"] for at, (key, text) in enumerate(zip(KEYS, AMOUNTS, strict=True))
    ]
    folder.put(
        csv([["Portfolio", "Currency", "Venue", "Account", "Quantity", "Name"], *body]), "a.csv"
    )
    ran = folder.paste()
    assert_right(ran)
    assert not any("only currencies" in question.message for question in ran.asked)


COINS = [
    Amount("1.5", asset="ETH"),
    Amount("0.000000000000000001", asset="ETH", account="cold"),
    Amount("2.00000001"),
    Amount("3.123456789", asset="SOL"),
    Amount("7", asset="USDC"),
]
PLACES = {"ETH": 18, "BTC": 8, "SOL": 9, "USDC": 6}
KEY = ("portfolio", "asset", "venue", "account")


def smallest(coins: Sequence[Amount]) -> list[list[str]]:
    """Return rows with these amounts in the smallest units of their assets."""
    units = [Decimal(coin.text).scaleb(PLACES[coin.asset]) for coin in coins]
    return [
        [*(getattr(coin, name) for name in KEY), f"{unit:.0f}"]
        for coin, unit in zip(coins, units, strict=True)
    ]


UNITS = {
    "BTC": ("Balance (satoshis)", "balance_sats", "Satoshis", "Saldo in sat"),
    "ETH": ("Balance (wei)", "balanceWei", "wei", "Quantity [wei]"),
    "SOL": ("Balance in lamports", "lamports", "Amount lamports"),
}


@pytest.mark.parametrize("asset", UNITS)
def test_a_smallest_unit_in_a_title_divides_the_amounts(tmp_path: Path, asset: str) -> None:
    """If a title names an asset's smallest unit, the amounts are divided exactly.

    A notice reports this, and gives the line that prevents it.
    """
    coins = [coin for coin in COINS if coin.asset == asset]
    desk = Desk(tmp_path)
    desk.publish(coins)
    for title in UNITS[asset]:
        desk.put(csv([[*KEY, title], *smallest(coins)]))
        summary = desk.run()
        assert (summary.exit_code, summary.counts["Matched"]) == (0, len(coins)), title
        assert any('unit = "one"' in notice.message for notice in summary.notices)


def test_one_answer_settles_a_column_of_decimals(tmp_path: Path) -> None:
    """Amounts in wei, satoshis and lamports are each divided by the right power of ten."""
    desk = Desk(tmp_path)
    desk.publish(COINS)
    folder = AnswerFolder(desk.layout.database, tmp_path / "reconcile")
    decimals = [[*row, str(PLACES[str(row[1])])] for row in smallest(COINS)]
    folder.put(csv([[*KEY, "Amount", "Decimals"], *decimals]), "ledger.csv")
    ran = folder.paste()
    assert ran.summary is not None
    assert (ran.summary.exit_code, ran.summary.counts["Matched"]) == (0, len(COINS))
    assert len(ran.asked) == 1


def test_whole_coins_next_to_decimals_need_a_decision(tmp_path: Path) -> None:
    """7 USDC and 7 millionths of it can look alike, so pasting the lines settles nothing."""
    desk = Desk(tmp_path)
    coins = [Amount("7000000", asset="USDC"), Amount("3")]
    desk.publish(coins)
    folder = AnswerFolder(desk.layout.database, tmp_path / "reconcile")
    body = [
        [*(getattr(coin, name) for name in KEY), coin.text, PLACES[coin.asset]] for coin in coins
    ]
    folder.put(csv([[*KEY, "Amount", "Decimals"], *body]), "ledger.csv")
    assert folder.paste().summary is None
    ran = folder.paste(2)
    assert ran.summary is not None
    assert (ran.summary.exit_code, ran.summary.counts["Matched"]) == (0, 2)


def test_one_smallest_unit_for_several_assets_needs_a_decision(tmp_path: Path) -> None:
    """Wei of ETH and of a token with six decimals are different units, so the run asks."""
    desk = Desk(tmp_path)
    desk.publish(COINS)
    folder = AnswerFolder(desk.layout.database, tmp_path / "reconcile")
    folder.put(csv([[*KEY, "Balance (wei)"], *smallest(COINS)]), "ledger.csv")
    ran = folder.paste()
    assert ran.summary is None
    assert "the smallest unit of one asset" in ran.asked[0].message


def test_a_smallest_unit_next_to_an_amount_is_converted(tmp_path: Path) -> None:
    """An amount of `200000001 sats` is read as 2.00000001 BTC, and a notice says so."""
    desk = Desk(tmp_path)
    coins = [coin for coin in COINS if coin.asset == "BTC"]
    desk.publish(coins)
    body = [[*row[:4], f"{row[4]} sats"] for row in smallest(coins)]
    desk.put(csv([[*KEY, "Amount"], *body]))
    summary = desk.run()
    assert (summary.exit_code, summary.counts["Matched"]) == (0, 1)
    assert any("multiplied by 0.00000001" in notice.message for notice in summary.notices)


WORDS = {"BTC": "Bitcoin", "ETH": "Ether", "SOL": "Solana", "USDC": "USD Coin"}
SPELLINGS = {
    "{asset} Curncy": "{} Curncy",
    "{word} ({asset})": "* ({})",
    "X:{asset}": "X:{}",
    "{asset} - {word}": "{} - *",
    "{asset}/EUR": "{}/EUR",
}


@pytest.mark.parametrize("written", some_daily(SPELLINGS, 2))
def test_one_line_settles_text_around_every_asset_name(folder: AnswerFolder, written: str) -> None:
    """The question shows the spelling with `{}` in place of the name, and no alias is needed."""
    assets = [
        written.format(asset=row.asset, word=WORDS.get(row.asset, f"Money of {row.asset.lower()}"))
        for row in BOOK
    ]
    keys = [(key[0], asset, *key[2:]) for key, asset in zip(KEYS, assets, strict=True)]
    table = [[*key, text] for key, text in zip(keys, AMOUNTS, strict=True)]
    folder.put(csv([[*FIELDS, "Quantity"], *table], ";"), "ledger.csv")
    ran = folder.paste()
    assert_right(ran)
    assert [question.line.split("\n")[1] for question in ran.asked] == [
        f'asset_spelling = "{SPELLINGS[written]}"'
    ]


def test_the_longest_known_asset_name_is_used(tmp_path: Path) -> None:
    """The longest name in the book is used, because `ETH.S` and `ETH` are different assets."""
    assets = ("ETH", "ETH.S", "SOL.S", "LP-GLM-USDC", "Fund of art")
    desk = Desk(tmp_path)
    desk.publish([Amount(f"{number}.5", asset=asset) for number, asset in enumerate(assets)])
    folder = AnswerFolder(desk.layout.database, tmp_path / "reconcile")
    table = [["p1", f"{asset} Comdty", "v1", "main", f"{n}.5"] for n, asset in enumerate(assets)]
    folder.put(csv([[*KEY, "Amount"], *table]), "ledger.csv")
    ran = folder.paste()
    assert [question.line.split("\n")[1] for question in ran.asked] == [
        'asset_spelling = "{} Comdty"'
    ]
    assert ran.summary is not None
    assert (ran.summary.exit_code, ran.summary.counts["Matched"]) == (0, len(assets))


def test_a_future_is_not_proposed_as_its_asset(folder: AnswerFolder) -> None:
    """BTC-PERP is not BTC: its rows are unknown assets, and no line removes the suffix."""
    keys = [(key[0], f"{key[1]}-PERP", *key[2:]) for key in KEYS]
    table = [[*key, text] for key, text in zip(keys, AMOUNTS, strict=True)]
    folder.put(csv([[*FIELDS, "Quantity"], *table]), "ledger.csv")
    ran = folder.paste()
    assert ran.summary is not None
    assert not ran.asked
    assert ran.summary.counts["Unmapped"] == len(BOOK)


def test_one_line_settles_footnote_marks_of_names(
    folder: AnswerFolder,
) -> None:
    """After its mark is settled as a footnote, `ETH (1)` is read as ETH."""
    table = [
        [key[0], f"{key[1]} (1)" if number % 4 == 0 else key[1], *key[2:], text]
        for number, (key, text) in enumerate(zip(KEYS, AMOUNTS, strict=True))
    ]
    folder.put(csv([[*FIELDS, "Quantity"], *table]), "ledger.csv")
    ran = folder.paste()
    assert_right(ran)
    assert 'footnotes = ["(1)"]' in ran.asked[0].line


def test_the_message_explains_how_to_type_a_name_like_a_formula(tmp_path: Path) -> None:
    """For a name like `=Hedge`, the message says how to type it, and not to save the file again."""
    desk = Desk(tmp_path)
    desk.publish([Amount("1.5", account="=Hedge")])
    folder = AnswerFolder(desk.layout.database, tmp_path / "reconcile")
    folder.put([[*KEY, "Amount"], ["p1", "BTC", "v1", "=Hedge", 1.5]], "ledger.xlsx")
    (notice, *_) = folder.run().notices
    assert "the account is a formula without a result" in notice.message
    assert "type an apostrophe before it ('=Name)" in notice.message
    assert "save" not in notice.message
    (path,) = (folder.root / "inbox").iterdir()
    book = openpyxl.load_workbook(path)
    book["Ledger"]["D2"].data_type = "s"  # as programs store text typed with an apostrophe
    book.save(path)
    summary = folder.run()
    assert (summary.exit_code, summary.counts["Matched"]) == (0, 1)
