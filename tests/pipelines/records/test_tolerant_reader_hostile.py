"""Named cases of hostile but legal data: both readers return every row of every table."""

import copy
import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest

from pipelines.flatten import resources
from pipelines.records import fast_reader
from tests.support import nights, oracle
from tests.support.shared import some_daily
from warehouse.storage.layout import Layout

Json = Any
MOMENT = "2024-05-06T07:08:09.123Z"
FAST, TOLERANT = "fast", "tolerant"


def _account(balance: Json, venue: str = "v", name: str = "main") -> Json:
    return {"venueId": venue, "name": name, "balance": balance}


def _position(*accounts: Json, asset: str = "BTC", custom: bool = False) -> Json:
    return {"assetId": asset, "isCustomAsset": custom, "accounts": list(accounts)}


def _portfolio(*positions: Json, **changes: Json) -> Json:
    whole = {
        "id": "p1",
        "resource": "portfolio",
        "name": "One",
        "integrations": [{"id": "i1", "venueId": "v", "integrationStatus": "verified"}],
        "positions": list(positions),
        "createdAt": MOMENT,
        "updatedAt": MOMENT,
    }
    return whole | changes


def _free(text: str) -> Json:
    return _account({"trading": {"free": text, "locked": "0"}})


def _venue(**changes: Json) -> Json:
    whole = {
        "id": "v",
        "resource": "venue",
        "type": ["exchange", "otc"],
        "displayName": "V",
        "tradingStatus": "trading",
        "instruments": [{"id": "X", "type": "spot", "displayName": "X"}],
        "createdAt": MOMENT,
        "updatedAt": MOMENT,
    }
    return whole | changes


def _instrument(**changes: Json) -> Json:
    whole = {
        "id": "X",
        "resource": "instrument",
        "type": "spot",
        "displayName": "X",
        "feedId": "f",
        "venueSymbol": "XS",
        "baseAsset": "X",
        "termAsset": "USD",
        "tradingConstraints": {"minTick": "0.01"},
        "createdAt": MOMENT,
        "updatedAt": MOMENT,
    }
    return whole | changes


def _amount(text: str) -> nights.Book:
    limits = {"tradingConstraints": {"minTick": text, "maxPrice": "1"}}
    listed = {("v", "spot"): [_instrument(**limits)], ("v", "future"): []}
    return nights.Book(
        [_portfolio(_position(_free(text)), _position(_free("2"), asset="E"))], [_venue()], listed
    )


def _time(text: str) -> nights.Book:
    times = {"createdAt": text, "updatedAt": MOMENT}
    listed = {("v", "spot"): [_instrument(**times, expiration=text)]}
    return nights.Book([_portfolio(**times)], [_venue(**times)], listed)


def _named(text: str) -> nights.Book:
    names = {"displayName": text}
    return nights.Book(
        [_portfolio(_position(_account({}, text, text), asset=text), name=text, id=text or "p")],
        [_venue(**names, id=text, type=[])],
        {(text, "spot"): [_instrument(**names, id=text, baseAsset=text, feedId=text)]},
    )


def _everywhere(news: Json) -> nights.Book:
    """Return a book with a new field in every object. In balances, it cannot be money."""
    harmless = news if isinstance(news, str) else True
    invented = {"invented": {"free": "1.000000000000000000001", "kept": "-.5e-3"}}
    known: Json = {part: dict.fromkeys(states, "1") for part, states in oracle.KINDS.items()}
    account = _account({part: one | {"new": harmless} for part, one in known.items()} | invented)
    account["balance"]["new"] = "0.1"
    account["balance"]["older"] = harmless
    portfolio = _portfolio(_position(account | {"new": news}) | {"new": news}, new=news)
    portfolio["integrations"][0]["new"] = news
    venue = _venue(new=news)
    venue["instruments"][0]["new"] = news
    limits = {"minTick": "1", "new": news}
    listed = {("v", "spot"): [_instrument(tradingConstraints=limits, new=news)]}
    return nights.Book([portfolio], [venue], listed)


