"""The rules for a row of `reference.prices`."""

from typing import Any

from warehouse.contract.reference import PRICES
from warehouse.reference.row_rules import (
    Cells,
    RowRules,
    read_amount,
    read_choice,
    read_flag,
    read_moment,
)


def _price(cells: Cells) -> dict[str, Any]:
    is_custom = read_flag(cells, "is_custom_asset")
    level = read_choice(cells, "level", ("", "1", "2", "3"), "1, 2, 3 or empty")
    amount = read_amount(cells, "price_text")
    if amount.startswith("-"):
        raise ValueError("below_zero", "price_text is below zero", cells["price_text"])
    day, time = read_moment(cells, "as_of")
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


PRICE_RULES = RowRules(
    table=PRICES,
    needed=("asset_id", "quote", "price_text", "as_of"),
    optional=("is_custom_asset", "source", "level"),
    key=("asset_id", "is_custom_asset", "quote", "as_of_date", "as_of_time", "source"),
    values=("price_text",),
    read_row=_price,
)
