"""Text out of cells: as its reader sees it, and folded for comparison."""

import re
import unicodedata


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


_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")


def fold(text: str) -> str:
    """Return the name without case, outer and double spaces, and zero widths."""
    if text.isascii() and text.isalnum():
        return text.lower()
    seen = _UNSEEN.sub("", unicodedata.normalize("NFC", text))
    return " ".join(seen.split()).casefold()
