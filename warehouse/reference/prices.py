"""The rules for a row of `reference.prices`."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any

from warehouse.exact import exact, plain
from warehouse.reference.child import UnusedLine

NEEDED = ("asset_id", "quote", "price_text", "as_of")
NAMES = (*NEEDED, "is_custom_asset", "source", "level")
_AMOUNT = re.compile(r"[+-]?([0-9]{1,300}(\.[0-9]{0,300})?|\.[0-9]{1,300})([eE][+-]?[0-9]{1,3})?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_FLAGS = {"": False, "false": False, "no": False, "0": False, "true": True, "yes": True, "1": True}
_LEVELS = ("", "1", "2", "3")
_MAX_EXPONENT = 200
_FIRST_YEAR = 1970


def prices(rows: Iterable[tuple[int, Mapping[str, str]]]) -> Iterator[dict[str, Any] | UnusedLine]:
    """Yield a row or a reject for each line of a file.

    If a file states two prices for the same key, both are rejected, because nobody knows which of
    them is right.
    """
    found = [_price(line, cells) for line, cells in rows]
    amounts: dict[tuple[Any, ...], set[str]] = {}
    for row in found:
        if not isinstance(row, UnusedLine):
            amounts.setdefault(_key(row), set()).add(row["price_text"])
    for row in found:
        if not isinstance(row, UnusedLine) and len(amounts[_key(row)]) > 1:
            reason = "the file states several prices for this asset, quote, time and source"
            row = UnusedLine("several_prices", reason, row["price_text"], row["line"])  # noqa: PLW2901 - the reject replaces the row
        yield row


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    names = ("asset_id", "is_custom_asset", "quote", "as_of_date", "as_of_time", "source")
    return tuple(row[name] for name in names)


def _price(line: int, cells: Mapping[str, str]) -> dict[str, Any] | UnusedLine:
    for name in NEEDED:
        if not cells.get(name):
            return UnusedLine(f"no_{name}", f"{name} is empty", "", line)
    is_custom = _FLAGS.get(cells.get("is_custom_asset", "").lower())
    if is_custom is None:
        reason = "is_custom_asset is not true, false or empty"
        return UnusedLine("not_a_flag", reason, cells["is_custom_asset"], line)
    if cells.get("level", "") not in _LEVELS:
        return UnusedLine("not_a_level", "level is not 1, 2, 3 or empty", cells["level"], line)
    try:
        amount = _amount(cells["price_text"])
        day, time = _moment(cells["as_of"])
    except ValueError as error:
        code, reason, value = error.args
        return UnusedLine(code, reason, value, line)
    return {
        "asset_id": cells["asset_id"],
        "is_custom_asset": is_custom,
        "quote": cells["quote"],
        "price_text": amount,
        "as_of": cells["as_of"],
        "as_of_date": day,
        "as_of_time": time,
        "source": cells.get("source", ""),
        "level": cells.get("level", ""),
        "line": line,
    }


def _amount(text: str) -> str:
    match = _AMOUNT.fullmatch(text)
    exponent = match and match[3]
    if match is None or (exponent and abs(int(exponent[1:])) > _MAX_EXPONENT):
        reason = "price_text is not a number such as 1234.56, without separators or units"
        raise ValueError("not_an_amount", reason, text)
    if exact(text) < 0:
        raise ValueError("below_zero", "price_text is below zero", text)
    return plain(exact(text))


def _moment(text: str) -> tuple[date | None, datetime | None]:
    advice = "write a date as 2026-11-20, or a time with its zone as 2026-11-20T02:15:00Z"
    try:
        if _DATE.fullmatch(text):
            day, time = date.fromisoformat(text), None
        else:
            day, time = None, datetime.fromisoformat(text)
        utc = time.astimezone(UTC) if time and time.tzinfo else None
    except (ValueError, OverflowError):
        raise ValueError("not_a_time", f"as_of is not a time: {advice}", text) from None
    if time and not utc:
        raise ValueError("no_time_zone", f"as_of has no time zone: {advice}", text)
    if (day or utc or date.min).year < _FIRST_YEAR:
        raise ValueError("not_a_time", f"as_of is before {_FIRST_YEAR}: {advice}", text)
    return day, utc
