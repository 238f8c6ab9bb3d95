"""Which letters a key, a secret or an address may have; for settings too, without HTTP."""

import unicodedata

# Control and format letters, halves of surrogate pairs, line and paragraph ends: nobody sees them,
# so what was pasted beside a secret would be taken for a part of it (5.2.6).
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def has_unseen(text: str) -> bool:
    """Return whether a text holds a line end, or another letter that cannot be seen."""
    return any(unicodedata.category(letter) in _UNSEEN for letter in text)


def is_visible_ascii(text: str) -> bool:
    """Return whether a header can carry a text as it is: ASCII, no spaces, no controls."""
    return text.isascii() and text.isprintable() and " " not in text
