"""What a finished workbook says: rows and exact totals of its long tables, read from the file.

The file is read as it lies on disk, before anybody is given it: what was handed to the writer
proves nothing about what a reader will find.
"""

import re
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import IO

_CHUNK = 1 << 20  # bytes read at once; a row that is cut is completed by the next
_ROW = b"</row>"
_CELL = rb'<c r="%[0-9]+"[^>]*><is><t[^>]*>([^<]*)</t></is></c>'
_NOTHING = Decimal(0)


@dataclass(frozen=True, slots=True)
class SumColumns:
    """Where a sheet shows what is added up: the letters of key, flag and exact amount."""

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
    wanted = [
        (f'<c r="{letter}'.encode(), re.compile(_CELL.replace(b"%", letter.encode())).match)
        for letter in (cells.key, cells.flag, cells.amount)
    ]
    (key_start, key_cell), (flag_start, flag_cell), (amount_start, amount_cell) = wanted
    rows, sums = 0, dict[tuple[bytes, bytes], Decimal]()
    for row in _rows(file, cells.member):
        rows += 1
        key = key_cell(row, row.find(key_start))
        flag = flag_cell(row, row.find(flag_start))
        amount = amount_cell(row, row.find(amount_start))
        if key is None or flag is None or amount is None:
            raise ValueError(f"row {rows + 1} of {cells.member} lacks a cell")
        text, sum_key = amount[1].decode(), (key[1], flag[1])
        try:
            value = exact.create_decimal(whole.get(text, text))
        except ArithmeticError:
            raise ValueError(f"row {rows + 1} of {cells.member} has no amount") from None
        sums[sum_key] = exact.add(sums.get(sum_key, _NOTHING), value)
    return ReadBack(
        rows, {(key.decode(), flag.decode()): total for (key, flag), total in sums.items()}
    )


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
