"""Tests of the words in ledgers: their spellings, totals, units, sides and a person's own words."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.warehouse.reconcile.conftest import Read, Write
from warehouse.reconcile.ledger import words
from warehouse.reconcile.ledger.titles import fingerprint
from warehouse.reconcile.ledger.words import words_of
from warehouse.reconcile.settings.config import Config, read_config
from warehouse.reconcile.settings.layout import Shape
from warehouse.reconcile.terms import NotReconciled

SHIPPED = words._lists(tomllib.loads(Path(words.__file__).with_suffix(".toml").read_text()))
OF_TITLES = [(place, word) for place, words in SHIPPED.items() for word in words]
WORDS = words_of()


def _camel(word: str) -> str:
    first, *rest = re.split(r"[ '-]", word)
    return first + "".join(part.capitalize() for part in rest)


SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "title": str.title,
    "capitals": str.upper,
    "snake": lambda word: word.replace(" ", "_"),
    "capital snake": lambda word: word.upper().replace(" ", "_"),
    "kebab": lambda word: word.replace(" ", "-"),
    "camel": _camel,
    "Pascal": lambda word: _camel(word)[:1].upper() + _camel(word)[1:],
    "points": lambda word: ". ".join(word.split(" ")) + ".",
    "wide spaces": lambda word: f"\u00a0 {word.replace(' ', chr(0xA0) * 2)} ",
    "brackets": lambda word: f"{word} (BTC)",
    "umlauts in two": lambda word: word.translate(words._UMLAUTS),
    "no accents": words._bare,
}


def test_no_word_means_two_things() -> None:
    """No word belongs to two fields, to two roles or to both sides."""
    assert list(words._words_of_two(SHIPPED)) == []


@given(st.sampled_from(OF_TITLES), st.sampled_from(sorted(SPELLINGS)))
def test_every_word_is_recognised_in_every_spelling(
    known: tuple[tuple[str, str], str], spelling: str
) -> None:
    """A word that is listed once is recognised in each spelling that programs and people use."""
    (group, kind), word = known
    title = SPELLINGS[spelling](word)
    look_up: dict[str, Callable[[str], str]] = {
        "field": WORDS.field_of,
        "second": WORDS.second_field_of,
        "role": WORDS.role_of,
        "column": lambda title: kind if _is_kind(kind, title) else "",
    }
    if group in look_up:
        assert look_up[group](title) == kind


def _is_kind(kind: str, title: str) -> bool:
    is_other = {"remark": WORDS.is_remark, "description": WORDS.is_description}.get(kind)
    return is_other(title) if is_other else WORDS.is_title(title, kind)


@pytest.mark.parametrize(
    ("title", "first", "second"),
    [
        ("Qty.", "amount", ""),
        ("Acct. No.", "", "account"),
        ("Wallet #", "", "account"),
        ("vaultAccountID", "", "account"),
        ("Coin / Token", "asset", ""),
        ("W\u00e4hrung / Currency", "asset", ""),
        ("Wallet / Fund", "", ""),
        ("Amount / BTC", "amount", ""),
        ("Balance (USD)", "", "amount"),
        ("Betrag in TEUR", "amount", ""),
        ("Balance (in thousands)", "amount", ""),
        ("Balance %", "", ""),
        ("Price", "", ""),
    ],
)
def test_a_title_is_recognised_without_its_unit_or_brackets(
    title: str, first: str, second: str
) -> None:
    """Units, brackets, dots and slashes are not part of a word, and a value is a second choice."""
    assert (WORDS.field_of(title), WORDS.second_field_of(title)) == (first, second)


@pytest.mark.parametrize(
    ("title", "role"),
    [
        ("Available Balance", "free"),
        ("lockedAmount", "locked"),
        ("verf\u00fcgbarer Bestand", "free"),
        ("Total balance", "total"),
        ("Soll/Haben", "sign"),
        ("Cr / Dr", "sign"),
        ("Debit amount", "debit"),
        ("Haben", "credit"),
        ("Value", ""),
        ("Asset", ""),
    ],
)
def test_the_role_of_an_amount_column_is_recognised(title: str, role: str) -> None:
    """A side, a part of a total and the total are distinguished, also in titles with more words."""
    assert WORDS.role_of(title) == role


def test_debit_and_credit_cells_are_recognised() -> None:
    """S and H, D and C, and words in several languages are recognised as sides. Others are not."""
    for text in ("S", "DR", "Dr.", "d", "Soll", "D\u00e9bit", "Debe", "dare"):
        assert WORDS.is_cell(text, "debit")
    for text in ("H", "CR", "c", "Haben", "credit", "Cr\u00e9dit", "Avere"):
        assert WORDS.is_cell(text, "credit")
    for text in ("", "BTC", "-", "x"):
        assert not any(WORDS.is_cell(text, kind) for kind in ("debit", "credit"))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Total", ""),
        ("TOTAL:", ""),
        ("Sub-Total", ""),
        ("Total g\u00e9n\u00e9ral", ""),
        ("Gesamtsumme", ""),
        ("Total Kraken", "Kraken"),
        ("Kraken total", "Kraken"),
        ("Kraken - Total", "Kraken"),
        ("Summe f\u00fcr Bitpanda Pro", "Bitpanda Pro"),
        ("Zwischensumme: Kraken", "Kraken"),
        ("Subtotal BTC:", "BTC"),
        ("Sumitomo", None),
        ("Totally", None),
        ("BTC", None),
        ("", None),
    ],
)
def test_a_total_line_names_its_group(text: str, name: str | None) -> None:
    """A total line names the group that it adds up before or after its word for a total."""
    assert WORDS.total_name(text) == name


UNITS = {
    "thousands": "(in thousands)|in Tsd. EUR|Betrag in TEUR|000s|(000)|Balance ('000)|en milliers|"
    "$000|in migliaia di euro|x \u20ac 1.000|USD '000|miles de euros|k\u20ac|x 1,000",
    "millions": "in Mio.|USD m|$m|in Mio. EUR|en millions d'euros|in miljoenen",
    "billions": "in Mrd. EUR|(bn)",
    "": "Balance|1000|Account 000|Fund 1000|Mio Capital|Thousand Oaks Fund|TUSD|mUSD|kUSD|in 2026|"
    "USD|12,000 USD|1000 EUR|Book in M|Miles|Amount (m)|Position in BTC|K|M",
}


@pytest.mark.parametrize("unit", UNITS)
def test_units_are_recognised_but_not_in_names(unit: str) -> None:
    """Thousands, millions and billions are recognised in several languages, but not in names."""
    texts = UNITS[unit].split("|")
    assert {text: WORDS.unit_of(text) for text in texts} == dict.fromkeys(texts, unit)


def test_a_person_can_add_words(write: Write, read: Read) -> None:
    """A person's own words name columns and take precedence, and the other words do not change."""
    own = '[field]\naccount = ["our drawer"]\n'
    own += 'portfolio = "strategy"\n[field.asset]\nsv = ["mynt"]\n'
    rows = [["Strategy", "Mynt", "Our Drawer", "Venue", "Qty"], ["F1", "BTC", "a", "Kraken", "1"]]
    ledger = read(write(rows), config=Config(own_words=own))
    assert ledger.fields == ("portfolio", "asset", "venue", "account")
    assert words_of(own).field_of("Strategie") == ""
    assert words_of(own).second_field_of("Strategie") == "portfolio"


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ("[field\n", "the file is not valid TOML"),
        ("[field.asset.en]\nx = 3\n", "each line must look like"),
        ("[field]\nasset = [3]\n", "3, which is not a word"),
        ('[field]\nowner = ["x"]\n', "field.owner does not exist, expected one of field.portfolio"),
        ('[field]\nasset = ["X"]\nvenue = ["x"]\n', "'x' is in both field.venue and field.asset"),
        ("field = 3\n", "each line must look like"),
    ],
)
def test_an_invalid_words_toml_is_refused(own: str, words: str) -> None:
    """The error for an invalid words.toml says what is wrong or what is expected."""
    with pytest.raises(NotReconciled, match=r"words.toml cannot be used") as refused:
        words_of(own)
    assert words in str(refused.value)


