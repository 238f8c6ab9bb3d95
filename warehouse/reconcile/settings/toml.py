"""One table of recon.toml, read with all of its errors collected in one list."""

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from warehouse.exact import exact

_LARGEST = 200  # powers of ten, as of the amounts of a ledger

_BARE = re.compile("[a-z_]+")

_KEY = re.compile(r"\s*([A-Za-z_-]+)\s*=")

_ANSWERED = ("ledger.", "file.", "settings")  # tables that questions write into

_HEADING = re.compile(r"""\s*\[((?:[^\[\]"']|"(?:[^"\\]|\\.)*"|'[^']*')+)\]\s*(?:#.*)?""")


def setting(name: str, value: str) -> str:
    """Return a line of recon.toml that says so, whatever letters are in it."""
    return f"{name if _BARE.fullmatch(name) else quote(name)} = {quote(value)}"


def quote(text: str) -> str:
    """Return a text as TOML writes it."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")  # as TOML wants it


def quote_list(texts: Iterable[str]) -> str:
    """Return strings as a list in TOML."""
    return f"[{', '.join(map(quote, texts))}]"


def heading(kind: str, name: str) -> str:
    """Return the heading of a table of recon.toml, like `[ledger."1a2b3c4d"]`."""
    return f"[{kind}.{quote(name)}]"


def join_tables(text: str) -> str:
    """Return the text with the lines of a table that is opened twice below its first heading."""
    # Each question names the table of its answer, so that two answers, pasted one after the other,
    # open one table twice, which TOML refuses. Of two answers to one question the later one counts.
    tables: dict[str, list[str]] = {"": []}
    name = ""
    for line in text.split("\n"):  # not splitlines(), for which U+2028 in a name ends a line
        opened = _HEADING.fullmatch(line)
        name = opened[1].strip() if opened else name
        lines = tables.setdefault(name, [])
        key = _KEY.match(line)
        if key and name.startswith(_ANSWERED):
            lines[:] = [earlier for earlier in lines if not _is_same_key(earlier, key[1])]
        if not opened or not lines:
            lines.append(f"{line}\n")
    return "".join(line for lines in tables.values() for line in lines)


def _is_same_key(line: str, name: str) -> bool:
    """Return whether a line is a whole setting of a name; one of several lines is not touched."""
    key = _KEY.match(line)
    return key is not None and key[1] == name and line.count("[") == line.count("]")


@dataclass(frozen=True, slots=True)
class TomlTable:
    """One table of recon.toml; what is wrong in any of them is collected in `complaints`."""

    values: Mapping[str, Any]
    complaints: list[str]
    place: str = ""

    def table(self, name: str) -> "TomlTable":
        """Return a table within this one."""
        value = self.values.get(name, {})
        place = f"{self.place}.{name}" if self.place else name
        if not isinstance(value, dict):
            self.complaints.append(f"{place} is not a table")
            value = {}
        return TomlTable(value, self.complaints, place)

    def tables(self, name: str) -> Iterator[tuple[str, "TomlTable"]]:
        """Yield each table within a table of this one, with its name."""
        table = self.table(name)
        yield from ((key, table.table(key)) for key in table.values)

    def lines(self, place: str = "") -> Iterator[tuple[str, str]]:
        """Yield each setting with the tables that it stands in."""
        for name, value in self.values.items():
            if isinstance(value, dict):
                yield from self.table(name).lines(f"{place}{name}.")
            else:
                yield f"{place}{name}", json.dumps(value, ensure_ascii=False, default=str)

    def refuse_unknown(self, names: str) -> None:
        """Complain about each setting that is none of these."""
        unknown = sorted(self.values.keys() - set(names.split()))
        self.complaints.extend(f"{self.place or 'the file'} has no {name}" for name in unknown)

    def _complain(self, name: str, expected: str) -> None:
        place = f"{self.place} {name}" if self.place else name
        self.complaints.append(f"{place} is {self.values[name]!r}, expected {expected}")

    def choice(self, name: str, *allowed: str, default: str = "") -> str:
        """Return a text, one of those allowed where some are named."""
        value = self.values.get(name, default)
        if isinstance(value, str) and (not allowed or value in allowed or name not in self.values):
            return value
        self._complain(name, " or ".join(f'"{word}"' for word in allowed) or "a text")
        return default

    def texts(self, name: str, *, allowed: tuple[str, ...] = ()) -> tuple[str, ...] | None:
        """Return a text or a list of texts as a list; None where nothing is said."""
        if name not in self.values:
            return None
        value = self.values[name]
        values = [value] if isinstance(value, str) else value
        if isinstance(values, list) and all(
            isinstance(item, str) and (not allowed or item in allowed) for item in values
        ):
            return tuple(values)
        self._complain(name, f"a list of {', '.join(allowed) or 'texts'}")
        return None

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return true or false."""
        value = self.values.get(name, default)
        if isinstance(value, bool):
            return value
        self._complain(name, "true or false")
        return default

    def count(self, name: str, default: int) -> int:
        """Return a whole number."""
        value = self.values.get(name, default)
        if type(value) is int and value >= 0:
            return value
        self._complain(name, "a whole number")
        return default

    def counts(self, name: str) -> tuple[int, ...]:
        """Return a list of whole numbers that grow; an empty one where nothing is said."""
        value = self.values.get(name, [])
        is_list = isinstance(value, list) and all(type(item) is int and item > 0 for item in value)
        if is_list and value == sorted(set(value)):
            return tuple(value)
        self._complain(name, "a list of whole numbers that grow")
        return ()

    def amount(self, name: str, default: Decimal = Decimal(0)) -> Decimal:
        """Return a number that is not negative, as text, since TOML's numbers are floats."""
        if name not in self.values:
            return default
        value = self.values[name]
        with contextlib.suppress(ArithmeticError):
            amount = exact(value) if isinstance(value, str) else Decimal("NaN")
            is_usable = amount.is_finite() and abs(amount.adjusted()) <= _LARGEST
            if is_usable and amount >= 0:
                return amount
        self._complain(name, 'a text like "0.01"')
        return default
