"""The rules for a row of `reference.prices`."""

import re
from datetime import UTC, date, datetime
from typing import Any

from warehouse.contract.reference import PRICES
from warehouse.reference.row_rules import Cells, RowRules, read_amount, read_choice, read_flag

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_FIRST_YEAR = 1970


def _price(cells: Cells) -> dict[str, Any]:
    is_custom = read_flag(cells, "is_custom_asset")
    level = read_choice(cells, "level", ("", "1", "2", "3"), "1, 2, 3 or empty")
    amount = read_amount(cells, "price_text")
    if amount.startswith("-"):
        raise ValueError("below_zero", "price_text is below zero", cells["price_text"])
    day, time = _moment(cells["as_of"])
    return {
        "asset_id": cells["asset_id"],
        "is_custom_asset": is_custom,
        "quote": cells["quote"],
        "price_text": amount,
        "as_of": cells["as_of"],
        "as_of_date": day,
        "as_of_time": time,
        "source": cells.get("source", ""),
        "level": level,
    }


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


PRICE_RULES = RowRules(
    table=PRICES,
    needed=("asset_id", "quote", "price_text", "as_of"),
    optional=("is_custom_asset", "source", "level"),
    key=("asset_id", "is_custom_asset", "quote", "as_of_date", "as_of_time", "source"),
    values=("price_text",),
    read_row=_price,
)