def _anywhere() -> Json:
    """Return a balance with amounts in undocumented places, and values that cannot be amounts."""
    return {
        "trading": {"free": "1", "locked": "0", "pending": "2", "asset": "USDC", "since": MOMENT},
        "margin": {"locked": "0", "free": "3", "isolated": {"BTC": {"free": "4"}, "on": True}},
        "staking": {
            "locked": "0",
            "rewards.pending": "5",
            "rewards": {"pending": "6", "": "7", '"': "8"},
            '"rewards.pending"': "9",
        },
        "custody": "10",
        "loan": "4000000",
        "a.b": {"c": "11"},
        "a": {"b.c": "12", "b": {"c": "13"}, "stated": "14"},
        "b": {"": "15"},
        "empty": {},
        "none": None,
        "closed": False,
        "list": [],
        "name": "Main-2 account",
        "day": "2026-11-20",
        "id": "7d3f1c1e-8f0a-4b64-9c3e-1a2b3c4d5e6f",
        "address": "0x52908400098527886E0F7030069857D2E4169EE7",
    }


def _new_words() -> nights.Book:
    link = {"id": "i1", "venueId": "nobody", "integrationStatus": "paused"}
    venue = _venue(type=["dex", "exchange"], tradingStatus="resting", resource="place")
    venue["instruments"][0]["type"] = "option"
    listed = {("v", "spot"): [_instrument(type="option", resource="thing")]}
    return nights.Book([_portfolio(integrations=[link], resource="folio")], [venue], listed)


def _world() -> nights.Book:
    """Return a large night with long lists in random order."""
    rng = random.Random(3)
    portfolios = [
        _portfolio(
            *(
                _position(
                    *(_account(_held(rng), f"v{a}", f"n{a}") for a in range(3)),
                    asset=f"A{number}",
                    custom=number % 2 == 0,
                )
                for number in range(8)
            ),
            id=f"p{portfolio}",
        )
        for portfolio in range(5)
    ]
    venues = [_venue(id=f"v{number}") for number in range(4)]
    listed: dict[tuple[str, str | None], Json] = {
        (f"v{number}", kind): [_instrument(id=f"{kind}{one}") for one in range(number)]
        for number in range(4)
        for kind in ("spot", "future")
    }
    for several in (portfolios, venues, *listed.values()):
        rng.shuffle(several)
    return nights.Book(portfolios, venues, listed)


def _held(rng: random.Random) -> Json:
    return {
        bucket: {state: f"{rng.getrandbits(60)}.{rng.getrandbits(50):018}" for state in states}
        for bucket, states in oracle.KINDS.items()
        if rng.random() < 0.6
    }


def _portfolios(*several: Json) -> nights.Book:
    return nights.Book(list(several), [_venue()], {("v", "spot"): [], ("v", "future"): []})