def test_words_toml_is_read_from_the_folder_of_recon_toml(tmp_path: Path) -> None:
    """The file `words.toml` in the folder of recon.toml is read with it, and must be UTF-8."""
    (tmp_path / "words.toml").write_text('[field]\nasset = ["mynt"]\n', encoding="utf-8-sig")
    assert words_of(read_config(tmp_path / "recon.toml").own_words).field_of("Mynt") == "asset"
    (tmp_path / "words.toml").write_bytes(b"\xff")
    with pytest.raises(NotReconciled, match=r"words.toml is not UTF-8"):
        read_config(tmp_path / "recon.toml")


def test_the_words_example_in_finance_md_works() -> None:
    """The example in FINANCE.md can be pasted unchanged, and each of its kinds of words works."""
    page = (Path(words.__file__).parents[1] / "FINANCE.md").read_text(encoding="utf-8")
    after = page.partition("reconcile/words.toml")[2]
    example = after.partition("```toml\n")[2].partition("```")[0]
    own_words = words_of(example)
    assert own_words.field_of("drawerNo") == "account"
    assert own_words.role_of("Parked balance") == "locked"
    assert own_words.is_title("Mark", "figure")


def test_a_column_set_for_a_field_is_not_used_for_a_second(write: Write, read: Read) -> None:
    """If a setting says that a column is the account, it is not used as the portfolio.

    Its title and an earlier run do not change this.
    """
    titles = ["Fund", "Asset", "Venue", "Amount"]
    path = write([titles, ["F1", "BTC", "Kraken", "1"]])
    config = Config(shapes={fingerprint(titles): Shape(columns={"account": "Fund"})})
    for remembered in ({}, {fingerprint(titles): {"portfolio": "Fund"}}):
        ledger = read(path, config=config, remembered=remembered)
        assert ledger.fields == ("asset", "venue", "account")
