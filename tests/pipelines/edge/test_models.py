"""Models: section 2 field for field, and what comes that is new."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.edge import models
from pipelines.edge.errors import Misread
from pipelines.edge.models import Instrument, Portfolio, Venue, decode, documented_fields, news

BALANCE = {
    "trading": {"free": "1.10", "locked": "0"},
    "margin": {"locked": "1e-8"},
    "staking": {"locked": "-0"},
    "custody": {"free": "0.000000000000000001", "locked": "5"},
}
PORTFOLIO: dict[str, Any] = {
    "id": "p",
    "resource": "portfolio",
    "name": "Main",
    "integrations": [{"id": "i", "venueId": "v", "integrationStatus": "verified"}],
    "positions": [
        {
            "assetId": "BTC",
            "isCustomAsset": False,
            "accounts": [{"venueId": "v", "name": "a", "balance": BALANCE}],
        }
    ],
    "createdAt": "2026-01-01T00:00:00Z",
    "updatedAt": "2026-01-01T00:00:00Z",
}
VENUE: dict[str, Any] = {
    "id": "v",
    "resource": "venue",
    "type": ["exchange", "custodian"],
    "displayName": "V",
    "tradingStatus": "trading",
    "instruments": [{"id": "x", "type": "spot", "displayName": "X"}],
    "createdAt": "2026-01-01T00:00:00Z",
    "updatedAt": "2026-01-01T00:00:00Z",
}
INSTRUMENT: dict[str, Any] = {
    "id": "x",
    "resource": "instrument",
    "type": "future",
    "displayName": "X",
    "feedId": "f",
    "venueSymbol": "s",
    "baseAsset": "BTC",
    "termAsset": "USD",
    "tradingConstraints": {
        "minBaseQty": "1",
        "maxBaseQty": "2",
        "minBaseIncrement": "3",
        "minTermQty": "4",
        "minPrice": "5",
        "maxPrice": "6",
        "minTick": "7",
    },
    "expiration": "2026-12-31T00:00:00Z",
    "createdAt": "2026-01-01T00:00:00Z",
    "updatedAt": "2026-01-01T00:00:00Z",
}
WHOLE = [(Portfolio, PORTFOLIO), (Venue, VENUE), (Instrument, INSTRUMENT)]
OPTIONAL = {
    Portfolio: {"integrations"} | {f"positions[].accounts[].balance.{kind}" for kind in BALANCE},
    Venue: {"instruments"},
    Instrument: {"tradingConstraints", "expiration"}
    | {f"tradingConstraints.{name}" for name in INSTRUMENT["tradingConstraints"]},
}


def encoded(record: Any) -> bytes:
    """A record as the API would send it."""
    return msgspec.json.encode(record)


def leaves(tree: Any, prefix: str = "") -> Iterator[str]:
    """Every path of a tree, as a pattern."""
    for key, value in tree.items():
        path = f"{prefix}{key}"
        yield path
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, dict):
                yield from leaves(inner, f"{path}{'[]' * isinstance(value, list)}.")


@pytest.mark.parametrize(("model", "record"), WHOLE)
def test_the_model_is_section_2(model: type[msgspec.Struct], record: dict[str, Any]) -> None:
    """Every documented field is in the model, required where it is, and nothing else is."""
    found = documented_fields(model)
    assert {path for path in found if not path.endswith("[]")} == set(leaves(record))
    assert {path for path, required in found.items() if not required} == OPTIONAL[model]


@pytest.mark.parametrize(("model", "record"), WHOLE)
def test_a_whole_record_is_read_and_written_again(
    model: type[msgspec.Struct], record: dict[str, Any]
) -> None:
    """Nothing is lost or changed between the API's record and ours."""
    assert msgspec.json.decode(encoded(decode(encoded(record), model))) == record


@pytest.mark.parametrize(("model", "record"), WHOLE)
def test_each_required_field_is_required(
    model: type[msgspec.Struct], record: dict[str, Any]
) -> None:
    """A record without it, or with null in it, is refused with its JSON path."""
    for name, required in documented_fields(model).items():
        if "." in name or "[" in name:
            continue
        without = {key: value for key, value in record.items() if key != name}
        for broken in (without, record | {name: None}):
            if required:
                with pytest.raises(Misread, match="breaks the document"):
                    decode(encoded(broken), model)
            else:
                decode(encoded(broken), model)


def test_absent_null_and_empty_are_three_things() -> None:
    """Integrations that are absent were not asked about; empty ones are none."""
    without = {key: value for key, value in PORTFOLIO.items() if key != "integrations"}
    assert decode(encoded(without), Portfolio).integrations is msgspec.UNSET
    assert decode(encoded(without | {"integrations": None}), Portfolio).integrations is None
    assert decode(encoded(without | {"integrations": []}), Portfolio).integrations == []


@pytest.mark.parametrize("amount", [1.5, 0, True, None, ["1"]])
def test_an_amount_is_text_or_refused(amount: object) -> None:
    """A number is never taken for an amount: its digits could be gone already."""
    record = encoded(PORTFOLIO).replace(b'"1.10"', encoded(amount))
    with pytest.raises(Misread, match=r"positions.*trading\.free"):
        decode(record, Portfolio)