REPEATED = _position(_free("1.5"), _free("1.5"), _free("2"))
AMOUNTS = {
    "18 decimals": "1.123456789012345678",
    "24 decimals": "0.123456789012345678901234",
    "30 digits before the point": "123456789012345678901234567890.5",
    "38 digits that just fit": "99999999999999999999.999999999999999999",
    "21 digits that do not": "100000000000000000000",
    "an integer on which Arrow alone wraps": "27236604252364000000000",
    "exponent": "1e-8",
    "large exponent": "-1.5E+200",
    "tiny": "1e-200",
    "negative": "-12.75",
    "minus zero": "-0",
    "minus zero with decimals": "-0.000",
    "bare point": ".5",
    "nothing after the point": "5.",
    "plus": "+5",
    "leading zeros": "0" * 60 + "7.250",
    "trailing zeros beyond eighteen": "1." + "0" * 40,
}
TIMES = [
    f"{local}{fraction}{zone}"
    for local in ("2024-02-29T23:59:59", "1999-12-31 00:00:00", "20240229T010203")
    for fraction in ("", ".1", ",12", ".123456", ".1234567", ".123456000", ".999999999")
    for zone in ("Z", "z", "+00:00", "-00:00", "+05:30", "-0800", "+14", "-23:59")
]
NAMES = {
    "formula": "=cmd|' /C calc'!A0",
    "newlines": "line\r\nbreak\u2028and\x85another\ttab",
    "quotes": '"\'`\\\\""',
    "emoji": "🦊👩\u200d👩\u200d👧\u200d👦",
    "4,000 letters": "long " * 800,
    "nul": "a\x00b",
    "right to left": "abc\u202edef",
    "an id that needs encoding": "a/b?c#d%41 ü&=+",
    "sql": "'; drop table portfolios; --",
    "empty": "",
    "json": '{"id":1}',
}
CASES: dict[str, tuple[nights.Book, str]] = {
    **{f"amount: {name}": (_amount(text), FAST) for name, text in AMOUNTS.items()},
    **{f"name: {name}": (_named(text), FAST) for name, text in NAMES.items()},
    "empty balance": (_portfolios(_portfolio(_position(_account({})))), FAST),
    "null for an absent part": (
        _portfolios(_portfolio(_position(_account({"trading": None})), integrations=None)),
        FAST,
    ),
    "position without accounts": (_portfolios(_portfolio(_position())), FAST),
    "portfolio without positions": (_portfolios(_portfolio(integrations=[])), FAST),
    "no portfolios, no venues": (nights.Book(), FAST),
    "unknown balance kinds": (
        _portfolios(_portfolio(_position(_account({"invented": {"free": "1.5", "x": "1e-30"}})))),
        TOLERANT,
    ),
    "unknown amounts wherever they stand": (
        _portfolios(_portfolio(_position(_account(_anywhere()), _free("1")))),
        TOLERANT,
    ),
    "unknown fields at every level": (_everywhere({"since": ["tonight", None, 1.5]}), TOLERANT),
    "unknown fields nested 300 deep": (
        _everywhere(json.loads("[" * 300 + "]" * 300)),
        TOLERANT,
    ),
    "numbers no type holds, in unknown fields": (_everywhere(10**400), TOLERANT),
    "unknown words at every level": (_new_words(), FAST),
    "repeated assets": (
        _portfolios(_portfolio(_position(_free("1")), REPEATED, _position(custom=True))),
        TOLERANT,
    ),
    "repeated accounts": (_portfolios(_portfolio(REPEATED)), TOLERANT),
    "a wide night in no order": (_world(), FAST),
}
_KEYLESS = _portfolio()
del _KEYLESS["integrations"]
CASES["portfolio without the integrations key"] = (_portfolios(_KEYLESS), FAST)


def _expected(book: nights.Book) -> dict[str, list[dict[str, Any]]]:
    listed: dict[str, list[Json]] = {}
    for (venue, _), records in book.instruments.items():
        listed.setdefault(venue, []).extend(records)
    return oracle.book(nights.STARTED.date(), book.portfolios, book.venues, listed)


@contextmanager
def read_by(reader: str) -> Iterator[mock.Mock]:
    """Give batches to the fast reader first, or only to the tolerant one, whose mock is yielded."""
    refusal = fast_reader.UndocumentedRecordError if reader == TOLERANT else None
    fast = mock.Mock(wraps=resources._plain_rows, side_effect=refusal)
    slow = mock.Mock(wraps=resources._tolerant_rows)
    with mock.patch.multiple(resources, _tolerant_rows=slow, _plain_rows=fast):
        yield slow


@pytest.mark.parametrize(
    ("name", "reader"),
    # test_fast_reader checks daily that the tolerant reader reads the same.
    some_daily([(name, reader) for name in CASES for reader in (FAST, TOLERANT)], 2),
)
def test_hostile_but_legal_data_becomes_exactly_its_rows(
    layout: Layout, name: str, reader: str
) -> None:
    """All rows of all eight tables equal an independent reading, and nothing is rejected."""
    book, expected_reader = CASES[name]
    manifest = nights.land(layout, copy.deepcopy(book))
    with read_by(reader) as slow:
        rows, parts = nights.staged(layout, manifest)
    assert bool(slow.called) is (TOLERANT in (reader, expected_reader)) or name.startswith("no ")
    oracle.require_equal(rows, _expected(book))
    assert not nights.differing(parts)
    assert not nights.noted(parts, "rejects")


