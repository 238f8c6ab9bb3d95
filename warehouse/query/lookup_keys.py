"""Lookup keys, which identify rows of published tables in formulas of workbooks."""

import hashlib
from collections.abc import Iterable

from warehouse.contract.model import literal

CUSTOM_MARK = "\x1f"
_KEY_LENGTH = 16
_ASSET = f"asset_id || case when is_custom_asset then {literal(CUSTOM_MARK)} else '' end"
_PARTS = {
    "source": ("source", "source"),
    "portfolio_id": ("portfolio", "portfolio_id"),
    "asset_id": ("asset", _ASSET),
    "venue_id": ("venue", "venue_id"),
    "account_name": ("account", "account_name"),
}


def lookup_key(parts: Iterable[tuple[str, str]]) -> str:
    """Return the SQL expression for a lookup key. `parts` has the name and SQL of each field."""
    # Write the length before each part, so that different keys produce different strings.
    cells = ", ".join(f"{literal(field)}, strlen({sql}), {sql}" for field, sql in parts)
    return f"'K-' || upper(left(sha256(concat_ws(chr(30), {cells})), {_KEY_LENGTH}))"


def key_of_names(parts: Iterable[tuple[str, str]]) -> str:
    """Calculate a lookup key from names and values, with the same result as `lookup_key` in SQL."""
    cells = [
        cell
        for field, text in parts
        for cell in (field, str(len(text.encode("utf-8", "surrogatepass"))), text)
    ]
    digest = hashlib.sha256("\x1e".join(cells).encode("utf-8", "surrogatepass")).hexdigest()
    return f"K-{digest[:_KEY_LENGTH].upper()}"


def key_of_columns(key: Iterable[str]) -> str:
    """Return the SQL expression for the lookup key of a published table with these key columns."""
    names = set(key)
    return lookup_key(part for column, part in _PARTS.items() if column in names)
