"""The expected rows of all tables, calculated a second time with plain Python.

This module shares no code with the pipelines: it uses `json`, `Decimal`, `re` and `datetime`. It
supports the documents that the specification allows. It does not calculate `duplicate_no`, which
`require_equal` checks.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from typing import Any

Row = dict[str, Any]
KINDS = {
    "trading": ("free", "locked"),
    "margin": ("locked",),
    "staking": ("locked",),
    "custody": ("free", "locked"),
}
CONSTRAINTS = {
    "min_base_qty": "minBaseQty",
    "max_base_qty": "maxBaseQty",
    "min_base_increment": "minBaseIncrement",
    "min_term_qty": "minTermQty",
    "min_price": "minPrice",
    "max_price": "maxPrice",
    "min_tick": "minTick",
}
_AMOUNT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE]([+-]?\d+))?", re.ASCII)
_MOMENT = re.compile(
    r"(\d{4})-?(\d\d)-?(\d\d)[Tt ](\d\d)(?::?(\d\d)(?::?(\d\d)(?:[.,](\d+))?)?)?"
    r"(?:[Zz]|([+-])(\d\d):?(\d\d)?)",
    re.ASCII,
)


def is_amount(text: Any) -> bool:
    """Return True if a value is the text of a decimal amount with an exponent within 200."""
    found = _AMOUNT.fullmatch(text) if isinstance(text, str) else None
    return found is not None and (found[3] is None or abs(int(found[3])) <= 200)


def value(text: str) -> Decimal | None:
    """Return the amount, or None if it does not fit exactly into 38 digits with 18 decimals."""
    with localcontext(prec=5000):
        exact = Decimal(text)
        units = exact.scaleb(18)
        fits = units == units.to_integral_value() and abs(units) < 10**38
        return exact if fits else None


def moment(text: str | None) -> datetime | None:
    """Parse a time. Return it in UTC, truncated to microseconds."""
    if text is None:
        return None
    found = _MOMENT.fullmatch(text)
    assert found, text
    year, month, day, hour, minute, second, fraction, sign, hours, minutes = found.groups()
    micro = int((fraction or "")[:6].ljust(6, "0"))
    local = datetime(
        int(year), int(month), int(day), int(hour), int(minute or 0), int(second or 0), tzinfo=UTC
    )
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    return local.replace(microsecond=micro) - (offset if sign != "-" else -offset)


def book(
    day: date,
    portfolios: Iterable[Row],
    venues: Iterable[Row] = (),
    instruments: Mapping[str, Iterable[Row]] | None = None,
) -> dict[str, list[Row]]:
    """Return the rows of all eight tables. Accounts have their balances but no `duplicate_no`."""
    tables: dict[str, list[Row]] = defaultdict(list)
    for portfolio in portfolios:
        _portfolio(portfolio, tables)
    for venue in venues:
        _venue(venue, tables)
    embedding = {venue["id"]: venue.get("instruments") or () for venue in venues}
    for venue_id, several in (instruments or {}).items():
        listed = list(several)
        tables["instruments"] += [_instrument(venue_id, one) for one in listed]
        known = {one["id"] for one in listed}
        only: dict[str, Row] = {}
        for one in embedding.get(venue_id, ()):
            if one["id"] not in known:
                only[one["id"]] = min(only.get(one["id"], one), one, key=_said_first)
        tables["instruments"] += [_embedded(venue_id, one) for one in only.values()]
    return {name: [{"snapshot_date": day, **row} for row in rows] for name, rows in tables.items()}


def _said_first(embedded: Row) -> list[tuple[bool, str]]:
    """Return a sort key for instruments with the same ID: missing values last, then by text."""
    texts = (embedded.get("type"), embedded.get("displayName"))
    return [(text is None, text or "") for text in texts]


def _portfolio(portfolio: Row, tables: dict[str, list[Row]]) -> None:
    key = {"portfolio_id": portfolio["id"]}
    integrations = portfolio.get("integrations")
    tables["portfolios"].append(
        {
            **key,
            "name": portfolio["name"],
            "position_count": len(portfolio["positions"]),
            "integration_count": None if integrations is None else len(integrations),
            "created_at": moment(portfolio["createdAt"]),
            "updated_at": moment(portfolio["updatedAt"]),
        }
    )
    for one in integrations or ():
        tables["integrations"].append(
            {
                **key,
                "integration_id": one["id"],
                "venue_id": one["venueId"],
                "status": one["integrationStatus"],
            }
        )
    assets: dict[tuple[str, bool], list[Row]] = defaultdict(list)
    for position in portfolio["positions"]:
        assets[position["assetId"], position["isCustomAsset"]] += position["accounts"]
    for (asset, custom), accounts in assets.items():
        held = {**key, "asset_id": asset, "is_custom_asset": custom}
        tables["positions"].append({**held, "account_count": len(accounts)})
        tables["accounts"] += [_account(held, account) for account in accounts]


def _account(held: Row, account: Row) -> Row:
    stated = balances(account["balance"])
    return {
        **held,
        "venue_id": account["venueId"],
        "account_name": account["name"],
        "balance_count": len(stated),
        "balances": tuple(sorted(stated)),
    }


def balances(balance: Row) -> list[tuple[str, str, str]]:
    """Return bucket, state and text of every amount in a balance, at any depth."""
    found = []
    for bucket, part in balance.items():
        if is_amount(part):
            found.append((bucket, "stated", part))
        elif isinstance(part, dict):
            found += [(bucket, ".".join(names), text) for names, text in _inside(part)]
    return found


def _inside(part: Row) -> list[tuple[list[str], str]]:
    """Return the names that lead to each amount in an object, and the text of the amount.

    Empty names and names with dots or quotation marks are quoted.
    """
    found: list[tuple[list[str], str]] = []
    for name, inner in part.items():
        shown = json.dumps(name, ensure_ascii=False) if set(name) & set('."') or not name else name
        if is_amount(inner):
            found.append(([shown], inner))
        elif isinstance(inner, dict):
            found += [([shown, *names], text) for names, text in _inside(inner)]
    return found


def _venue(venue: Row, tables: dict[str, list[Row]]) -> None:
    key = {"venue_id": venue["id"]}
    tables["venues"].append(
        {
            **key,
            "display_name": venue["displayName"],
            "trading_status": venue["tradingStatus"],
            "created_at": moment(venue["createdAt"]),
            "updated_at": moment(venue["updatedAt"]),
        }
    )
    tables["venue_types"] += [{**key, "type": word} for word in venue["type"]]


def _instrument(venue_id: str, one: Row) -> Row:
    limits = one.get("tradingConstraints") or {}
    texts = {name: limits.get(source) for name, source in CONSTRAINTS.items()}
    return {
        "venue_id": venue_id,
        "instrument_id": one["id"],
        "type": one["type"],
        "display_name": one["displayName"],
        "feed_id": one["feedId"],
        "venue_symbol": one["venueSymbol"],
        "base_asset": one["baseAsset"],
        "term_asset": one["termAsset"],
        **{name: None if text is None else value(text) for name, text in texts.items()},
        "expiration": moment(one.get("expiration")),
        "created_at": moment(one["createdAt"]),
        "updated_at": moment(one["updatedAt"]),
        "stale_since": None,
    }


def _embedded(venue_id: str, one: Row) -> Row:
    """Return the row of an instrument that is embedded in its venue but not in its lists."""
    whole = dict.fromkeys([*CONSTRAINTS, "feed_id", "venue_symbol", "base_asset", "term_asset"])
    times = dict.fromkeys(["expiration", "created_at", "updated_at", "stale_since"])
    said = {"instrument_id": one["id"], "type": one["type"], "display_name": one["displayName"]}
    return {"venue_id": venue_id, **whole, **times, **said}


def require_equal(actual: Mapping[str, list[Row]], expected: Mapping[str, list[Row]]) -> None:
    """Assert that all eight tables contain exactly the expected rows, in any order."""
    found = {
        name: [{key: value for key, value in row.items() if key != "snapshot_id"} for row in rows]
        for name, rows in actual.items()
    }
    found["accounts"] = _with_balances(found["accounts"], found.pop("balances"))
    for name, rows in found.items():
        assert _counted(rows) == _counted(expected.get(name, [])), name
    assert expected.keys() <= found.keys()


def _with_balances(accounts: list[Row], amounts: list[Row]) -> list[Row]:
    """Return accounts with their balances. Check and remove the numbers of repeated accounts."""
    stated: dict[tuple[Any, ...], list[tuple[str, str, str]]] = defaultdict(list)
    for row in amounts:
        assert row["amount"] == value(row["amount_text"]), row
        stated[_key(row)].append((row["bucket"], row["state"], row["amount_text"]))
    assert stated.keys() <= {_key(row) for row in accounts}
    numbers = defaultdict(list)
    for row in accounts:
        numbers[_key(row)[:-1]].append(row["duplicate_no"])
    assert all(sorted(several) == list(range(len(several))) for several in numbers.values())
    rows = [{**row, "balances": tuple(sorted(stated[_key(row)]))} for row in accounts]
    for row in rows:
        del row["duplicate_no"]
    return rows


def _key(row: Row) -> tuple[Any, ...]:
    names = ("portfolio_id", "asset_id", "is_custom_asset", "venue_id", "account_name")
    return (*(row[name] for name in names), row["duplicate_no"])


def _counted(rows: Iterable[Row]) -> Counter[Any]:
    return Counter(tuple(sorted(row.items(), key=lambda item: item[0])) for row in rows)
