"""Tests of the exact notes of flattening: path, expectation, value and money."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from pipelines.flatten.control_totals import reference
from pipelines.records import tolerant_reader
from pipelines.records.json_text import MAX_DEPTH
from pipelines.records.notes import Notes
from pipelines.records.schema import PORTFOLIO
from tests.pipelines.records.test_fast_reader_laws import tolerant_only
from tests.support import nights
from warehouse.storage.layout import Layout

TIMES = dict.fromkeys(["createdAt", "updatedAt"], "2024-01-01T00:00:00Z")
VENUE: dict[str, Any] = {
    "id": "v",
    "resource": "venue",
    "type": [],
    "displayName": "V",
    "tradingStatus": "trading",
    **TIMES,
}
INSTRUMENT: dict[str, Any] = {
    "id": "i",
    "resource": "instrument",
    "type": "spot",
    "displayName": "I",
    "feedId": "f",
    "venueSymbol": "s",
    "baseAsset": "B",
    "termAsset": "T",
    **TIMES,
}
TINY = "0.0000000000000000001"  # one digit more than the column has


def portfolio(**changes: Any) -> dict[str, Any]:
    """Return a portfolio without positions. A field with the value `...` is left out."""
    whole = {"id": "p", "resource": "portfolio", "name": "n", "positions": [], **TIMES}
    return {name: value for name, value in (whole | changes).items() if value is not ...}


def holding(balance: Any) -> dict[str, Any]:
    """Return a portfolio with one account."""
    account = {"venueId": "v", "name": "a", "balance": balance}
    return portfolio(positions=[{"assetId": "BTC", "isCustomAsset": False, "accounts": [account]}])


def integration(venue: str) -> dict[str, Any]:
    """Return an integration at a venue, always with the same ID."""
    return {"id": "i", "venueId": venue, "integrationStatus": "verified"}


BALANCE = "data[0].positions[0].accounts[0].balance"


def twice(record: dict[str, Any], member: str) -> bytes:
    """Return a record's JSON in which one of its members occurs twice."""
    text = json.dumps(record)
    assert text.count(member) == 1
    return text.replace(member, f"{member}, {member}").encode()


HELD = holding({"trading": {"free": "1", "locked": "2"}})
TWICE = {
    "trading": twice(HELD, '"free": "1"'),
    "balance": twice(HELD, '"trading": {"free": "1", "locked": "2"}'),
    "position": twice(HELD, '"assetId": "BTC"'),
    "limits": twice(INSTRUMENT | {"tradingConstraints": {"minTick": "1"}}, '"minTick": "1"'),
    "id": twice(INSTRUMENT, '"id": "i"'),
    "embedded": twice(
        VENUE | {"instruments": [{"id": "X", "type": "spot", "displayName": "Y"}]},
        '"displayName": "Y"',
    ),
}


@pytest.mark.parametrize(
    ("book", "told"),
    [
        (
            nights.Book([portfolio(name=None)]),
            ("data[0].name", "this field is required, but it is null", "null", False),
        ),
        (
            nights.Book([portfolio(name=...)]),
            ("data[0].name", "this field is required, but it is missing", "", False),
        ),
        (nights.Book([portfolio(name=7)]), ("data[0].name", "expected a string", "7", False)),
        (
            nights.Book([portfolio(positions={"a": 1})]),
            ("data[0].positions", "expected an array of objects", '{"a":1}', True),
        ),
        (
            nights.Book([holding(None)]),
            (BALANCE, "this field is required, but it is null", "null", True),
        ),
        (
            nights.Book([holding({"margin": {"locked": "1_0"}})]),
            (f"{BALANCE}.margin.locked", "expected an amount as a decimal string", '"1_0"', True),
        ),
        (nights.Book([7]), ("data[0]", "expected an object", "7", True)),
        (
            nights.Book([portfolio(integrations=[integration("v"), integration("w")])]),
            (
                "data[0].integrations",
                "expected each ID once, but got this ID 2 times. One of the records is used",
                '[{"id":"i","venueId":"w","integrationStatus":"verified"}]',
                False,
            ),
        ),
        (
            nights.Book([], [VENUE | {"type": ["exchange", 7]}]),
            ("data[0].type[1]", "expected a string", "7", False),
        ),
    ],
)
def test_a_reject_has_its_path_reason_value_and_money_flag(
    layout: Layout, book: nights.Book, told: tuple[str, str, str, bool]
) -> None:
    """A reject has a path, a reason, the JSON text of the value, and a flag for possible money."""
    _, parts = nights.staged(layout, nights.land(layout, book))
    [found] = nights.noted(parts, "rejects")
    assert (found["path"], found["reason"], found["value"], found["carries_money"]) == told
    assert found["request_no"] == (2 if book.venues else 1)


