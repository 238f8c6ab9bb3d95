"""The model of a table: its columns, types, keys and comments."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """The kinds of values in the warehouse, with their DuckDB types."""

    TEXT = "VARCHAR"
    AMOUNT = "DECIMAL(38,18)"
    FLAG = "BOOLEAN"
    ORDINAL = "INTEGER"
    COUNT = "BIGINT"
    DAY = "DATE"
    MOMENT = "TIMESTAMPTZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its name, kind, source and meaning, and whether it may be NULL.

    `source` is the API field that the values come from (`Portfolio.name`), or a word such as
    `snapshot` if nightbook adds the values. The `meaning` of a nullable column explains NULL.
    """

    name: str
    kind: Kind
    source: str
    meaning: str
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """One table: its name, the meaning of a row, the columns in order, and the key.

    `schema` is `main` for the book, which `history` stores for each day, `ops` for facts about
    nights, and `reference` for tables that people bring. `resource` is the landed resource that the
    rows come from. `is_small` tables have a primary key in DuckDB. A primary key would triple the
    size of large tables, so their keys are checked before publishing instead.
    """

    name: str
    meaning: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    resource: str = ""
    schema: str = "main"
    is_small: bool = False

    def column(self, name: str) -> Column:
        """Return the column with this name. Raises `KeyError` if the table has no such column."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"{self.name} has no column {name}")

    @property
    def names(self) -> tuple[str, ...]:
        """The column names in order."""
        return tuple(column.name for column in self.columns)


def quote_identifier(identifier: str) -> str:
    """Quote a name as an SQL identifier, escaping the quotes in it."""
    return '"' + identifier.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Quote a string as an SQL literal, escaping the quotes in it."""
    return "'" + text.replace("'", "''") + "'"


def count_of(number: int, noun: str) -> str:
    """Format a count with its noun.

    >>> count_of(1, "night"), count_of(1200, "night")
    ('1 night', '1,200 nights')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def and_more(names: Sequence[str], shown: int, separator: str = ", ") -> str:
    """Join the first names of a list, and append how many others there are.

    >>> and_more(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    return separator.join(names[:shown]) + left_out(names, shown)


def left_out(names: Sequence[str], shown: int) -> str:
    """Format the number of names that are not shown. Return an empty string if all are shown.

    >>> left_out(["a", "b", "c"], 2), left_out(["a"], 2)
    (' and 1 more', '')
    """
    return f" and {len(names) - shown} more" if len(names) > shown else ""


def first_lines(lines: Sequence[str], shown: int, noun: str = "", place: str = "") -> list[str]:
    """Return the first lines. If lines are left out, add a line with their number and location.

    >>> first_lines(["a", "b", "c"], 1, "break", "the workbook lists them all")
    ['a', 'and 2 more breaks: the workbook lists them all']
    """
    if len(lines) <= shown:
        return list(lines)
    count = len(lines) - shown
    more = count_of(count, f"more {noun}") if noun else f"{count} more"
    return [*lines[:shown], f"and {more}: {place}" if place else f"and {more}"]
