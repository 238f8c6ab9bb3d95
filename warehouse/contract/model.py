"""The model of a table: its columns, types, keys and comments."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """The kinds of value the warehouse keeps; each value is its DuckDB type."""

    TEXT = "VARCHAR"
    AMOUNT = "DECIMAL(38,18)"
    FLAG = "BOOLEAN"
    ORDINAL = "INTEGER"
    COUNT = "BIGINT"
    DAY = "DATE"
    MOMENT = "TIMESTAMPTZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its name, kind, meaning, where its value comes from, and whether it may be NULL.

    `source` is the field of the API (section 2) (`Portfolio.name`), or words for what nightbook
    itself knows (`snapshot`). `nullable` columns say in `meaning` what NULL stands for.
    """

    name: str
    kind: Kind
    source: str
    meaning: str
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """One table: name, what one row is, its columns in order, and the columns that identify a row.

    `schema` is `main` for the book itself (kept per day in `history`) and `ops` for what nightbook
    knows about its own nights. `resource` names the landed resource the rows come from.
    `is_small` tables get a primary key in DuckDB; on large ones it triples the file, so
    uniqueness is tested before publishing instead.
    """

    name: str
    meaning: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    resource: str = ""
    schema: str = "main"
    is_small: bool = False

    def column(self, name: str) -> Column:
        """Return the column of that name; `KeyError` names the table if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"{self.name} has no column {name}")

    @property
    def names(self) -> tuple[str, ...]:
        """The column names in order."""
        return tuple(column.name for column in self.columns)


def quote_identifier(identifier: str) -> str:
    """Return an SQL identifier, quoted so that no name can end it."""
    return '"' + identifier.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return an SQL string literal, quoted so that no text can end it."""
    return "'" + text.replace("'", "''") + "'"


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> count_of(1, "night"), count_of(1200, "night")
    ('1 night', '1,200 nights')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def and_more(names: Sequence[str], shown: int, separator: str = ", ") -> str:
    """Return the first names of a list, and how many more there are.

    >>> and_more(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    return separator.join(names[:shown]) + left_out(names, shown)


def left_out(names: Sequence[str], shown: int) -> str:
    """Return how many more than those shown there are.

    >>> left_out(["a", "b", "c"], 2), left_out(["a"], 2)
    (' and 1 more', '')
    """
    return f" and {len(names) - shown} more" if len(names) > shown else ""


def first_lines(lines: Sequence[str], shown: int, noun: str = "", place: str = "") -> list[str]:
    """Return the first lines of a list, and below them how many more there are, and where.

    >>> first_lines(["a", "b", "c"], 1, "break", "the workbook lists them all")
    ['a', 'and 2 more breaks: the workbook lists them all']
    """
    if len(lines) <= shown:
        return list(lines)
    count = len(lines) - shown
    more = count_of(count, f"more {noun}") if noun else f"{count} more"
    return [*lines[:shown], f"and {more}: {place}" if place else f"and {more}"]
