"""Tests of content that once ended green without a word: each is now asked, rejected or told."""

from decimal import Decimal
from pathlib import Path

import openpyxl
import pytest

from tests.support.books import Amount
from tests.support.reconciliation_home import Desk
from warehouse.reconcile.terms import Ambiguous, LateError, NotReconciled

pytestmark = pytest.mark.usefixtures("no_workbook")

BOOK = [
    Amount("10"),
    Amount("5", venue="v2", account="cold"),
    Amount("7", portfolio="p2"),
    Amount("-20.62345678", portfolio="p2", asset="ETH"),
]
HEAD = "Portfolio,Venue,Account,Asset,Quantity"
ROWS = [f"{one.portfolio},{one.venue},{one.account},{one.asset},{one.text}" for one in BOOK]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Create a desk with a book of four amounts for 2026-11-20."""
    made = Desk(tmp_path)
    made.publish(BOOK)
    return made


def with_column(title: str, *values: str) -> str:
    """Return the right ledger with one more column. A short list of values is repeated."""
    cells = (values[number % len(values)] for number in range(len(ROWS)))
    return "\n".join(
        [f"{HEAD},{title}", *(f"{row},{cell}" for row, cell in zip(ROWS, cells, strict=True))]
    )


def below(*lines: str, title: str = "") -> str:
    """Return the right ledger with lines below its rows."""
    return "\n".join([HEAD + title, *ROWS, *lines])


def asked(desk: Desk, text: str) -> str:
    """Run a ledger, and return the question's message and lines."""
    desk.put(text)
    with pytest.raises(Ambiguous) as question:
        desk.run()
    return str(question.value)


def paste(desk: Desk, question: str) -> None:
    """Add the lines of a question, which start at the heading of their table, to recon.toml."""
    lines = question[question.index('[ledger."') :]
    desk.settle(
        "\n".join(line.strip() for line in lines.splitlines() if "=" in line or "[" in line)
    )


@pytest.mark.parametrize(
    "line",
    [
        "Cash (EUR),,,,,EUR 250000",
        "Cash,,,,,250000.00",
        "Accrued interest,,,,,(12.5)",
        "p1,v1,main,,,",
        "p1,v1,main,,,EUR 250000",
    ],
)
def test_a_row_with_an_amount_or_a_name_is_not_a_note(desk: Desk, line: str) -> None:
    """A row without an asset and quantity is rejected if another column states a position."""
    desk.put(below(line, title=",Value").replace(",Value\n", ",Value\n", 1))
    ran = desk.run()
    assert ran.exit_code == 3
    assert ran.run is not None
    assert ran.run.rejected == 1


@pytest.mark.parametrize(
    "line", ["Prepared by A,,,,,", "Rates of 20.11.2026,,,,,", ",,,,,see note"]
)
def test_a_line_of_text_is_quoted_but_not_rejected(desk: Desk, line: str) -> None:
    """A line of text below the rows is quoted among the unused parts, and the ledger ties out."""
    desk.put(below(line, title=",Value"))
    ran = desk.run()
    assert ran.exit_code == 0
    [note] = [item for item in ran.unused if item.reason.startswith("title or note")]
    assert line.strip(",").split(",")[0] in note.reason


@pytest.mark.parametrize(
    "line",
    [
        "PRELIMINARY",
        "Excluding staking",
        "Quantities are net of 500 BTC pledged to v1.",
        "Report truncated: first 36 of 120 rows shown",
        "36 of 1200 rows",
        "Vorläufige Zahlen",
        "Chiffres provisoires hors staking",
    ],
)
def test_a_line_that_may_change_amounts_is_asked_once(desk: Desk, line: str) -> None:
    """A person must read such a line. After it is pasted, the ledger is compared."""
    question = asked(desk, below(line))
    assert line in question
    paste(desk, question)
    assert desk.run().exit_code == 0


