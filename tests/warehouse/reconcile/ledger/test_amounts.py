"""Tests of amounts in ledgers: cases 1 to 15 of `test_run_cases`."""

import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warehouse.exact import plain, total
from warehouse.reconcile.ledger.amounts import MAX_LENGTH, Rules, taken_apart
from warehouse.reconcile.ledger.amounts import read as read_amount
from warehouse.reconcile.model import Amount, Ledger
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.settings.layout import Decimals, Shape
from warehouse.reconcile.terms import Ambiguous

Write = Callable[..., Path]
Read = Callable[..., Ledger]


def amounts(ledger: Ledger) -> list[str]:
    """Return the amounts of the used rows in their order."""
    return [line.amount.text for line in ledger.lines]


def csv(*cells: str) -> str:
    """Return a ledger of BTC rows with these amount cells."""
    return "asset;amount\n" + "".join(f"BTC;{cell}\n" for cell in cells)


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (("1,234.56", "(2,000)", "12.5-", "\u22127"), ["1234.56", "-2000", "-12.5", "-7"]),
        (("1.234,56", "-1.000"), ["1234.56", "-1000"]),
        (("1'234.50", "1\u00a0234.5", "1\u202f234"), ["1234.5", "1234.5", "1234"]),
        (("12,34,567.89", "5"), ["1234567.89", "5"]),
        (("1e-7", "1E+3"), ["0.0000001", "1000"]),
        (("\uff11\uff12\uff0e\uff15", "\uff08\uff13\uff09"), ["12.5", "-3"]),
        (("0.001", "0.5"), ["0.001", "0.5"]),
        (("-0.0", "0", "-0"), ["0", "0", "0"]),
        (("0.123456789012345678901234", "123456789012345678901234.5"), None),
        (("5", "1 000 000"), ["5", "1000000"]),
    ],
    ids=[
        "case_01",
        "case_02",
        "case_04",
        "case_05",
        "case_06",
        "case_07",
        "zeros",
        "case_12",
        "case_11",
        "spaces",
    ],
)
def test_amounts_are_read_as_people_write_them(
    write: Write, read: Read, cells: tuple[str, ...], wanted: list[str] | None
) -> None:
    """Each notation of a number gives its exact value, and 24 decimals or 24 digits are kept."""
    ledger = read(write(csv(*cells)))
    assert amounts(ledger) == (list(cells) if wanted is None else wanted)
    assert not ledger.rejected


def test_case_03_a_column_of_ambiguous_amounts_raises_a_question(write: Write, read: Read) -> None:
    """If all amounts are ambiguous, the run stops, and the line of its question settles them."""
    path = write(csv("1.234", "12.345"))
    with pytest.raises(Ambiguous, match=r"1\.234.*Nothing was guessed") as asked:
        read(path)
    assert asked.value.exit_code == 3
    print_ = asked.value.line.split('"')[1]
    assert asked.value.line.startswith(f'[ledger."{print_}"]\n# decimal = "point"')
    for decimals, wanted in ((Decimals.POINT, "1.234"), (Decimals.COMMA, "1234")):
        config = Config(shapes={print_: Shape(decimals=decimals)})
        assert amounts(read(path, config=config))[0] == wanted


def test_the_number_convention_of_a_column_is_remembered(write: Write, read: Read) -> None:
    """If all amounts of a night are ambiguous, the convention of earlier nights is used."""
    first = read(write(csv("1.234,5")))
    again = read(write(csv("1.234")), remembered=first.remembered)
    assert amounts(again) == ["1234"]


def test_case_08_a_unit_is_compared_with_the_asset(write: Write, read: Read) -> None:
    """An amount of 1.5 BTC is used in a row of BTC, and also in a row of ETH, but with a notice."""
    ledger = read(write("asset;amount\nBTC;1.5 BTC\nETH;1.5 BTC\n"))
    assert amounts(ledger) == ["1.5", "1.5"]
    (notice,) = ledger.notices
    assert "in BTC, but the row's asset is ETH" in notice.message
    assert notice.location == "ledger.csv:3"


@pytest.mark.parametrize(
    "cell",
    ["#N/A", "TBC", "NaN", "0x10", "12.3.4", "1_000", "1.5 k", "1e999", "(-5)", "10\u00b2", "5%"],
)
def test_cases_09_and_15_an_invalid_amount_is_rejected(write: Write, read: Read, cell: str) -> None:
    """If a cell is not an amount, its row is rejected with its line number and its text."""
    ledger = read(write(csv("1.5", cell)))
    assert amounts(ledger) == ["1.5"]
    (rejected,) = ledger.rejected
    assert (rejected.line, rejected.raw) == (3, cell)
    assert ledger.sources[0].is_complete


@pytest.mark.parametrize("cell", ["", "-", "--", " ", "\u2014"])
def test_case_10_a_blank_is_never_zero(write: Write, read: Read, cell: str) -> None:
    """A blank amount is rejected, or skipped if recon.toml says so, but it never counts as zero."""
    path = write(csv("1.5", cell))
    ledger = read(path)
    assert amounts(ledger) == ["1.5"]
    skipped = read(path, config=Config(blank="skip"))
    assert not skipped.rejected
    counted = sum(skipped.sources[0].skipped.values()) + len(ledger.rejected)
    assert counted == (2 if cell.strip() else 1 + len(ledger.rejected))
    assert skipped.sources[0].is_complete


