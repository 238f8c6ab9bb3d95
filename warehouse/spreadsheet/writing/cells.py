"""Cells of a sheet as XML, and the formula of an exact difference.

Texts are written inline and typed as text, so that no program takes one for a formula. A character
that XML cannot hold is written as `_xHHHH_`, which spreadsheets decode (ECMA-376 part 1,
22.9.2.19).
"""

import re
from collections.abc import Iterable, Mapping
from enum import IntEnum
from html import escape

CELL_LIMIT = 32_767  # UTF-16 units that a cell can hold
PIECE = 32_000
LONGEST_NUMBER = 300  # characters, because the double of a longer number may be infinite or 0
SIGNIFICANT = 15  # digits that a spreadsheet shows and keeps
LONG_TEXTS = "Long texts"

PLAIN = "[A-Za-z0-9](?:[A-Za-z0-9 .:/-]*[A-Za-z0-9])?"  # needs no escape and keeps its spaces
_PLAIN = re.compile(PLAIN)
# Control characters and non-characters, which XML 1.0 cannot hold. An underscore is escaped if it
# begins such an escape, because the text would be decoded to the character.
_NOT_IN_XML = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")
_NON_CHARACTERS = re.compile("[\ufffe\uffff]")
# A leading = + - @ (also full width), | or %, after spaces and quotes. If a person typed such a
# text, a program would take it for a formula or for DDE.
_HOSTILE = re.compile(r"[\s\x00-\x1f'\"]*[=+\-@|%\uff1d\uff0b\uff0d\uff20\u2212]")
_DECIMALS, _WHOLE_DIGITS = 18, 15  # of the amounts in the formula of a difference


class Digits(IntEnum):
    """How exactly a number cell shows its text."""

    EXACT = 0
    ROUNDED = 1
    TEXT_ONLY = 2

    @property
    def words(self) -> str:
        """The label in the sheet."""
        return ("exact", "rounded", "text only")[self]


def units(text: str) -> int:
    """Return the length of a text in UTF-16 units, which is how spreadsheets count."""
    if text.isascii():
        return len(text)
    return len(text) + sum(1 for character in text if character > "\uffff")


def safe_xml(text: str) -> str:
    """Return a text as XML content that a spreadsheet decodes to the same text."""
    escaped = _NOT_IN_XML.sub(lambda match: f"_x{ord(match[0]):04X}_", text)
    return escape(escaped, quote=False)


def is_portable(text: str) -> bool:
    """Return whether other writers too can put the text into a cell unchanged."""
    return not _NON_CHARACTERS.search(text) and units(text) <= CELL_LIMIT


def is_hostile(text: str) -> bool:
    """Return whether a program might take the text for a formula if a person typed it."""
    return bool(_HOSTILE.match(text))


def string(text: str) -> str:
    """Return the XML inside a cell that holds a text."""
    if _PLAIN.fullmatch(text):
        return f"<is><t>{text}</t></is>"
    return f'<is><t xml:space="preserve">{safe_xml(text)}</t></is>'


def text_cell(text: str, plain: str, hostile: str) -> str:
    """Return the XML of a text cell after its row number.

    The style is `hostile` if the text looks like a formula, otherwise `plain`.
    """
    style = hostile if is_hostile(text) else plain
    return f'" s="{style}" t="inlineStr">{string(text)}</c>'


def number(text: str) -> tuple[str, Digits]:
    """Return the double nearest to an exact amount, and how exact it is.

    The text must be an amount in plain digits.
    """
    if len(text) <= SIGNIFICANT:
        return text, Digits.EXACT
    if len(text) > LONGEST_NUMBER:
        return "", Digits.TEXT_ONLY
    # A double and the screen of a spreadsheet keep fifteen significant digits. Zeros at either end
    # and the decimal point do not count.
    exact = len(text.replace(".", "").strip("-0")) <= SIGNIFICANT
    return repr(float(text)), Digits.EXACT if exact else Digits.ROUNDED


def pieces(text: str) -> list[str]:
    """Return a long text in pieces that fit a cell. No character is split."""
    cut = [text[start : start + PIECE // 2] for start in range(0, len(text), PIECE // 2)]
    return cut or [""]


def shorten_texts(texts: Iterable[str]) -> Mapping[str, str]:
    """Return, for each text that is too long for a cell, its beginning and a reference to it.

    Long texts are sorted and numbered, so equal texts have equal cells on every sheet.
    """
    long = sorted({text for text in texts if units(text) > CELL_LIMIT})
    return {
        text: f"{text[:200]} ... (whole text of {len(text):,} characters: sheet {LONG_TEXTS}, "
        f"no. {number})"
        for number, text in enumerate(long, 1)
    }


def fixed_point(text: str | None) -> str:
    """Return an exact text with 18 decimals, as the formula of a difference needs it."""
    whole, _, part = (text or "0").partition(".")
    return f"{whole}.{part.ljust(_DECIMALS, '0')}"


def can_be_live(*texts: str) -> bool:
    """Return whether the formula of a difference is exact for these fixed-point texts.

    It is exact for up to 15 digits before the decimal point and 18 after it.
    """
    return all(
        len(text.partition(".")[0].lstrip("-")) <= _WHOLE_DIGITS
        and len(text.partition(".")[2]) == _DECIMALS
        for text in texts
    )


def difference(ours: str, theirs: str) -> str:
    """Return the formula of the difference of two cells with fixed-point texts."""
    # A spreadsheet calculates with 15 digits. So each text is cut into its whole number and two
    # groups of nine decimals, which are subtracted separately. VALUE never gets a decimal point,
    # because a program in another language may take it for a thousands separator.

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
