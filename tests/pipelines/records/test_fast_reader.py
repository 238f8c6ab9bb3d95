"""Tests of a night's notes: new values, differing lists and rejects, with both readers."""

import contextlib
import itertools
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest

from pipelines.flatten import resources
from tests.pipelines.records.test_fast_reader_laws import tolerant_only
from tests.pipelines.records.test_tolerant_reader import INSTRUMENT, VENUE, holding, portfolio
from tests.support import nights
from warehouse.storage.layout import Layout

Reader = Callable[[], contextlib.AbstractContextManager[None]]
both = pytest.mark.parametrize("reader", [contextlib.nullcontext, tolerant_only])


def told(layout: Layout, book: nights.Book, what: str) -> list[dict[str, Any]]:
    """Return all notes of one kind for a night."""
    _, parts = nights.staged(layout, nights.land(layout, book))
    return nights.noted(parts, what)


def embedding(*names: str) -> dict[str, Any]:
    """Return the venue with these instruments in it."""
    listed = [{"id": name, "type": "spot", "displayName": name} for name in names]
    return VENUE | {"instruments": listed}


def listed(name: str, **changes: Any) -> dict[str, Any]:
    """Return an instrument of a list, with the type and name that `embedding` gives it."""
    return INSTRUMENT | {"id": name, "type": "spot", "displayName": name} | changes


@both
def test_an_unknown_value_is_noted_once_with_its_count(layout: Layout, reader: Reader) -> None:
    """Each undocumented value of a field is noted once, in a fixed order, with its count."""
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
def test_a_note_names_the_list_without_the_instrument(layout: Layout, reader: Reader) -> None:
    """A note names the source without the instrument: the venue, its lists, or its typed lists."""
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
    """Differences between a venue and its list are noted, and the row has the list's values."""
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
    """The instrument is a row with only the venue's type and name, and control totals count it."""
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


def test_an_instrument_that_only_the_venue_has_is_never_stale(layout: Layout) -> None:
    """An instrument that was never in the venue's lists is not carried over and never stale."""
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
def test_a_venue_without_the_instruments_key_is_not_compared(
    layout: Layout, reader: Reader
) -> None:
    """Without the key, nothing is compared. An empty list lacks every listed instrument."""
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
def test_rejects_of_venues_and_instruments_carry_no_money(
    layout: Layout, book: nights.Book, path: str
) -> None:
    """Broken or repeated venues and instruments carry no money, and the valid record is a row."""
    rows, parts = nights.staged(layout, nights.land(layout, book))
    found = [(one["path"], one["carries_money"]) for one in nights.noted(parts, "rejects")]
    assert found == [(path, False)]
    assert len(rows["venues"]) == 1
    assert len(rows["instruments"]) == len(book.instruments)


def links(*several: tuple[str, str]) -> nights.Book:
    """Return a book with one portfolio that has these integrations: ID and venue."""
    made = [{"id": one, "venueId": at, "integrationStatus": "verified"} for one, at in several]
    return nights.Book([portfolio(integrations=made)])


@both
def test_integrations_keep_their_order(layout: Layout, reader: Reader) -> None:
    """Each integration is a row, in the order of the JSON. Different IDs are not a repetition."""
    with reader():
        rows, parts = nights.staged(layout, nights.land(layout, links(("b", "v"), ("a", "v"))))
    found = [(row["integration_id"], row["venue_id"]) for row in rows["integrations"]]
    assert found == [("b", "v"), ("a", "v")]
    assert not nights.noted(parts, "rejects")


def test_the_first_by_content_of_repeated_integrations_is_used(layout: Layout) -> None:
    """Of integrations with one ID, the first by content is used, and all of them are counted."""
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
def test_repeated_accounts_are_numbered_by_content(layout: Layout, order: tuple[str, ...]) -> None:
    """Repeated accounts of an asset get numbers by content, in any order and over two positions."""
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
def test_a_repeated_portfolio_is_rejected_with_its_json(
    layout: Layout, change: dict[str, Any], reason: str, *, money: bool, left: int
) -> None:
    """A reject names the repeated record, says if both are the same, and contains its JSON."""
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


def test_a_repeated_venue_type_is_rejected_and_stored_once(layout: Layout) -> None:
    """A repeated type is rejected without money, with its count. The types keep their order."""
    venue = VENUE | {"type": ["otc", "exchange", "otc", "otc"]}
    rows, parts = nights.staged(layout, nights.land(layout, nights.Book([], [venue])))
    assert [row["type"] for row in rows["venue_types"]] == ["otc", "exchange"]
    [told] = nights.noted(parts, "rejects")
    assert (told["path"], told["value"], told["carries_money"]) == ("data[0].type", '"otc"', False)
    assert told["reason"] == "expected each type once, but got this type 3 times"


def test_the_fast_reader_reads_a_portfolio_of_megabytes(layout: Layout) -> None:
    """However long a record is, the fast reader reads it in one piece and loses no account."""
    accounts = [
        {"venueId": "v", "name": f"{number} {'x' * 900}", "balance": {"margin": {"locked": "1"}}}
        for number in range(2_500)
    ]
    position = {"assetId": "BTC", "isCustomAsset": False, "accounts": accounts}
    book = nights.Book([portfolio(positions=[position])])
    with mock.patch.object(resources, "_tolerant_rows", side_effect=AssertionError):
        rows, parts = nights.staged(layout, nights.land(layout, book))
    assert [row["account_name"] for row in rows["balances"]] == [one["name"] for one in accounts]
    assert not nights.differing(parts)