@pytest.mark.parametrize("reader", [contextlib.nullcontext, tolerant_only])
def test_an_inexact_amount_is_noted_with_its_table_and_column(
    layout: Layout, reader: Callable[[], contextlib.AbstractContextManager[None]]
) -> None:
    """With both readers, the note on a balance or a constraint names its table and column."""
    book = nights.Book(
        [holding({"margin": {"locked": TINY}})],
        [VENUE],
        {("v", "spot"): [INSTRUMENT | {"tradingConstraints": {"minTick": TINY}}]},
    )
    with reader():
        _, parts = nights.staged(layout, nights.land(layout, book))
    assert nights.noted(parts, "inexact") == [
        {
            "request_no": 1,
            "path": f"{BALANCE}.margin.locked",
            "table_name": "balances",
            "column_name": "amount",
            "value": TINY,
        },
        {
            "request_no": 3,
            "path": "data[0].tradingConstraints.minTick",
            "table_name": "instruments",
            "column_name": "min_tick",
            "value": TINY,
        },
    ]


@pytest.mark.parametrize(
    ("book", "path", "money"),
    [
        (nights.Book(b"[%b]" % TWICE["balance"]), BALANCE, True),
        (nights.Book(b"[%b]" % TWICE["trading"]), f"{BALANCE}.trading", True),
        (
            nights.Book([], [VENUE], {("v", "spot"): b"[%b]" % TWICE["limits"]}),
            "data[0].tradingConstraints",
            False,
        ),
        (nights.Book([], b"[%b]" % TWICE["embedded"]), "data[0].instruments[0]", False),
        (nights.Book([], [VENUE], {("v", "spot"): b"[%b]" % TWICE["id"]}), "data[0]", False),
        (nights.Book(b"[%b]" % TWICE["position"]), "data[0].positions[0]", True),
    ],
)
def test_an_object_with_a_repeated_key_is_rejected(
    layout: Layout, book: nights.Book, path: str, *, money: bool
) -> None:
    """A repeated key is ambiguous, so the object that has it is rejected, with its text."""
    rows, parts = nights.staged(layout, nights.land(layout, book))
    [found] = nights.noted(parts, "rejects")
    assert (found["path"], found["carries_money"]) == (path, money)
    assert "twice, so its value is ambiguous" in found["reason"]
    assert found["value"].startswith("{")
    assert not rows["balances"]
    assert len(rows["portfolios"]) + len(rows["venues"]) == 1
    assert not nights.differing(parts)


@pytest.mark.parametrize(
    ("kind", "rejected", "stated"),
    [
        ({"free": "5", "since": ["7"]}, [".since"], ["5"]),
        ({"since": [1], "free": "5"}, [".since"], ["5"]),
        ({"free": "5", "since": ["x"]}, [], ["5"]),
        ([["x", {"deep": ["y", 5]}], {"a": "b"}], [""], []),
        ([{"a": {"b": "-.5e-3"}}, ["x"]], [""], []),
        ({"free": {"a": [], "b": {}, "c": ["today"]}, "d": True, "e": None}, [], []),
        (["x", ["y"], {"z": "w"}], [], []),
        ({"a": {"b": 1, "c": "2", "d": "1,000", "e": "x"}}, [".a.b", ".a.d"], ["2"]),
        (7, [""], []),
        ("1 000", [""], []),
    ],
)
def test_possible_money_in_an_unknown_balance_is_not_ignored(
    layout: Layout, kind: Any, rejected: list[str], stated: list[str]
) -> None:
    """An amount is a row, a possible amount is rejected at its path, and the rest is drift."""
    book = nights.Book([holding({"invented": kind, "margin": {"locked": "1"}})])
    rows, parts = nights.staged(layout, nights.land(layout, book))
    found = [(one["path"], one["carries_money"]) for one in nights.noted(parts, "rejects")]
    assert found == [(f"{BALANCE}.invented{path}", True) for path in rejected]
    [news] = nights.noted(parts, "drift")
    assert news["word"] == "invented"
    assert [row["amount_text"] for row in rows["balances"]] == ["1", *stated]
    assert not nights.differing(parts)


