"""What a night says beside its rows, the same whichever reader read it: words, lists, no money."""

import contextlib
import itertools
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest

from pipelines.flatten import columns
from tests.pipelines.records.test_fast_reader_laws import tolerant_only
from tests.pipelines.records.test_tolerant_reader import INSTRUMENT, VENUE, holding, portfolio
from tests.support import nights
from warehouse.storage.layout import Layout

Reader = Callable[[], contextlib.AbstractContextManager[None]]
both = pytest.mark.parametrize("reader", [contextlib.nullcontext, tolerant_only])


def told(layout: Layout, book: nights.Book, what: str) -> list[dict[str, Any]]:
    """All notes of a kind of a night."""
    _, parts = nights.staged(layout, nights.land(layout, book))
    return nights.noted(parts, what)


def embedding(*names: str) -> dict[str, Any]:
    """The venue with these instruments in it."""
    listed = [{"id": name, "type": "spot", "displayName": name} for name in names]
    return VENUE | {"instruments": listed}


def listed(name: str, **changes: Any) -> dict[str, Any]:
    """An instrument of a list that says what the venue says of it."""
    return INSTRUMENT | {"id": name, "type": "spot", "displayName": name} | changes


@both
def test_a_new_word_is_told_with_its_kind_an_example_and_how_often(
    layout: Layout, reader: Reader
) -> None:
    """Each word of each field once, in a fixed order; documented ones are not told."""
    links = [
        {"id": str(number), "venueId": "v", "integrationStatus": word}
        for number, word in enumerate(["paused", "verified", 'la"te', "paused"])
    ]
    with reader():
        found = told(layout, nights.Book([portfolio(integrations=links)]), "drift")
    where = {"path": "data[].integrations[].integrationStatus", "kind": "unknown value"}
    assert found == [
        {**where, "word": 'la"te', "example": '"la\\"te"', "seen": 1},
        {**where, "word": "paused", "example": '"paused"', "seen": 2},
    ]


@both
def test_lists_of_one_venue_that_disagree_are_told_by_what_lacks_the_instrument(
    layout: Layout, reader: Reader
) -> None:
    """An instrument may be missing from the venue, from its own list, or from the typed ones."""
    lists = {
        ("v", "spot"): [listed(name) for name in ("both", "listed")],
        ("v", "future"): [listed("future")],
        ("v", None): [listed(name) for name in ("both", "option", "bare")],
    }
    book = nights.Book([], [embedding("both", "option", "gone", "future")], lists)
    with reader():
        rows, parts = nights.staged(layout, nights.land(layout, book))
    assert parts["venues"]["listings"] == [
        ["v", "bare", "typed lists"],
        ["v", "bare", "venues"],
        ["v", "gone", "instruments"],
        ["v", "listed", "venues"],
        ["v", "option", "typed lists"],
    ]
    ids = [row["instrument_id"] for row in rows["instruments"]]
    assert ids == ["bare", "both", "future", "listed", "option", "gone"]
    assert not nights.differing(parts)


@both
def test_type_and_name_of_an_instrument_are_compared(layout: Layout, reader: Reader) -> None:
    """What the venue says of it and what its list says; the row has what the list says."""
    lists = {
        ("v", "spot"): [listed("same"), listed("named", displayName="x")],
        ("v", "future"): [listed("turned", type="future"), listed("broken", type=7)],
    }
    book = nights.Book([], [embedding("same", "named", "turned", "broken")], lists)
    with reader():
        rows, parts = nights.staged(layout, nights.land(layout, book))
    assert parts["venues"]["listings"] == [["v", "named", "displayName"], ["v", "turned", "type"]]
    said = {row["instrument_id"]: (row["type"], row["display_name"]) for row in rows["instruments"]}
    assert said["named"] == ("spot", "x")
    assert said["turned"] == ("future", "turned")
    assert not nights.differing(parts)


