"""Sheets as data: columns with their titles, meanings, kinds and widths.

Titles must stay stable, because lookups in other workbooks depend on them.
"""

from dataclasses import KW_ONLY, dataclass
from enum import Enum

from xlsxwriter.utility import xl_col_to_name

NARROWEST = 8
MAX_WIDTH = 44
ROWS_PER_SHEET = 1_048_575
# The maximum and minimum number of decimal places that a number cell shows. The exact text contains
# all decimal places of the amount.
DECIMALS, MIN_DECIMALS = 10, 2


class SheetColumnKind(Enum):
    """The kind of a sheet's column, which determines how its values are displayed."""

    TEXT = "text"
    COUNT = "count"
    NUMBER = "number"  # an amount as a double, which people can read, sort and add up
    EXACT = "exact"  # the exact amount as text
    DIGITS = "digits"  # a label that shows whether all numbers in the row are exact


@dataclass(frozen=True, slots=True)
class SheetColumn:
    """A column: its source, title, meaning and layout.

    `source` names the data column that the values come from. For a NUMBER, it is the column with
    the exact text. Printed columns are on the left, and all others are grouped on the right.
    """

    source: str
    title: str
    meaning: str
    kind: SheetColumnKind
    _: KW_ONLY
    width: float = 12
    is_printed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSheet:
    """A sheet that contains a table, or one part of a table that needs several sheets.

    `start` is the index of the sheet's first row in the table. If the table fits on one sheet,
    `part` and `parts` are 1.
    """

    table: str
    columns: tuple[SheetColumn, ...]
    rows: int
    start: int = 0
    part: int = 1
    parts: int = 1

    @property
    def name(self) -> str:
        """The tab name. For the second and later parts, the name includes the part number."""
        return self.table if self.part == 1 else f"{self.table} {self.part}"

    @property
    def formula_name(self) -> str:
        """The tab name as written in formulas."""
        return f"'{self.name}'" if " " in self.name else self.name

    @property
    def last_row(self) -> int:
        """The number of the last data row. The header is row 1."""
        return max(self.rows, 1) + 1

    def letter(self, source: str, kind: SheetColumnKind) -> str:
        """Return a column's letter. Raises `KeyError` if the sheet does not have the column."""
        for index, column in enumerate(self.columns):
            if (column.source, column.kind) == (source, kind):
                return str(xl_col_to_name(index))
        raise KeyError(f"sheet {self.name} has no column {source} as {kind.value}")

    def cells(self, source: str, kind: SheetColumnKind) -> str:
        """Return the reference to a column's data, for example `Accounts!$B$2:$B$9`."""
        letter = self.letter(source, kind)
        return f"{self.formula_name}!${letter}$2:${letter}${self.last_row}"


def parts(
    table: str, columns: tuple[SheetColumn, ...], rows: int, limit: int = ROWS_PER_SHEET
) -> tuple[TableSheet, ...]:
    """Split a table into sheets of at most `limit` rows. An empty table gets one sheet."""
    count = max(1, -(-rows // limit))
    return tuple(
        TableSheet(
            table=table,
            columns=columns,
            rows=min(limit, rows - part * limit),
            start=part * limit,
            part=part + 1,
            parts=count,
        )
        for part in range(count)
    )


def title(name: str) -> str:
    """Return a column's title: `trading_free_text` becomes `Trading free, exact`."""
    plain = name.removesuffix("_text").replace("_", " ")
    plain = plain.removeprefix("is ").capitalize()
    return f"{plain}, exact" if name.endswith("_text") else plain


def fitting(longest: int, widest: int = MAX_WIDTH) -> float:
    """Return the column width for strings of up to `longest` characters."""
    return float(min(max(longest + 2, NARROWEST), widest))


def shown_decimals(text: str, room: int = DECIMALS) -> int:
    """Return the number of decimal places that a number cell shows for an exact amount."""
    point = text.find(".")
    behind = len(text) - point - 1 if point >= 0 else 0
    return min(max(behind, MIN_DECIMALS), room)
