"""An independent count of the rows and amounts that landed records must produce.

This module decodes each record as plain JSON, and shares no code with the readers except the depth
limit. Numbers are ignored, because no field is a number. Objects with a repeated key are ignored
too. In a balance, every string that is an amount counts, documented or not.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from pipelines.records.json_text import is_too_deep

Raw = msgspec.Raw


class Sum(NamedTuple):
    """The key of a sum of amounts. There is one sum for each asset and bucket."""

    asset_id: str
    is_custom_asset: bool
    bucket: str


class Totals(NamedTuple):
    """The row counts by table, and the exact sum for each asset and bucket."""

    rows: dict[str, int]
    sums: dict[Sum, Decimal]


@dataclass(frozen=True, slots=True)
class PortfolioCount:
    """A portfolio's row counts, and its amounts as strings for each asset and bucket."""

    identity: str
    integrations: int
    positions: int
    accounts: int
    amounts: list[tuple[Sum, list[str]]]


def portfolio(raw: Raw) -> PortfolioCount | None:
    """Count a portfolio's rows. Return None if the portfolio itself does not become a row."""
    tree = _record(raw)
    if tree is None:
        return None
    positions = [
        position
        for position in _objects(tree.get("positions"))
        if _is_text(position.get("assetId")) and isinstance(position.get("isCustomAsset"), bool)
    ]
    integrations = {
        integration["id"]
        for integration in _objects(tree.get("integrations"))
        if _is_text(integration.get("id"))
    }
    accounts = 0
    texts: list[tuple[Sum, list[str]]] = []
    for position in positions:
        for account in _accounts(position):
            accounts += 1
            for bucket, stated in _balance(account):
                texts.append((Sum(position["assetId"], position["isCustomAsset"], bucket), stated))
    assets = {(position_["assetId"], position_["isCustomAsset"]) for position_ in positions}
    return PortfolioCount(
        identity=tree["id"],
        integrations=len(integrations),
        positions=len(assets),
        accounts=accounts,
        amounts=texts,
    )


def venues(raws: Iterable[Raw]) -> dict[str, int]:
    """Count venues and their types. Records with the same venue ID count as one venue."""
    types: dict[str, set[str]] = {}
    for raw in raws:
        venue = _record(raw)
        if venue is not None:
            stated = venue.get("type")
            listed = stated if isinstance(stated, list) else []
            types.setdefault(venue["id"], {word for word in listed if _is_text(word)})
    return {"venues": len(types), "venue_types": sum(map(len, types.values()))}


def embedded_instruments(raws: Iterable[Raw]) -> dict[str, set[str]]:
    """Return the IDs of the instruments that each venue's record contains, by venue ID."""
    ids_by_venue: dict[str, set[str]] = {}
    for raw in raws:
        if (venue := _record(raw)) is not None:
            listed = _objects(venue.get("instruments"))
            ids_by_venue[venue["id"]] = {item["id"] for item in listed if _is_text(item.get("id"))}
    return ids_by_venue


def identities(raws: Iterable[Raw]) -> int:
    """Count the distinct IDs of valid records."""
    return len({record["id"] for raw in raws if (record := _record(raw)) is not None})


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | None:
    members = dict(pairs)
    return members if len(members) == len(pairs) else None


def _number(_: str) -> None:
    return None


def _record(raw: Raw) -> dict[str, Any] | None:
    """Decode a record. Return None if it is invalid or has no id."""
    text = bytes(raw)
    if is_too_deep(text):
        return None
    try:
        tree = _DECODER.decode(text.decode())
    except (ValueError, RecursionError):
        return None
    return tree if isinstance(tree, dict) and _is_text(tree.get("id")) else None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _accounts(position: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for account in _objects(position.get("accounts")):
        if _is_text(account.get("venueId")) and _is_text(account.get("name")):
            yield account


def _balance(account: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield the strings in each part of a balance, at any depth. Some of them may be amounts."""
    balance = account.get("balance")
    for bucket, part in balance.items() if isinstance(balance, dict) else ():
        if texts := list(_texts(part)):
            yield bucket, texts


def _texts(part: Any) -> Iterator[str]:
    """Yield all strings in a string or object. Skip lists, which contain no amounts (2.5)."""
    waiting = [part]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, str):
            yield inner
        elif isinstance(inner, dict):
            waiting += inner.values()


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_number, parse_int=_number, parse_constant=_number
)
