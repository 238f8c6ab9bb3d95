"""The amount of a data frame: a `Decimal` that is added up exactly, or not at all.

Measured with pandas 3.1 and pyarrow 26, on twice 99999999999999999999.9, 1e-18, 5e19, a negative, a
missing one, 1e40 and 1e-30: `Decimal` objects lose what is beyond 28 digits in every sum; Arrow's
decimal128 wraps in `sum`, `mean` and `pivot_table`, to -9e19; decimal256 holds no 1e-30 and makes
floats of `rolling` and `median`. A subclass of `Decimal` is exact wherever pandas adds, and refuses
where pandas would make a float of it.
"""

import re
from collections.abc import Callable
from decimal import Context, Decimal, DivisionByZero, Inexact, InvalidOperation
from typing import Any, NoReturn, SupportsIndex

import numpy as np

from warehouse.exact import EXACT, plain

# What internal.plain_digits takes for an amount.
AMOUNT_PATTERN = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?0*([01]?[0-9]?[0-9]|200))?"


class NotExact(ArithmeticError):
    """A figure would have been rounded, or would leave out what it cannot hold; there is none."""


_EXACT_KINDS = (int, Decimal)


def _exactly(operation: Callable[[Any, Any], Decimal], left: Any, right: Any) -> Any:
    """Return the exact result; refuse a float, and let another kind of number answer."""
    if isinstance(left, _EXACT_KINDS) and isinstance(right, _EXACT_KINDS):
        return ExactAmount(operation(left, right))
    _refuse_float(left, right)
    return NotImplemented


def _refuse_float(*operands: Any) -> None:
    for operand in operands:
        if isinstance(operand, float | np.floating):
            raise NotExact(
                f"{operand} is a float, and an amount is not calculated with floats; nothing was. "
                f"Write Decimal('{operand}') or a whole number. A quantile is exact with "
                "interpolation='lower'. For charts, make floats of the amounts: `from warehouse "
                "import floats`, then floats(frame['total'])."
            )


def _operators(operation: Callable[[Any, Any], Decimal]) -> tuple[Callable[[Any, Any], Any], ...]:
    """Return the two methods of an operator: with the amount on its left, and on its right."""
    return (
        lambda amount, other: _exactly(operation, amount, other),
        lambda amount, other: _exactly(operation, other, amount),
    )


_WHOLE = EXACT.copy()
_WHOLE.traps[DivisionByZero] = True


class ExactAmount(Decimal):
    """A decimal whose sums, differences, products and remainders keep every digit.

    A quotient is exact where it ends within 400 digits, or else has 28 digits: see `Quotient`.
    Making a float raises `NotExact`: that is how pandas takes a mean, a median or a rolling sum.
    `warehouse.floats` makes floats on purpose.
    """

    __slots__ = ()

    __add__, __radd__ = _operators(EXACT.add)
    __sub__, __rsub__ = _operators(EXACT.subtract)
    __mul__, __rmul__ = _operators(EXACT.multiply)
    __mod__, __rmod__ = _operators(_WHOLE.remainder)
    __floordiv__, __rfloordiv__ = _operators(_WHOLE.divide_int)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self

    def __pow__(self, exponent: Any, modulo: Any = None) -> Any:
        if modulo is None and isinstance(exponent, int) and exponent >= 0:
            return ExactAmount(EXACT.power(self, exponent))
        raise NotExact(
            f"{plain(self)[:60]} to the power of {exponent!r} would be rounded; nothing was. Whole "
            "powers from 0 on are exact. For charts, say so: `from warehouse import floats`."
        )

    def __truediv__(self, other: Any) -> Any:
        return _quotient(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _quotient(other, self)

    def __neg__(self) -> "ExactAmount":
        return ExactAmount(self.copy_negate())

    def __pos__(self) -> "ExactAmount":
        return self

    def __abs__(self) -> "ExactAmount":
        return ExactAmount(self.copy_abs())

    def __str__(self) -> str:
        return plain(self)

    def __repr__(self) -> str:
        return plain(self)

    def __reduce__(self) -> tuple[type["ExactAmount"], tuple[str]]:
        return type(self), (str(self),)

    def __float__(self) -> NoReturn:
        raise NotExact(
            f"{plain(self)[:60]} would become a float of 15 digits; nothing was rounded. A mean is "
            "sum() / count(). For charts, say so: `from warehouse import floats`, then "
            "floats(frame['total'])."
        )

    # Not Decimal's own, which makes the float without asking.
    __complex__ = __float__

    def __round__(self, places: SupportsIndex | None = None) -> Any:
        """Round on purpose, half to even, whatever its size; an `int` without `places`."""
        digits = -(places or 0).__index__() if places is not None else 0
        rounded = self.quantize(Decimal(1).scaleb(digits), context=_ROUNDING)
        return int(rounded) if places is None else ExactAmount(rounded)


class AmountText(str):
    """The text of an amount: text in every respect, but adding it up raises `NotExact`.

    Python would write such texts one after the other, and the result looks like an amount.
    """

    __slots__ = ()

    def __add__(self, other: Any) -> str:
        if isinstance(other, str) and not is_amount(other):
            return str(self) + other
        raise self._refusal()

    def __radd__(self, other: Any) -> str:
        if isinstance(other, str) and not is_amount(other):
            return other + str(self)
        raise self._refusal()

    def __mul__(self, other: Any) -> NoReturn:
        raise self._refusal()

    __rmul__ = __mul__

    def _refusal(self) -> NotExact:
        return NotExact(
            f"'{self[:60]}' is the text of an amount, and texts cannot be added up; nothing was. "
            "Take the number beside it (total for total_text), or make exact amounts of a column "
            "of texts: `from warehouse import amounts`, then amounts(frame['total_text'])."
        )


_AMOUNT = re.compile(AMOUNT_PATTERN)


def is_amount(text: str) -> bool:
    """Return whether a text is an amount, as the API sends it or as a sum returns it."""
    return _AMOUNT.fullmatch(text) is not None


_ENDING = Context(prec=400, traps=[Inexact, DivisionByZero, InvalidOperation])
_SHARE = Context(prec=28, traps=[DivisionByZero, InvalidOperation])
_ROUNDING = EXACT.copy()
_ROUNDING.clear_traps()


class Quotient(ExactAmount):
    """A quotient of amounts: it is added up exactly as it is, and may become a float.

    A plain `Decimal` would be rounded to 28 digits in the next sum.
    """

    __slots__ = ()

    def __float__(self) -> float:  # type: ignore[override]  # an amount refuses
        return float(str(self))

    def __complex__(self) -> complex:  # type: ignore[override]
        return complex(float(self))


def _quotient(left: Any, right: Any) -> Any:
    if not (isinstance(left, _EXACT_KINDS) and isinstance(right, _EXACT_KINDS)):
        _refuse_float(left, right)
        return NotImplemented
    try:
        return Quotient(_ENDING.divide(Decimal(left), Decimal(right)))
    except Inexact:
        return Quotient(_SHARE.divide(Decimal(left), Decimal(right)))