@pytest.mark.parametrize("kinds", range(16))
def test_every_combination_of_balances_is_legal(kinds: int) -> None:
    """Each of the four kinds may be absent independently of the others (2.5)."""
    some = {kind: value for bit, (kind, value) in enumerate(BALANCE.items()) if kinds >> bit & 1}
    assert encoded(decode(encoded(some), models.Balance)) == encoded(some)


@pytest.mark.parametrize(("model", "record"), WHOLE)
def test_a_documented_record_is_no_news(
    model: type[msgspec.Struct], record: dict[str, Any]
) -> None:
    """Whole or bare, with nulls or with escapes, what is documented is not drift."""
    bare = {key: value for key, value in record.items() if documented_fields(model)[key]}
    for shape in (record, bare, bare | {"updatedAt": 'a "quoted" \\ text'}):
        assert list(news(encoded(shape), model)) == []


def changed(path: str, value: Any) -> bytes:
    """The portfolio, or one with something at a path of keys and positions."""
    tree = msgspec.json.decode(encoded(PORTFOLIO))
    *way, last = (int(step) if step.isdigit() else step for step in path.split("/"))
    node = tree
    for step in way:
        node = node[step]
    node[last] = value
    return encoded(tree)


ACCOUNT = "positions[].accounts[]"


@pytest.mark.parametrize(
    ("at", "value", "path", "kind", "example"),
    [
        ("risk", {"a": 1}, "risk", "unknown field", '{"a":1}'),
        ("integrations/0/note", "n", "integrations[].note", "unknown field", '"n"'),
        ("positions/0/price", None, "positions[].price", "unknown field", "null"),
        ("positions/0/accounts/0/kind", 7, f"{ACCOUNT}.kind", "unknown field", "7"),
        (
            "positions/0/accounts/0/balance/lending",
            {"free": "1"},
            f"{ACCOUNT}.balance.lending",
            "unknown balance kind",
            '{"free":"1"}',
        ),
        (
            "positions/0/accounts/0/balance/trading/pending",
            "3",
            f"{ACCOUNT}.balance.trading.pending",
            "unknown field",
            '"3"',
        ),
        (
            "integrations/0/integrationStatus",
            "revoked",
            "integrations[].integrationStatus",
            "unknown value",
            "revoked",
        ),
        ("resource", "fund", "resource", "unknown value", "fund"),
        ("a b.c", 1, '"a b.c"', "unknown field", "1"),
    ],
)
def test_what_is_new_is_named_with_its_path(
    at: str, value: Any, path: str, kind: str, example: str
) -> None:
    """At every level a new field, value or kind of balance is news, with an example."""
    found = list(news(changed(at, value), Portfolio))
    assert [(one.path, one.kind, one.example) for one in found] == [(path, kind, example)]


@pytest.mark.parametrize(
    ("model", "record", "name", "value", "path"),
    [
        (Venue, VENUE, "type", ["exchange", "dex"], "type[]"),
        (Venue, VENUE, "tradingStatus", "halted", "tradingStatus"),
        (Venue, VENUE, "instruments", [{"id": "x", "type": "option"}], "instruments[].type"),
        (Instrument, INSTRUMENT, "type", "perpetual", "type"),
    ],
)
def test_a_new_value_of_every_enumeration_is_news(
    model: type[msgspec.Struct], record: dict[str, Any], name: str, value: Any, path: str
) -> None:
    """Values that section 3 and its neighbours do not list are kept, and told."""
    found = list(news(encoded(record | {name: value}), model))
    assert [(one.path, one.kind) for one in found] == [(path, "unknown value")]


def test_escapes_do_not_hide_a_new_field() -> None:
    """Escaped quotation marks in a name cannot make up for those of an unknown key."""
    record = encoded(INSTRUMENT | {"risk": 1}).replace(b'"f"', b'"\\u0022\\u0022"')
    assert [one.path for one in news(record, Instrument)] == ["risk"]


def test_a_long_example_is_cut() -> None:
    """An example never carries a whole hostile value along."""
    (one,) = news(changed("risk", "x" * 10_000), Portfolio)
    assert len(one.example) < 130


@pytest.mark.parametrize("record", [b"", b"[]", b"7", b'{"a":\xff}', b"[" * 99_999, b'{"id":1}'])
def test_what_cannot_be_read_is_no_news(record: bytes) -> None:
    """A broken record is for the flattening to reject; here it is silent and does not raise."""
    assert list(news(record, Portfolio)) == []


@given(st.dictionaries(st.text(), st.none() | st.text() | st.lists(st.text())))
def test_every_unknown_field_is_found(extra: dict[str, Any]) -> None:
    """However many fields are added, each is news once and nothing else is."""
    extra = {key: value for key, value in extra.items() if key not in INSTRUMENT}
    found = list(news(encoded(INSTRUMENT | extra), Instrument))
    assert len(found) == len(extra)


def test_camel_case_stays_in_the_models() -> None:
    """Attributes are the names of our tables; only the wire is camelCase."""
    source = Path(models.__file__).read_text()
    assert "created_at" in source
    assert decode(encoded(VENUE), Venue).trading_status == "trading"