@pytest.mark.parametrize(
    "line",
    [
        "Stand per 31.10.2026",
        "Balances as of 31 October 2026",
        "Position as at 2026-10-31",
    ],
)
def test_a_day_below_the_rows_is_the_day_of_the_ledger(desk: Desk, line: str) -> None:
    """A ledger whose last line states another day is late, like one that states it above."""
    desk.put(below(line))
    with pytest.raises(LateError, match="2026-10-31"):
        desk.run()


def test_a_day_below_that_differs_from_the_rows_is_asked(desk: Desk) -> None:
    """If the rows have the day of the book, a line with another day is a question."""
    dated = with_column("Date", "2026-11-20") + "\nBalances as of 31 October 2026"
    assert "Balances as of 31 October 2026" in asked(desk, dated)


@pytest.mark.parametrize(
    ("title", "value"),
    [
        ("Position as at", "2026-10-31"),
        ("Snapshot", "31 October 2026"),
        ("Period", "2026-10"),
        ("Month", "October 2026"),
        ("Foo", "10/31/2026"),
    ],
)
def test_one_other_day_in_all_rows_is_asked(desk: Desk, title: str, value: str) -> None:
    """A column with one date or month that is not the book's is a question, whatever its title."""
    assert value in asked(desk, with_column(title, value))


@pytest.mark.parametrize(
    ("title", "value"),
    [("Position as at", "2026-11-20"), ("Period", "2026-11"), ("Maturity", "2031-03-15")],
)
def test_the_books_day_or_a_far_date_is_not_asked(desk: Desk, title: str, value: str) -> None:
    """A column with the book's day or month, or a date years away, needs no answer."""
    desk.put(with_column(title, value))
    assert desk.run().exit_code == 0


@pytest.mark.parametrize(
    ("title", "words"), [("Side", ("Long", "Long", "Long", "Short")), ("D/C", ("D", "D", "D", "C"))]
)
def test_signed_amounts_keep_their_signs(desk: Desk, title: str, words: tuple[str, ...]) -> None:
    """If the negative amounts already have a minus, the proposed line leaves the column unused."""
    question = asked(desk, with_column(title, *words))
    assert f'unused = ["{title}"]' in question
    assert "sign =" not in question.replace("sign (", "")
    paste(desk, question)
    assert desk.run().exit_code == 0


def test_half_signed_amounts_are_a_choice(desk: Desk) -> None:
    """If only some amounts of a side are negative, a person must choose."""
    question = asked(desk, with_column("Side", "Long", "Short", "Long", "Short"))
    assert '# sign = "Side"' in question
    assert '# unused = ["Side"]' in question


def test_a_setting_that_turns_signs_twice_is_told(desk: Desk) -> None:
    """If recon.toml names the sign column of signed amounts, a notice of high severity says so."""
    question = asked(desk, with_column("Side", "Long", "Long", "Long", "Short"))
    paste(desk, question.replace('unused = ["Side"]', 'sign = "Side"\nnegative_word = "Short"'))
    [notice] = [one for one in desk.run().notices if one.severity == "high"]
    assert "'Short' in the 'Side' column, so they were read as positive" in notice.message


def test_an_unused_column_that_could_change_amounts_is_told(desk: Desk) -> None:
    """Each night, the result has the values of an unused column, rare values first."""
    question = asked(desk, with_column("Status", "ok", "ok", "ok", "VOID"))
    table = question[question.index('[ledger."') :].splitlines()[0].strip()
    desk.settle(f'{table}\nunused = ["Status"]')
    ran = desk.run()
    [told] = [one for one in ran.notices if "could change amounts" in one.message]
    assert told.severity == "medium"
    assert "VOID \u00d71, ok \u00d73" in told.message


def test_unused_cannot_name_a_column_in_use(desk: Desk) -> None:
    """A setting that says that the portfolio's column is unused is an error, not ignored."""
    desk.put(with_column("Side", "x"))
    desk.settle('[file."ledger*"]\nunused = ["Portfolio"]')
    with pytest.raises(NotReconciled, match="'Portfolio' under `unused`, but nightbook reads"):
        desk.run()


