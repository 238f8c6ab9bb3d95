"""The rules for a row of `reference.thresholds`."""

import re
from typing import Any

from warehouse.contract.reference import THRESHOLDS
from warehouse.exact import exact
from warehouse.reference.row_rules import Cells, RowRules, read_amount, read_choice, read_flag

MEASURES = ("quantity", "value", "share", "move")
_SCOPE = re.compile(r"[a-z][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?")


def _threshold(cells: Cells) -> dict[str, Any]:
    scope, is_custom = cells["scope"].lower(), read_flag(cells, "is_custom_asset")
    measure = read_choice(cells, "measure", MEASURES, "quantity, value, share or move")
    limits = {
        name: read_amount(cells, name) if cells.get(name) else None
        for name in ("minimum", "maximum")
    }
    low, high = limits["minimum"], limits["maximum"]
    if not _SCOPE.fullmatch(scope):
        raise ValueError("not_a_scope", "scope is not asset, venue, portfolio or a label", scope)
    if scope != "asset" and (is_custom or measure == "quantity"):
        reason = "only the scope asset has quantities and custom assets"
        raise ValueError("wrong_scope", reason, scope)
    if low is None and high is None:
        raise ValueError("no_limit", "minimum and maximum are both empty", "")
    if low is not None and high is not None and exact(low) > exact(high):
        raise ValueError("crossed_limits", "minimum is above maximum", low)
    return {
        "scope": scope,
        "name": cells.get("name", ""),
        "is_custom_asset": is_custom,
        "measure": measure,
        **limits,
        "is_alert": read_flag(cells, "alert"),
    }


THRESHOLD_RULES = RowRules(
    table=THRESHOLDS,
    needed=("scope", "measure"),
    optional=("name", "is_custom_asset", "minimum", "maximum", "alert"),
    key=("scope", "name", "is_custom_asset", "measure"),
    values=("minimum", "maximum", "is_alert"),
    read_row=_threshold,
)
