"""Exact decimals: sums, differences and strings for amounts of any length, never rounded.

All packages that add up money import this module.
"""

from collections.abc import Iterable
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow, Subnormal

# The API sends amounts of up to 1000 digits with exponents within ±200, so all their sums fit. The
# traps raise an error if a digit would be lost. Without the traps, a decimal context rounds
# silently.
EXACT = Context(
    prec=1_000_000,
    Emax=999_999,
    Emin=-999_999,
    traps=[Inexact, Overflow, InvalidOperation, Subnormal],
)
_SMALLEST_UNIT = Decimal("1e-18")
_DECIMAL_38 = Context(prec=38, traps=[Inexact, InvalidOperation])


def exact(text: str) -> Decimal:
    """Parse a decimal string exactly. Raises `ArithmeticError` if it is not a decimal number."""
    return EXACT.create_decimal(text)


def exact_sum(values: Iterable[Decimal]) -> Decimal:
    """Add up values exactly."""
    # Do not use `sum`, because it would round to 28 digits, the precision of the thread's decimal
    # context.
    total = Decimal(0)
    for value in values:
        total = EXACT.add(total, value)
    return total


def total(texts: Iterable[str]) -> str:
    """Return the exact sum of decimal strings in plain digits."""
    return plain(exact_sum(map(exact, texts)))


def subtract(minuend: str, subtrahend: str) -> str:
    """Return the exact difference of two decimal strings in plain digits."""
    return plain(EXACT.subtract(exact(minuend), exact(subtrahend)))


def plain(value: Decimal) -> str:
    """Format a number in plain digits: no exponent, no trailing decimal zeros, and zero as `0`."""
    # Check for zero first, because -0 and 0E+3 would be formatted with the sign and all zeros.
    if not value:
        return "0"
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def fit_decimal(value: Decimal) -> Decimal | None:
    """Return the value as DECIMAL(38,18), or None if that type cannot hold it exactly."""
    try:
        return value.quantize(_SMALLEST_UNIT, context=_DECIMAL_38)
    except (Inexact, InvalidOperation):
        return None
