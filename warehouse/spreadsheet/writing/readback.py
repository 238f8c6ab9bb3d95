"""What a finished workbook says: rows and exact totals of its long tables, read from the file.

The file is read as it lies on disk, before anybody is given it: what was handed to the writer
proves nothing about what a reader will find.
"""

import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import IO

_CHUNK = 1 << 20  # bytes read at once; a row that is cut is completed by the next
_ROW = b"</row>"


@dataclass(frozen=True, slots=True)
class SumColumns:
    """Where a sheet shows what is added up: the letters of key, flag and exact amount."""

    member: str
    key: str
    flag: str
    amount: str


@dataclass(slots=True)
class ReadBack:
    """Rows, and the sum of each key and flag, as their cells state them."""

    rows: int = 0
    sums: dict[tuple[str, str], Decimal] = field(default_factory=dict)


def add_up(
    file: IO[bytes], cells: SumColumns, whole: Mapping[str, str], exact: Context
) -> ReadBack:
    """Read one sheet; `whole` has the text behind each cell that is too long for one.

    Keys are as they stand in the file, with its escapes. Raises `ValueError` where a row lacks one
    of the three cells or its amount is none.
    """
    # The three cells are found by their letters in the bytes, not by an XML parser: every row of
    # the file is read again, and it is our own XML of which the form is known.
    wanted = re.compile(
        rf'<c r="({cells.key}|{cells.flag}|{cells.amount})[0-9]+"[^>]*>'
        r"<is><t[^>]*>([^<]*)</t></is></c>".encode()
    )
    order = {cells.key.encode(): 0, cells.flag.encode(): 1, cells.amount.encode(): 2}
    read_back = ReadBack()
    for row in _rows(file, cells.member):
        texts = ["", "", ""]
        for letter, text in wanted.findall(row):
            texts[order[letter]] = text.decode()
        amount = whole.get(texts[2], texts[2])
        try:
            value = exact.create_decimal(amount)
        except ArithmeticError:
            raise ValueError(f"row {read_back.rows + 2} of {cells.member} has no amount") from None
        total = read_back.sums.get((texts[0], texts[1]), Decimal(0))
        read_back.sums[texts[0], texts[1]] = exact.add(total, value)
        read_back.rows += 1
    return read_back


def _rows(file: IO[bytes], member: str) -> Iterator[bytes]:
    """Yield the rows of a sheet below its header."""
    with zipfile.ZipFile(file) as archive, archive.open(member) as sheet:
        rest, is_header = b"", True
        while chunk := sheet.read(_CHUNK):
            *rows, rest = (rest + chunk).split(_ROW)
            for row in rows:
                if not is_header:
                    yield row
                is_header = False
