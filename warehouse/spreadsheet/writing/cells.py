"""One value as a cell's XML: nothing executes, nothing is lost, nothing is rounded unsaid.

Texts are written inline and typed as text, so that no program reads a formula into one. What XML
cannot hold is written `_xHHHH_`, as ECMA-376 part 1, 22.9.2.19 says, which spreadsheets read back.
"""

import re
from collections.abc import Iterable, Mapping
from enum import IntEnum
from html import escape

CELL_LIMIT = 32_767  # UTF-16 units: what a cell holds
PIECE = 32_000
LONGEST_NUMBER = 300  # letters: beyond, a double may be infinite or lose its whole size
SIGNIFICANT = 15  # digits that a spreadsheet shows and keeps
LONG_TEXTS = "Long texts"

PLAIN = "[A-Za-z0-9](?:[A-Za-z0-9 .:/-]*[A-Za-z0-9])?"  # needs no escape, and its blanks stay
_PLAIN = re.compile(PLAIN)
# Control characters and non-characters that XML 1.0 has no form for, and the underscore of a text
# that already looks like such an escape: it would be read back as the character.
_UNSPEAKABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")
_NON_CHARACTERS = re.compile("[\ufffe\uffff]")
# A leading = + - @ (also full width), | or %, behind blanks and quotes: typed in, a formula or DDE.
_HOSTILE = re.compile(r"[\s\x00-\x1f'\"]*[=+\-@|%\uff1d\uff0b\uff0d\uff20\u2212]")


class Digits(IntEnum):
    """What a number cell is to its exact text."""

    EXACT = 0
    ROUNDED = 1
    TEXT_ONLY = 2

    @property
    def words(self) -> str:
        """As the sheet says it."""
        return ("exact", "rounded", "text only")[self]


def units(text: str) -> int:
    """Return how long a spreadsheet finds a text: in UTF-16 units."""
    if text.isascii():
        return len(text)
    return len(text) + sum(1 for letter in text if letter > "\uffff")


def safe_xml(text: str) -> str:
    """Return the text as XML content that reads back as it was."""
    escaped = _UNSPEAKABLE.sub(lambda match: f"_x{ord(match[0]):04X}_", text)
    return escape(escaped, quote=False)


def is_portable(text: str) -> bool:
    """Return whether other writers too can put the text into a cell as it is."""
    return not _NON_CHARACTERS.search(text) and units(text) <= CELL_LIMIT


def is_hostile(text: str) -> bool:
    """Return whether a program might take the text for a formula, were it typed in."""
    return bool(_HOSTILE.match(text))


def string(text: str) -> str:
    """Return a text as the inside of a cell."""
    if _PLAIN.fullmatch(text):
        return f"<is><t>{text}</t></is>"
    return f'<is><t xml:space="preserve">{safe_xml(text)}</t></is>'


def text_cell(text: str, plain: str, hostile: str) -> str:
    """Return what follows the number of the row in a cell that holds a text, by its two styles."""
    style = hostile if is_hostile(text) else plain
    return f'" s="{style}" t="inlineStr">{string(text)}</c>'


def number(text: str) -> tuple[str, Digits]:
    """Return an exact amount as the double nearest to it, and what that is to the text.

    The text is an amount in plain digits: see `must_be_amounts`.
    """
    if len(text) <= SIGNIFICANT:
        return text, Digits.EXACT
    if len(text) > LONGEST_NUMBER:
        return "", Digits.TEXT_ONLY
    # Fifteen significant digits survive a double and what a spreadsheet shows of it. Zeros at
    # either end are no digits of the value, and the point is none either.
    exact = len(text.replace(".", "").strip("-0")) <= SIGNIFICANT
    return repr(float(text)), Digits.EXACT if exact else Digits.ROUNDED


def pieces(text: str) -> list[str]:
    """Return a long text cut so that each piece fits a cell, never through a letter."""
    cut = [text[start : start + PIECE // 2] for start in range(0, len(text), PIECE // 2)]
    return cut or [""]


def shorten_texts(texts: Iterable[str]) -> Mapping[str, str]:
    """Return what cells hold for texts that are too long: how they begin, and where they are.

    Texts are numbered in their own order, so that equal texts are equal cells on every sheet.
    """
    long = sorted({text for text in texts if units(text) > CELL_LIMIT})
    return {
        text: f"{text[:200]} ... (whole text of {len(text):,} letters: sheet {LONG_TEXTS}, "
        f"no. {number})"
        for number, text in enumerate(long, 1)
    }
