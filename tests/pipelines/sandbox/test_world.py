"""Tests of the sandbox's world: it is reproducible, valid and changing, and no night is held."""

import json
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.sandbox.specification import RESOURCES, FieldSpec
from pipelines.sandbox.world.assets import amount
from pipelines.sandbox.world.world import LivingWorld, World
from tests.support.shared import tries

FIRST = date(2026, 11, 20)
NIGHTS = [FIRST + timedelta(days=number) for number in range(21)]
DAYS = st.dates(date(2025, 1, 1), date(2035, 12, 31))


def wrong(value: Any, field: FieldSpec, where: str) -> list[str]:
    """Check a value, or a list of values, against its field's declaration. Return the problems."""
    if field.many:
        if type(value) is not list:
            return [f"{where} is no list"]
        items = enumerate(value)
        return [text for at, one in items for text in wrong_one(one, field, f"{where}[{at}]")]
    return wrong_one(value, field, where)


def wrong_one(value: Any, field: FieldSpec, where: str) -> list[str]:
    """Check a single value against its field's declaration. Return the problems."""
    if field.kind in RESOURCES:
        return wrong_record(value, field.kind, where)
    kinds: dict[str, Callable[[Any], bool]] = {
        "text": lambda text: type(text) is str,
        "uuid": lambda text: str(UUID(text)) == text,
        "date-time": lambda text: datetime.fromisoformat(text).tzinfo is not None,
        "amount": lambda text: re.fullmatch(r"\d+(\.\d{1,18})?", text, re.ASCII) is not None,
        "boolean": lambda flag: type(flag) is bool,
    }
    right = kinds[field.kind](value) and (not field.values or value in field.values)
    return [] if right else [f"{where} is {value!r}"]


def wrong_record(record: Any, resource: str, where: str) -> list[str]:
    """Return the problems of a record: missing, undeclared and invalid fields."""
    fields = {field.name: field for field in RESOURCES[resource]}
    missing = [name for name, field in fields.items() if field.required and name not in record]
    found = [f"{where} lacks {name}" for name in missing]
    found += [f"{where}.{name} is not declared" for name in record if name not in fields]
    for name in record.keys() & fields.keys():
        found += wrong(record[name], fields[name], f"{where}.{name}")
    return found


def amounts(world: World) -> dict[str, Decimal]:
    """Return the exact total of each asset."""
    totals: dict[str, Decimal] = {}
    for portfolio in world.portfolios:
        for asset, text in money(portfolio):
            totals[asset] = totals.get(asset, Decimal(0)) + Decimal(text)
    return totals


def money(portfolio: dict[str, Any]) -> list[tuple[str, str]]:
    """Return all amounts of a portfolio, each with its asset."""
    return [
        (position["assetId"], text)
        for position in portfolio["positions"]
        for account in position["accounts"]
        for bucket in account["balance"].values()
        for text in bucket.values()
    ]


def accounts(world: World) -> int:
    """Count the accounts of a world."""
    return sum(len(one["accounts"]) for each in world.portfolios for one in each["positions"])


@settings(max_examples=tries(3, 120), deadline=None)
@given(DAYS)
def test_the_world_of_any_day_is_valid(day: date) -> None:
    """On any day, all records match their declarations, and a venue's instrument IDs are unique."""
    world = LivingWorld().at(day)
    assert [text for one in world.portfolios for text in wrong_record(one, "Portfolio", "p")] == []
    assert [text for one in world.venues for text in wrong_record(one, "Venue", "v")] == []
    for listed in (world.instruments or {}).values():
        assert [text for one in listed for text in wrong_record(one, "Instrument", "i")] == []
        assert len({one["id"] for one in listed}) == len(listed)


