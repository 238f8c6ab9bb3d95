"""Tests of unknown balances: an amount is in every total, and a possible amount is held."""

from typing import Any
from unittest import mock

import duckdb
import pytest

from pipelines.records import tolerant_reader
from pipelines.records.json_text import read_json
from pipelines.records.tolerant_reader import leaves
from tests.support import nights
from warehouse.contract.states import ACCEPTED, HELD
from warehouse.storage.layout import Layout

MOMENT = "2024-05-06T07:08:09.123Z"
Json = Any


def book(balance: Json) -> nights.Book:
    """Return a book with one account, which has one unit in custody and this balance."""
    account = {"venueId": "v", "name": "a", "balance": {"custody": {"free": "1", "locked": "0"}}}
    account["balance"] |= balance
    portfolio = {
        "id": "p",
        "resource": "portfolio",
        "name": "One",
        "positions": [{"assetId": "USD", "isCustomAsset": False, "accounts": [account]}],
        "createdAt": MOMENT,
        "updatedAt": MOMENT,
    }
    venue = {
        "id": "v",
        "resource": "venue",
        "type": ["exchange"],
        "displayName": "V",
        "tradingStatus": "trading",
        "instruments": [],
        "createdAt": MOMENT,
        "updatedAt": MOMENT,
    }
    return nights.Book([portfolio], [venue], {("v", "spot"): [], ("v", "future"): []})


ROWS: dict[str, tuple[Json, list[tuple[str, str]]]] = {
    "margin.free": (
        {"margin": {"locked": "0", "free": "4000000"}},
        [("margin", "free")],
    ),
    "trading.pending": (
        {"trading": {"free": "0", "locked": "0", "pending": "4000000"}},
        [("trading", "pending")],
    ),
    "staking.rewards{}": (
        {"staking": {"locked": "0", "rewards": {"pending": "1000000", "paid": "3000000"}}},
        [("staking", "rewards.paid"), ("staking", "rewards.pending")],
    ),
    "invented{}": ({"invented": {"free": "4000000"}}, [("invented", "free")]),
    "loan": ({"loan": "4000000"}, [("loan", "stated")]),
    "a bare part of the document": ({"staking": "4000000"}, [("staking", "stated")]),
    "a part where a text was": (
        {"trading": {"free": {"own": "4000000"}, "locked": "0"}},
        [("trading", "free.own")],
    ),
    "amounts beside a name and a time": (
        {"invented": {"free": "4000000", "asset": "USD", "at": MOMENT, "by": None, "on": True}},
        [("invented", "free")],
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_an_unknown_amount_is_in_every_total(layout: Layout, name: str) -> None:
    """An unknown amount is a row of the balances, and in the sums of all control totals."""
    balance, keys = ROWS[name]
    manifest = nights.land(layout, book(balance))
    rows, parts = nights.staged(layout, manifest)
    told = sorted((row["bucket"], row["state"]) for row in rows["balances"])
    assert [key for key in told if key in keys] == keys
    assert not nights.noted(parts, "rejects")
    with duckdb.connect() as connection:
        path = str(layout.staged_file("balances", manifest.snapshot_id))
        [(total,)] = connection.execute(
            "select sum(amount) from read_parquet(?)", [path]
        ).fetchall()
    assert total == 4000001
    sums = {one["bucket"]: one["in_json"] for one in parts["portfolios"]["totals"]}
    assert sum(int(text) for bucket, text in sums.items() if bucket) == 4000001
    assert not nights.differing(parts)


def test_unknown_amounts_do_not_hold_a_night(layout: Layout) -> None:
    """Unknown amounts are rows, so the night needs no decision by a person."""
    assert nights.take(layout, book({"loan": "4000000"})).state == ACCEPTED


HELD_FOR: dict[str, tuple[Json, str]] = {
    "a number": ({"loan": 4000000}, "loan"),
    "a number in an unknown part": ({"invented": {"free": 4000000}}, "invented.free"),
    "a number in a known part": (
        {"margin": {"locked": "0", "free": 4000000}},
        "margin.free",
    ),
    "a list": ({"loans": ["4000000"]}, "loans"),
    "a list of objects": ({"loans": [{"free": "4000000"}]}, "loans"),
    "an object with a number": ({"invented": {"a": {"b": 1, "c": "2"}}}, "invented.a.b"),
    "a text with separators": ({"loan": "4,000,000"}, "loan"),
    "a text with its unit": ({"invented": {"free": "4000000 USD"}}, "invented.free"),
    "a text in other digits": ({"loan": "٤٠٠٠٠٠٠"}, "loan"),
    "an amount that is too long": ({"loan": "1" * 1001}, "loan"),
    "a known part that is a number": ({"staking": 4000000}, "staking"),
    "not a number": ({"invented": {"free": "NaN"}}, "invented.free"),
}


@pytest.mark.parametrize("name", HELD_FOR)
def test_possible_money_that_is_not_an_amount_holds_the_night(layout: Layout, name: str) -> None:
    """The value is rejected at its path, with money, and the reason does not contain it."""
    balance, place = HELD_FOR[name]
    snapshot = nights.take(layout, book(balance))
    assert snapshot.state == HELD
    [reject] = nights.rows_of(
        layout.parquet("rejects", snapshot.snapshot_date, snapshot.snapshot_id)
    )
    assert reject["path"] == f"data[0].positions[0].accounts[0].balance.{place}"
    assert reject["carries_money"]
    assert not any(letter.isdigit() for letter in reject["reason"])


def test_the_control_totals_find_a_dropped_amount(layout: Layout) -> None:
    """The control totals find the amount, because their count of the JSON is independent."""
    with mock.patch.object(tolerant_reader.Leaf, "amount", None):
        _, parts = nights.staged(layout, nights.land(layout, book({"invented": {"free": "4"}})))
    told = {(one["measure"], one["bucket"]) for one in nights.differing(parts)}
    assert told == {("rows", ""), ("sum", "invented")}


def test_different_json_paths_have_different_names() -> None:
    """A name with a dot or a quotation mark is quoted, so that no two rows have the same key."""
    text = b'{"a.b":"1","a":{"b":"2","":"3"},"\\"a.b\\"":"4","a.":{"":"5"},"":{"b":"6"}}'
    states = [leaf.state for leaf in leaves(read_json(text))]
    assert states == ['"a.b"', "a.b", 'a.""', '"\\"a.b\\""', '"a.".""', '"".b']
    assert len(set(states)) == len(states)
