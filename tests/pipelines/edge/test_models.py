"""Tests of the models: every field of section 2."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pipelines.edge import models
from pipelines.edge.errors import MalformedResponseError
from pipelines.edge.models import Instrument, Portfolio, Venue, decode

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
    """Return a record as JSON, as the API would send it."""
    return msgspec.json.encode(record)


def leaves(tree: Any, prefix: str = "") -> Iterator[str]:
    """Yield every path in a tree as a pattern, for example `positions[].assetId`."""
    for key, value in tree.items():
        path = f"{prefix}{key}"
        yield path
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, dict):
                yield from leaves(inner, f"{path}{'[]' * isinstance(value, list)}.")


def documented_fields(model: Any, prefix: str = "") -> dict[str, bool]:
    """Return the documented fields of a model by JSON path, with True for each required field.

    The path is a pattern like `positions[].accounts[].balance.trading.free`.
    """
    paths: dict[str, bool] = {}
    for field in msgspec.structs.fields(model):
        path = f"{prefix}{field.encode_name}"
        paths[path] = field.required
        inner, mark = inside(field.type)
        if mark and inner is None:
            paths[f"{path}[]"] = True
        if inner is not None:
            paths |= documented_fields(inner, f"{path}{mark}.")
    return paths


def inside(annotation: Any) -> tuple[type[msgspec.Struct] | None, str]:
    """Return the model inside a field's type, if there is one, and `[]` if the field is a list."""
    for option in getattr(annotation, "__args__", ()) or (annotation,):
        if isinstance(option, type) and issubclass(option, msgspec.Struct):
            return option, ("[]" if getattr(annotation, "__origin__", None) is list else "")
        if getattr(option, "__origin__", None) is list:
            return inside(option)[0], "[]"
    return None, "[]" if getattr(annotation, "__origin__", None) is list else ""


@pytest.mark.parametrize(("model", "record"), WHOLE)
def test_the_models_match_section_2(model: type[msgspec.Struct], record: dict[str, Any]) -> None:
    """Each model has exactly the documented fields, and only the documented ones are optional."""
    found = documented_fields(model)
    assert {path for path in found if not path.endswith("[]")} == set(leaves(record))
    assert {path for path, required in found.items() if not required} == OPTIONAL[model]


@pytest.mark.parametrize(("model", "record"), WHOLE)
def test_a_complete_record_keeps_all_its_fields(
    model: type[msgspec.Struct], record: dict[str, Any]
) -> None:
    """A record that is decoded and encoded keeps all its fields and values."""
    assert msgspec.json.decode(encoded(decode(encoded(record), model))) == record


@pytest.mark.parametrize(("model", "record"), WHOLE)
def test_a_record_without_a_required_field_is_refused(
    model: type[msgspec.Struct], record: dict[str, Any]
) -> None:
    """A record is refused if a required field is missing or null. Optional fields may be both."""
    for name, required in documented_fields(model).items():
        if "." in name or "[" in name:
            continue
        without = {key: value for key, value in record.items() if key != name}
        for broken in (without, record | {name: None}):
            if required:
                with pytest.raises(MalformedResponseError, match="does not match the API document"):
                    decode(encoded(broken), model)
            else:
                decode(encoded(broken), model)


def test_absent_null_and_empty_remain_different() -> None:
    """Integrations that are absent (not requested), null and empty remain different values."""
    without = {key: value for key, value in PORTFOLIO.items() if key != "integrations"}
    assert decode(encoded(without), Portfolio).integrations is msgspec.UNSET
    assert decode(encoded(without | {"integrations": None}), Portfolio).integrations is None
    assert decode(encoded(without | {"integrations": []}), Portfolio).integrations == []


@pytest.mark.parametrize("amount", [1.5, 0, True, None, ["1"]])
def test_an_amount_must_be_a_string(amount: object) -> None:
    """An amount that is not a string is refused, because a number may already have lost digits."""
    record = encoded(PORTFOLIO).replace(b'"1.10"', encoded(amount))
    with pytest.raises(MalformedResponseError, match=r"positions.*trading\.free"):
        decode(record, Portfolio)


@pytest.mark.parametrize("kinds", range(2 ** len(BALANCE)))
def test_every_combination_of_balances_is_legal(kinds: int) -> None:
    """Each kind of balance may be absent, independently of the others (2.5)."""
    some = {kind: value for bit, (kind, value) in enumerate(BALANCE.items()) if kinds >> bit & 1}
    assert encoded(decode(encoded(some), models.Balance)) == encoded(some)


def test_only_the_json_uses_camel_case() -> None:
    """Attributes have the snake_case names of our tables. Only the JSON uses camelCase."""
    source = Path(models.__file__).read_text()
    assert "created_at" in source
    assert decode(encoded(VENUE), Venue).trading_status == "trading"
