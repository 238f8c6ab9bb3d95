"""Text with delimiters as rows: a line a row where that is proven, else as the csv module reads it.

A million lines as lists of texts take a gigabyte and ten seconds; as one Arrow array of cells they
take a tenth of both, and a column of them is had at once.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import overload

import pyarrow as pa
import pyarrow.compute as pc

Row = Sequence[object]
LONGEST_FIELD = 10_000_000
_BLOCK = 1_000_000
_LARGEST = 2**31 - 2  # bytes that one Arrow array of texts holds


class Cells(Sequence[Row]):
    """The rows of a text as one array of lists of cells; a blank line is a row without cells."""

    __slots__ = ("_cells",)

    def __init__(self, cells: pa.ListArray) -> None:
        self._cells = cells

    def __len__(self) -> int:
        return len(self._cells)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        if isinstance(index, slice):
            return [self[row_no] for row_no in range(*index.indices(len(self)))]
        row: list[object] = self._cells[index].as_py()
        return [] if row == [""] else row

    def whole(self, start: int, width: int) -> tuple[pa.Array, list[pa.Array]]:
        """Return the rows from `start` on with exactly so many cells, and their columns."""
        widths = pc.list_value_length(self._cells.slice(start))
        rows = pc.indices_nonzero(pc.equal(widths, width)).cast(pa.int64())
        rows = pc.add(rows, start)
        cells = self._cells.take(rows)
        return rows, [pc.list_element(cells, column) for column in range(width)]

    def column(self, index: int) -> pa.Array:
        """Return a cell of every row, an empty text where the row ends before it."""
        has_it = pc.greater(pc.list_value_length(self._cells), index)
        cells = pc.list_element(self._cells.filter(has_it), index)
        return pc.replace_with_mask(pa.repeat("", len(self)), has_it, cells)


def has_long_line(content: bytes) -> bool:
    """Return whether some line of a file is longer than a field may be, give or take a block.

    It is asked before its cells are made: one line of 300 MB was a list of 150 million cells.
    """
    blocks = 0
    for start in range(0, len(content), _BLOCK):
        end = start + _BLOCK
        has_end = content.find(b"\n", start, end) >= 0 or content.find(b"\r", start, end) >= 0
        blocks = 0 if has_end else blocks + 1
        if blocks * _BLOCK >= LONGEST_FIELD:
            return True
    return False


def cells_of(text: str, delimiter: str) -> Cells | None:
    """Return the rows of a text, or None where its lines are not proven to be its rows.

    They are where every line ends the same way and a quote stands at the two ends of a cell only,
    with no quote, delimiter or end of line between them.
    """
    # Lines are rows only where no quoted cell holds an end of line. That is proven by counting: all
    # ends are alike, and each line that has a quote is whole cells, quoted at both ends or not at
    # all. What is not proven goes to the csv module, which is ten times as slow.
    size = len(text) if text.isascii() else len(text.encode())
    if delimiter in '"\r\n' or len(delimiter) != 1 or not 0 < size < _LARGEST:
        return None
    if "\r" in text:
        if text.count("\r") != text.count("\r\n"):
            return None
        text = text.replace("\r\n", "\n")
    lines = pc.split_pattern(_one(text.removesuffix("\n").encode()), "\n").flatten()
    if pc.max(pc.binary_length(lines)).as_py() > LONGEST_FIELD:
        return None
    if '"' in text:
        quoted = lines.filter(pc.match_substring(lines, '"'))
        letter = f'[^"\\x{{{ord(delimiter):x}}}]'
        cell = f'(?:{letter}*|"{letter}*")'
        pattern = f"^{cell}(?:\\x{{{ord(delimiter):x}}}{cell})*$"
        if not pc.all(pc.match_substring_regex(quoted, pattern)).as_py():
            return None
        lines = pc.replace_substring(lines, '"', "")
    return Cells(pc.split_pattern(lines, delimiter))


def _one(content: bytes) -> pa.Array:
    """Return one text as an array, without a copy of it."""
    ends = pa.array([0, len(content)], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.string(), 1, [None, ends, pa.py_buffer(content)])


def rows_of(text: str, delimiter: str, *, is_whole: bool = True) -> Iterator[tuple[Row, int]]:
    """Yield every row as the csv module reads it, and the number of the line that it begins on.

    A quote that does not end would take all rows below it into one cell: where the text `is_whole`,
    and not only its beginning, that raises. Raises `ValueError` with the line that is no CSV.
    """
    csv.field_size_limit(LONGEST_FIELD)
    lines = io.StringIO(text, newline="")
    reader = csv.reader(lines, delimiter=delimiter, strict=is_whole)
    line = 1
    try:
        for row in reader:
            yield row, line
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"line {line} is no CSV ({error})") from error
