"""What a finished workbook says: rows and exact totals of its long tables, read from the file.

The file is read as it lies on disk, before anybody is given it: what was handed to the writer
proves nothing about what a reader will find.
"""

import re
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Context, Decimal, localcontext
from typing import IO


_CHUNK = 1 << 17  # bytes read at once: what a core's cache holds is a tenth cheaper (measured)
# Python looks for more than five bytes in a large text by another way, a third slower (measured).
_ROW = b"</row"
_CELL = rb'<c r="%[0-9]+"[^>]*><is><t[^>]*>([^<]*)</t></is></c>'
_MOST_WAITING = 20_000  # amounts that wait to be added up


@dataclass(frozen=True, slots=True)
class SumColumns:
    """Where a sheet shows what is added up: the letters of key, flag and exact amount.

    The flag stands behind the key, and the amount behind both.
    """

    member: str
    key: str
    flag: str
    amount: str


@dataclass(frozen=True, slots=True)
class ReadBack:
    """Rows, and the sum of each key and flag, as their cells state them."""

    rows: int
    sums: dict[tuple[str, str], Decimal]


def add_up(
    file: IO[bytes], cells: SumColumns, whole: Mapping[str, str], exact: Context
) -> ReadBack:
    """Read one sheet; `whole` has the text behind each cell that is too long for one.

    Keys are as they stand in the file, with its escapes. Raises `ValueError` where a row lacks one
    of the three cells or its amount is none.
    """
    # The three cells are found by their letters in the bytes, not by an XML parser: every row of
    # the file is read again, and it is our own XML of which the form is known. Each is looked for
    # where it begins, for a row has two dozen others.
    keys, amount_cell = _cells(cells.key, cells.flag), _cells(cells.amount)
    key_start, amount_start = (f'<c r="{letter}'.encode() for letter in (cells.key, cells.amount))
    rows, sums = 0, _SheetSums(cells.member, whole, exact)
    waiting = sums.waiting
    for row in _rows(file, cells.member):
        rows += 1
        key = keys(row, row.find(key_start))
        amount = key and amount_cell(row, row.find(amount_start, key.end()))
        if key is None or amount is None:
            raise ValueError(f"row {rows + 1} of {cells.member} lacks a cell")
        waiting[key.groups()].append(amount[1])
        if rows % _MOST_WAITING == 0:
            sums.settle()
    sums.settle()
    totals = sums.totals.items()
    return ReadBack(rows, {(key.decode(), flag.decode()): total for (key, flag), total in totals})


def _cells(*letters: str) -> Callable[[bytes, int], re.Match[bytes] | None]:
    """Return what matches cells of these letters, one behind the other; its groups are texts."""
    cells = [_CELL.replace(b"%", letter.encode()) for letter in letters]
    return re.compile(b".*?".join(cells), re.DOTALL).match


@dataclass(slots=True)
class _SheetSums:
    """Exact sums by key and flag; the texts that wait are added up together, in half the time."""

    member: str
    whole: Mapping[str, str]
    exact: Context
    totals: dict[tuple[bytes, ...], Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    waiting: dict[tuple[bytes, ...], list[bytes]] = field(default_factory=lambda: defaultdict(list))

    def settle(self) -> None:
        with localcontext(self.exact):
            for key, cells in self.waiting.items():
                # No call of ours for each amount: a third of the time that adding them up took.
                shown = [*map(bytes.decode, cells)]
                texts = [*map(self.whole.get, shown, shown)]
                try:
                    self.totals[key] = sum(map(Decimal, texts), self.totals[key])
                except ArithmeticError:
                    raise ValueError(f"{self._wrong(texts)} is no amount") from None
        self.waiting.clear()

    def _wrong(self, texts: Iterable[str]) -> str:
        """Return the first text that is no number, and where it is."""
        for text in texts:
            try:
                Decimal(text)
            except ArithmeticError:
                return f"{text[:60]!r} in {self.member}"
        return f"a total in {self.member}"


def _rows(file: IO[bytes], member: str) -> Iterator[bytes]:
    """Yield the rows of a sheet below its header."""
    with (
        zipfile.ZipFile(file) as archive,
        archive.open(member) as sheet,
        ThreadPoolExecutor(1, "unpacking") as unpacker,  # on a second core
    ):
        rest, is_header, ahead = b"", True, unpacker.submit(sheet.read, _CHUNK)
        while chunk := ahead.result():
            ahead = unpacker.submit(sheet.read, _CHUNK)
            *rows, rest = (rest + chunk).split(_ROW)
            for row in rows:
                if not is_header:
                    yield row
                is_header = False
