"""Laws of flattening, for any document that the specification allows, and for any other."""

import json
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from pipelines.edge.errors import MalformedResponseError
from pipelines.edge.response.envelope import read_envelope
from pipelines.flatten import resources
from pipelines.records import fast_reader
from tests.support import nights, oracle, strategies
from tests.support.shared import tries
from warehouse.contract.book import BOOK
from warehouse.storage.layout import Layout

SOME = settings(
    max_examples=tries(3, 90),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
DAY = nights.STARTED.date()
Json = Any


@contextmanager
def home() -> Iterator[Layout]:
    """Create a home for one example."""
    with tempfile.TemporaryDirectory() as folder:
        yield Layout(Path(folder))


def tolerant_only() -> Any:
    """Patch the fast reader to refuse every batch, so that the tolerant reader reads all."""
    refusal = fast_reader.UndocumentedRecordError("a test wants care")
    return mock.patch.object(resources, "_plain_rows", side_effect=refusal)


def books(*, strange: bool) -> st.SearchStrategy[nights.Book]:
    """Return a strategy for whole nights, in which every venue has a list of spot instruments."""

    def with_instruments(both: tuple[Json, Json]) -> st.SearchStrategy[nights.Book]:
        portfolios, venues = both
        lists = {(venue["id"], "spot"): strategies.instruments(strange=strange) for venue in venues}
        return st.fixed_dictionaries(lists).map(
            lambda listed: nights.Book(portfolios, venues, listed)
        )

    lists = st.tuples(strategies.portfolios(strange=strange), strategies.venues(strange=strange))
    return lists.flatmap(with_instruments)


def expected(book: nights.Book) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of a night as the oracle reads them."""
    listed = {venue: records for (venue, _), records in book.instruments.items()}
    return oracle.book(DAY, book.portfolios, book.venues, listed)


@SOME
@given(books(strange=True))
def test_any_documented_night_becomes_exactly_its_rows(book: nights.Book) -> None:
    """All rows of all eight tables equal an independent reading of the JSON, and totals agree."""
    with home() as layout:
        rows, parts = nights.staged(layout, nights.land(layout, book))
    oracle.require_equal(rows, expected(book))
    assert not nights.differing(parts)
    assert not [one for one in nights.noted(parts, "rejects") if one["carries_money"]]


@SOME
@given(books(strange=True))
def test_sums_of_rows_equal_the_sums_of_the_json(book: nights.Book) -> None:
    """The sums of each asset and bucket are equal in the rows, the JSON and the control totals."""
    stated: dict[tuple[str, bool, str], list[str]] = {}
    for portfolio in book.portfolios:
        for position in portfolio["positions"]:
            for account in position["accounts"]:
                for bucket, _, text in oracle.balances(account["balance"]):
                    key = (position["assetId"], position["isCustomAsset"], bucket)
                    stated.setdefault(key, []).append(text)
    with home() as layout:
        rows, parts = nights.staged(layout, nights.land(layout, book))
    with localcontext(prec=2000):
        sums = {key: sum(map(Decimal, texts)) for key, texts in stated.items()}
        from_rows: Counter[Any] = Counter()
        for row in rows["balances"]:
            key = (row["asset_id"], row["is_custom_asset"], row["bucket"])
            from_rows[key] += Decimal(row["amount_text"])  # type: ignore[assignment]  # a Counter of decimals
        told = {
            (one["asset_id"], one["is_custom_asset"], one["bucket"]): Decimal(one["in_lake"])
            for one in parts["portfolios"]["totals"]
            if one["measure"] == "sum"
        }
    assert dict(from_rows) == sums
    assert told == sums


@SOME
@given(books(strange=False))
def test_both_readers_write_identical_parquet_and_notes(book: nights.Book) -> None:
    """For documented data, both readers write byte-identical Parquet and equal notes."""
    with home() as layout:
        manifest = nights.land(layout, book)
        with mock.patch.object(resources, "_tolerant_rows", side_effect=AssertionError):
            _, fast = nights.staged(layout, manifest)
        with tolerant_only():
            _, tolerant = nights.staged(layout, manifest)
    assert _hashes(fast) == _hashes(tolerant)
    for what in ("rejects", "drift", "inexact"):
        assert _told(fast, what) == _told(tolerant, what)


def _hashes(parts: Json) -> dict[str, str]:
    return {name: one["sha256"] for part in parts.values() for name, one in part["tables"].items()}


def _told(parts: Json, what: str) -> list[str]:
    return sorted(json.dumps(one, sort_keys=True) for one in nights.noted(parts, what))


@SOME
@given(books(strange=True), st.integers())
def test_the_order_of_lists_does_not_change_the_rows(book: nights.Book, seed: int) -> None:
    """A night that is shuffled at every level, with its repeats, has the same numbered rows."""
    rng = random.Random(seed)
    portfolios, venues, listed = (
        _shuffled(part, rng) for part in (book.portfolios, book.venues, dict(book.instruments))
    )
    with home() as layout:
        rows, _ = nights.staged(layout, nights.land(layout, book))
    with home() as layout:
        manifest = nights.land(layout, nights.Book(portfolios, venues, listed))
        again, _ = nights.staged(layout, manifest)
    assert {name: _set(several) for name, several in rows.items()} == {
        name: _set(several) for name, several in again.items()
    }


def test_the_order_of_two_instrument_names_does_not_matter() -> None:
    """If a venue embeds an instrument with two names, the order does not decide which is used."""
    named = [{"id": "A", "type": "spot", "displayName": text} for text in ("B", "A")]
    shown = []
    for instruments in (named, named[::-1]):
        venue: Json = {"id": "v", "resource": "venue", "type": [], "displayName": "v"}
        venue |= {"tradingStatus": "trading", "instruments": instruments}
        venue |= dict.fromkeys(("createdAt", "updatedAt"), "2024-01-01T00:00:00Z")
        with home() as layout:
            book = nights.Book([], [venue], {("v", "spot"): []})
            rows, _ = nights.staged(layout, nights.land(layout, book))
        shown.append([row["display_name"] for row in rows["instruments"]])
    assert shown == [["A"], ["A"]]


def _shuffled(tree: Json, rng: random.Random) -> Json:
    if isinstance(tree, dict):
        items = [(key, _shuffled(member, rng)) for key, member in tree.items()]
        rng.shuffle(items)
        return dict(items)
    if isinstance(tree, list):
        elements = [_shuffled(element, rng) for element in tree]
        rng.shuffle(elements)
        return elements
    return tree


def _set(rows: list[dict[str, Any]]) -> Counter[Any]:
    return Counter(tuple(row.items()) for row in rows)


@SOME
@given(books(strange=True))
def test_flattening_twice_returns_identical_bytes(book: nights.Book) -> None:
    """Flattening the same landed bytes again, or in a different home, returns the same bytes."""
    with home() as layout:
        manifest = nights.land(layout, book)
        _, first = nights.staged(layout, manifest)
        _, again = nights.staged(layout, manifest)
        with home() as other:
            shutil.copytree(layout.landing, other.landing)
            _, elsewhere = nights.staged(other, manifest)
    assert first == again == elsewhere


DOCUMENTS = {
    "portfolios": strategies.portfolios(strange=True),
    "venues": strategies.venues(strange=True),
    "instruments": strategies.instruments(strange=True),
}
CONTRACT = {table.name: table.key for table in BOOK}


@settings(SOME, max_examples=tries(10, 450))
@given(st.data())
def test_arbitrary_json_never_hides_missing_money(data: st.DataObject) -> None:
    """Keys stay unique, and if money is missing from the tables, a reject says so."""
    which = data.draw(st.sampled_from(sorted(DOCUMENTS)))
    documents = strategies.broken(DOCUMENTS[which])
    lists = documents | st.lists(strategies.ANYTHING, max_size=3).map(strategies._list)
    text = data.draw(lists.filter(lambda text: text.startswith("[")))
    _assume_it_is_let_in(text)
    with home() as layout:
        rows, parts = nights.staged(layout, nights.land(layout, _night(which, text.encode())))
    for name, several in rows.items():
        keys = Counter(tuple(row[part] for part in CONTRACT[name]) for row in several)
        assert not [key for key, times in keys.items() if times > 1], name
    missing = [one for one in nights.noted(parts, "rejects") if one["carries_money"]]
    assert missing or not nights.differing(parts)
    assert all(one["reason"] and one["path"] for one in nights.noted(parts, "rejects"))


def _assume_it_is_let_in(text: str) -> None:
    """Skip a document whose envelope is refused, mostly for halves of surrogate pairs."""
    try:
        read_envelope(nights.body(text.encode()), single=False)
    except MalformedResponseError:
        reject()


def _night(which: str, text: bytes) -> nights.Book:
    if which == "instruments":
        venue = {"id": "v", "resource": "venue", "type": [], "displayName": "", "tradingStatus": ""}
        times = dict.fromkeys(["createdAt", "updatedAt"], "2024-01-01T00:00:00Z")
        return nights.Book([], [venue | times], {("v", "spot"): text})
    return nights.Book(portfolios=text) if which == "portfolios" else nights.Book(venues=text)


@settings(SOME, max_examples=tries(8, 300))
@given(strategies.broken(strategies.portfolios(strange=True)))
def test_no_amount_is_lost_silently(text: str) -> None:
    """Every amount of a balance is a row, or its loss is a reject with money, or drift."""
    _assume_it_is_let_in(text)
    with home() as layout:
        rows, parts = nights.staged(layout, nights.land(layout, nights.Book(text.encode())))
    stated = Counter(_amounts(json.loads(text, parse_int=str, parse_float=str)))
    stated -= Counter(row["amount_text"] for row in rows["balances"])
    told = nights.noted(parts, "rejects")
    assert not stated or told or nights.noted(parts, "drift")
    if stated and not nights.noted(parts, "drift"):
        assert any(one["carries_money"] for one in told) or _repeats(told)


def _repeats(told: Json) -> bool:
    return all("One of the records is used" in one["reason"] for one in told)


def _amounts(tree: Json) -> Iterator[str]:
    """Yield the amounts of `free` and `locked` anywhere in a document."""
    if isinstance(tree, dict):
        for key, member in tree.items():
            if key in ("free", "locked") and oracle.is_amount(member):
                yield member
            yield from _amounts(member)
    elif isinstance(tree, list):
        for element in tree:
            yield from _amounts(element)