@both
def test_an_instrument_that_only_the_venue_has_is_kept(layout: Layout, reader: Reader) -> None:
    """With the type and the name that the venue says, and nothing else; it is counted, too."""
    venue = embedding("only", "both")
    venue["instruments"] += [{"id": "typeless", "displayName": "T"}, {"type": "spot"}, 7]
    book = nights.Book([], [venue], {("v", "spot"): [listed("both")], ("v", None): []})
    with reader():
        rows, parts = nights.staged(layout, nights.land(layout, book))
    kept = {row["instrument_id"]: row for row in rows["instruments"]}
    assert kept.keys() == {"only", "both", "typeless"}
    assert (kept["only"]["type"], kept["only"]["display_name"]) == ("spot", "only")
    assert (kept["typeless"]["type"], kept["typeless"]["display_name"]) == (None, "T")
    assert kept["only"]["base_asset"] is kept["only"]["created_at"] is None
    assert not nights.differing(parts)


def test_what_only_the_venue_has_is_kept_fresh_every_night(layout: Layout) -> None:
    """Where its lists are empty nothing is carried over for it: it was never in a list."""
    lists: dict[Any, Any] = {("v", "spot"): [], ("v", "future"): []}
    for night in range(3):
        book = nights.Book([holding({"margin": {"locked": "1"}})], [embedding("only")], lists)
        started = nights.STARTED + timedelta(days=night)
        snapshot = nights.take(layout, book, started)
        assert snapshot.state == "accepted"
        path = layout.parquet("instruments", snapshot.snapshot_date, snapshot.snapshot_id)
        assert [(row["instrument_id"], row["stale_since"]) for row in nights.rows_of(path)] == [
            ("only", None)
        ]


@both
def test_a_venue_that_embeds_nothing_is_compared_with_nothing(
    layout: Layout, reader: Reader
) -> None:
    """Without the key there is no list to disagree with; an empty one lacks everything."""
    lists = {("v", "spot"): [INSTRUMENT], ("e", "spot"): [INSTRUMENT]}
    venues = [VENUE, VENUE | {"id": "e", "instruments": []}]
    with reader():
        _, parts = nights.staged(layout, nights.land(layout, nights.Book([], venues, lists)))
    assert parts["venues"]["listings"] == [["e", "i", "venues"]]


@pytest.mark.parametrize(
    ("book", "path"),
    [
        (nights.Book([], [VENUE, 7]), "data[1]"),
        (nights.Book([], [VENUE], {("v", "spot"): [INSTRUMENT, 7]}), "data[1]"),
        (nights.Book([], [VENUE, VENUE | {"displayName": "W"}]), "data[1]"),
        (
            nights.Book([], [VENUE], {("v", "spot"): [INSTRUMENT, INSTRUMENT | {"feedId": "g"}]}),
            "data[1]",
        ),
    ],
)
def test_no_money_is_in_what_venues_and_instruments_reject(
    layout: Layout, book: nights.Book, path: str
) -> None:
    """Broken or repeated, they hold no night; the sound record beside them is a row."""
    rows, parts = nights.staged(layout, nights.land(layout, book))
    found = [(one["path"], one["carries_money"]) for one in nights.noted(parts, "rejects")]
    assert found == [(path, False)]
    assert len(rows["venues"]) == 1
    assert len(rows["instruments"]) == len(book.instruments)


def links(*several: tuple[str, str]) -> nights.Book:
    """A portfolio with these integrations: id and venue."""
    made = [{"id": one, "venueId": at, "integrationStatus": "verified"} for one, at in several]
    return nights.Book([portfolio(integrations=made)])


@both
def test_integrations_stand_in_the_order_they_came(layout: Layout, reader: Reader) -> None:
    """Each is a row; what has an id of its own repeats nothing."""
    with reader():
        rows, parts = nights.staged(layout, nights.land(layout, links(("b", "v"), ("a", "v"))))
    found = [(row["integration_id"], row["venue_id"]) for row in rows["integrations"]]
    assert found == [("b", "v"), ("a", "v")]
    assert not nights.noted(parts, "rejects")


def test_of_integrations_with_one_id_the_first_by_content_is_taken(layout: Layout) -> None:
    """Whatever order they came in; the others beside it are untouched and all are counted."""
    came = [("x", "w"), ("b", "v"), ("x", "u"), ("x", "v")]
    for order in (came, came[::-1]):
        rows, parts = nights.staged(layout, nights.land(layout, links(*order)))
        found = {(row["integration_id"], row["venue_id"]) for row in rows["integrations"]}
        assert found == {("b", "v"), ("x", "u")}
        assert [row["integration_count"] for row in rows["portfolios"]] == [4]
        [told] = nights.noted(parts, "rejects")
        assert "3 times" in told["reason"]
        assert [one in told["value"] for one in ('"u"', '"v"', '"w"')] == [False, True, True]


