"""Tests of response bodies (1 to 3), as numbered statements about the document."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest

from pipelines.sandbox.specification import OPERATIONS

Record = dict[str, Any]
AMOUNT = re.compile(r"-?[0-9]+(\.[0-9]{1,18})?")
CONSTRAINTS = (
    *("minBaseQty", "maxBaseQty", "minBaseIncrement", "minTermQty"),
    *("minPrice", "maxPrice", "minTick"),
)
SPOT_OR_FUTURE = {"spot", "future"}


@dataclass(frozen=True, slots=True)
class Book:
    """All data of the API, read through its operations."""

    portfolios: list[Record]
    venues: list[Record]
    instruments: list[Record]
    successes: list[Record]
    errors: list[Record]

    @property
    def integrations(self) -> list[Record]:
        """The integrations of all portfolios."""
        return [one for portfolio in self.portfolios for one in portfolio["integrations"]]

    @property
    def positions(self) -> list[Record]:
        """The positions of all portfolios."""
        return [one for portfolio in self.portfolios for one in portfolio["positions"]]

    @property
    def accounts(self) -> list[Record]:
        """The accounts of all positions."""
        return [one for position in self.positions for one in position["accounts"]]

    @property
    def balances(self) -> list[Record]:
        """The balances of all accounts."""
        return [account["balance"] for account in self.accounts]

    @property
    def embedded(self) -> list[Record]:
        """The instruments that venues embed."""
        return [one for venue in self.venues for one in venue["instruments"]]

    @property
    def limits(self) -> list[Record]:
        """The trading constraints of instruments that have any."""
        return [
            one["tradingConstraints"] for one in self.instruments if "tradingConstraints" in one
        ]

    def buckets(self, name: str) -> list[Record]:
        """Return the sub-objects of one kind from all balances."""
        return [balance[name] for balance in self.balances if name in balance]


def every(records: Iterable[Any], holds: Callable[[Any], bool]) -> bool:
    """Return True if there are records, and the condition is true for all of them."""
    found = [bool(holds(record)) for record in records]
    return bool(found) and all(found)


def texts(records: list[Record], name: str) -> bool:
    return every(records, lambda one: type(one[name]) is str)


def instants(records: list[Record], name: str) -> bool:
    return every(records, lambda one: datetime.fromisoformat(one[name]).tzinfo is not None)


def within(records: list[Record], name: str, allowed: set[str]) -> bool:
    """Return True if the field has only allowed values, and has each of them at least once."""
    return {one[name] for one in records} == allowed


@pytest.fixture(scope="module")
def book(ask: Callable[..., Any]) -> Book:
    """Return the whole book of one day, and some refusals."""
    portfolios = ask("/portfolios", "include=integrations").json
    venues = ask("/venues", "include=instruments").json
    lists = [
        ask(f"/venues/{quote(venue['id'], safe='')}/instruments").json for venue in venues["data"]
    ]
    one = ask(f"/portfolios/{portfolios['data'][0]['id']}").json
    refusals = [ask("/portfolios", "page=2"), ask("/nothing"), ask("/venues", key="unknown")]
    return Book(
        portfolios["data"],
        venues["data"],
        [instrument for listed in lists for instrument in listed["data"]],
        [portfolios, venues, *lists, one],
        [refusal.json for refusal in refusals],
    )


STATEMENTS: Mapping[int, Callable[[Book], bool]] = {
    # The service (1).
    3: lambda b: every(b.successes, lambda body: type(body) is dict),
    4: lambda b: every(b.errors, lambda body: type(body) is dict),
    5: lambda b: every(b.successes, lambda body: type(body["meta"]) is dict),
    6: lambda b: every(b.errors, lambda body: type(body["meta"]) is dict),
    7: lambda b: every([*b.successes, *b.errors], lambda body: body["meta"] == {}),
    9: lambda b: every(
        [(one, name) for one in b.portfolios for name in ("createdAt", "updatedAt")],
        lambda pair: datetime.fromisoformat(pair[0][pair[1]]).year > 2000,
    ),
    10: lambda b: every(
        [text for balance in b.balances for part in balance.values() for text in part.values()],
        lambda text: type(text) is str and AMOUNT.fullmatch(text) is not None,
    ),
    # Portfolio (2.1).
    11: lambda b: every(b.portfolios, lambda one: str(UUID(one["id"])) == one["id"]),
    12: lambda b: within(b.portfolios, "resource", {"portfolio"}),
    13: lambda b: texts(b.portfolios, "name"),
    14: lambda b: every(b.portfolios, lambda one: type(one["integrations"]) is list),
    15: lambda b: (
        every(b.portfolios, lambda one: type(one["positions"]) is list)
        and any(not one["positions"] for one in b.portfolios)
    ),
    16: lambda b: instants(b.portfolios, "createdAt"),
    17: lambda b: instants(b.portfolios, "updatedAt"),
    # Integration (2.2).
    19: lambda b: every(b.integrations, lambda one: str(UUID(one["id"])) == one["id"]),
    20: lambda b: texts(b.integrations, "venueId"),
    21: lambda b: within(b.integrations, "integrationStatus", {"requested", "verified"}),
    22: lambda b: {one["venueId"] for one in b.integrations} <= {one["id"] for one in b.venues},
    # Position (2.3) and account (2.4).
    23: lambda b: texts(b.positions, "assetId"),
    24: lambda b: {one["isCustomAsset"] for one in b.positions} == {True, False},
    25: lambda b: every(b.positions, lambda one: type(one["accounts"]) is list),
    26: lambda b: texts(b.accounts, "venueId"),
    27: lambda b: texts(b.accounts, "name"),
    28: lambda b: every(b.accounts, lambda one: type(one["balance"]) is dict),
    # Balance (2.5).
    29: lambda b: {} in b.balances,
    30: lambda b: texts(b.buckets("trading"), "free"),
    31: lambda b: texts(b.buckets("trading"), "locked"),
    32: lambda b: texts(b.buckets("margin"), "locked"),
    33: lambda b: texts(b.buckets("staking"), "locked"),
    34: lambda b: texts(b.buckets("custody"), "free"),
    35: lambda b: texts(b.buckets("custody"), "locked"),
    36: lambda b: every(
        [part for balance in b.balances for part in balance.values()],
        lambda part: set(map(type, part.values())) == {str} and set(part) <= {"free", "locked"},
    ),
    37: lambda b: len({frozenset(balance) for balance in b.balances}) == 16,
    38: lambda b: (
        set().union(*b.balances) == {"trading", "margin", "staking", "custody"}
        and every(b.buckets("margin"), lambda part: set(part) == {"locked"})
    ),
    # Venue (2.6).
    39: lambda b: (
        texts(b.venues, "id") and any(quote(one["id"], safe="") != one["id"] for one in b.venues)
    ),
    40: lambda b: within(b.venues, "resource", {"venue"}),
    41: lambda b: every(b.venues, lambda one: type(one["type"]) is list),
    42: lambda b: (
        {kind for one in b.venues for kind in one["type"]} == {"exchange", "otc", "custodian"}
    ),
    43: lambda b: texts(b.venues, "displayName"),
    44: lambda b: within(b.venues, "tradingStatus", {"trading", "suspended", "unsupported"}),
    45: lambda b: every(b.venues, lambda one: type(one["instruments"]) is list),
    46: lambda b: instants(b.venues, "createdAt"),
    47: lambda b: instants(b.venues, "updatedAt"),
    48: lambda b: {1, 2, 3} == {len(one["type"]) for one in b.venues},
    # Instrument of a venue (2.7).
    49: lambda b: texts(b.embedded, "id"),
    50: lambda b: within(b.embedded, "type", SPOT_OR_FUTURE),
    51: lambda b: (
        texts(b.embedded, "displayName")
        and every(b.embedded, lambda one: set(one) == {"id", "type", "displayName"})
    ),
    # Instrument (2.8).
    52: lambda b: texts(b.instruments, "id"),
    53: lambda b: within(b.instruments, "resource", {"instrument"}),
    54: lambda b: within(b.instruments, "type", SPOT_OR_FUTURE),
    55: lambda b: texts(b.instruments, "displayName"),
    56: lambda b: texts(b.instruments, "feedId"),
    57: lambda b: texts(b.instruments, "venueSymbol"),
    58: lambda b: texts(b.instruments, "baseAsset"),
    59: lambda b: texts(b.instruments, "termAsset"),
    60: lambda b: (
        every(b.limits, lambda one: type(one) is dict) and len(b.limits) < len(b.instruments)
    ),
    61: lambda b: every(
        [(name, text) for one in b.limits for name, text in one.items()],
        lambda pair: pair[0] in CONSTRAINTS and AMOUNT.fullmatch(pair[1]) is not None,
    ),
    62: lambda b: every(CONSTRAINTS, lambda name: any(name not in one for one in b.limits if one)),
    63: lambda b: instants([one for one in b.instruments if "expiration" in one], "expiration"),
    64: lambda b: every(
        [one for one in b.instruments if re.search(r"-\d\d[A-Z]{3}\d\d$", one["id"])],
        lambda one: one["type"] == "future" and "expiration" in one,
    ),
    65: lambda b: every(
        [one for one in b.instruments if one["type"] == "spot"],
        lambda one: "expiration" not in one,
    ),
    66: lambda b: instants(b.instruments, "createdAt"),
    67: lambda b: instants(b.instruments, "updatedAt"),
    # Envelopes (2.9).
    68: lambda b: every(b.successes[:-1], lambda body: type(body["data"]) is list),
    69: lambda b: every(b.successes[-1:], lambda body: type(body["data"]) is dict),
    70: lambda b: every(
        [error for body in b.errors for error in body["errors"]],
        lambda error: set(error) == {"error", "message"},
    ),
    71: lambda b: (
        every(b.errors, lambda body: set(body) == {"errors", "meta"})
        and every(b.successes, lambda body: set(body) == {"data", "meta"})
    ),
    # States (3).
    72: lambda b: len({one["integrationStatus"] for one in b.integrations}) == 2,
    73: lambda b: len({one["tradingStatus"] for one in b.venues}) == 3,
}


@pytest.mark.parametrize("number", STATEMENTS)
def test_bodies_match_the_statements_of_the_document(number: int, book: Book) -> None:
    """Each statement about fields, values and envelopes is true for the whole book of a day."""
    assert STATEMENTS[number](book)


def test_018_include_adds_integrations(ask: Callable[..., Any]) -> None:
    """A service that omits integrations by default sends them with `include` (2.1, 2.10)."""
    without = ask("/portfolios", integrations_without_include=False).json["data"]
    with_them = ask("/portfolios", "include=integrations", integrations_without_include=False).json[
        "data"
    ]
    assert not any("integrations" in one for one in without)
    assert all("integrations" in one for one in with_them)


def test_002_every_path_needs_the_prefix(ask: Callable[..., Any]) -> None:
    """The API's paths are not served without the prefix (1)."""
    assert len(OPERATIONS) == 5
    for path in ("/portfolios", "/venues", "/venues/kestrel", "/venues/kestrel/instruments"):
        assert ask(path).status == 200
        assert ask(path, prefix="").refusal == (404, "RESOURCE_NOT_FOUND")
