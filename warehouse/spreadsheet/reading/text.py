"""Text out of cells: as its reader sees it, and folded for comparison."""

import re
import unicodedata
from collections.abc import Sequence


def as_text(cell: object) -> str:
    """Return a cell as the text its reader sees: 123.0 is 123."""
    if isinstance(cell, str):
        return cell
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "TRUE" if cell else "FALSE"
    if isinstance(cell, float):
        return format(cell, ".15g")
    return str(cell)


def text_at(row: Sequence[object], place: int | None) -> str:
    """Return the text of a cell without spaces around it; nothing where there is no such cell."""
    return as_text(row[place]).strip() if place is not None and len(row) > place else ""


def first_text(row: Sequence[object]) -> str:
    """Return the first text of a row without spaces around it; nothing of a blank row."""
    return next((text for cell in row if (text := as_text(cell).strip())), "")


_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")


def fold(text: str) -> str:
    """Return the name without case, outer and double spaces, and zero widths."""
    if text.isascii() and text.isalnum():
        return text.lower()
    seen = _UNSEEN.sub("", unicodedata.normalize("NFC", text))
    return " ".join(seen.split()).casefold()
