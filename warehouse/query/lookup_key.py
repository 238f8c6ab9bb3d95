"""One key for a position in every workbook, so that a lookup finds it in another one.

It is a digest: lookups of spreadsheets ignore case, take * and ? for any letters, and cut at 255.
"""

import hashlib
from collections.abc import Iterable

from warehouse.contract.model import literal

LETTERS = 16
CUSTOM_MARK = "\x1f"
_ASSET = f"asset_id || case when is_custom_asset then {literal(CUSTOM_MARK)} else '' end"
_PARTS = {
    "source": ("source", "source"),
    "portfolio_id": ("portfolio", "portfolio_id"),
    "asset_id": ("asset", _ASSET),
    "venue_id": ("venue", "venue_id"),
    "account_name": ("account", "account_name"),
}


def lookup_key(parts: Iterable[tuple[str, str]]) -> str:
    """Return the SQL of the key of fields, each given with its SQL, in the order of dimensions."""
    # Each part has its length before it, so that no two keys give the same text.
    cells = ", ".join(f"{literal(field)}, strlen({sql}), {sql}" for field, sql in parts)
    return f"'K-' || upper(left(sha256(concat_ws(chr(30), {cells})), {LETTERS}))"


def key_of_names(parts: Iterable[tuple[str, str]]) -> str:
    """Return the key of fields, each given with its text: the same as the SQL makes."""
    cells = [
        cell
        for field, text in parts
        for cell in (field, str(len(text.encode("utf-8", "surrogatepass"))), text)
    ]
    digest = hashlib.sha256("\x1e".join(cells).encode("utf-8", "surrogatepass")).hexdigest()
    return f"K-{digest[:LETTERS].upper()}"


def key_of_columns(key: Iterable[str]) -> str:
    """Return the SQL of the key of a published table by the columns of its own key."""
    names = set(key)
    return lookup_key(part for column, part in _PARTS.items() if column in names)
