"""Cells that are merged with those below them: what stands at the top is the name of each row."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from warehouse.reconcile.ledger.header.header_row import Header
from warehouse.spreadsheet.reading.grid import Grid

_FIRST_ROW = itemgetter(0)


@dataclass(frozen=True, slots=True)
class MergedCells:
    """By column the merged cells below a header: first row, last row and first column of each."""

    # In order of their first rows, for a ledger of 100,000 rows may have as many of them: to look
    # at each for every row took minutes.
    by_column: Mapping[int, Sequence[tuple[int, int, int]]]

    def top_of(self, row: int, column: int) -> tuple[int, int] | None:
        """Return row and column of what a blank cell is merged with, or None."""
        cells = self.by_column.get(column, ())
        number = bisect_left(cells, row, key=_FIRST_ROW)
        if not number or cells[number - 1][1] < row:
            return None
        first, _, left = cells[number - 1]
        return first, left


def merged_cells(grid: Grid, head: Header) -> MergedCells:
    """Return the merged cells in the columns of a header."""
    by_column: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for (top, left), (bottom, right) in sorted(grid.merged):
        if top > head.row:
            for column in head.columns.values():
                if left <= column <= right:
                    by_column[column].append((top, bottom, left))
    return MergedCells(by_column)