def test_a_row_of_the_book_is_never_the_header(tmp_path: Path) -> None:
    """Without known titles, a row with title words, names and amounts is not taken as titles."""
    desk = Desk(tmp_path)
    amounts = [Amount("10.5", asset="BAL"), Amount("3.25", asset="TICKER"), Amount("7")]
    desk.publish(amounts)
    rows = [f"p1,v1,main,{one.asset},{one.text},2026-11-20" for one in amounts]
    question = asked(desk, "\n".join(["Foo,Bar,Baz,Qux,Quux,Corge", *rows]))
    assert 'account = "Baz"' in question
    paste(desk, question)
    assert desk.run().exit_code == 0


def test_account_names_of_the_book_are_known(desk: Desk) -> None:
    """If `Account Name` has the portfolios and `Account Number` the accounts, that is proposed."""
    rows = [f"{one.account},{one.portfolio},{one.venue},{one.asset},{one.text}" for one in BOOK]
    question = asked(desk, "\n".join(["Account Number,Account Name,Venue,Symbol,Quantity", *rows]))
    assert 'account = "Account Number"' in question
    assert 'portfolio = "Account Name"' in question
    paste(desk, question)
    assert desk.run().exit_code == 0


def test_totals_in_a_type_column_are_proposed_as_rows_to_skip(desk: Desk) -> None:
    """A column whose words name sub-totals and totals does not become unused."""
    lines = [f"{row},Detail" for row in ROWS] + ["p1,v1,main,BTC,10,Sub-Total"]
    question = asked(desk, "\n".join([f"{HEAD},Record Type", *lines]))
    assert 'skip_rows = { "Record Type" = ["Sub-Total"] }' in question
    paste(desk, question)
    assert desk.run().exit_code == 0


def test_a_dash_for_nothing_is_not_a_sign(desk: Desk) -> None:
    """A dash that means nothing is not proposed as the word for negative amounts."""
    lots = ("-", "-", "lot a", "lot b")
    question = asked(desk, with_column("Lot", *lots))
    assert "negative_word =" not in question


def test_a_total_with_its_asset_is_not_an_account(desk: Desk) -> None:
    """`Total:` in the account's column is a total line, also if the next cell has the asset."""
    rows = [f"{one.account},{one.portfolio},{one.venue},{one.asset},{one.text}" for one in BOOK]
    head = "Account,Portfolio,Venue,Asset,Quantity"
    desk.put("\n".join([head, *rows, "Total:,,,ETH,-20.62345678"]))
    assert desk.run().exit_code == 0


@pytest.mark.parametrize(("more", "code"), [("0", 0), ("0.01", 3)])
def test_rounding_of_number_cells_adds_up(tmp_path: Path, more: str, code: int) -> None:
    """If several number cells are one position, each may have lost its digits after the 15th."""
    lots = [Decimal("123456789012.3456781"), Decimal("987654321098.7654329")]
    desk = Desk(tmp_path)
    desk.publish([Amount(str(sum(lots) + Decimal(more))), Amount("1", asset="ETH")])
    desk.folder.make()
    book = openpyxl.Workbook()
    book.active.append(["portfolio", "venue", "account", "asset", "amount"])
    for asset, lot in [("BTC", lots[0]), ("BTC", lots[1]), ("ETH", Decimal(1))]:
        book.active.append(["p1", "v1", "main", asset, float(lot)])
    book.save(desk.folder.inbox / "ledger.xlsx")
    assert desk.run().exit_code == code


@pytest.mark.parametrize("settings", ["", '[file."ledger*"]\nsheet = "Positions"\n'])
def test_an_index_and_a_general_ledger_beside_the_ledger(desk: Desk, settings: str) -> None:
    """The setting `sheet` for a file chooses the tab, and without it, the question proposes it."""
    desk.folder.make()
    book = openpyxl.Workbook()
    book.active.title = "Index"
    for row in (["Sheet", "Description"], ["Positions", "All positions"], ["GL", "Accounts"]):
        book.active.append(row)
    positions, accounts = book.create_sheet("Positions"), book.create_sheet("GL")
    for line in (HEAD, *ROWS):
        positions.append(line.split(","))
    accounts.append(["GL account", "Currency", "Debit", "Credit"])
    accounts.append(["1000", "EUR", 5, 0])
    book.save(desk.folder.inbox / "ledger.xlsx")
    desk.settle(settings)
    if not settings:
        with pytest.raises(Ambiguous, match='sheet = "Positions"') as question:
            desk.run()
        paste(desk, str(question.value).replace("# sheet", "sheet"))
    assert desk.run().exit_code == 0


