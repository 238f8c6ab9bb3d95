"""Cells as XML, and the formula for an exact difference.

Texts are written inline with the type text, so that no program interprets them as formulas. A
character that XML cannot represent is written as `_xHHHH_`, which spreadsheets decode (ECMA-376
part 1, 22.9.2.19).
"""

import re
from collections.abc import Iterable, Mapping
from enum import IntEnum
from html import escape

CELL_LIMIT = 32_767  # maximum number of UTF-16 code units in a cell
PIECE = 32_000
# Limit the number of characters in a number, because a longer number may become infinity or 0 as a
# double.
MAX_NUMBER_LENGTH = 300
SIGNIFICANT = 15  # number of digits that a spreadsheet program stores and shows
LONG_TEXTS = "Long texts"

# A pattern for strings that need no escaping.
PLAIN = "[A-Za-z0-9](?:[A-Za-z0-9 .:/-]*[A-Za-z0-9])?"
_PLAIN = re.compile(PLAIN)
# Escape control characters and non-characters, because XML 1.0 cannot represent them. Also escape
# the first underscore of anything that already looks like an escape, because spreadsheets would
# decode it. A string like `_x0041` looks like an escape if a control character follows, because the
# escaped control character begins with the missing underscore.
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff"
_LIKE_ESCAPE = f"_(?=x[0-9A-Fa-f]{{4}}[_{_CONTROLS}])"
_NOT_IN_XML = re.compile(f"[{_CONTROLS}]|{_LIKE_ESCAPE}")
_NON_CHARACTERS = re.compile("[\ufffe\uffff]")
# A pattern for strings that begin with = + - @ (including full-width forms), | or %, possibly after
# spaces and quotes. If a person types such a string, spreadsheet programs interpret the string as a
# formula or as a DDE command.
_HOSTILE = re.compile(r"[\s\x00-\x1f'\"]*[=+\-@|%\uff1d\uff0b\uff0d\uff20\u2212]")
# The difference formula supports this many decimal places and integer digits.
_DECIMALS, _WHOLE_DIGITS = 18, 15


class Digits(IntEnum):
    """The accuracy of a number cell: whether the exact amount fits in it."""

    EXACT = 0
    ROUNDED = 1
    TEXT_ONLY = 2

    @property
    def words(self) -> str:
        """The label that the sheet shows."""
        return ("exact", "rounded", "text only")[self]


def units(text: str) -> int:
    """Return a string's length in UTF-16 units, which is how spreadsheets count."""
    if text.isascii():
        return len(text)
    return len(text) + sum(1 for character in text if character > "\uffff")


def safe_xml(text: str) -> str:
    """Escape a string as XML content that spreadsheets decode to the same string."""
    escaped = _NOT_IN_XML.sub(lambda match: f"_x{ord(match[0]):04X}_", text)
    return escape(escaped, quote=False)


def looks_like_xml(text: str) -> bool:
    """Return whether XlsxWriter could mistake a string for an escape sequence or rich-text XML."""
    return bool(re.search(_LIKE_ESCAPE, text)) or (text[:3], text[-4:]) == ("<r>", "</r>")


def is_portable(text: str) -> bool:
    """Return whether every spreadsheet program can store this string in a cell unchanged."""
    return not _NON_CHARACTERS.search(text) and units(text) <= CELL_LIMIT


def is_hostile(text: str) -> bool:
    """Return whether a program might treat a text as a formula if a person typed it into a cell."""
    return bool(_HOSTILE.match(text))


def string(text: str) -> str:
    """Return the XML inside the element of a text cell."""
    if _PLAIN.fullmatch(text):
        return f"<is><t>{text}</t></is>"
    return f'<is><t xml:space="preserve">{safe_xml(text)}</t></is>'


def text_cell(text: str, plain: str, hostile: str) -> str:
    """Return the end of a text cell's XML, beginning after the row number in the cell's name.

    The style is `hostile` if the text looks like a formula, otherwise `plain`.
    """
    style = hostile if is_hostile(text) else plain
    return f'" s="{style}" t="inlineStr">{string(text)}</c>'


def number(text: str) -> tuple[str, Digits]:
    """Return the number nearest to an exact amount, and how exact that number is.

    The text must be an amount in plain digits.
    """
    if len(text) <= SIGNIFICANT:
        return text, Digits.EXACT
    if len(text) > MAX_NUMBER_LENGTH:
        return "", Digits.TEXT_ONLY
    # Doubles and spreadsheet cells preserve fifteen significant digits. Leading and trailing zeros
    # and the decimal point do not count.
    exact = len(text.replace(".", "").strip("-0")) <= SIGNIFICANT
    return repr(float(text)), Digits.EXACT if exact else Digits.ROUNDED


def pieces(text: str) -> list[str]:
    """Split a long string into pieces that each fit in a cell. No character is split."""
    cut = [text[start : start + PIECE // 2] for start in range(0, len(text), PIECE // 2)]
    return cut or [""]


def shorten_texts(texts: Iterable[str]) -> Mapping[str, str]:
    """Map each string that is too long for a cell to a short form that refers to the full text.

    Long texts are sorted and numbered, so equal texts have equal cells on every sheet.
    """
    long = sorted({text for text in texts if units(text) > CELL_LIMIT})
    return {
        text: f"{text[:200]} ... (whole text of {len(text):,} characters: sheet {LONG_TEXTS}, "
        f"no. {number})"
        for number, text in enumerate(long, 1)
    }


def fixed_point(text: str | None) -> str:
    """Pad an exact amount to 18 decimal places, as the difference formula requires."""
    whole, _, part = (text or "0").partition(".")
    return f"{whole}.{part.ljust(_DECIMALS, '0')}"


def can_be_live(*texts: str) -> bool:
    """Return whether the difference formula is exact for these fixed-point amounts.

    It is exact for up to 15 digits before the decimal point and 18 after it.
    """
    return all(
        len(text.partition(".")[0].lstrip("-")) <= _WHOLE_DIGITS
        and len(text.partition(".")[2]) == _DECIMALS
        for text in texts
    )


def difference(ours: str, theirs: str) -> str:
    """Return the formula for the difference between two cells that contain fixed-point text."""
    # Spreadsheets calculate with 15 digits, so the formula splits each amount into its whole number
    # and two groups of nine decimal places, and subtracts each part separately. VALUE never
    # receives a decimal point, which is a thousands separator in some languages.

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
