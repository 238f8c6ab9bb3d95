"""Tests of the rules for a row of prices."""

from datetime import UTC, date, datetime

import pytest

from warehouse.reference.child import UnusedLine
from warehouse.reference.prices import PRICE_RULES

prices = PRICE_RULES.rows
CELLS = {"asset_id": "BTC", "quote": "USD", "price_text": "1", "as_of": "2026-11-20"}


def test_a_price_has_a_date_or_a_time() -> None:
    """A date stays a date, and a time is converted to UTC."""
    rows = [(2, CELLS), (3, CELLS | {"as_of": "2026-11-20T02:15:00.5+01:00"})]
    [dated, timed] = prices(rows)
    assert isinstance(dated, dict)
    assert isinstance(timed, dict)
    assert (dated["as_of_date"], dated["as_of_time"]) == (date(2026, 11, 20), None)
    expected = datetime(2026, 11, 20, 1, 15, 0, 500_000, tzinfo=UTC)
    assert (timed["as_of_date"], timed["as_of_time"]) == (None, expected)


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("asset_id", "", "no_asset_id"),
        ("quote", "", "no_quote"),
        ("price_text", "", "no_price_text"),
        ("price_text", "-1e-9", "below_zero"),
        ("price_text", "1e201", "not_an_amount"),
        ("price_text", "9" * 301, "not_an_amount"),
        ("price_text", "\u0661", "not_an_amount"),
        ("as_of", "", "no_as_of"),
        ("as_of", "2026-02-30", "not_a_time"),
        ("as_of", "0001-01-01", "not_a_time"),
        ("as_of", "2026-11-20T02:15", "no_time_zone"),
        ("is_custom_asset", "x", "not_a_flag"),
        ("level", "4", "not_a_level"),
    ],
)
def test_an_invalid_cell_rejects_the_row(name: str, value: str, code: str) -> None:
    """Each invalid cell rejects its row with a stable code."""
    [found] = prices([(7, CELLS | {name: value})])
    assert isinstance(found, UnusedLine)
    assert (found.code, found.line) == (code, 7)


def test_two_prices_for_one_key_are_both_rejected() -> None:
    """A file that states two prices for a key has none, and other sources are not affected."""
    other = CELLS | {"source": "x", "price_text": "3"}
    found = list(prices([(2, CELLS), (3, CELLS | {"price_text": "2"}), (4, other)]))
    codes = [row.code if isinstance(row, UnusedLine) else "" for row in found]
    assert codes == ["several_prices", "several_prices", ""]
