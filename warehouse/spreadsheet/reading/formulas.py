"""A calculator for simple formulas, which finds values that a program has not recalculated.

If a program writes a workbook without calculating, its formulas keep old values or 0. So this
module recalculates simple sums from the stored inputs. It does so only to find stale values, and to
prove the values of a workbook that asks to be recalculated. No value is replaced.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

Location = tuple[int, int]  # the location of a cell: a row index and a column index

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<range>\$?[A-Z]{1,3}\$?[0-9]{1,7}(?::\$?[A-Z]{1,3}\$?[0-9]{1,7})?)(?![A-Za-z0-9_(!.])"
    r"|(?P<sum>SUM)\(|(?P<sign>[-+*/(),]))"
)

_REFERENCE = re.compile(r"(\$?)([A-Z]{1,3})(\$?)([0-9]{1,7})")

# Limit the number of cells to read in ranges, because a column of running totals reads the same
# cells many times.
_MAX_VISITS = 1_000_000

_MAX_DEPTH = 60  # maximum depth of nested formulas, which refer to other formulas

# Allow this difference between two sums, relative to the sum of absolute values, because the order
# of additions affects the result.
_ROUNDING = 1e-11


@dataclass(frozen=True, slots=True)
class FormulaCell:
    """A formula: its text, the cell that the text originally belongs to, and the stored value."""

    text: str
    origin: Location
    stored: str


class NotCalculableError(Exception):
    """This module cannot calculate the formula or one of its inputs."""


class CalculatedSheet:
    """The cells of one sheet: numbers, formulas and all `others`, such as texts and errors.

    `others` maps a text cell to True, because sums skip texts, and any other cell to False, because
    a sum with such a cell cannot be calculated.
    """

    def __init__(
        self,
        numbers: Mapping[Location, float],
        formulas: Mapping[Location, FormulaCell],
        others: Mapping[Location, bool],
    ) -> None:
        self._numbers = numbers
        self._formulas = formulas
        self._others = others
        self._values: dict[Location, tuple[float, float] | None] = {}
        self._visits = 0
        self._depth = 0

    def check(self) -> Iterator[tuple[Location, str]]:
        """Yield each formula that can be calculated, with a message if its stored value is stale.

        The message is empty if the stored value is right.
        """
        for location, cell in self._formulas.items():
            try:
                value, magnitude = self.value(location)
                stored = float(cell.stored)
            except (NotCalculableError, ArithmeticError, ValueError, RecursionError):
                continue
            if abs(value - stored) > _ROUNDING * max(magnitude, abs(stored)):
                message = f"{name_of(location)} is {stored:.15g}, but its formula says {value:.15g}"
                yield (
                    location,
                    f"{message}: open the file in the program that created it, and save it",
                )
            else:
                yield location, ""

    def value(self, location: Location) -> tuple[float, float]:
        """Return a cell's value and magnitude, which is the sum of its terms' absolute values."""
        if location in self._formulas:
            if location not in self._values:
                # The result stays None if the formula refers to itself or cannot be calculated.
                self._values[location] = None
                self._values[location] = self._calculate(location)
            value = self._values[location]
            if value is None:
                raise NotCalculableError
            return value
        if location in self._others:
            raise NotCalculableError
        number = self._numbers.get(location, 0.0)
        return number, abs(number)

    def _calculate(self, location: Location) -> tuple[float, float]:
        cell = self._formulas[location]
        shift = (location[0] - cell.origin[0], location[1] - cell.origin[1])
        if self._depth >= _MAX_DEPTH:
            raise NotCalculableError
        self._depth += 1
        try:
            expression = _Expression(self, cell.text, shift)
            value = expression.sum()
            if not expression.is_done:
                raise NotCalculableError
            return value
        finally:
            self._depth -= 1

    def total(self, first: Location, last: Location) -> tuple[float, float]:
        """Return a range's sum and the sum of its absolute values. Skip text cells."""
        self._visits += (last[0] - first[0] + 1) * (last[1] - first[1] + 1)
        if self._visits > _MAX_VISITS:
            raise NotCalculableError
        values = [
            self.value((row, column))
            for row in range(first[0], last[0] + 1)
            for column in range(first[1], last[1] + 1)
            if not self._others.get((row, column))
        ]
        return sum(value for value, _ in values), sum(magnitude for _, magnitude in values)


