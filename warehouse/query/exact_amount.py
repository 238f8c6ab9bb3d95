"""The amount type for data frames: a `Decimal` that adds exactly or raises an error.

We measured the alternatives with pandas 3.1 and pyarrow 26, on amounts from 1e-30 to 1e40. Sums of
plain `Decimal` objects lose all digits after the 28th. Arrow's decimal128 overflows in `sum`,
`mean` and `pivot_table`, for example to -9e19. Its decimal256 cannot hold 1e-30, and `rolling` and
`median` return floats. A subclass of `Decimal` stays exact when pandas adds it, and raises an error
when pandas converts it to a float.
"""

import operator
import re
from collections.abc import Callable
from decimal import Context, Decimal, DivisionByZero, Inexact, InvalidOperation
from typing import Any, NoReturn, SupportsIndex

import numpy as np

from warehouse.exact import EXACT, exact, plain

# Keep this pattern identical to the pattern in the macro internal.plain_digits.
AMOUNT_PATTERN = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?0*([01]?[0-9]?[0-9]|200))?"

_EXACT_KINDS = (int, Decimal)

_INTEGER_DIVISION = EXACT.copy()
_INTEGER_DIVISION.traps[DivisionByZero] = True

_AMOUNT = re.compile(AMOUNT_PATTERN)

_EXACT_QUOTIENT = Context(prec=400, traps=[Inexact, DivisionByZero, InvalidOperation])
_ROUNDED_QUOTIENT = Context(prec=28, traps=[DivisionByZero, InvalidOperation])
_ROUNDING = EXACT.copy()
_ROUNDING.clear_traps()


class NotExact(ArithmeticError):
    """A result was refused, because it would be rounded or would omit amounts."""


def _operators(operation: Callable[[Any, Any], Decimal]) -> tuple[Callable[[Any, Any], Any], ...]:
    """Return two methods for an operator: one with the amount on the left, one on the right."""
    return (
        lambda amount, other: _exactly(operation, amount, other),
        lambda amount, other: _exactly(operation, other, amount),
    )


class ExactAmount(Decimal):
    """A decimal whose sums, differences, products and remainders keep all digits.

    A quotient is exact if it has at most 400 digits, and is otherwise rounded to 28 digits (see
    `Quotient`). A conversion to float raises `NotExact`. pandas converts to float for means,
    medians and rolling sums. `warehouse.floats` converts to floats on purpose.
    """

    __slots__ = ()

    __add__, __radd__ = _operators(EXACT.add)
    __sub__, __rsub__ = _operators(EXACT.subtract)
    __mul__, __rmul__ = _operators(EXACT.multiply)
    __mod__, __rmod__ = _operators(_INTEGER_DIVISION.remainder)
    __floordiv__, __rfloordiv__ = _operators(_INTEGER_DIVISION.divide_int)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self

    def __pow__(self, exponent: Any, modulo: Any = None) -> Any:
        if modulo is None and isinstance(exponent, int) and exponent >= 0:
            return ExactAmount(EXACT.power(self, exponent))
        raise NotExact(
            f"{plain(self)[:60]} to the power of {exponent!r} would be rounded; nothing was "
            "calculated. Powers are exact if the exponent is 0, 1, 2 and so on. For charts, "
            "convert the amounts: `from "
            "warehouse import floats`."
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
            f"{plain(self)[:60]} would become a 15-digit float; nothing was rounded. To "
            "calculate a mean, use sum() / count(). For charts, convert the amounts: `from "
            "warehouse import floats`, then floats(frame['total'])."
        )

    # Override this method too, because Decimal's method would silently convert the amount to a
    # float.
    __complex__ = __float__

    def __round__(self, places: SupportsIndex | None = None) -> Any:
        """Round an amount of any size, half to even. Return an `int` if `places` is None."""
        digits = -(places or 0).__index__() if places is not None else 0
        rounded = self.quantize(Decimal(1).scaleb(digits), context=_ROUNDING)
        return int(rounded) if places is None else ExactAmount(rounded)


def _order(compare: Callable[[Any, Any], bool]) -> Callable[[str, Any], Any]:
    """Return a method that compares an amount's text with another one by their amounts."""

    def method(text: str, other: Any) -> Any:
        is_comparable = isinstance(other, str) and is_amount(other)
        if is_comparable or isinstance(other, _EXACT_KINDS):
            return compare(exact(str(text)), exact(str(other)))
        return compare(str(text), other) if isinstance(other, str) else NotImplemented

    return method


class AmountText(str):
    """An amount as a string, which raises `NotExact` if it is added to another amount.

    Python would concatenate the strings, and the result would look like an amount. Amounts are
    sorted by their value, because Python would sort '9' after '10'.
    """

    __slots__ = ()

    __lt__, __le__, __gt__, __ge__ = map(
        _order, (operator.lt, operator.le, operator.gt, operator.ge)
    )

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
            f"'{self[:60]}' is an amount string, and strings cannot be added; nothing was "
            "calculated. Use the number next to it (total for total_text), or convert the column "
            "to exact amounts: `from warehouse import amounts`, then amounts(frame['total_text'])."
        )


class Quotient(ExactAmount):
    """A quotient of amounts, which adds exactly and can be converted to a float.

    If the quotient were a plain `Decimal`, the next sum would round it to 28 digits.
    """

    __slots__ = ()

    def __float__(self) -> float:  # type: ignore[override]  # an amount refuses
        return float(str(self))

    def __complex__(self) -> complex:  # type: ignore[override]
        return complex(float(self))


def is_amount(text: str) -> bool:
    """Return whether a string is an amount, in the format of the API or of a calculated sum."""
    return _AMOUNT.fullmatch(text) is not None


def _exactly(operation: Callable[[Any, Any], Decimal], left: Any, right: Any) -> Any:
    """Calculate exactly, or return NotImplemented for other types. Raises `NotExact` for floats."""
    if isinstance(left, _EXACT_KINDS) and isinstance(right, _EXACT_KINDS):
        return ExactAmount(operation(left, right))
    _refuse_float(left, right)
    return NotImplemented


def _refuse_float(*operands: Any) -> None:
    for operand in operands:
        if isinstance(operand, float | np.floating):
            raise NotExact(
                f"{operand} is a float, and amounts cannot be combined with floats; nothing was "
                f"calculated. Write Decimal('{operand}') or a whole number. A quantile is exact "
                "with interpolation='lower'. For charts, convert the amounts to floats: `from "
                "warehouse import floats`, then floats(frame['total'])."
            )


def _quotient(left: Any, right: Any) -> Any:
    if not (isinstance(left, _EXACT_KINDS) and isinstance(right, _EXACT_KINDS)):
        _refuse_float(left, right)
        return NotImplemented
    try:
        return Quotient(_EXACT_QUOTIENT.divide(Decimal(left), Decimal(right)))
    except Inexact:
        return Quotient(_ROUNDED_QUOTIENT.divide(Decimal(left), Decimal(right)))
