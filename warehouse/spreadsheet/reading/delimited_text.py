"""Rows of delimited text, split at line ends if that is safe, and otherwise parsed by `csv`.

A million lines as lists of strings take a gigabyte and ten seconds. A single Arrow array takes a
tenth of both, and makes whole columns available at once.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

Row = Sequence[object]
MAX_FIELD_BYTES = 10_000_000
_BLOCK = 1_000_000
_MAX_BYTES = 2**31 - 2  # maximum number of bytes in an Arrow string array
_QUOTED_CELL = '(?:^|\t)"[^\t]*"(?:\t|\r?\n?$)'
# A pattern for a whole cell like ="00123". With CSV quotes, the same cell is "=""00123""".
_TEXT_FORMULA = re.compile(
    r'(?<![^\n;\t,|])(?:="([^"\r\n]*)"|"=""([^"\r\n]*)""")(?=[;\t,|\r\n]|\Z)'
)


class Cells(Sequence[Row]):
    """The rows of a delimited text file, stored as an Arrow array. Blank lines have no cells."""

    def __init__(self, lines: pa.StringArray, delimiter: str) -> None:
        self._lines = lines
        self._delimiter = delimiter
        self._widths = pc.add(pc.count_substring(lines, delimiter), 1)
        self._by_width: dict[int, tuple[pa.Array, list[pa.Array]]] = {}

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        if isinstance(index, slice):
            return [self[row_no] for row_no in range(*index.indices(len(self)))]
        line: str = self._lines[index].as_py().removesuffix("\n").removesuffix("\r")
        return line.split(self._delimiter) if line else []

    def whole(self, start: int, width: int) -> tuple[pa.Array, list[pa.Array]]:
        """Return rows with `width` cells, starting at row `start`, as their indexes and columns."""
        rows, columns = self._of_width(width)
        first = pc.sum(pc.less(rows, start)).as_py() or 0
        return rows.slice(first), [column.slice(first) for column in columns]

    def column(self, index: int) -> pa.Array:
        """Return one column for all rows. If a row is too short, its cell is empty."""
        common = pc.mode(self._widths)[0]["mode"].as_py()
        rows, columns = self._of_width(common)
        column = columns[index] if index < common else pa.repeat("", len(rows))
        if len(rows) == len(self):
            return column
        is_other = pc.not_equal(self._widths, common)
        others = pc.ascii_rtrim(self._lines.filter(is_other), "\r\n")
        cells = pc.split_pattern(others, self._delimiter)
        has_it = pc.greater(pc.list_value_length(cells), index)
        texts = pc.list_element(cells.filter(has_it), index)
        texts = pc.replace_with_mask(pa.repeat("", len(others)), has_it, texts)
        column = pc.replace_with_mask(pa.repeat("", len(self)), pc.invert(is_other), column)
        return pc.replace_with_mask(column, is_other, texts)

    def _of_width(self, width: int) -> tuple[pa.Array, list[pa.Array]]:
        """Return the rows with exactly `width` cells, as their indexes and their columns."""
        if width not in self._by_width:
            rows = pc.indices_nonzero(pc.equal(self._widths, width)).cast(pa.int64())
            lines = self._lines if len(rows) == len(self) else self._lines.take(rows)
            self._by_width[width] = rows, _columns(lines, self._delimiter, width)
        return self._by_width[width]


def _columns(lines: pa.StringArray, delimiter: str, width: int) -> list[pa.Array]:
    """Split lines of `width` cells into columns."""
    # Do not parse a single column with Arrow, because Arrow would skip blank lines.
    if width == 1 or not len(lines):
        return [pc.ascii_rtrim(lines, "\r\n")] * width
    names = list(map(str, range(width)))
    table = arrow_csv.read_csv(
        pa.BufferReader(_bytes_of(lines)),
        arrow_csv.ReadOptions(use_threads=False, block_size=_MAX_BYTES, column_names=names),
        arrow_csv.ParseOptions(delimiter=delimiter, quote_char=False),
        arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
    )
    return [column.combine_chunks() for column in table.columns]


def _bytes_of(lines: pa.StringArray) -> pa.Buffer:
    """Return the bytes of consecutive lines without copying them."""
    _, ends, content = lines.buffers()
    offsets = memoryview(ends).cast("i")[lines.offset :]
    return content.slice(offsets[0], offsets[len(lines)] - offsets[0])