def test_case_13_two_conventions_in_a_column_raise_a_question(write: Write, read: Read) -> None:
    """Amounts like 1,234.56 and 1.234,56 in one column stop the run.

    After a setting chooses one convention, amounts in the other convention are rejected.
    """
    path = write(csv("1,234.56", "1.234,57"))
    with pytest.raises(Ambiguous, match=r"two ways") as asked:
        read(path)
    print_ = asked.value.line.split('"')[1]
    ledger = read(path, config=Config(shapes={print_: Shape(decimals=Decimals.POINT)}))
    assert amounts(ledger) == ["1234.56"]
    assert [row.raw for row in ledger.rejected] == ["1.234,57"]


def test_case_14_credit_and_debit_need_a_setting(write: Write, read: Read) -> None:
    """An amount like 5 CR raises a question until a setting says which of CR and DR is negative."""
    path = write(csv("5 CR", "6 DR"))
    with pytest.raises(Ambiguous, match="say CR or DR") as question:
        read(path)
    shape = Shape(negative_words=("CR",))
    name = question.value.line.split('"')[1]
    settled = read(path, config=Config(shapes={name: shape}))
    assert amounts(settled) == ["-5", "6"]


def test_case_19_a_number_cell_has_the_value_that_is_shown(write: Write, read: Read) -> None:
    """A number cell has the value that its program shows, and a boolean cell is rejected.

    For example, 0.1+0.2 is 0.3, and 9.9999999999999995e-8 is 1e-7.
    """
    rows = [["asset", "amount"], ["BTC", 0.1 + 0.2], ["BTC", 9.9999999999999995e-8], ["BTC", True]]
    ledger = read(write(rows))
    assert amounts(ledger) == ["0.3", "0.0000001"]
    assert all(line.amount.is_number for line in ledger.lines)
    assert [row.raw for row in ledger.rejected] == ["TRUE"]


@given(st.decimals(allow_nan=False, allow_infinity=False, places=18))
def test_an_amount_in_plain_digits_is_read_back_unchanged(amount: Decimal) -> None:
    """An amount that we write in plain digits is read back unchanged, also with a decimal comma."""
    text = plain(amount)
    for decimals, written in ((Decimals.POINT, text), (Decimals.COMMA, text.replace(".", ","))):
        found = read_amount(written, Rules(decimals))
        assert isinstance(found, Amount)
        assert found.text == text


def test_a_total_never_overflows() -> None:
    """Two amounts at the limit of a decimal type add up exactly."""
    assert total(["99999999999999999999.9"] * 2) == "199999999999999999999.8"


def test_a_very_long_cell_is_rejected_at_once() -> None:
    """A cell that is longer than any amount is rejected without a search for its unit."""
    begun = time.process_time()
    assert taken_apart("\u00e9" * 32_000 + " b c") == "it is not an amount"
    assert time.process_time() - begun < 1
    assert not isinstance(taken_apart("1" * MAX_LENGTH), str)
    assert not isinstance(taken_apart("1" * MAX_LENGTH + " CR", "CR"), str)
    assert taken_apart("1" * (MAX_LENGTH + 1)) == "it is not an amount"


@pytest.mark.parametrize(
    ("cell", "text", "unit"),
    [
        ("$1,234.50", "1234.5", "USD"),
        ("-$5", "-5", "USD"),
        ("($5.00)", "-5", "USD"),
        ("$-5", "-5", "USD"),
        ("US$ 12", "12", "USD"),
        ("HK$12", "12", "HKD"),
        ("12,50 \u20ac", "12.5", "EUR"),
        ("\u20ac12", "12", "EUR"),
        ("12-\u20ac", "-12", "EUR"),
        ("\u00a3 3.1", "3.1", "GBP"),
        ("\u00a5100", "100", "JPY"),
        ("$ 12 USD", "12", "USD"),
        ("CHF 12", "12", "CHF"),
    ],
)
def test_a_currency_sign_is_the_unit_of_its_amount(cell: str, text: str, unit: str) -> None:
    """The sign may be before or after the digits, and inside or outside of the minus."""
    amount = read_amount(cell, Rules())
    assert isinstance(amount, Amount)
    assert (amount.text, amount.unit) == (text, unit)


@pytest.mark.parametrize(
    "cell", ["$$5", "$", "$12 EUR", "EUR$5", "--$5", "12\u20ac 5", "($5", "$x"]
)
def test_an_invalid_currency_sign_is_rejected(cell: str) -> None:
    """Two signs, two currencies, or a sign without digits are rejected."""
    assert isinstance(read_amount(cell, Rules()), str)


def test_a_currency_sign_that_differs_from_the_asset_is_reported(write: Write, read: Read) -> None:
    """If a currency sign differs from the row's asset, the amount is used with a notice."""
    ledger = read(write("asset;amount\nUSD;$5\nEUR;5 \u20ac\nGBP;$7\n"))
    assert [line.amount.text for line in ledger.lines] == ["5", "5", "7"]
    told = [notice.message for notice in ledger.notices]
    assert told == [
        "the amount is in USD, but the row's asset is GBP. The amount was used unchanged"
    ]
