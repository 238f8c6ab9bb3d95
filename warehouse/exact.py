"""Exact decimals: sums, differences and texts of amounts of any length, never rounded.

The one place for them, imported by every room that adds up money.
"""

from collections.abc import Iterable
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow, Subnormal

# The API states amounts of up to 1000 digits with exponents within ±200: any sum of them fits.
# The traps make a lost digit an error; without them a context rounds in silence at its precision.
EXACT = Context(
    prec=1_000_000,
    Emax=999_999,
    Emin=-999_999,
    traps=[Inexact, Overflow, InvalidOperation, Subnormal],
)
_PLACES = Decimal("1e-18")
_FITTING = Context(prec=38, traps=[Inexact, InvalidOperation])


def exact(text: str) -> Decimal:
    """Return the exact value of a decimal text; raise `ArithmeticError` where it is none."""
    return EXACT.create_decimal(text)


def exact_sum(values: Iterable[Decimal]) -> Decimal:
    """Add up to the last digit."""
    # Not sum(): it rounds at the precision of the thread's own context, which is 28 digits.
    total = Decimal(0)
    for value in values:
        total = EXACT.add(total, value)
    return total


def total(texts: Iterable[str]) -> str:
    """Return the exact sum of decimal texts in plain digits."""
    return plain(exact_sum(map(exact, texts)))


def subtract(minuend: str, subtrahend: str) -> str:
    """Return the exact difference of two decimal texts in plain digits."""
    return plain(EXACT.subtract(exact(minuend), exact(subtrahend)))


def plain(value: Decimal) -> str:
    """Format in plain digits: no exponent, no trailing zeros after the point, zero as `0`."""
    if not value:  # also -0 and 0E+3, which would be written with their sign and zeros
        return "0"
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def fit_decimal(value: Decimal) -> Decimal | None:
    """Return the value as DECIMAL(38,18), or None where that type cannot hold it exactly."""
    try:
        return value.quantize(_PLACES, context=_FITTING)
    except (Inexact, InvalidOperation):
        return None
