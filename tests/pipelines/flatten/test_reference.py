"""Tests of the control totals: only records that the contract allows as rows are counted."""

import json
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipelines.flatten.control_totals import reference, totals
from pipelines.flatten.control_totals.reference import Sum
from pipelines.records import amounts
from warehouse.exact import exact_sum

WHOLE = {"trading": {"free": "1.5", "locked": "-2"}, "margin": {"locked": "1e-30"}}


def raw(value: Any) -> msgspec.Raw:
    """Return a record as raw JSON. Bytes are used unchanged."""
    return msgspec.Raw(value if isinstance(value, bytes) else json.dumps(value).encode())


def account(balance: Any, **changes: Any) -> dict[str, Any]:
    """Return an account without the members that are None."""
    made = {"venueId": "v", "name": "a", "balance": balance} | changes
    return {name: value for name, value in made.items() if value is not None}


def holding(*accounts: Any, asset: Any = "BTC", custom: Any = False, **more: Any) -> dict[str, Any]:
    """Return a portfolio with one position."""
    position = {"assetId": asset, "isCustomAsset": custom, "accounts": list(accounts)}
    return {"id": "p", "positions": [position], **more}


def counted(*records: Any) -> tuple[list[int], dict[Sum, str]]:
    """Return the row counts of the five tables, and the sum of each asset and bucket."""
    rows, sums = totals.of_portfolios(map(raw, records), precise=True)
    tables = ("portfolios", "integrations", "positions", "accounts", "balances")
    return [rows[name] for name in tables], {key: str(one) for key, one in sums.items()}


BTC = ("BTC", False)
TEXTS = st.one_of(
    st.from_regex(r"-?[0-9]{1,3}(\.[0-9]{0,3})?", fullmatch=True),
    st.text("0123456789.-+eE_ ٣", max_size=4),
    st.sampled_from(["1_0", "--1", "1-2", ".", "-", "5.", ".5", "1e5", "NaN", "0" * 1001]),
)


@pytest.mark.parametrize(
    ("record", "rows", "sums"),
    [
        (
            holding(account(WHOLE)),
            [1, 0, 1, 1, 3],
            {Sum(*BTC, "trading"): "-0.5", Sum(*BTC, "margin"): "1E-30"},
        ),
        ({"id": "p"}, [1, 0, 0, 0, 0], {}),
        ({"id": 7, "positions": []}, [0, 0, 0, 0, 0], {}),
        ([{"id": "p"}], [0, 0, 0, 0, 0], {}),
        (b'{"id":"p","id":"p"}', [0, 0, 0, 0, 0], {}),
        (b"[" * 100_000, [0, 0, 0, 0, 0], {}),
        (b"\xff", [0, 0, 0, 0, 0], {}),
        ({"id": "p", "positions": {}, "integrations": 1}, [1, 0, 0, 0, 0], {}),
        (
            {"id": "p", "integrations": [{"id": "a"}, {"id": "b"}, {"id": "a"}, {"id": 1}, 2]},
            [1, 2, 0, 0, 0],
            {},
        ),
        (holding(account(WHOLE), custom="no"), [1, 0, 0, 0, 0], {}),
        (holding(account(WHOLE), asset=None), [1, 0, 0, 0, 0], {}),
        (holding(account(WHOLE, venueId=1), account(WHOLE, name=None)), [1, 0, 1, 0, 0], {}),
        (holding(account(None), account({}), account([1]), 7), [1, 0, 1, 3, 0], {}),
        (
            holding(account({"staking": {"locked": "1"}}), account({"staking": {"locked": "2"}})),
            [1, 0, 1, 2, 2],
            {Sum(*BTC, "staking"): "3"},
        ),
        (
            holding(account({"custody": {"free": 5, "locked": "1", "new": "2"}})),
            [1, 0, 1, 1, 2],
            {Sum(*BTC, "custody"): "3"},
        ),
        (
            holding(account({"margin": {"free": "4", "locked": "1_0"}})),
            [1, 0, 1, 1, 1],
            {Sum(*BTC, "margin"): "4"},
        ),
        (
            holding(account({"invented": {"a": "1", "b": "2"}, "bonds": {"a": "1", "b": "x"}})),
            [1, 0, 1, 1, 3],
            {Sum(*BTC, "invented"): "3", Sum(*BTC, "bonds"): "1"},
        ),
        (
            holding(account({"invented": {"a": "1", "b": 2}, "bonds": ["1"]})),
            [1, 0, 1, 1, 1],
            {Sum(*BTC, "invented"): "1"},
        ),
        (
            holding(account({"loan": "4", "staking": {"rewards": {"a": "1", "b": {"c": "2"}}}})),
            [1, 0, 1, 1, 3],
            {Sum(*BTC, "loan"): "4", Sum(*BTC, "staking"): "3"},
        ),
    ],
)
def test_invalid_parts_of_a_record_are_not_counted(
    record: Any, rows: list[int], sums: dict[Sum, str]
) -> None:
    """Invalid parts of a record are neither counted nor summed, but the valid parts are."""
    assert counted(record) == (rows, sums)


