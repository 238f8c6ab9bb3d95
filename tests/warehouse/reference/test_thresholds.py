"""Tests of thresholds: the rules for a row, the measures, and undecided thresholds."""

from pathlib import Path

import pytest

from tests.support.books import Amount
from tests.support.priced_books import ask, drop, publish, read_at
from warehouse.reference.child import UnusedLine
from warehouse.reference.thresholds import THRESHOLD_RULES
from warehouse.storage.layout import Layout

CELLS = {"scope": "venue", "name": "v1", "measure": "value", "maximum": "1"}
TITLES = "scope,name,is_custom_asset,measure,minimum,maximum,alert"
BEFORE = read_at(
    "20261119T021500Z",
    [Amount("10"), Amount("4", asset="ETH", venue="v2"), Amount("7", asset="GONE")],
)
NOW = read_at(
    "20261120T021500Z",
    [
        Amount("12"),
        Amount("1", asset="ETH", venue="v2", portfolio="p2"),
        Amount("-1e-30", asset="X", custom=True),
    ],
)
PRICES = (
    *("BTC,,USD,100,2026-11-19,", "ETH,,USD,800,2026-11-19,"),
    *("X,true,USD,1,2026-11-19,", "GONE,,USD,2,2026-11-19,"),
)


@pytest.mark.parametrize(
    ("cells", "code"),
    [
        ({"scope": ""}, "no_scope"),
        ({"scope": "All Venues"}, "not_a_scope"),
        ({"measure": "weight"}, "not_a_measure"),
        ({"measure": "quantity"}, "wrong_scope"),
        ({"is_custom_asset": "yes"}, "wrong_scope"),
        ({"is_custom_asset": "x"}, "not_a_flag"),
        ({"maximum": ""}, "no_limit"),
        ({"maximum": "10%"}, "not_an_amount"),
        ({"minimum": "1.01"}, "crossed_limits"),
        ({"alert": "maybe"}, "not_a_flag"),
    ],
)
def test_a_row_that_cannot_be_used_has_a_code(cells: dict[str, str], code: str) -> None:
    """Each invalid row is a reject with a stable code."""
    [reject] = THRESHOLD_RULES.rows([(2, CELLS | cells)])
    assert isinstance(reject, UnusedLine)
    assert (reject.code, reject.line) == (code, 2)


def test_the_same_key_twice_in_a_file_is_rejected() -> None:
    """Two different limits for the same key are both rejected. Equal limits are not."""
    rows = [(2, CELLS), (3, CELLS | {"maximum": "2"}), (4, CELLS | {"name": "v2"})]
    first, second, third = THRESHOLD_RULES.rows(rows)
    assert isinstance(first, UnusedLine)
    assert isinstance(second, UnusedLine)
    assert (first.code, second.code) == ("several_thresholds", "several_thresholds")
    assert isinstance(third, dict)
    [one, other] = THRESHOLD_RULES.rows([(2, CELLS), (3, CELLS | {"maximum": "1.0"})])
    assert isinstance(one, dict)
    assert isinstance(other, dict)


def found(home: Path, *rules: str, prices: tuple[str, ...] = PRICES, **more: str) -> list[str]:
    """Return the words of the findings about thresholds."""
    drop(home, "thresholds/a.csv", TITLES, *rules)
    drop(home, "prices.csv", *prices)
    currency = more.get("currency", "USD")
    layout = publish(home, [BEFORE, NOW], more.get("version", "a"), currency=currency or None)
    assert ask(layout, "select * from ops.reference_rejects") == []
    query = "select words from findings where kind like 'threshold%' order by all"
    return [row[0] for row in ask(layout, query)]


