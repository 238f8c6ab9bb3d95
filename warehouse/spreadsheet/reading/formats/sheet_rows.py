"""The rows of one sheet while its file is parsed, bounded before room is made for them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from warehouse.spreadsheet.reading.safety import MOST_CELLS

MOST_COLUMNS = 16_384  # that any program shows
MOST_ROWS = 1_048_576
Span = tuple[tuple[int, int], tuple[int, int]]


class TooWide(Exception):
    """A sheet spans more cells than a ledger has."""


@dataclass(slots=True)
class SheetRows:
    """The rows so far, each as long as it is filled; what is blank at the end is no row.

    `errors` has by row and column from 0 what a cell holds in place of a value.
    """

    name: str
    is_read: bool = True
    is_visible: bool = True
    rows: list[list[Any]] = field(default_factory=list)
    errors: dict[tuple[int, int], str] = field(default_factory=dict)
    merged: list[Span] = field(default_factory=list)
    hidden_rows: int = 0
    hidden_columns: set[int] = field(default_factory=set)
    blank: int = 0
    width: int = 0

    @property
    def row(self) -> int:
        """The number of the next row, from 0."""
        return len(self.rows) + self.blank

    def skip(self, times: int) -> None:
        """Take in blank rows."""
        self.blank += times

    def add(self, cells: Sequence[tuple[object, int]], times: int, *, is_hidden: bool) -> None:
        """Take in a row, so many times, of cells that are each repeated."""
        filled = len(cells)
        while filled and cells[filled - 1][0] == "":
            filled -= 1
        if not filled:
            self.skip(times)
            return
        self.width = max(self.width, sum(count for _, count in cells[:filled]))
        if self.width * (self.row + times) > MOST_CELLS:
            raise TooWide
        if is_hidden:
            self.hidden_rows += times
        if not self.is_read:
            self.skip(times)
            return
        row: list[Any] = []
        for value, count in cells[:filled]:
            row += [value] * count
        self.rows += [[] for _ in range(self.blank)] + [row] * times
        self.blank = 0

    def merge(self, left: int, right: int, below: int) -> None:
        """Take in that a cell of the next row is merged with others."""
        self.merged.append(((self.row, left), (self.row + below, right)))


def filled_spans(rows: Sequence[Sequence[object]], spans: Sequence[Span]) -> tuple[Span, ...]:
    """Return the spans whose first cell stands in the rows."""
    return tuple(
        span for span in spans if span[0][0] < len(rows) and span[0][1] < len(rows[span[0][0]])
    )
