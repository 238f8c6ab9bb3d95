"""Keys of defects never change, because lessons are stored with them. Messages can change."""

from datetime import timedelta
from typing import Any

import pytest

from pipelines.landing import snapshots
from pipelines.landing.reasons import Reason
from pipelines.records import defects
from pipelines.records.defects import Defect
from pipelines.records.schema import JsonType
from tests.support import nights
from warehouse.contract.states import ACCEPTED, HELD
from warehouse.storage.layout import Layout

DAY = timedelta(days=1)
# Keys as they were stored before messages had their own text.
KEYS = {
    "a record that can be taken apart was expected: this one is nested too deeply": (
        defects.TOO_DEEP
    ),
    "an object was expected": defects.NOT_AN_OBJECT,
    "text was expected": defects.NOT_TEXT,
    "decimal text was expected": defects.NOT_AN_AMOUNT,
    "a date-time with its zone was expected (ISO 8601)": defects.NOT_A_TIMESTAMP,
    "an amount was expected, not an object with a key that stands twice": (
        defects.OBJECT_WITH_REPEATED_KEY
    ),
    "an amount as text was expected, not a number": defects.NUMBER_FOR_AMOUNT,
    "an amount as text was expected, not a list": defects.LIST_FOR_AMOUNT,
    "an amount as text was expected, not this text": defects.UNREADABLE_AMOUNT,
    "an array of text was expected": defects.wrong_type("an array of text"),
    "required, but missing": defects.missing_field("missing"),
    "required, but null": defects.missing_field("null"),
    "id: text was expected; without it there is no row": defects.without_row(
        "id", defects.NOT_TEXT
    ),
    "the key 'x' stands twice: which one counts cannot be known": defects.repeated_key("x"),
    "a type that stands once was expected, not 3 times": defects.repeated_type(3),
    "an id that stands once was expected, not 2 times: one is taken": (
        defects.repeated_integration(2)
    ),
    "repeats the id of data[4] and is the same: taken once": (
        defects.repeated_record(4, is_same=True)
    ),
    "repeats the id of data[4] and differs in unknown fields alone: taken once": (
        defects.repeated_record(4, is_same=False)
    ),
    "repeats the id of data[4] and differs: the first by content is taken": (
        defects.conflicting_record(4, is_one_used=True)
    ),
    "repeats the id of data[4] and differs: none of them is taken": (
        defects.conflicting_record(4, is_one_used=False)
    ),
}


def book(amount: str) -> nights.Book:
    """Return a night with this amount, which may be broken, in each of two accounts."""
    times = dict.fromkeys(["createdAt", "updatedAt"], "2024-01-01T00:00:00Z")
    accounts = [
        {"venueId": "v", "name": name, "balance": {"margin": {"locked": amount}}} for name in "ab"
    ]
    position = {"assetId": "BTC", "isCustomAsset": False, "accounts": accounts}
    portfolio: dict[str, Any] = {"id": "p", "resource": "portfolio", "name": "p", **times}
    venue = {"id": "v", "resource": "venue", "displayName": "v", "tradingStatus": "trading"}
    return nights.Book(
        [portfolio | {"positions": [position]}], [venue | {"type": ["otc"], **times}]
    )


def test_every_defect_keeps_its_key() -> None:
    """The key of each defect is the text that was stored before November 2026."""
    assert {key: defect.key for key, defect in KEYS.items()} == {key: key for key in KEYS}


def test_keys_of_wrong_types_do_not_change() -> None:
    """A key of a wrong type contains the name of the JSON type, so the names never change."""
    assert [defects.wrong_type(type_.value).key for type_ in JsonType] == [
        "text was expected",
        "true or false was expected",
        "an object was expected",
        "an array of text was expected",
        "an array of objects was expected",
    ]


def test_a_lesson_applies_after_the_message_was_reworded(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A night is held once. After a person accepted it, a new wording does not hold the next."""
    first = nights.take(layout, book("1_0"))
    assert first.state == HELD
    snapshots.decide_by_hand(
        layout, first.snapshot_id, ACCEPTED, by="someone", at=nights.STARTED, why="test data"
    )
    taught = {lesson.key for lesson in snapshots.find(layout, first.snapshot_id).held_for}
    reworded = Defect(defects.NOT_AN_AMOUNT.key, "the cell cannot be read")
    monkeypatch.setattr(defects, "NOT_AN_AMOUNT", reworded)
    second = nights.take(layout, book("1_0"), nights.STARTED + DAY)
    assert second.state == ACCEPTED
    assert second.decision
    assert {cause.key for cause in second.decision.causes} == taught
    assert any("the cell cannot be read" in reason for reason in second.decision.reasons)


def test_a_lesson_stored_with_an_old_sentence_applies(layout: Layout) -> None:
    """A decision that was stored with the old sentences covers the same defect tonight."""
    first = nights.take(layout, book("1_0"))
    path = "list_portfolios data[].positions[].accounts[].balance.margin.locked"
    old = Reason(
        f"reject: {path}: decimal text was expected",
        f"# rejected records carry money, first {path}: decimal text was expected",
        is_teachable=True,
        share="1",
    )
    assert old.key in {reason.key for reason in first.held_for}
    snapshots.decide(
        first, ACCEPTED, by="someone", at=nights.STARTED, reasons=("old",), teaches=(old,)
    )
    others = tuple(reason for reason in first.held_for if reason.key != old.key)
    second = nights.take(layout, book("1_0"), nights.STARTED + DAY)
    assert second.decision
    known = {cause.key: cause.is_known for cause in second.decision.causes}
    assert known[old.key]
    assert all(reason.key in known for reason in others)
