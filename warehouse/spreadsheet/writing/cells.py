"""Cells of a sheet as XML, and the formula of an exact difference."""

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


_PLACES, _WHOLE = 18, 15


def fixed_point(text: str | None) -> str:
    """Return an exact text with 18 decimals, as the difference formula takes it apart."""
    whole, _, part = (text or "0").partition(".")
    return f"{whole}.{part.ljust(_PLACES, '0')}"


def can_be_live(*texts: str) -> bool:
    """Return whether the difference formula is exact: 15 whole digits and 18 decimals."""
    return all(
        len(text.partition(".")[0].lstrip("-")) <= _WHOLE and len(text.partition(".")[2]) == _PLACES
        for text in texts
    )


def difference(ours: str, theirs: str) -> str:
    """Return the formula of the difference of two cells of fixed texts."""
    # A spreadsheet calculates with 15 digits, so each text is cut into the whole number and twice
    # nine decimals, which are subtracted apart. VALUE never sees a decimal point, which a program
    # in another language would read as a grouping letter.

    def whole(cell: str) -> str:
        return f"VALUE(LEFT({cell},LEN({cell})-19))"

    def sign(cell: str) -> str:
        return f'IF(LEFT({cell})="-",-1,1)'

    def middle(cell: str) -> str:
        return f"{sign(cell)}*VALUE(MID({cell},LEN({cell})-17,9))"

    def last(cell: str) -> str:
        return f"{sign(cell)}*VALUE(RIGHT({cell},9))"

    return (
        f"=((({whole(ours)}-{whole(theirs)})*1E9+{middle(ours)}-{middle(theirs)})*1E9"
        f"+{last(ours)}-{last(theirs)})/1E18"
    )
