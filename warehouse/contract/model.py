"""What a table promises, as plain data: kinds of value, columns, tables.

Nothing here renders: Arrow is in `storage.parquet`, DDL in `database.ddl`, words in
`sql.dictionary`. A column is written once, in `contract.book`, and appears everywhere.
"""

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
