"""Formulas whose stored value is older than what they are made of.

A program that writes a workbook without calculating leaves the value of last time, or 0. Sums of
cells are calculated here from the stored inputs, only to prove that: no value is replaced.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

Place = tuple[int, int]  # row and column from 0
_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<range>\$?[A-Z]{1,3}\$?[0-9]{1,7}(?::\$?[A-Z]{1,3}\$?[0-9]{1,7})?)(?![A-Za-z0-9_(!.])"
    r"|(?P<sum>SUM)\(|(?P<sign>[-+*/(),]))"
)
_REFERENCE = re.compile(r"(\$?)([A-Z]{1,3})(\$?)([0-9]{1,7})")
_MOST_VISITS = 1_000_000  # cells of ranges: a running total over many rows adds them up again
_DEEPEST = 60  # formulas that lean on formulas
_NOISE = 1e-11  # of the magnitudes that are added up: what another order of adding may change


@dataclass(frozen=True, slots=True)
class FormulaCell:
    """One formula: its text, from the place of which it is copied, and the value stored with it."""

    text: str
    origin: Place
    stored: str


class NotCalculated(Exception):
    """A formula is of another kind than what is calculated here, or its inputs are."""


class CalculatedSheet:
    """The cells of one sheet; `numbers` are the stored values of those without a formula.

    `others` are cells that hold something else: a sum passes texts over, and all else stops.
    """

    def __init__(
        self,
        numbers: Mapping[Place, float],
        formulas: Mapping[Place, FormulaCell],
        others: Mapping[Place, bool],
    ) -> None:
        self._numbers = numbers
        self._formulas = formulas
        self._others = others
        self._values: dict[Place, tuple[float, float] | None] = {}
        self._visits = 0
        self._depth = 0

    def stale(self) -> Iterator[tuple[Place, str]]:
        """Yield every cell whose stored value is proven to be another one than its formula's."""
        for place, cell in self._formulas.items():
            try:
                value, magnitude = self.value(place)
                stored = float(cell.stored)
            except (NotCalculated, ArithmeticError, ValueError, RecursionError):
                continue
            if abs(value - stored) > _NOISE * max(magnitude, abs(stored)):
                words = f"{name_of(place)} says {stored:.15g}, its formula gives {value:.15g}"
                yield place, f"{words}: open it in its program and save it"

    def value(self, place: Place) -> tuple[float, float]:
        """Return the value of a cell, and the magnitude of what it was added up from."""
        if place in self._formulas:
            if place not in self._values:
                self._values[place] = None  # of one that names itself, or cannot be calculated
                self._values[place] = self._calculate(place)
            value = self._values[place]
            if value is None:
                raise NotCalculated
            return value
        if place in self._others:
            raise NotCalculated
        number = self._numbers.get(place, 0.0)
        return number, abs(number)

    def _calculate(self, place: Place) -> tuple[float, float]:
        cell = self._formulas[place]
        shift = (place[0] - cell.origin[0], place[1] - cell.origin[1])
        if self._depth >= _DEEPEST:
            raise NotCalculated
        self._depth += 1
        try:
            expression = _Expression(self, cell.text, shift)
            value = expression.sum()
            if not expression.is_done:
                raise NotCalculated
            return value
        finally:
            self._depth -= 1

    def total(self, first: Place, last: Place) -> tuple[float, float]:
        """Return the sum of a range: texts in it are passed over, as programs do."""
        self._visits += (last[0] - first[0] + 1) * (last[1] - first[1] + 1)
        if self._visits > _MOST_VISITS:
            raise NotCalculated
        values = [
            self.value((row, column))
            for row in range(first[0], last[0] + 1)
            for column in range(first[1], last[1] + 1)
            if not self._others.get((row, column))
        ]
        return sum(value for value, _ in values), sum(magnitude for _, magnitude in values)


class _Expression:
    """A formula while it is read: sums of products of numbers, cells and `SUM`."""

    def __init__(self, sheet: CalculatedSheet, text: str, shift: Place) -> None:
        self._sheet = sheet
        self._shift = shift
        self._tokens = list(_tokens(text))
        self._at = 0

    @property
    def is_done(self) -> bool:
        """Whether all of it was read."""
        return self._at == len(self._tokens)

    def _next(self, *signs: str) -> str:
        """Take the next token if it is one of these signs."""
        if not self.is_done and self._tokens[self._at][1] in signs:
            self._at += 1
            return self._tokens[self._at - 1][1]
        return ""

    def sum(self) -> tuple[float, float]:
        """Read terms that are added up."""
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
            raise NotCalculated
        kind, text = self._tokens[self._at]
        self._at += 1
        if kind == "number":
            return float(text), abs(float(text))
        if kind == "sum":
            return self._sum_of_ranges()
        if kind == "range" and ":" not in text:
            return self._sheet.value(_place(text, self._shift))
        raise NotCalculated

    def _sum_of_ranges(self) -> tuple[float, float]:
        value = magnitude = 0.0
        while True:
            if not self.is_done and self._tokens[self._at][0] == "range":
                first, _, last = self._tokens[self._at][1].partition(":")
                self._at += 1
                corners = (_place(first, self._shift), _place(last or first, self._shift))
                term, size = self._sheet.total(*corners)
            else:
                term, size = self.sum()
            value, magnitude = value + term, magnitude + size
            if not self._next(","):
                self._require(")")
                return value, magnitude

    def _require(self, sign: str) -> None:
        if not self._next(sign):
            raise NotCalculated


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    place = 0
    text = text.strip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise NotCalculated
        kind = match.lastgroup or ""
        yield kind, match[kind]
        place = match.end()


def _place(reference: str, shift: Place) -> Place:
    """Return the place that a reference means; parts without `$` move with a copied formula."""
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise NotCalculated
    row = int(match[4]) - 1 + (0 if match[3] else shift[0])
    return row, column_of(match[2].encode()) + (0 if match[1] else shift[1])


def column_of(letters: bytes) -> int:
    """Return the number of a column, from 0, by its letters."""
    column = 0
    for letter in letters:
        column = column * 26 + letter - ord("A") + 1
    return column - 1


def letters_of(column: int) -> str:
    """Return the letters of a column, which counts from 0."""
    above, last = divmod(column, 26)
    return (letters_of(above - 1) if above else "") + chr(ord("A") + last)


def name_of(place: Place) -> str:
    """Return a place as programs name it: `D12`."""
    return f"{letters_of(place[1])}{place[0] + 1}"