def test_a_number_or_a_duplicate_key_is_ignored() -> None:
    """A number and an object with a duplicate key are ignored completely, but nothing else is."""
    good = b'{"venueId":"v","name":"a","balance":{"margin":{"locked":"1"}}}'
    twice = b'{"venueId":"v","venueId":"v","name":"a","balance":{"margin":{"locked":"2"}}}'
    inner = b'{"venueId":"v","name":"a","balance":{"margin":{"locked":"3","locked":"3"}}}'
    number = b'{"venueId":"v","name":"a","balance":{"margin":{"locked":1e400}}}'
    text = b'{"id":"p","positions":[{"assetId":"BTC","isCustomAsset":true,"accounts":[%b]}]}'
    record = text % b",".join([good, twice, inner, number])
    assert counted(record) == ([1, 0, 1, 3, 1], {Sum("BTC", True, "margin"): "1"})


def test_a_custom_asset_is_a_separate_position() -> None:
    """An asset is one position, however often it is listed, and a custom asset is a separate one.

    All accounts are counted, and a portfolio that is listed twice counts once.
    """
    positions = [
        {"assetId": "BTC", "isCustomAsset": custom, "accounts": [account(WHOLE)]}
        for custom in (False, True, False)
    ]
    one = {"id": "p", "positions": positions}
    rows, sums = counted(one, {"id": "q"}, one)
    assert rows == [2, 0, 2, 3, 9]
    assert sums[Sum(*BTC, "trading")] == "-1.0"
    assert sums[Sum("BTC", True, "trading")] == "-0.5"


def test_sums_of_any_size_are_exact() -> None:
    """A sum of two amounts that are four hundred digits apart is exact."""
    balance = {"margin": {"locked": "1e200"}, "invented": {"a": "1e200", "b": "1e-200"}}
    _, sums = totals.of_portfolios([raw(holding(account(balance)))], precise=True)
    assert sums[Sum("BTC", False, "margin")] == Decimal("1e200")
    assert format(sums[Sum("BTC", False, "invented")], "f") == f"1{'0' * 200}.{'0' * 199}1"


def test_venues_and_instruments_are_counted_by_id() -> None:
    """Venues and instruments are counted by ID, and only the first record of an ID counts.

    Each type of a venue counts once, and only if it is a string.
    """
    records = [
        {"id": "v", "type": ["otc", "otc", "exchange", 7]},
        {"id": "v", "type": ["custodian"]},
        {"id": "w", "type": "otc"},
        {"id": "x"},
        {"id": 1, "type": ["otc"]},
        b'{"id":"y","type":["otc"],"type":["otc"]}',
        7,
    ]
    assert reference.venues(map(raw, records)) == {"venues": 3, "venue_types": 2}
    assert reference.identities(map(raw, records)) == 3
    assert reference.identities([]) == 0


@example(pairs=[("1_0", "0" * 1001), ("--1", ".")], precise=False)
@given(pairs=st.lists(st.tuples(TEXTS, TEXTS), max_size=6), precise=st.booleans())
def test_both_counts_sum_exactly_the_valid_amounts(
    *, pairs: list[tuple[str, str]], precise: bool
) -> None:
    """Both the quick and the precise count sum exactly the strings that are valid amounts."""
    stated = [{"trading": {"free": free, "locked": locked}} for free, locked in pairs]
    values = [
        value for pair in pairs for text in pair if (value := amounts.parse(text)) is not None
    ]
    rows, sums = totals.of_portfolios([raw(holding(*map(account, stated)))], precise=precise)
    assert rows["balances"] == len(values)
    assert sums == ({Sum(*BTC, "trading"): exact_sum(values)} if values else {})
