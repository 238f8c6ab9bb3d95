"""Tests of columns that nightbook does not read: if one may change the amounts, the run asks once.

Each ledger has the amounts of the book, so it would match if the column were ignored.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.books import Amount
from tests.support.pasted_answers import answer
from tests.support.reconciliation_home import Desk
from tests.support.shared import some_daily
from tests.warehouse.reconcile.conftest import DAY
from tests.warehouse.reconcile.ledger.test_columns_unread import Place
from warehouse.exact import total
from warehouse.reconcile.book import KnownNames
from warehouse.reconcile.ledger.header_settings import ReadingContext
from warehouse.reconcile.ledger.read import read_ledger
from warehouse.reconcile.ledger.titles import count_fields, fingerprint
from warehouse.reconcile.model import FilePart, Ledger
from warehouse.reconcile.settings.config import TEMPLATE, read_config
from warehouse.reconcile.terms import Ambiguous, NotReconciled
from warehouse.spreadsheet.reading.grid import open_file

pytestmark = pytest.mark.usefixtures("no_workbook")

BOOK = [
    Amount("10"),
    Amount("5000", venue="v2", account="cold"),
    Amount("7", portfolio="p2"),
    Amount("100", portfolio="p2", asset="ETH"),
    Amount("3.25", asset="SOL", venue="v2", account="cold"),
    Amount("2000000", portfolio="p2", asset="USDC", venue="v2"),
]
FIELDS = ("portfolio", "asset", "venue", "account")
Column = tuple[str, Sequence[object]]


def rows_with(*columns: Column, amounts: Sequence[str] = ()) -> list[list[object]]:
    """Return the ledger of the book with more columns. A short list of values is repeated."""
    texts = amounts or [amount.text for amount in BOOK]
    rows: list[list[object]] = [[*FIELDS, "amount", *(title for title, _ in columns)]]
    for number, (amount, text) in enumerate(zip(BOOK, texts, strict=True)):
        cells = [getattr(amount, name) for name in FIELDS]
        rows.append([*cells, text, *(values[number % len(values)] for _, values in columns)])
    return rows


def csv(rows: Sequence[Sequence[object]]) -> str:
    """Return rows as CSV text."""
    return "".join(";".join(map(str, row)) + "\n" for row in rows)


NAMES = KnownNames.of(
    {
        "portfolio": {one.portfolio: (f"Portfolio {one.portfolio}",) for one in BOOK},
        "asset": {one.asset: () for one in BOOK},
        "venue": {one.venue: (f"Venue {one.venue}",) for one in BOOK},
        "account": {one.account: () for one in BOOK},
    },
    {},
)


def table(rows: Sequence[Sequence[object]]) -> str:
    """Return the heading of the recon.toml table for the ledger with these rows."""
    return f'[ledger."{fingerprint(list(map(str, rows[0])))}"]\n'


class Reader:
    """A reader that reads a ledger as a run does, and pastes the lines of each question."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "recon.toml"
        self.questions: list[Ambiguous] = []

    def read(self, rows: Sequence[Sequence[object]], lines: str = "", most: int = 1) -> Ledger:
        """Return the ledger with these rows, after pasting the lines and the answers to questions.

        If more than `most` questions are asked, the last one is raised.
        """
        path = self.folder / "ledger.csv"
        path.write_text(csv(rows), encoding="utf-8")
        self.config.write_text(f"{TEMPLATE}\n{lines}\n", encoding="utf-8")
        self.questions.clear()
        while True:
            context = ReadingContext(config=read_config(self.config), day=DAY, known=NAMES)
            try:
                return read_ledger([open_file(path, count_fields)], context)
            except Ambiguous as question:
                self.questions.append(question)
                if len(self.questions) > most:
                    raise
                answered = f"{self.config.read_text(encoding='utf-8')}\n{answer(question.line)}\n"
                self.config.write_text(answered, encoding="utf-8")


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """Return a reader for a folder with a ledger and its recon.toml."""
    return Reader(tmp_path)