@settings(max_examples=tries(3, 120), deadline=None)
@given(DAYS)
def test_every_record_is_older_than_the_served_day(day: date) -> None:
    """All records were last updated before the served day, and not before their creation."""
    world = LivingWorld().at(day)
    listed = [one for each in (world.instruments or {}).values() for one in each]
    for one in (*world.portfolios, *world.venues, *listed):
        made = datetime.fromisoformat(one["createdAt"])
        changed = datetime.fromisoformat(one["updatedAt"])
        assert made <= changed
        assert changed.date() < day


def test_a_seed_and_a_date_determine_the_world() -> None:
    """A seed and a date always give the same world. Other seeds and dates give other worlds."""
    again = LivingWorld("nightbook", 1)
    LivingWorld.at(again, FIRST + timedelta(days=9))
    assert again.at(FIRST) == LivingWorld().at(FIRST)
    assert LivingWorld("other").at(FIRST) != again.at(FIRST) != again.at(NIGHTS[1])
    first = again.at(FIRST).portfolios[0]
    assert (first["id"], first["name"]) == (
        "78c448cc-02f2-4d06-b2eb-798e09e0fa1c",
        "Treasury Reserve",
    ), "a changed hash changes every world ever served"


def test_a_scale_multiplies_the_small_default_world() -> None:
    """The default world is less than 1 MB of JSON. A scale of 3 gives three times the records."""
    one, three = LivingWorld().at(FIRST), LivingWorld(scale=3).at(FIRST)
    documents = (one.portfolios, one.venues, one.instruments)
    assert sum(len(json.dumps(document)) for document in documents) < 1_000_000
    assert len(three.portfolios) == 3 * len(one.portfolios)
    assert len(three.venues) == len({each["id"] for each in three.venues}) == 36
    assert accounts(three) > 2.5 * accounts(one)
    assert len({each["id"] for each in three.portfolios}) == len(three.portfolios)


def test_the_world_is_realistic_and_has_unusual_records() -> None:
    """The world is realistic, but also has unusual records.

    It has empty and large portfolios, custom assets, positions without accounts, 0 to 18 decimals,
    and names and IDs that must be escaped.
    """
    world = LivingWorld().at(FIRST)
    sizes = sorted(len(one["positions"]) for one in world.portfolios)
    assert sizes[0] == 0
    assert sizes[-1] == 300
    assert 12 <= len(sizes) <= 14
    positions = [position for one in world.portfolios for position in one["positions"]]
    assert any(one["isCustomAsset"] for one in positions)
    assert any(not one["accounts"] for one in positions)
    assert any(not one["integrations"] for one in world.portfolios)
    decimals = {len(text.partition(".")[2]) for one in world.portfolios for _, text in money(one)}
    assert {0, 2, 6, 8, 18} <= decimals
    names = "".join(one["name"] for one in world.portfolios)
    assert all(mark in names for mark in '",=ü🦊\n')
    assert any(quote(one["id"], safe="") != one["id"] for one in world.venues)
    futures = [one for each in (world.instruments or {}).values() for one in each]
    assert {"expiration" in one for one in futures if one["type"] == "future"} == {True, False}
    limits = {len(one.get("tradingConstraints", "no")) for one in futures}
    assert {0, 2, 3, 7} <= limits


@pytest.mark.parametrize("start", range(6))
def test_everything_changes_within_three_nights(start: int) -> None:
    """In any three nights, everything that can change changes at least once."""
    worlds = [LivingWorld().at(NIGHTS[start + number]) for number in range(3)]
    books = [{one["id"]: one for one in world.portfolios} for world in worlds]
    assert len({frozenset(book) for book in books}) > 1
    kept = [[book[key] for book in books] for key in set.intersection(*map(set, books))]
    assert any(len({one["name"] for one in each}) > 1 for each in kept)
    assert any(len({len(one["positions"]) for one in each}) > 1 for each in kept)
    assert len({accounts(world) for world in worlds}) > 1
    assert len({tuple(sorted(amounts(world).items())) for world in worlds}) == 3
    assert len({frozenset((v["id"], v["tradingStatus"]) for v in w.venues) for w in worlds}) > 1
    listings = [
        {
            (venue, one["id"])
            for venue, listed in (world.instruments or {}).items()
            for one in listed
        }
        for world in worlds
    ]
    assert listings[0] - listings[2]
    assert listings[2] - listings[0]
    verified = 0
    for before, after in pairwise(worlds):
        was, now = states(before), states(after)
        verified += sum(was.get(key) == "requested" and now[key] == "verified" for key in now)
    assert verified