TINY, NINES = f"0.{'0' * 29}1", "9" * 30
# One digit beyond its limit, each of these rules is a breach.
BREACHES = {
    f"asset,BTC,,quantity,12.{TINY[2:]},,": f"asset BTC is 12, below the minimum of 12.{TINY[2:]}.",
    f"asset,BTC,,value,,1199.{NINES},": f"BTC is 1200 USD, above the maximum of 1199.{NINES}.",
    "asset,BTC,,share,,59.9,": "BTC is 1200 of 2000 USD, above the maximum of 59.9 %.",
    "asset,BTC,,move,,19,": "asset BTC is from 10 to 12, above the maximum of 19 %.",
    "asset,GONE,,move,,99,": "asset GONE is from 7 to 0, above the maximum of 99 %.",
    "asset,GONE,,quantity,1,,": "asset GONE is 0, below the minimum of 1.",
    "asset,X,true,quantity,0,,": f"asset X (custom) is -{TINY}, below the minimum of 0.",
    "asset,X,true,move,,1e9,": f"(custom) is from 0 to -{TINY}, above the maximum of 1000000000 %.",
    "asset,ETH,,move,76,,": "asset ETH is from 4 to 1, below the minimum of 76 %.",
    "venue,v2,,value,,799,": "venue v2 is 800 USD, above the maximum of 799.",
    "venue,v2,,move,,74,": "venue v2 is from 3200 to 800 USD, above the maximum of 74 %.",
    "portfolio,p2,,value,801,,": "portfolio p2 is 800 USD, below the minimum of 801.",
    "portfolio,p2,,move,,5e3,": "p2 is from 0 to 800 USD, above the maximum of 5000 %.",
    "desks,Rates,,value,,799,": "desks Rates is 800 USD, above the maximum of 799.",
    "asset,typo,,quantity,,1,": "asset typo cannot be compared with the limits: no book",
    "nothing,x,,value,,1,": "nothing x cannot be compared with the limits: no book",
}
AT_THE_LIMIT = (
    *("asset,BTC,,quantity,12,12,", "asset,BTC,,value,,1200,", "asset,BTC,,share,60,60,"),
    *("asset,BTC,,move,20,20,", "asset,GONE,,move,100,100,", "venue,v2,,share,,40,"),
    *("venue,v2,,move,75,75,", "portfolio,p2,,value,800,800,", "desks,Rates,,share,40,40,"),
)
FREE = (*PRICES[:2], "X,true,USD,0,2026-11-19,", PRICES[3])


def test_each_measure_is_exact_beyond_its_limit(tmp_path: Path) -> None:
    """One digit beyond the limit, each measure of each scope is a finding with both amounts."""
    drop(tmp_path, "desks/d.csv", "portfolio_id,desk", "p2,Rates")
    said = found(tmp_path, *BREACHES, prices=FREE)
    for rule, words in BREACHES.items():
        measure = rule.split(",")[3]
        assert [line for line in said if line.startswith(f"The {measure} of") and words in line]
    assert len(said) == len(BREACHES)


def test_at_exactly_the_limit_there_is_no_breach(tmp_path: Path) -> None:
    """An amount that is equal to its limit is not a finding."""
    drop(tmp_path, "desks/d.csv", "portfolio_id,desk", "p2,Rates")
    assert found(tmp_path, *AT_THE_LIMIT, prices=FREE) == []


def test_a_threshold_with_a_name_takes_precedence(tmp_path: Path) -> None:
    """A limit for each venue does not apply to a venue with its own limit."""
    [words] = found(tmp_path, "venue,,,value,,1,", "venue,v1,,value,,9999,")
    assert words.startswith("The value of venue v2 is 800 USD")


def test_a_later_file_replaces_the_limit(tmp_path: Path) -> None:
    """A later row for the same key supersedes the earlier row."""
    assert len(found(tmp_path, "venue,v1,,value,,1,")) == 1
    drop(tmp_path, "thresholds/b.csv", TITLES, "venue,v1,,value,,9999,")
    assert found(tmp_path, "venue,v1,,value,,1,", version="b") == []


UNDECIDED = {
    "asset,BTC,,value,,1,": "it has no valid price",
    "venue,v1,,value,,1,": "assets without a valid price in the book: BTC",
    "venue,v2,,share,,1,": "assets of the book have no valid price",
}


@pytest.mark.parametrize(
    ("rules", "prices"),
    [
        (UNDECIDED, PRICES[1:]),
        ({"venue,v1,,move,,1,": "no valid price in the previous book"}, PRICES[:3]),
        ({"venue,,,value,,1e9,": "value of venue v1, v2 cannot be compared"}, ()),
    ],
)
def test_a_missing_price_is_never_silently_green(
    tmp_path: Path, rules: dict[str, str], prices: tuple[str, ...]
) -> None:
    """A threshold that a missing price leaves undecided is a finding that names the price."""
    said = found(tmp_path, *rules, prices=prices)
    assert len(said) == len(rules)
    for words in rules.values():
        assert any(words in line for line in said)
    kinds = ask(Layout(tmp_path), "select distinct kind, severity from findings")
    assert ("threshold_undecided", "medium") in kinds


def test_without_currency_or_earlier_book_a_threshold_is_undecided(tmp_path: Path) -> None:
    """Values need a currency, but quantities do not. A move needs an earlier book."""
    rules = ("venue,v1,,value,,1,", "asset,BTC,,quantity,,1,")
    quantity, value = found(tmp_path, *rules, currency="")
    assert "12, above the maximum of 1." in quantity
    assert "NIGHTBOOK_CURRENCY is not set" in value
    home = tmp_path / "other"
    drop(home, "thresholds/a.csv", TITLES, "asset,BTC,,move,,1,yes")
    layout = publish(home, [NOW])
    [(words, alert)] = ask(layout, "select words, is_alert from ops.own_findings")
    assert (alert, "there is no earlier book" in words) == (True, True)
    causes = ask(layout, "select cause from ops.attention where code = 'own'")
    assert causes == [("threshold_undecided:asset BTC move:2026-11-20",)]