@pytest.mark.parametrize("reader", [FAST, TOLERANT])
def test_times_of_every_format_are_read_correctly(layout: Layout, reader: str) -> None:
    """Each zone form with zero to nine digits of a second is read, and cut digits are noted."""
    portfolios = [_portfolio(id=f"{n}", createdAt=text) for n, text in enumerate(TIMES)]
    listed = [_instrument(id=f"{n}", expiration=text) for n, text in enumerate(TIMES)]
    book = nights.Book(portfolios, [_venue()], {("v", "spot"): listed})
    with read_by(reader):
        rows, parts = nights.staged(layout, nights.land(layout, book))
    oracle.require_equal(rows, _expected(book))
    cut = [text for text in TIMES if ".1234567" in text or ".999999999" in text]
    told = nights.noted(parts, "inexact")
    assert sorted(one["value"] for one in told) == sorted(cut * 2)
    assert not nights.noted(parts, "rejects")


def test_an_inexact_value_is_noted_with_its_path_and_column(layout: Layout) -> None:
    """ops.inexact has path, table, column and text of each value that its column cannot store."""
    for text in ("0.123456789012345678901234", "1e-19", "100000000000000000000"):
        _, parts = nights.staged(layout, nights.land(layout, _amount(text)))
        told = {
            (one["path"], one["table_name"], one["column_name"], one["value"])
            for one in nights.noted(parts, "inexact")
        }
        assert told == {
            (
                "data[0].positions[0].accounts[0].balance.trading.free",
                "balances",
                "amount",
                text,
            ),
            ("data[0].tradingConstraints.minTick", "instruments", "min_tick", text),
        }


def test_unknown_fields_and_balances_are_noted_with_their_paths(layout: Layout) -> None:
    """ops.drift has every unknown field and every unknown balance kind, with its path."""
    _, parts = nights.staged(layout, nights.land(layout, _everywhere("x")))
    told = {(one["path"], one["kind"], one["word"]) for one in nights.noted(parts, "drift")}
    above = "data[].positions[]"
    balance = f"{above}.accounts[].balance"
    places = ["data[]", "data[].integrations[]", above, f"{above}.accounts[]"]
    places += [f"{balance}.{part}" for part in oracle.KINDS]
    places += ["data[].instruments[]", "data[].tradingConstraints"]
    assert told == {(f"{place}.new", "unknown field", "new") for place in places} | {
        (f"{balance}.invented", "unknown balance", "invented"),
        (f"{balance}.new", "unknown balance", "new"),
        (f"{balance}.older", "unknown field", "older"),
    }


@pytest.mark.parametrize("reader", [FAST, TOLERANT])
def test_unknown_enum_values_are_noted_with_path_and_count(layout: Layout, reader: str) -> None:
    """ops.drift has every enum value that the document does not list, with its path and count."""
    with read_by(reader):
        _, parts = nights.staged(layout, nights.land(layout, _new_words()))
    told = [(one["path"], one["word"], one["seen"]) for one in nights.noted(parts, "drift")]
    assert sorted(told) == [
        ("data[].instruments[].type", "option", 1),
        ("data[].integrations[].integrationStatus", "paused", 1),
        ("data[].resource", "folio", 1),
        ("data[].resource", "place", 1),
        ("data[].resource", "thing", 1),
        ("data[].tradingStatus", "resting", 1),
        ("data[].type", "option", 1),
        ("data[].type[]", "dex", 1),
    ]


def _spoiled(change: Callable[[Json], object]) -> Json:
    portfolio = _portfolio(_position(_free("1"), _account({"margin": {"locked": "2"}}, "w")))
    change(portfolio)
    return portfolio


def _first(portfolio: Json) -> Json:
    return portfolio["positions"][0]["accounts"][0]


