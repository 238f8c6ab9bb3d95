"""What a ledger is once it is read: every row used, skipped or rejected, and where it stands."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import overload

from warehouse.reconcile.amounts import Amount
from warehouse.reconcile.config import FIELDS

Remembered = dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class Line:
    """One used row: its names as written by field, its amount, and where it stands."""

    names: tuple[str, ...]
    amount: Amount
    file: int
    line: int


class Lines(Sequence[Line]):
    """Used rows, column by column: a million of them as objects would take a gigabyte."""

    __slots__ = ("amounts", "decimals", "files", "names", "numbers", "places", "units")

    def __init__(self) -> None:
        self.names: tuple[list[str], ...] = tuple([] for _ in FIELDS)
        self.amounts: list[str] = []
        self.decimals: list[int] = []
        self.numbers: list[bool] = []
        self.units: list[str] = []
        self.files: list[int] = []
        self.places: list[int] = []

    def add(self, names: tuple[str, ...], amount: Amount, file: int, line: int) -> None:
        """Take in one row."""
        for column, name in zip(self.names, names, strict=True):
            column.append(sys.intern(name))
        self.amounts.append(amount.text)
        self.decimals.append(amount.decimals)
        self.numbers.append(amount.is_number)
        self.units.append(amount.unit)
        self.files.append(file)
        self.places.append(line)

    def __len__(self) -> int:
        return len(self.amounts)

    @overload
    def __getitem__(self, place: int) -> Line: ...
    @overload
    def __getitem__(self, place: slice) -> list[Line]: ...
    def __getitem__(self, place: int | slice) -> Line | list[Line]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        amount = Amount(
            self.amounts[place], self.decimals[place], self.units[place], self.numbers[place]
        )
        names = tuple(column[place] for column in self.names)
        return Line(names, amount, self.files[place], self.places[place])


@dataclass(frozen=True, slots=True)
class Rejected:
    """One row that could not be read: where, what stood there, why; `names` as far as they go."""

    names: tuple[str, ...]
    raw: str
    reason: str
    file: int
    line: int


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a reader must know; severity is high, medium or low."""

    severity: str
    words: str
    where: str = ""
    raw: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """One file or sheet that was read, and its count: `rows` = used + skipped + rejected."""

    name: str
    sheet: str
    sha256: str
    as_of: date | None
    rows: int
    used: int
    skipped: Mapping[str, int]
    rejected: int
    print: str

    def place(self, line: int) -> str:
        """`ledger.xlsx!Sheet1:12`."""
        return f"{self.name}!{self.sheet}:{line}" if self.sheet else f"{self.name}:{line}"

    @property
    def is_complete(self) -> bool:
        """Whether every row is accounted for."""
        return self.rows == self.used + sum(self.skipped.values()) + self.rejected


@dataclass(frozen=True, slots=True)
class Ledger:
    """All ledgers of one run, stacked: `fields` are those that every one of them has."""

    fields: tuple[str, ...]
    lines: Lines
    rejected: Sequence[Rejected]
    sources: tuple[Source, ...]
    notices: tuple[Notice, ...]
    remembered: Remembered

    def place(self, line: Line | Rejected) -> str:
        """Where a row stands."""
        return self.sources[line.file].place(line.line)


def stacked_twice(ledger: Ledger) -> Iterator[str]:
    """Keys that two files hold, as their first rows say."""
    seen: dict[tuple[str, ...], Line] = {}
    for line in ledger.lines:
        first = seen.setdefault(line.names, line)
        if first.file != line.file:
            yield f"{ledger.place(first)} and {ledger.place(line)}"