class _Expression:
    """An evaluator for formulas with numbers, cells, `SUM`, and the operators +, -, * and /."""

    def __init__(self, sheet: CalculatedSheet, text: str, shift: Location) -> None:
        self._sheet = sheet
        self._shift = shift
        self._tokens = list(_tokens(text))
        self._position = 0

    @property
    def is_done(self) -> bool:
        """Whether the whole formula was parsed."""
        return self._position == len(self._tokens)

    def _next(self, *signs: str) -> str:
        """Return the next token if it is in `signs`, otherwise an empty string."""
        if not self.is_done and self._tokens[self._position][1] in signs:
            self._position += 1
            return self._tokens[self._position - 1][1]
        return ""

    def sum(self) -> tuple[float, float]:
        """Calculate a sum of products, and the sum of its terms' absolute values."""
        value, magnitude = self._product()
        while sign := self._next("+", "-"):
            term, size = self._product()
            value, magnitude = value + term if sign == "+" else value - term, magnitude + size
        return value, magnitude

    def _product(self) -> tuple[float, float]:
        value, magnitude = self._operand()
        while sign := self._next("*", "/"):
            factor, size = self._operand()
            if sign == "*":
                value, magnitude = value * factor, magnitude * size
            else:
                value, magnitude = value / factor, magnitude * size / (factor * factor)
        return value, magnitude

    def _operand(self) -> tuple[float, float]:
        if sign := self._next("-", "+"):
            value, magnitude = self._operand()
            return -value if sign == "-" else value, magnitude
        if self._next("("):
            inner = self.sum()
            self._require(")")
            return inner
        if self.is_done:
            raise NotCalculableError
        kind, text = self._tokens[self._position]
        self._position += 1
        if kind == "number":
            return float(text), abs(float(text))
        if kind == "sum":
            return self._sum_of_ranges()
        if kind == "range" and ":" not in text:
            return self._sheet.value(_resolve(text, self._shift))
        raise NotCalculableError

    def _sum_of_ranges(self) -> tuple[float, float]:
        value = magnitude = 0.0
        while True:
            if not self.is_done and self._tokens[self._position][0] == "range":
                first, _, last = self._tokens[self._position][1].partition(":")
                self._position += 1
                corners = (_resolve(first, self._shift), _resolve(last or first, self._shift))
                term, size = self._sheet.total(*corners)
            else:
                term, size = self.sum()
            value, magnitude = value + term, magnitude + size
            if not self._next(","):
                self._require(")")
                return value, magnitude

    def _require(self, sign: str) -> None:
        if not self._next(sign):
            raise NotCalculableError


def column_of(letters: bytes) -> int:
    """Convert a column's letters to its index."""
    column = 0
    for letter in letters:
        column = column * 26 + letter - ord("A") + 1
    return column - 1


def letters_of(column: int) -> str:
    """Convert a column's index to its letters."""
    above, last = divmod(column, 26)
    return (letters_of(above - 1) if above else "") + chr(ord("A") + last)


def name_of(location: Location) -> str:
    """Return a cell's name, for example `D12`."""
    return f"{letters_of(location[1])}{location[0] + 1}"


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    offset = 0
    text = text.strip()
    while offset < len(text):
        match = _TOKEN.match(text, offset)
        if match is None:
            raise NotCalculableError
        kind = match.lastgroup or ""
        yield kind, match[kind]
        offset = match.end()


def _resolve(reference: str, shift: Location) -> Location:
    """Resolve a reference to a cell. In a copied formula, the parts without `$` are shifted."""
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise NotCalculableError
    row = int(match[4]) - 1 + (0 if match[3] else shift[0])
    return row, column_of(match[2].encode()) + (0 if match[1] else shift[1])