BREACHES: dict[str, tuple[Callable[[Json], object], str, bool, int]] = {
    "amount is a number": (
        lambda p: _first(p)["balance"]["trading"].update(free=1.5),
        "data[0].positions[0].accounts[0].balance.trading.free",
        True,
        2,
    ),
    "amount is NaN": (
        lambda p: _first(p)["balance"]["trading"].update(free="NaN"),
        "data[0].positions[0].accounts[0].balance.trading.free",
        True,
        2,
    ),
    "amount is missing": (
        lambda p: _first(p)["balance"]["trading"].pop("free"),
        "data[0].positions[0].accounts[0].balance.trading.free",
        True,
        2,
    ),
    "account without venue": (
        lambda p: _first(p).pop("venueId"),
        "data[0].positions[0].accounts[0]",
        True,
        1,
    ),
    "positions are null": (lambda p: p.update(positions=None), "data[0].positions", True, 0),
    "unknown kind of amounts and a number": (
        lambda p: _first(p)["balance"].update(invented={"free": "5", "fee": 1}),
        "data[0].positions[0].accounts[0].balance.invented.fee",
        True,
        4,
    ),
    "unknown kind of nested amounts": (
        lambda p: _first(p)["balance"].update(invented=[{"deep": {"free": "5"}}]),
        "data[0].positions[0].accounts[0].balance.invented",
        True,
        3,
    ),
    "name is a number": (lambda p: p.update(name=7), "data[0].name", False, 3),
    "time without zone": (
        lambda p: p.update(createdAt="2024-01-01T00:00:00"),
        "data[0].createdAt",
        False,
        3,
    ),
    "time that never was": (
        lambda p: p.update(createdAt="2024-02-30T00:00:00Z"),
        "data[0].createdAt",
        False,
        3,
    ),
    "hour 24": (
        lambda p: p.update(createdAt="2024-02-20T24:00:00Z"),
        "data[0].createdAt",
        False,
        3,
    ),
    "integration without id": (
        lambda p: p["integrations"][0].pop("id"),
        "data[0].integrations[0]",
        False,
        3,
    ),
}


@pytest.mark.parametrize("name", BREACHES)
def test_only_the_smallest_broken_part_is_rejected(layout: Layout, name: str) -> None:
    """One reject has the exact path and says if it carries money. Every other amount is a row."""
    change, path, money, left = BREACHES[name]
    portfolio = _spoiled(change)
    rows, parts = nights.staged(layout, nights.land(layout, nights.Book([portfolio])))
    told = [(one["path"], one["carries_money"]) for one in nights.noted(parts, "rejects")]
    assert told == [(path, money)]
    assert len(rows["balances"]) == left
    assert len(rows["portfolios"]) == 1
    assert not nights.differing(parts)


def test_records_next_to_a_null_are_still_read(layout: Layout) -> None:
    """Values that are not objects would crash Arrow, so they are rejected first, with money."""
    raw = b"[null," + json.dumps(_portfolio(_position(_free("1")))).encode() + b",7,[null]]"
    rows, parts = nights.staged(layout, nights.land(layout, nights.Book(raw)))
    assert [one["path"] for one in nights.noted(parts, "rejects")] == [
        "data[0]",
        "data[2]",
        "data[3]",
    ]
    assert all(one["carries_money"] for one in nights.noted(parts, "rejects"))
    assert len(rows["balances"]) == 2


def test_two_different_portfolios_with_one_id_are_both_rejected(layout: Layout) -> None:
    """Two different portfolios with one ID are both rejected, because either could be right."""
    two = [_portfolio(_position(_free("1"))), _portfolio(_position(_free("2")))]
    rows, parts = nights.staged(layout, nights.land(layout, nights.Book(two)))
    assert not rows["portfolios"]
    assert [one["carries_money"] for one in nights.noted(parts, "rejects")] == [True, True]


def test_a_portfolio_repeated_in_a_different_order_is_one_row(layout: Layout) -> None:
    """A repetition with the same content, in any order, is one row and a reject without money."""
    one = _portfolio(_position(_free("1")), _position(asset="ETH"))
    again = dict(reversed(one.items())) | {"positions": one["positions"][::-1]}
    rows, parts = nights.staged(layout, nights.land(layout, nights.Book([one, again])))
    assert len(rows["portfolios"]) == 1
    assert [one["carries_money"] for one in nights.noted(parts, "rejects")] == [False]
    assert not nights.differing(parts)


def test_repeated_positions_merge_despite_a_broken_one(layout: Layout) -> None:
    """The accounts of the valid positions are rows, and the number of accounts is unknown."""
    positions = [_position(_free("1")), _position(_free("2")), _position()]
    positions[2]["accounts"] = None
    rows, _ = nights.staged(layout, nights.land(layout, _portfolios(_portfolio(*positions[::-1]))))
    assert [row["account_count"] for row in rows["positions"]] == [None]
    assert [row["amount_text"] for row in rows["balances"] if row["state"] == "free"] == ["2", "1"]
