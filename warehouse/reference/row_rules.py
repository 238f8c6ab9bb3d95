"""The rules for the rows of a reference table with a contract, such as prices."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from warehouse.contract.model import Table
from warehouse.exact import exact, plain
from warehouse.reference.child import UnusedLine

_AMOUNT = re.compile(r"[+-]?([0-9]{1,300}(\.[0-9]{0,300})?|\.[0-9]{1,300})([eE][+-]?[0-9]{1,3})?")
_FLAGS = {"": False, "false": False, "no": False, "0": False, "true": True, "yes": True, "1": True}
_MAX_EXPONENT = 200
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_FIRST_YEAR = 1970
Cells = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRules:
    """The columns of a file for a table, the key of a row, and the function that reads a row.

    Two rows of a file with the same `key`, if there is one, must not differ in the columns
    `values`. `read_row` raises `ValueError` with a code, a reason and the invalid value.
    """

    table: Table
    needed: tuple[str, ...]
    optional: tuple[str, ...]
    read_row: Callable[[Cells], dict[str, Any]]
    key: tuple[str, ...] = ()
    values: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All columns that a file may have."""
        return (*self.needed, *self.optional)

    def rows(self, lines: Iterable[tuple[int, Cells]]) -> Iterator[dict[str, Any] | UnusedLine]:
        """Yield a row or a reject for each line of a file.

        If a file has different rows for the same key, all of them are rejected, because nobody
        knows which of them is right.
        """
        found = [self._read(line, cells) for line, cells in lines]
        if not self.key:
            yield from found
            return
        stated: dict[tuple[Any, ...], set[tuple[Any, ...]]] = {}
        for row in found:
            if not isinstance(row, UnusedLine):
                stated.setdefault(_pick(row, self.key), set()).add(_pick(row, self.values))
        for row in found:
            if not isinstance(row, UnusedLine) and len(stated[_pick(row, self.key)]) > 1:
                name = self.table.name
                reason = f"the file states several {name} for this {', '.join(self.key)}"
                value = row[self.values[0]] or ""
                row = UnusedLine(f"several_{name}", reason, value, row["line"])  # noqa: PLW2901 - the reject replaces the row
            yield row

    def _read(self, line: int, cells: Cells) -> dict[str, Any] | UnusedLine:
        for name in self.needed:
            if not cells.get(name):
                return UnusedLine(f"no_{name}", f"{name} is empty", "", line)
        try:
            return self.read_row(cells) | {"line": line}
        except ValueError as error:
            code, reason, value = error.args
            return UnusedLine(code, reason, value, line)


def read_flag(cells: Cells, name: str) -> bool:
    """Return a flag. An empty cell is false."""
    text = cells.get(name, "")
    if (flag := _FLAGS.get(text.lower())) is None:
        raise ValueError("not_a_flag", f"{name} is not true, false or empty", text)
    return flag


def read_choice(cells: Cells, name: str, choices: tuple[str, ...], shown: str) -> str:
    """Return a cell that must be one of some words, which `shown` lists for people."""
    text = cells.get(name, "")
    if text not in choices:
        raise ValueError(f"not_a_{name}", f"{name} is not {shown}", text)
    return text


def read_amount(cells: Cells, name: str) -> str:
    """Return an amount in plain digits."""
    text = cells[name]
    match = _AMOUNT.fullmatch(text)
    exponent = match and match[3]
    if match is None or (exponent and abs(int(exponent[1:])) > _MAX_EXPONENT):
        reason = f"{name} is not a number such as 1234.56, without separators or units"
        raise ValueError("not_an_amount", reason, text)
    return plain(exact(text))


def read_moment(cells: Cells, name: str) -> tuple[date | None, datetime | None]:
    """Return a date, or a time in UTC. The other one is None."""
    text = cells[name]
    advice = "write a date as 2026-11-20, or a time with its zone as 2026-11-20T02:15:00Z"
    try:
        if _DATE.fullmatch(text):
            day, time = date.fromisoformat(text), None
        else:
            day, time = None, datetime.fromisoformat(text)
        utc = time.astimezone(UTC) if time and time.tzinfo else None
    except (ValueError, OverflowError):
        raise ValueError("not_a_time", f"{name} is not a time: {advice}", text) from None
    if time and not utc:
        raise ValueError("no_time_zone", f"{name} has no time zone: {advice}", text)
    if (day or utc or date.min).year < _FIRST_YEAR:
        raise ValueError("not_a_time", f"{name} is before {_FIRST_YEAR}: {advice}", text)
    return day, utc


def _pick(row: Mapping[str, Any], names: Iterable[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)
