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


def draw(*seed: object) -> int:
    """Return a whole number from 0 to 2**64 - 1, always the same for the same words."""
    return int.from_bytes(_hash(seed, 8))


def pick(options: Sequence[T], *seed: object) -> T:
    """Return one of the options, always the same for the same words."""
    return options[draw(*seed) % len(options)]


def identity(*seed: object) -> str:
    """Return a version 4 uuid, always the same for the same words."""
    return str(UUID(bytes=_hash(seed, 16), version=4))


def amount(units: int, decimals: int, *, padded: bool = False) -> str:
    """So many smallest units of an asset, as decimal text; exact, for text is all it handles.

    Padded keeps the zeros at the end: `1.500000` where it would otherwise be `1.5`.
    """
    sign, digits = ("-" if units < 0 else ""), str(abs(units)).rjust(decimals + 1, "0")
    whole, fraction = digits[: len(digits) - decimals], digits[len(digits) - decimals :]
    fraction = fraction if padded else fraction.rstrip("0")
    return f"{sign}{whole}.{fraction}" if fraction else sign + whole


def instant(day: date, *seed: object) -> str:
    """Draw an instant of the six hours before a day in UTC, in one of three legal forms (2)."""
    # Before it begins: what a world says of a day has happened when that day is served.
    second = draw("instant", *seed) % (6 * 3600)
    hours, seconds_left = divmod(18 * 3600 + second, 3600)
    minutes, seconds = divmod(seconds_left, 60)
    eve = (day - timedelta(days=1)).isoformat()
    form = draw("form", *seed) % 16
    if form == 0:
        return f"{eve}T{hours:02}:{minutes:02}:{seconds:02}Z"
    if form == 1:
        micros = draw("micros", *seed) % 1_000_000
        return f"{eve}T{hours - 5:02}:{minutes:02}:{seconds:02}.{micros:06}-05:00"
    return f"{eve}T{hours:02}:{minutes:02}:{seconds:02}.{second % 1000:03}Z"


def _hash(seed: tuple[object, ...], size: int) -> bytes:
    # A separator that stands in no word keeps ("ab", "c") and ("a", "bc") apart.
    return blake2b("\x1f".join(map(str, seed)).encode(), digest_size=size).digest()