@pytest.mark.parametrize(
    ("change", "kind", "word", "example"),
    [
        ({"name": 7.50}, "changed type", "name", "7.5"),
        ({"positions": {"a": "b"}}, "changed type", "positions", '{"a":"b"}'),
        ({"integrations": "none"}, "changed type", "integrations", '"none"'),
        ({"name": None}, "missing field", "name", "null"),
        ({"name": ...}, "missing field", "name", "missing"),
        ({"risk": ["high", None]}, "unknown field", "risk", '["high",null]'),
    ],
)
def test_drift_has_its_path_kind_field_and_example(
    layout: Layout, change: dict[str, Any], kind: str, word: str, example: str
) -> None:
    """Drift has its path, its kind, the name of the field, and the JSON text of an example."""
    _, parts = nights.staged(layout, nights.land(layout, nights.Book([portfolio(**change)])))
    [news] = nights.noted(parts, "drift")
    assert (news["path"], news["kind"], news["word"]) == (f"data[].{word}", kind, word)
    assert (news["example"], news["seen"]) == (example, 1)


GOOD: dict[str, Any] = {"venueId": "v", "name": "a", "balance": {"margin": {"locked": "1"}}}
BTC: dict[str, Any] = {"assetId": "BTC", "isCustomAsset": False}


@pytest.mark.parametrize(
    ("book", "path", "left"),
    [
        (nights.Book([portfolio(positions=[None, BTC | {"accounts": [GOOD]}])]), "positions[0]", 1),
        (
            nights.Book([portfolio(positions=[BTC | {"accounts": [GOOD, None]}])]),
            "positions[0].accounts[1]",
            1,
        ),
        (
            nights.Book([portfolio(integrations=[None], positions=[BTC | {"accounts": [GOOD]}])]),
            "integrations[0]",
            1,
        ),
        (nights.Book([], [VENUE | {"type": ["otc", None, "exchange"]}]), "type[1]", 2),
        (nights.Book([], [VENUE | {"type": ["otc"], "instruments": [None]}]), "instruments[0]", 1),
    ],
)
def test_a_null_in_a_list_does_not_affect_its_neighbours(
    layout: Layout, book: nights.Book, path: str, left: int
) -> None:
    """A null is rejected at its index, and its neighbours are rows with their own numbers."""
    rows, parts = nights.staged(layout, nights.land(layout, book))
    [found] = nights.noted(parts, "rejects")
    assert (found["path"], found["value"]) == (f"data[0].{path}", "null")
    assert len(rows["balances"]) + len(rows["venue_types"]) == left
    assert not nights.differing(parts)


def test_a_record_nested_too_deeply_is_rejected_with_its_text() -> None:
    """The record has no row. The reject has its request number, path, text and money."""
    notes = Notes()
    reader = tolerant_reader.TolerantReader(7, notes, "Portfolio")
    text = "[" * 200_000
    with pytest.raises(tolerant_reader.UnusableRecordError):
        reader.read_record(
            text.encode(), PORTFOLIO, tolerant_reader.JsonPath("data[3]", "data[]"), money=True
        )
    [found] = notes.rejects
    assert (found.request_no, found.path, found.value) == (7, "data[3]", text)
    assert found.carries_money
    assert "nested too deeply" in found.defect.message


@pytest.mark.parametrize("calls", [0, 150, 300])
def test_the_reader_and_the_count_have_the_same_depth_limit(calls: int) -> None:
    """The tolerant reader and the count have the same depth limit, at any call depth."""

    def read(depth: int, calls: int) -> tuple[bool, bool]:
        if calls:
            return read(depth, calls - 1)
        nested = "[" * (depth - 1) + "]" * (depth - 1)
        raw = json.dumps(portfolio())[:-1].encode() + f',"new":{nested}}}'.encode()
        reader = tolerant_reader.TolerantReader(7, Notes(), "Portfolio")
        is_counted = reference.portfolio(msgspec.Raw(raw)) is not None
        with contextlib.suppress(tolerant_reader.UnusableRecordError):
            reader.read_record(
                raw, PORTFOLIO, tolerant_reader.JsonPath("data[3]", "data[]"), money=True
            )
            return True, is_counted
        return False, is_counted

    assert read(MAX_DEPTH, calls) == (True, True)
    assert read(MAX_DEPTH + 1, calls) == (False, False)


def test_counts_of_equal_drift_are_added_up() -> None:
    """The counts of equal drift are added up, and the smallest example is kept, in any order."""
    notes = Notes()
    notes.add_drift("a", "unknown field", "", "2", 3)
    notes.add_drift("a", "unknown field", "", "1", 4)
    notes.add_drift("b", "unknown value", "w", "x")
    assert notes.drift == {
        ("a", "unknown field", ""): ("1", 7),
        ("b", "unknown value", "w"): ("x", 1),
    }