def unwrap_text_formulas(text: str) -> str:
    """Replace cells like ="00123" with "00123", which is how spreadsheets display them.

    Programs write such cells so that spreadsheets do not remove leading zeros or round numbers.
    """
    if '="' not in text:
        return text
    return _TEXT_FORMULA.sub(lambda cell: f'"{cell[1] or cell[2] or ""}"', text)


def has_long_line(content: bytes) -> bool:
    """Return whether a line is longer than the maximum field length, to within a few blocks.

    Check this before splitting lines into cells, because a 300 MB line once gave a list of 150
    million cells.
    """
    blocks = 0
    for start in range(0, len(content), _BLOCK):
        end = start + _BLOCK
        has_end = content.find(b"\n", start, end) >= 0 or content.find(b"\r", start, end) >= 0
        blocks = 0 if has_end else blocks + 1
        if blocks * _BLOCK >= MAX_FIELD_BYTES:
            return True
    return False


def cells_of(text: str, delimiter: str) -> Cells | None:
    """Split a string into rows. Return None if a line might not be exactly one row.

    Each line is one row if all lines end in the same way, and if quotes only enclose whole cells
    that contain no quote, delimiter or line end. The csv module reads all other texts, which takes
    ten times as long.
    """
    size = len(text) if text.isascii() else len(text.encode())
    is_known = len(delimiter) == 1 and delimiter.isascii() and delimiter not in '"\r\n'
    # Arrow drops a byte order mark at the start of a block, so let the csv module parse strings
    # that contain the mark.
    if not is_known or not 0 < size < _MAX_BYTES or "\ufeff" in text:
        return None
    if "\r" in text and text.count("\r") != text.count("\r\n"):
        return None
    lines = _lines(text.encode())
    if pc.max(pc.binary_length(lines)).as_py() > MAX_FIELD_BYTES:
        return None
    if '"' in text:
        quoted = lines.filter(pc.match_substring(lines, '"'))
        character = f'[^"\\x{{{ord(delimiter):x}}}]'
        cell = f'(?:{character}*|"{character}*")'
        pattern = f"^{cell}(?:\\x{{{ord(delimiter):x}}}{cell})*\r?\n?$"
        if not pc.all(pc.match_substring_regex(quoted, pattern)).as_py():
            return _tab_cells(text, lines) if delimiter == "\t" else None
        lines = pc.replace_substring(lines, '"', "")
    return Cells(lines, delimiter)


def _tab_cells(text: str, lines: pa.StringArray) -> Cells | None:
    """Return the rows of a tab-separated string if its quotes are part of names, otherwise None.

    Programs that write tab-separated tables often quote nothing, so a name may begin with a quote
    (`"Genesis" carry`), which is not valid CSV. Quotes are kept if the csv module rejects the text,
    all lines have the same number of tabs, and no cell has quotes at both ends.
    """
    is_blank = pc.equal(pc.ascii_trim_whitespace(lines), "")
    tabs = pc.unique(pc.count_substring(lines.filter(pc.invert(is_blank)), "\t"))
    if len(tabs) != 1 or pc.any(pc.match_substring_regex(lines, _QUOTED_CELL)).as_py():
        return None
    try:
        for _ in rows_of(text, "\t"):
            pass
    except ValueError:
        return Cells(lines, "\t")
    return None


def _lines(content: bytes) -> pa.StringArray:
    """Split bytes into lines that keep their line endings, without copying the bytes."""
    ends = np.flatnonzero(np.frombuffer(content, np.uint8) == ord("\n")) + 1
    is_ended = len(ends) > 0 and ends[-1] == len(content)
    bounds = np.concatenate(([0], ends, [] if is_ended else [len(content)])).astype(np.int32)
    return pa.StringArray.from_buffers(len(bounds) - 1, pa.py_buffer(bounds), pa.py_buffer(content))


def rows_of(text: str, delimiter: str, *, is_whole: bool = True) -> Iterator[tuple[Row, int]]:
    """Yield every row as the csv module reads it, with the number of the row's first line.

    An unclosed quote would merge all rows below it into one cell. If the text `is_whole` (not just
    the beginning of a file), this raises `ValueError` with the line number.
    """
    csv.field_size_limit(MAX_FIELD_BYTES)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=is_whole)
    line = 1
    try:
        for row in reader:
            yield row, line
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"line {line} is not valid CSV ({error})") from error
