"""Chance that can be repeated: every draw is a hash of the words it is drawn for.

So one thing in the world does not depend on how many others were made before it, and the same
seed and date give the same world on every machine and Python version.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from hashlib import blake2b
from typing import TypeVar
from uuid import UUID

T = TypeVar("T")


def draw(*words: object) -> int:
    """Return a whole number from 0 to 2**64 - 1, always the same for the same words."""
    return int.from_bytes(_hash(words, 8))


def pick(options: Sequence[T], *words: object) -> T:
    """Return one of the options, always the same for the same words."""
    return options[draw(*words) % len(options)]


def identity(*words: object) -> str:
    """Return a version 4 uuid, always the same for the same words."""
    return str(UUID(bytes=_hash(words, 16), version=4))


def amount(units: int, decimals: int, *, padded: bool = False) -> str:
    """So many smallest units of an asset, as decimal text; exact, for text is all it handles.

    Padded keeps the zeros at the end: `1.500000` where it would otherwise be `1.5`.
    """
    sign, digits = ("-" if units < 0 else ""), str(abs(units)).rjust(decimals + 1, "0")
    whole, fraction = digits[: len(digits) - decimals], digits[len(digits) - decimals :]
    fraction = fraction if padded else fraction.rstrip("0")
    return f"{sign}{whole}.{fraction}" if fraction else sign + whole


def instant(day: date, *words: object) -> str:
    """Draw an instant of the six hours before a day in UTC, in one of three legal forms (2).

    Before it begins: what a world says of a day has happened when that day is served.
    """
    second = draw("instant", *words) % (6 * 3600)
    hours, rest = divmod(18 * 3600 + second, 3600)
    minutes, seconds = divmod(rest, 60)
    eve = (day - timedelta(days=1)).isoformat()
    form = draw("form", *words) % 16
    if form == 0:
        return f"{eve}T{hours:02}:{minutes:02}:{seconds:02}Z"
    if form == 1:
        micros = draw("micros", *words) % 1_000_000
        return f"{eve}T{hours - 5:02}:{minutes:02}:{seconds:02}.{micros:06}-05:00"
    return f"{eve}T{hours:02}:{minutes:02}:{seconds:02}.{second % 1000:03}Z"


def _hash(words: tuple[object, ...], size: int) -> bytes:
    # A separator that stands in no word keeps ("ab", "c") and ("a", "bc") apart.
    return blake2b("\x1f".join(map(str, words)).encode(), digest_size=size).digest()
