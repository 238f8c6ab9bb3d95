"""What a night says beside its rows, the same whichever reader read it: words, lists, no money."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from tests import nights
from tests.pipelines.test_pipelines_laws import careful_only
from tests.pipelines.test_pipelines_noted_facts import INSTRUMENT, VENUE, portfolio
from warehouse.layout import Layout

Reader = Callable[[], contextlib.AbstractContextManager[None]]
both = pytest.mark.parametrize("reader", [contextlib.nullcontext, careful_only])


def told(layout: Layout, book: nights.Book, what: str) -> list[dict[str, Any]]:
    """All notes of a kind of a night."""
    _, parts = nights.staged(layout, nights.land(layout, book))
    return nights.noted(parts, what)


def embedding(*names: str) -> dict[str, Any]:
    """The venue with these instruments in it."""
    listed = [{"id": name, "type": "spot", "displayName": name} for name in names]
    return VENUE | {"instruments": listed}


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
        ("v", "spot"): [INSTRUMENT | {"id": name} for name in ("both", "listed")],
        ("v", "future"): [INSTRUMENT | {"id": "future", "type": "future"}],
        ("v", None): [INSTRUMENT | {"id": name} for name in ("both", "option", "bare")],
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
    assert ids == ["bare", "both", "future", "listed", "option"]
    assert not nights.differing(parts)


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
