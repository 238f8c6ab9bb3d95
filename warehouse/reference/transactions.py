"""The rules for a row of `reference.transactions`."""

from typing import Any

from warehouse.contract.reference import TRANSACTIONS
from warehouse.reference.row_rules import Cells, RowRules, read_amount, read_flag, read_moment

_TEXTS = ("portfolio", "venue", "account", "asset_id", "reference")


def _transaction(cells: Cells) -> dict[str, Any]:
    _, time = read_moment(cells, "time")
    if time is None:
        reason = "time is only a date, but a book has a second. Write 2026-11-20T02:15:00Z"
        raise ValueError("not_a_time", reason, cells["time"])
    return {
        **{name: cells[name] for name in _TEXTS},
        "time": time,
        "is_custom_asset": read_flag(cells, "is_custom_asset"),
        "amount_text": read_amount(cells, "amount_text"),
        "kind": cells.get("kind", "").lower(),
    }


TRANSACTION_RULES = RowRules(
    table=TRANSACTIONS,
    needed=("time", *_TEXTS, "amount_text"),
    optional=("is_custom_asset", "kind"),
    read_row=_transaction,
)
