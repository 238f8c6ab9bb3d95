"""What a sheet is, as data: its columns, their titles, meanings, kinds and widths.

Titles are stable, for people's lookups hang on them. Nothing here writes.
"""

from dataclasses import KW_ONLY, dataclass
from enum import Enum

from xlsxwriter.utility import xl_col_to_name

NARROWEST = 8
WIDEST = 44
ROWS_PER_SHEET = 1_048_575
DECIMALS, FEWEST_DECIMALS = 10, 2  # that a number shows; of more the exact text has the rest


class SheetColumnKind(Enum):
    """What a column shows of its source."""

    TEXT = "text"
    COUNT = "count"
    NUMBER = "number"  # an amount as a double: to read, to sort, to add up
    EXACT = "exact"  # the same amount as text: the truth
    DIGITS = "digits"  # whether all numbers of the row are their exact texts


@dataclass(frozen=True, slots=True)
class SheetColumn:
    """One column: the source it shows, its title and meaning, and how it is laid out.

    `source` names a column of the data; that of a NUMBER is the exact text. `is_printed` columns
    stand together on the left; the others are grouped on the right and stay off the paper.
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
    """One sheet, or the part of a table that one sheet can hold: `start` is its first row, from 0.

    A table that fits one sheet has `part` 1 of 1.
    """

    table: str
    columns: tuple[SheetColumn, ...]
    rows: int
    start: int = 0
    part: int = 1
    parts: int = 1

    @property
    def name(self) -> str:
        """The tab: the table's name, numbered from the second part on."""
        return self.table if self.part == 1 else f"{self.table} {self.part}"

    @property
    def formula_name(self) -> str:
        """The tab as formulas write it."""
        return f"'{self.name}'" if " " in self.name else self.name

    @property
    def last_row(self) -> int:
        """The last row of the data, as a spreadsheet counts; the header is row 1."""
        return max(self.rows, 1) + 1

    def letter(self, source: str, kind: SheetColumnKind) -> str:
        """Return the column letter of a source; `KeyError` where the sheet does not show it."""
        for index, column in enumerate(self.columns):
            if (column.source, column.kind) == (source, kind):
                return str(xl_col_to_name(index))
        raise KeyError(f"sheet {self.name} has no column {source} as {kind.value}")

    def cells(self, source: str, kind: SheetColumnKind) -> str:
        """Return the data of a column as an absolute reference, like `Accounts!$B$2:$B$9`."""
        letter = self.letter(source, kind)
        return f"{self.formula_name}!${letter}$2:${letter}${self.last_row}"


def parts(
    table: str, columns: tuple[SheetColumn, ...], rows: int, limit: int = ROWS_PER_SHEET
) -> tuple[TableSheet, ...]:
    """Return a table as sheets of at most `limit` rows each: one, unless there are more."""
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
    """Return the title of a column: `trading_free_text` is `Trading free, exact`."""
    plain = name.removesuffix("_text").replace("_", " ")
    plain = plain.removeprefix("is ").capitalize()
    return f"{plain}, exact" if name.endswith("_text") else plain


def fitting(longest: int, widest: int = WIDEST) -> float:
    """Return a column width, in letters, for a text of that length."""
    return float(min(max(longest + 2, NARROWEST), widest))


def shown_decimals(text: str, room: int = DECIMALS) -> int:
    """Return how many decimals of an exact text a number shows."""
    point = text.find(".")
    behind = len(text) - point - 1 if point >= 0 else 0
    return min(max(behind, FEWEST_DECIMALS), room)