def test_some_balances_change_overnight_and_others_do_not() -> None:
    """From one night to the next, the balances of some accounts change, and others do not."""
    texts = []
    for day in NIGHTS[:2]:
        [treasury] = [one for one in LivingWorld().at(day).portfolios if one["name"][:2] == "Tr"]
        texts.append(
            {
                (position["assetId"], account["venueId"], account["name"]): account["balance"]
                for position in treasury["positions"]
                for account in position["accounts"]
            }
        )
    both = texts[0].keys() & texts[1].keys()
    changed = sum(texts[0][key] != texts[1][key] for key in both)
    assert len(both) // 5 < changed < len(both) * 4 // 5


def test_expired_futures_are_replaced() -> None:
    """Futures are not listed on the day they expire, even on the last Friday of a quarter."""
    for day in (date(2026, 12, 24), date(2026, 12, 25), date(2026, 12, 26)):
        ends = [
            date.fromisoformat(one["expiration"][:10])
            for listed in (LivingWorld().at(day).instruments or {}).values()
            for one in listed
            if "expiration" in one
        ]
        assert day < min(ends) <= day + timedelta(days=1)
        assert {date(2027, 3, 26)} <= set(ends)


def states(world: World) -> dict[str, str]:
    """Map the ID of each integration to its status."""
    return {
        one["id"]: one["integrationStatus"]
        for portfolio in world.portfolios
        for one in portfolio["integrations"]
    }


def test_no_night_would_be_held() -> None:
    """In three weeks, no portfolio with money disappears and no total or count falls by a fifth."""
    for before, after in pairwise(LivingWorld().at(day) for day in NIGHTS):
        gone = {one["id"] for one in before.portfolios} - {one["id"] for one in after.portfolios}
        assert not any(money(one) for one in before.portfolios if one["id"] in gone)
        left = amounts(after)
        assert all(left[asset] > total * Decimal("0.8") for asset, total in amounts(before).items())
        assert accounts(after) > 0.8 * accounts(before)
        assert len(after.venues) == len(before.venues)
        listed = [sum(map(len, (one.instruments or {}).values())) for one in (before, after)]
        assert listed[1] > 0.8 * listed[0]


@given(st.integers(-(10**40), 10**40), st.integers(0, 18), st.booleans())
def test_amounts_are_exact(units: int, decimals: int, padded: bool) -> None:  # noqa: FBT001 - drawn
    """The string of an amount is exact to the last digit, regardless of its size."""
    text = amount(units, decimals, padded=padded)
    whole, _, fraction = text.partition(".")
    assert int(whole + fraction) * 10 ** (decimals - len(fraction)) == units
    assert len(fraction) == decimals if padded else not fraction.endswith("0")


def test_lists_have_a_new_order_in_each_response(ask: Callable[..., Any]) -> None:
    """Each response has all lists in a new order, even nested ones, unless one is chosen (4.6)."""
    replies = [ask("/portfolios").json["data"] for _ in range(4)]
    assert len({str([one["id"] for one in reply]) for reply in replies}) > 1
    treasuries = [one for reply in replies for one in reply if len(one["positions"]) == 300]
    assert len({str([one["assetId"] for one in each["positions"]]) for each in treasuries}) == 4
    ordered = [ask("/portfolios", order=order).json["data"] for order in ("sorted", "reversed")]
    assert [one["id"] for one in ordered[0]] == [one["id"] for one in ordered[1]][::-1]
    assert ask("/portfolios", order="sorted").json["data"] == ordered[0]
    assert sorted(one["id"] for one in replies[0]) == sorted(one["id"] for one in ordered[0])