def differing(ledger: Ledger) -> int:
    """Count the positions of the book whose amount in the ledger is missing or different."""
    sums: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for line in ledger.lines:
        sums[line.names[:4]].append(line.amount.text)
    book = {tuple(getattr(one, name) for name in FIELDS): one.text for one in BOOK}
    assert sums.keys() <= book.keys()
    return sum(total(sums.get(key, ["0"])) != total([text]) for key, text in book.items())


# For each column: its meaning, its title, its values, and the number of breaks after its lines are
# pasted. The amounts match only if the column is ignored.
TELLING: dict[str, tuple[Column, int]] = {
    "side: one short position": (("Side", ["Long", "Long", "Long", "Long", "Short", "Long"]), 1),
    "side: letters": (("L/S", ["L", "S"]), 3),
    "side: the title has both words": (("Long/Short", ["short", "long", "long"]), 2),
    "side: directions": (("Direction", ["in", "in", "out"]), 2),
    "side: letters of orders": (("B/S", ["B", "B", "S"]), 2),
    "side: words of orders": (("Buy/Sell", ["Buy", "Sell"]), 3),
    "side: of a balance sheet": (("Position type", ["Asset", "Asset", "Liability"]), 2),
    "side: a loan": (("Type", ["Asset", "Asset", "Asset", "Loan payable", "Asset", "Asset"]), 1),
    "side: signs": (("Sign", ["+", "-"]), 3),
    "side: a sign as a number": (("Vz", ["1", "-1"]), 3),
    "side: only the short ones are marked": (("Flag", ["", "", "short", "", "", ""]), 1),
    "side: in a remark": (("Notes", ["", "", "", "", "", "Short position"]), 1),
    "side: all of them short": (("Pos", ["SHORT"]), 6),
    "side: German": (("Richtung", ["Kauf", "Kauf", "Verkauf"]), 2),
    "side: German balance sheet": (("Bilanzseite", ["Aktiva", "Passiva"]), 3),
    "side: French": (("Sens de l'opération", ["Achat", "Vente"]), 3),
    "side: Spanish": (("Naturaleza", ["Activo", "Activo", "Pasivo"]), 2),
    "side: Dutch, under a word for numbers": (("Kenmerk", ["Activa", "Passiva"]), 3),
    "side: Italian": (("Tipo", ["acquisto", "vendita", "acquisto"]), 2),
    "side: Russian": (("Позиция", ["Лонг", "Шорт"]), 3),
    "side: Japanese": (("売買", ["買い", "売り"]), 3),
    "side: shortened words": (("Polarity", ["pos", "neg"]), 3),
    "unit: thousands": (("Unit", ["pcs", "k", "pcs"]), 2),
    "unit: millions": (("UoM", ["mio", "Stück", "Stück"]), 2),
    "unit: satoshis": (("Denomination", ["sat", "BTC", "BTC", "ETH", "SOL", "USDC"]), 1),
    "unit: of each asset": (("Einheit", ["sat", "sat", "sat", "wei", "lamports", "USDC"]), 5),
    "unit: French": (("Unité", ["unités", "milliers"]), 3),
    "unit: of all rows": (("Denominated in", ["satoshis"]), 6),
    "unit: a letter in all rows": (("in", ["k"]), 6),
    "unit: two letters in all rows": (("UoM", ["mm"]), 6),
    "scale: a multiplier": (("Multiplier", ["1", "1000", "1"]), 2),
    "scale: a factor below 1": (("Faktor", ["1", "0.001"]), 3),
    "scale: a rate, which is not proposed as a unit": (("Rate", ["1", "1000"]), 0),
    "scale: an exponent": (("Scale", ["0", "3"]), 0),
    "status: void": (("Status", ["Booked", "Booked", "VOID"]), 2),
    "status: cancelled": (("State", ["Active", "Cancelled", "Active"]), 2),
    "status: pending": (("Settlement", ["Settled", "Pending", "Settled"]), 2),
    "status: in a remark": (("Comment", ["", "", "", "", "cancelled by ops", ""]), 1),
    "status: German": (("Zustand", ["gebucht", "gebucht", "storniert"]), 2),
    "status: Spanish": (("Estado", ["vigente", "anulada"]), 3),
    "status: numbers": (("Status code", ["0", "0", "9"]), 0),
    "status: yes and no": (("Settled?", ["Y", "N"]), 0),
    "status: one mark": (("Held for others", ["", "", "x", "", "", ""]), 0),
    "status: a mark under a word for it": (("Removed?", ["", "", "Yes"]), 2),
    "status: yes and no under a word for it": (("Storniert", ["nein", "ja"]), 3),
    "status: a mark in all rows": (("Void", ["x"]), 6),
    "currency: of the report": (("Reporting ccy", ["USD", "EUR"]), 0),
    "currency: numeric codes": (("ISO 4217", ["840", "978", "840"]), 0),
    "date: of the value": (("Wertstellung", ["2026-11-20", "2026-11-19"]), 0),
    "date: of the trade": (("Traded", ["20.11.2026", "31.10.2026", ""]), 0),
    "date: years": (("Year", ["2025", "2026"]), 0),
    "date: months": (("Période", ["2026M10", "2026M11"]), 0),
    "book: actual and budget": (("Ledger", ["Actual", "Budget", "Actual"]), 2),
    "book: own and client": (("Vermögen", ["eigen", "Kunde"]), 0),
    "book: other portfolios": (("Row Labels", ["p2", "p1", "p1", "p1", "p1", "p1"]), 0),
    "book: other venues": (("Security", ["v2", "v1", "v2", "v2", "v1", "v1"]), 0),
    "book: other accounts": (("Notes", ["cold", "main", "cold", "cold", "main", "main"]), 0),
    "book: one name in a remark": (("Remarks", ["", "p2", "", "", "", ""]), 0),
    "book: numbers": (("Company code", ["1000", "1000", "2000"]), 0),
    "class: of the asset": (("Asset class", ["Spot", "Spot", "Perp"]), 0),
    "class: letters": (("Share class", ["A", "B"]), 0),
    "class: Italian": (("Categoria", ["contanti", "a termine"]), 0),
    "class: a level": (("Tier", ["1", "2", "2"]), 0),
}