def test_the_result_states_how_many_positions_match(desk: Desk) -> None:
    """The result has a match rate, which is rounded down, so only a full match is 100 %."""
    desk.put("\n".join([HEAD, *ROWS[:-1]]))
    ran = desk.run()
    assert "3 of 4 matched (75 %)" in ran.message


BLOCKS = [Amount("10"), Amount("4", asset="ETH"), Amount("5", account="cold")]
TITLES, MAIN, COLD = (
    "Portfolio,Venue,Asset,Quantity",
    ["p1,v1,BTC,10", "p1,v1,ETH,4"],
    "p1,v1,BTC,5",
)


@pytest.mark.parametrize("form", ["Account: {}", "{}", "Account:,{}"])
def test_names_above_each_table_are_read(tmp_path: Path, form: str) -> None:
    """If a name is above each header, the answer gives it to the rows of its own table."""
    desk = Desk(tmp_path)
    desk.publish(BLOCKS)
    names = [form.format(name) for name in ("main", "cold")]
    question = asked(desk, "\n".join([names[0], TITLES, *MAIN, "", names[1], TITLES, COLD]))
    assert 'groups = ["account"]' in question
    paste(desk, question)
    ran = desk.run()
    assert (ran.exit_code, ran.counts["Matched"]) == (0, 3)


@pytest.mark.parametrize("name", ["Account: main", "main", "Account,main"])
@pytest.mark.parametrize("is_above", [True, False])
def test_a_name_outside_the_only_table_is_asked(desk: Desk, name: str, *, is_above: bool) -> None:
    """If a line above or below the table names an account, the run asks what it covers."""
    rows = [TITLES, "p1,v1,BTC,10", "p2,v1,BTC,7", "p2,v1,ETH,-20.62345678"]
    question = asked(desk, "\n".join([name, *rows] if is_above else [*rows, name]))
    assert ("# groups" in question) == is_above
    desk.settle('[file."ledger.csv"]\naccount = "main"')
    ran = desk.run()
    assert (ran.exit_code, ran.counts["Matched"]) == (0, 3)


def test_a_title_that_contains_a_portfolio_is_asked(desk: Desk) -> None:
    """If a title line contains the portfolio's name, the run asks whether only it is covered."""
    rows = ["Venue,Account,Asset,Quantity", "v1,main,BTC,7", "v1,main,ETH,-20.62345678"]
    question = asked(desk, "\n".join(["Statement of Portfolio p2", *rows]))
    assert 'portfolio = "Portfolio p2"' in question


@pytest.mark.parametrize("separator", [":", "/", "\\", " > "])
@pytest.mark.parametrize(
    ("titles", "path"),
    [
        ("Account,", "assets|{0}|{1}|{2},"),
        ("Portfolio,Account,", "{0},assets|{1}|{2},"),
        ("Venue,Account,", "{1},{0}|{2},"),
    ],
)
def test_names_in_a_path_are_split(desk: Desk, titles: str, path: str, separator: str) -> None:
    """If cells are paths of names, the run asks, and the answer reads each name from its place."""
    rows = [
        path.replace("|", separator).format(one.portfolio, one.venue, one.account)
        + f"{one.asset},{one.text}"
        for one in BOOK
    ]
    question = asked(desk, "\n".join([f"{titles}Asset,Quantity", *rows]))
    assert "are paths that contain names of the book" in question
    paste(desk, question)
    ran = desk.run()
    assert (ran.exit_code, ran.counts["Matched"]) == (0, len(BOOK))
