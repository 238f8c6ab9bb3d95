"""One table in recon.toml. All errors are collected in one list."""

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any

from warehouse.exact import exact

_MAX_EXPONENT = 200  # largest power of ten in a number, the same as for the amounts in a ledger
_BARE = re.compile("[a-z_]+")
_KEY = re.compile(r"\s*([A-Za-z_-]+)\s*=")
_ANSWERED = ("ledger.", "file.", "settings")  # the tables that a pasted answer may contain
_HEADING = re.compile(r"""\s*\[((?:[^\[\]"']|"(?:[^"\\]|\\.)*"|'[^']*')+)\]\s*(?:#.*)?""")


def setting(name: str, value: str) -> str:
    """Return a line for recon.toml. Name and value may contain any characters."""
    return f"{name if _BARE.fullmatch(name) else quote(name)} = {quote(value)}"


def quote(text: str) -> str:
    """Return a string in TOML notation."""
    # TOML allows the character U+007F only as an escape sequence.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def quote_list(texts: Iterable[str]) -> str:
    """Return strings as a TOML list."""
    return f"[{', '.join(map(quote, texts))}]"


def heading(kind: str, name: str) -> str:
    """Format the heading of a table in recon.toml, like `[ledger."1a2b3c4d"]`."""
    return f"[{kind}.{quote(name)}]"


def join_tables(text: str) -> str:
    """Merge repeated tables by moving all their lines below the table's first heading."""
    # Each pasted answer begins with the heading of a table. If two answers have the same heading,
    # the lines must be merged, because TOML does not allow repeated tables. If a question has two
    # answers, the later answer is used.
    tables: dict[str, list[str]] = {"": []}
    name = ""
    # Unlike `split`, `splitlines` would also split a name that contains U+2028.
    for line in text.split("\n"):
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
    """Return whether a line is a setting with this name that does not continue on the next line."""
    key = _KEY.match(line)
    return key is not None and key[1] == name and line.count("[") == line.count("]")


@dataclass(frozen=True, slots=True)
class TomlTable:
    """One table in recon.toml. `complaints` collects the errors from all tables."""

    values: Mapping[str, Any]
    complaints: list[str]
    place: str = ""

    def table(self, name: str) -> "TomlTable":
        """Return a nested table."""
        value = self.values.get(name, {})
        place = f"{self.place}.{name}" if self.place else name
        if not isinstance(value, dict):
            self.complaints.append(f"{place} is not a table")
            value = {}
        return TomlTable(value, self.complaints, place)

    def tables(self, name: str) -> Iterator[tuple[str, "TomlTable"]]:
        """Yield the name and content of each table nested in the table `name`."""
        table = self.table(name)
        yield from ((key, table.table(key)) for key in table.values)

    def lines(self, place: str = "") -> Iterator[tuple[str, str]]:
        """Yield the path and the value of each setting, with the value in JSON."""
        for name, value in self.values.items():
            if isinstance(value, dict):
                yield from self.table(name).lines(f"{place}{name}.")
            else:
                yield f"{place}{name}", json.dumps(value, ensure_ascii=False, default=str)

    def refuse_unknown(self, names: str) -> None:
        """Add a complaint about each setting with an unknown name."""
        unknown = sorted(self.values.keys() - set(names.split()))
        place = self.place or "the file"
        self.complaints.extend(f"{place} has an unknown setting: {name}" for name in unknown)

    def _validate(
        self, name: str, default: Any, is_valid: Callable[[Any], bool], expected: str
    ) -> Any:
        """Return a setting's value, or the default if it is absent or invalid."""
        if name in self.values and not is_valid(self.values[name]):
            place = f"{self.place} {name}" if self.place else name
            self.complaints.append(f"{place} is {self.values[name]!r}, expected {expected}")
            return default
        return self.values.get(name, default)

    def choice(self, name: str, *allowed: str, default: str = "") -> str:
        """Return a string setting, which must be one of `allowed` unless `allowed` is empty."""

        def is_valid(value: object) -> bool:
            return isinstance(value, str) and (not allowed or value in allowed)

        expected = " or ".join(f'"{word}"' for word in allowed) or "a string"
        return str(self._validate(name, default, is_valid, expected))

    def choice_or_none(self, name: str, *allowed: str) -> str | None:
        """Return a string setting, or None if it is absent."""
        return self.choice(name, *allowed) if name in self.values else None

    def texts(self, name: str, *, allowed: tuple[str, ...] = ()) -> tuple[str, ...] | None:
        """Return a string or a list of strings as a tuple, or None if the setting is absent."""

        def is_valid(value: object) -> bool:
            values = [value] if isinstance(value, str) else value
            return isinstance(values, list) and all(
                isinstance(item, str) and (not allowed or item in allowed) for item in values
            )

        expected = f"a list of {', '.join(allowed) or 'strings'}"
        value = self._validate(name, None, is_valid, expected)
        if value is None:
            return None
        return (value,) if isinstance(value, str) else tuple(value)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return the value of a setting that is true or false."""
        expected = "true or false"
        return bool(self._validate(name, default, lambda value: isinstance(value, bool), expected))

    def count(self, name: str, default: int) -> int:
        """Return a non-negative whole number."""

        def is_valid(value: object) -> bool:
            return type(value) is int and value >= 0

        return int(self._validate(name, default, is_valid, "a whole number"))

    def amount(self, name: str, default: Decimal = Decimal(0)) -> Decimal:
        """Return a non-negative number.

        It must be a string in recon.toml, because TOML uses floats.
        """

        def is_valid(value: object) -> bool:
            with contextlib.suppress(ArithmeticError):
                amount = exact(value) if isinstance(value, str) else Decimal("NaN")
                is_usable = amount.is_finite() and abs(amount.adjusted()) <= _MAX_EXPONENT
                return is_usable and amount >= 0
            return False

        value = self._validate(name, default, is_valid, 'a string like "0.01"')
        return exact(value) if isinstance(value, str) else default


def toml_value(parse: Callable[[TomlTable], Any]) -> Any:
    """Declare a setting by the function that parses it from its table.

    The result for an empty table is the default.
    """
    return field(default_factory=lambda: parse(TomlTable({}, [])), metadata={"parse": parse})


def parse_settings(kind: type, table: TomlTable) -> dict[str, Any]:
    """Parse the settings of a class from a table, by the names of its fields."""
    parsers = {item.name: item.metadata.get("parse") for item in fields(kind)}
    return {name: parse(table) for name, parse in parsers.items() if parse}