@pytest.mark.parametrize("name", TELLING)
def test_a_column_that_may_change_amounts_raises_a_question(reader: Reader, name: str) -> None:
    """Each of these ledgers raises one question, and its lines give the expected breaks."""
    column, breaks = TELLING[name]
    ledger = reader.read(rows_with(column))
    assert [repr(column[0]) in question.message for question in reader.questions] == [True]
    assert (differing(ledger), ledger.rejected) == (breaks, []), reader.questions[0].line


def test_the_table_has_forty_columns_of_all_kinds() -> None:
    """The table has at least 40 columns, and every kind is included."""
    kinds = {name.partition(":")[0] for name in TELLING}
    assert len(TELLING) >= 40
    assert kinds == {"side", "unit", "scale", "status", "currency", "date", "book", "class"}


ISINS = ["XS1000000001", "XS1000000002", "XS1000000003", "XS1000000004", "XS10AB", "XS100007"]
HARMLESS: dict[str, list[Column]] = {
    "ISIN": [("ISIN", [*ISINS[:1] * 3, *ISINS[1:4]])],
    "WKN": [("WKN", ["A0S9GB", "A0S9GB", "A0S9GB", "A1JX52", "A2ABCD", "A3EFGH"])],
    "prices": [("Price", ["61234.5", "61234.5", "61234.5", "3120.11", "141.07", "0.9998"])],
    "prices of each row": [("Kurs", ["61,2", "61,3", "61,4", "3,1", "14,07", "0,98"])],
    "two columns of prices": [
        ("Price", ["1", "2", "3", "4", "5", "6"]),
        ("Price", ["61", "61", "61", "3", "1", "9"]),
    ],
    "values": [("Market value EUR", ["1.1", "2.2", "3.3", "4.4", "5.5", "6.6"])],
    "weights": [("Weight", ["12.5%", "7.1%", "30%", "0.4%", "49%", "1%"])],
    "row numbers": [("No.", ["1", "2", "3", "4", "5", "6"])],
    "row numbers from another one": [("Zeile", ["17", "18", "19", "20", "21", "22"])],
    "ids of rows": [("Record", [f"7f3a-{number}c91" for number in range(6)])],
    "numbers of rows": [("Ref", [str(99120 + number * 7) for number in range(6)])],
    "timestamps of the same day": [
        ("Updated at", [f"2026-11-20T0{number}:12:45Z" for number in range(6)])
    ],
    "times of the day": [("Clock", ["09:15", "09:15:30", "9:16 pm", "17:00", "12:00", "12:01"])],
    "timestamps of two days": [("Last seen", ["2026-11-19 23:58", "2026-11-20 00:01"])],
    "Unix times": [("Unix", [str(1795160000 + number) for number in range(6)])],
    "one person for all rows": [("Booked by", ["ops"])],
    "one word for all rows": [("Fassung", ["final"]), ("Quelle", ["Fundbuch"])],
    "nothing": [("Reserved", [""])],
    "names of assets": [
        ("Asset name", ["Bitcoin", "Bitcoin", "Bitcoin", "Ether", "Solana", "USD Coin"])
    ],
    "names of venues": [
        ("Trading place", ["Venue v1", "Venue v2", "Venue v1", "Venue v1", "Venue v2", "Venue v2"])
    ],
    "names of portfolios": [
        ("Fund name", [f"Portfolio {amount.portfolio}" for amount in BOOK]),
    ],
    "the asset again": [("Unit", [amount.asset for amount in BOOK])],
    "initials, one of them like a unit": [("Checked by", ["TK", "MM"])],
    "dates of removal, of few rows": [("Removed", ["", "2026-11-20"])],
    "account numbers": [("Account no.", ["K-77", "K-78", "K-77", "K-77", "K-78", "K-77"])],
    "countries of venues": [("Country", ["US", "MT", "US", "US", "MT", "MT"])],
    "networks": [("Network", ["Bitcoin", "Bitcoin", "Bitcoin", "ERC-20", "Solana", "Base"])],
    "notes": [("Notes", ["see the mail of Monday", "", "", "ask Ada", "", "from the audit"])],
    "all at once": [
        ("#", ["1", "2", "3", "4", "5", "6"]),
        ("ISIN", [*ISINS[:1] * 3, *ISINS[1:4]]),
        ("Asset name", ["Bitcoin", "Bitcoin", "Bitcoin", "Ether", "Solana", "USD Coin"]),
        ("Price USD", ["61234.5", "61234.5", "61234.5", "3120.11", "141.07", "0.9998"]),
        ("Value USD", ["1.1", "2.2", "3.3", "4.4", "5.5", "6.6"]),
        ("Country", ["US", "MT", "US", "US", "MT", "MT"]),
        ("Reviewed", ["Ada", "Grace"]),
        ("Notes", ["", "ask Ada", "", "", "", ""]),
        ("Updated", [f"2026-11-20T0{number}:12:45Z" for number in range(6)]),
    ],
}
SILENT = {
    *("ISIN", "WKN", "prices", "prices of each row", "values", "weights", "row numbers", "nothing"),
    *("row numbers from another one", "ids of rows", "numbers of rows", "names of assets"),
    *("timestamps of the same day", "times of the day", "one person for all rows"),
    *("one word for all rows", "names of venues", "names of portfolios", "the asset again"),
    *("account numbers", "two columns of prices"),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_columns_raise_at_most_one_question(reader: Reader, name: str) -> None:
    """One pasted answer settles all columns of a ledger, and then all amounts match."""
    ledger = reader.read(rows_with(*HARMLESS[name]))
    assert (differing(ledger), ledger.rejected) == (0, [])
    assert len(reader.questions) == (name not in SILENT)


def test_the_table_has_twenty_ledgers() -> None:
    """The table has at least 20 ledgers."""
    assert len(HARMLESS) >= 20


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Publish one book for all runs, and return the path of its database."""
    made = Desk(tmp_path_factory.mktemp("home"))
    made.publish(BOOK)
    return made.layout.database


@pytest.mark.parametrize("name", some_daily([*TELLING, *HARMLESS], 17))
def test_a_question_ends_the_run_until_it_is_settled(
    database: Path, tmp_path: Path, name: str
) -> None:
    """A question ends the run with exit code 3. Pasting its lines gives the expected breaks."""
    (tmp_path / "inbox").mkdir()
    place = Place(database, tmp_path)
    columns, breaks = (
        ([TELLING[name][0]], TELLING[name][1])
        if name in TELLING
        else (
            HARMLESS[name],
            0,
        )
    )
    place.put(csv(rows_with(*columns)))
    if name not in SILENT:
        with pytest.raises(Ambiguous) as asked:
            place.run()
        assert asked.value.exit_code == 3
        place.settle(asked.value.line)
    ran = place.run()
    assert (ran.breaks, ran.exit_code) == (breaks, 3 if breaks else 0)


# For each column: its title, its values, the ledger's amounts, and the lines for recon.toml. A
# minus sign shows that the column makes the amount negative.
TYPED: dict[str, tuple[Column, str, str]] = {
    "a word that is not debit or credit": (
        ("Side", ["Long", "Long", "Short", "Long", "Short", "Long"]),
        "10 5000 -7 100 -3.25 2000000",
        'sign = "Side"\nnegative_word = "Short"',
    ),
    "two words that nightbook does not know": (
        ("Lado", ["Mine", "Mine", "Not mine", "Mine", "Not mine", "Mine"]),
        "10 5000 -7 100 -3.25 2000000",
        'sign = "Lado"\nnegative_word = "Not mine"',
    ),
    "several words of each kind": (
        ("Type", ["Spot", "Perp", "Loan in", "Spot", "Repo", "Perp"]),
        "10 5000 -7 100 -3.25 2000000",
        'sign = "Type"\nnegative_word = ["Loan in", "Repo"]\npositive_word = ["Spot", "Perp"]',
    ),
    "a mark beside some amounts": (
        ("Short?", ["", "", "x", "", "x", ""]),
        "10 5000 -7 100 -3.25 2000000",
        'sign = "Short?"\nnegative_word = "x"\npositive_word = ""',
    ),
    "a unit in each row": (
        ("Unit", ["pcs", "k", "pcs", "k", "pcs", "mio"]),
        "10 5 7 0.1 3.25 2",
        'unit_column = "Unit"\nunit_words = { k = "1000", mio = "1000000", pcs = "1" }',
    ),
    "a unit that may be the asset": (
        ("In", ["sat", "BTC", "btc", "wei", "SOL", "USDC"]),
        "1000000000 5000 7 100000000000000000000 3.25 2000000",
        'unit_column = "In"\nunit_words = { sat = "0.00000001", wei = "0.000000000000000001" }',
    ),
}


def test_a_guessed_factor_is_called_a_guess(reader: Reader) -> None:
    """A comment in the proposed line says which factor is only a guess."""
    units = ("Unit", ["k", "bales", "k", "k", "bales", "k"])
    rows = rows_with(units, amounts=["1", "2", "3", "4", "5", "6"])
    with pytest.raises(Ambiguous) as asked:
        reader.read(rows, most=0)
    line = asked.value.line.splitlines()[-1]
    assert line.startswith('# unit_words = { "k" = "1000", "bales" = "1" }   # ')
    assert "guess for 'bales'" in line


@pytest.mark.parametrize("name", TYPED)
def test_recon_toml_sets_negative_words_and_unit_factors(reader: Reader, name: str) -> None:
    """recon.toml sets the words that make an amount negative, and the factor of each unit."""
    column, amounts, lines = TYPED[name]
    rows = rows_with(column, amounts=[text.removeprefix("-") for text in amounts.split()])
    signs = ["-" if "-" in text else "" for text in amounts.split()]
    ledger = reader.read(rows, table(rows) + lines, most=0)
    negated = [line.amount.text.startswith("-") for line in ledger.lines]
    assert negated == [bool(sign) for sign in signs]
    assert differing(ledger) == sum(negated)


@pytest.mark.parametrize(
    "note", ["All amounts in thousands", "* Beträge in TEUR", "Figures in EUR million"]
)
def test_a_unit_in_a_note_below_the_table_applies(reader: Reader, note: str) -> None:
    """A unit in a note below the table has the same effect as in a note above it.

    If the note were ignored, all amounts would match.
    """
    below = reader.read([*rows_with(), [], [note]], most=0)
    texts = [line.amount.text for line in below.lines]
    above = reader.read([[note], *rows_with()], most=0)
    assert texts == [line.amount.text for line in above.lines]
    assert differing(below) == len(BOOK)
    assert repr(note) in below.notices[0].message


def test_void_rows_are_skipped_and_reported(reader: Reader) -> None:
    """A void row is not used, whatever its amount, and the reason names the word in its status."""
    column = ("Status", ["Booked", "Booked", "Booked", "Booked", "Booked", "Booked", "VOID"])
    rows = rows_with(column)
    rows.append([*rows[1][:4], "999999", "void"])
    rows.append([*rows[1][:4], "", "VOID"])
    ledger = reader.read(rows)
    assert (differing(ledger), ledger.rejected) == (0, [])
    (source,) = ledger.sources
    assert source.skipped == {
        "the 'Status' column contains 'VOID'": 1,
        "the 'Status' column contains 'void'": 1,
    }
    reasons = {item.reason for item in ledger.unused if item.kind is FilePart.ROW}
    assert reasons == set(source.skipped)


NEW_WORDS = {
    "a side": (("Side", ["Long", "Short"]), ("Side", ["Long", "Flat", "Swap"])),
    "a unit": (("Unit", ["k", "pcs"]), ("Unit", ["k", "pcs", "bag"])),
    "another asset as a unit": (("Unit", ["sat", "wei"]), ("Unit", ["sat", "ETH"])),
    "a status": (("Status", ["ok", "VOID"]), ("Status", ["ok", "Hold"])),
}


@pytest.mark.parametrize("name", NEW_WORDS)
def test_a_new_word_raises_a_question(reader: Reader, name: str) -> None:
    """A word that recon.toml does not list raises a question, and its answer keeps other words."""
    before, after = NEW_WORDS[name]
    reader.read(rows_with(before))
    lines = reader.questions[0].line
    assert not reader.read(rows_with(after), lines).rejected
    assert "recon.toml does not say" in reader.questions[0].message
    answers = f"{lines}\n{answer(reader.questions[0].line)}"
    reader.read(rows_with(after), answers, most=0)
    reader.read(rows_with(before), answers, most=0)


def test_a_column_that_starts_to_differ_raises_a_question(reader: Reader) -> None:
    """If the values of one more column start to differ, the question is only about this column.

    The other columns are already listed as unused, in either table of recon.toml.
    """
    rows = rows_with(("Country", ["US", "MT"]), ("Desk", ["A"]))
    for heading in (table(rows), '[file."ledger*"]\n'):
        lines = f'{heading}unused = ["Country"]'
        reader.read(rows, lines, most=0)
        reader.read(rows_with(("Country", ["US", "MT"]), ("Desk", ["A", "B"])), lines)
        assert "'Desk'" in reader.questions[0].message
        assert "'Country'" not in reader.questions[0].message


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('negative_word = "Short"', "needs the `sign` setting"),
        ('unit_column = "Unit"\nunit_words = { k = "0" }', "'k' is 0, expected a factor above 0"),
        ('unit_column = "Unit"\nunit_words = { k = 1000 }', "expected a string"),
        (
            'keep_rows = { S = ["a"] }\nskip_rows = { S = ["a"] }',
            "lists 'a' from column 'S' under both",
        ),
        ('unit_column = "Unit"', "no column 'Unit', but recon.toml names this column for the unit"),
        ('skip_rows = { S = ["a"] }', "names this column for keep_rows or skip"),
    ],
)
def test_a_setting_that_cannot_be_applied_is_refused(
    reader: Reader, lines: str, words: str
) -> None:
    """A setting that cannot be applied stops the run, and the error says what is wrong."""
    rows = rows_with(("Side", ["Long"]))
    with pytest.raises(NotReconciled, match="(?s).*".join(map(re.escape, [words]))):
        reader.read(rows, table(rows) + lines)


def test_a_column_of_signs_needs_its_negative_word(reader: Reader) -> None:
    """The run asks which word is negative, because the column alone does not show it."""
    rows = rows_with(("S/H", ["S", "H"]))
    reader.read(rows, f'{table(rows)}sign = "S/H"')
    assert 'negative_word = "H"' in reader.questions[0].line


def test_a_column_is_checked_in_rows_with_a_filled_down_asset(reader: Reader) -> None:
    """The check of a column includes rows with a filled-down asset, but not total lines."""
    rows = rows_with(("Side", ["Long"]))
    total_line = ["Total", "", "", "", "2005120.25", ""]
    assert differing(reader.read([*rows, total_line], most=0)) == 0
    rows[2][-1] = "Short"
    rows[2][1] = ""
    lines = f'{table(rows)}fill_down = ["asset"]'
    assert differing(reader.read([*rows, total_line], lines)) == 1
    assert "'Side' (Long, Short)" in reader.questions[0].message


PARTS = [Amount("10"), Amount("3", bucket="staking", state="locked"), Amount("5", asset="ETH")]


@pytest.mark.parametrize("title", ["Balance type", "Status"])
@pytest.mark.parametrize("word", ["Available", "Free balance"])
def test_one_part_of_all_balances_is_asked(tmp_path: Path, title: str, word: str) -> None:
    """If all amounts are one part of a balance, the answer compares only that part."""
    desk = Desk(tmp_path)
    desk.publish(PARTS)
    desk.put(
        f"Portfolio,Venue,Account,Asset,Quantity,{title}\np1,v1,main,BTC,10,{word}\n"
        f"p1,v1,main,ETH,5,{word}\n"
    )
    with pytest.raises(Ambiguous, match=f"'{title}' column contains '{word}' in all") as question:
        desk.run()
    desk.settle(question.value.line.replace('# bucket = "trading free"', 'bucket = "trading free"'))
    ran = desk.run()
    assert (ran.exit_code, ran.counts["Matched"]) == (0, 2)


def test_parts_in_other_words_than_the_book_are_added_up(tmp_path: Path) -> None:
    """If the book has none of a column's kinds of balance, the rows are compared as a whole."""
    desk = Desk(tmp_path)
    desk.publish(PARTS)
    desk.put(
        "Portfolio,Venue,Account,Asset,Quantity,Balance type\np1,v1,main,BTC,10,Free\n"
        "p1,v1,main,BTC,3,Staked\np1,v1,main,BTC,13,Total\np1,v1,main,ETH,5,Total\n"
    )
    with pytest.raises(Ambiguous) as question:
        desk.run()
    desk.settle(question.value.line)
    assert desk.run().exit_code == 0


@pytest.mark.parametrize(
    ("title", "word"), [("Status", "Settled"), ("Status", "Total"), ("Bucket", "trading free")]
)
def test_words_of_whole_balances_are_not_asked(tmp_path: Path, title: str, word: str) -> None:
    """A word for whole balances, or for a kind of balance in the book, needs no answer."""
    desk = Desk(tmp_path)
    desk.publish([Amount("10")])
    desk.put(f"Portfolio,Venue,Account,Asset,Quantity,{title}\np1,v1,main,BTC,10,{word}\n")
    assert desk.run().exit_code == 0