def _balance(text: str) -> dict[str, Any]:
    return {"trading": {"free": text, "locked": "0"}, "invented": {"a": "1", "b": text}}


@pytest.mark.parametrize("order", list(itertools.permutations("132")))
def test_accounts_that_repeat_are_numbered_by_content(
    layout: Layout, order: tuple[str, ...]
) -> None:
    """The same account thrice in a position, and once in another of that asset, in any order."""
    accounts = [{"venueId": "v", "name": "a", "balance": _balance(text)} for text in order]
    accounts.insert(1, {"venueId": "v", "name": "b", "balance": _balance("7")})
    whole = {"assetId": "BTC", "isCustomAsset": False}
    positions = [whole | {"accounts": accounts[:2]}, whole | {"accounts": accounts[2:]}]
    other = whole | {"isCustomAsset": True, "accounts": accounts[:1]}
    book = nights.Book([portfolio(positions=[*positions, other])])
    rows, parts = nights.staged(layout, nights.land(layout, book))
    numbers = {
        (row["is_custom_asset"], row["account_name"], row["amount_text"]): row["duplicate_no"]
        for row in rows["balances"]
        if row["state"] == "free"
    }
    assert numbers == {
        **{(False, "a", text): int(text) - 1 for text in "123"},
        (False, "b", "7"): 0,
        (True, "a", order[0]): 0,
    }
    assert {row["balance_count"] for row in rows["accounts"]} == {4}
    assert [row["account_count"] for row in rows["positions"]] == [4, 1]
    assert not nights.differing(parts)
    assert not nights.noted(parts, "rejects")


@pytest.mark.parametrize(
    ("change", "reason", "money", "left"),
    [
        ({}, "repeats the ID of data[0] and is the same. One of the records is used", False, 1),
        (
            {"name": "m"},
            "repeats the ID of data[0], but differs. None of the records is used",
            True,
            0,
        ),
    ],
)
def test_a_repeated_portfolio_is_told_with_its_text(
    layout: Layout, change: dict[str, Any], reason: str, *, money: bool, left: int
) -> None:
    """Which record it repeats, whether they are the same, and all of its JSON."""
    two = [portfolio(name="a"), portfolio(name="a") | change]
    text = "[" + ", ".join(json.dumps(one) for one in two) + "]"
    rows, parts = nights.staged(layout, nights.land(layout, nights.Book(text.encode())))
    told = nights.noted(parts, "rejects")
    assert {one["reason"] for one in told} == {reason}
    assert {one["carries_money"] for one in told} == {money}
    assert [(one["path"], json.loads(one["value"])) for one in told] == [
        (f"data[{number}]", two[number]) for number in range(left, 2)
    ]
    assert len(rows["portfolios"]) == left


def test_a_repeated_venue_type_is_told_and_stands_once(layout: Layout) -> None:
    """How often it came, without money in it; the others stand as they came."""
    venue = VENUE | {"type": ["otc", "exchange", "otc", "otc"]}
    rows, parts = nights.staged(layout, nights.land(layout, nights.Book([], [venue])))
    assert [row["type"] for row in rows["venue_types"]] == ["otc", "exchange"]
    [told] = nights.noted(parts, "rejects")
    assert (told["path"], told["value"], told["carries_money"]) == ("data[0].type", '"otc"', False)
    assert told["reason"] == "expected each type once, but got this type 3 times"


def test_a_portfolio_of_megabytes_is_read_by_the_fast_reader(layout: Layout) -> None:
    """However long a record is, it is one piece, and none of its accounts is lost."""
    accounts = [
        {"venueId": "v", "name": f"{number} {'x' * 900}", "balance": {"margin": {"locked": "1"}}}
        for number in range(2_500)
    ]
    position = {"assetId": "BTC", "isCustomAsset": False, "accounts": accounts}
    book = nights.Book([portfolio(positions=[position])])
    with mock.patch.object(columns, "_tolerant_rows", side_effect=AssertionError):
        rows, parts = nights.staged(layout, nights.land(layout, book))
    assert [row["account_name"] for row in rows["balances"]] == [one["name"] for one in accounts]
    assert not nights.differing(parts)
