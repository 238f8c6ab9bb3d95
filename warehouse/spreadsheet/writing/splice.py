"""Workbooks with tables. XlsxWriter writes the file, and the tables' rows are inserted afterwards.

In the file that XlsxWriter writes, every table has a header and a model row, which holds the cell
styles. The real rows replace the model row. The same input always produces the same bytes.

The finished file is read back from disk before anybody receives it, because correct input to the
writer does not prove that the file is correct.
"""

import importlib
import re
import zipfile
import zlib
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Context, Decimal, localcontext
from typing import IO, Any

from warehouse.spreadsheet.writing.format import Draft, Filling

try:
    _library: Any = importlib.import_module("isal.isal_zlib")
except ImportError:  # There are no ISA-L packages for some machines.
    _library = zlib
# ISA-L's level 0 produces files that are a quarter larger, and level 3 takes three times as long.
_COMPRESSION = 1
_LARGEST_WITHOUT_ZIP64 = 2**31 - 1  # bytes
_MOST_UNPACKED_BATCHES = 4
_CELL_BYTES = 130
_STYLED_CELL = re.compile(r'<c r="[A-Z]+[0-9]+"(?: s="([0-9]+)")?')
_DIMENSION = re.compile(r'<dimension ref="[A-Z]+[0-9]+(?::[A-Z]+([0-9]+))?"/>')

# Bytes per chunk. Chunks that fit in a core's cache save a tenth of the time (measured).
_CHUNK = 1 << 17
_ROW_END = b"</row"  # short, because a longer pattern makes the search a third slower
_TEXT_CELL = rb'<c r="%[0-9]+"[^>]*><is><t[^>]*>([^<]*)</t></is></c>'
_ROWS_PER_SUM = 20_000


def splice(draft: Draft, target: IO[bytes]) -> None:
    """Write a workbook whose book is closed, with the rows of its tables."""
    parts = {f"xl/worksheets/sheet{number}.xml": table for number, table in draft.fillings.items()}
    with (
        zipfile.ZipFile(draft.file) as source,
        zipfile.ZipFile(
            target, "w", zipfile.ZIP_DEFLATED, compresslevel=_COMPRESSION
        ) as target_archive,
    ):
        for name in source.namelist():
            # Open each member by name, so that its timestamp is constant and the same book always
            # produces an identical file. A member above 2 GiB needs Zip64, which must be chosen in
            # advance.
            is_large = name in parts and parts[name].cells * _CELL_BYTES > _LARGEST_WITHOUT_ZIP64
            with target_archive.open(name, "w", force_zip64=is_large) as member:
                pack_faster(member)
                if name in parts:
                    _fill(source.read(name).decode(), member, parts[name])
                else:
                    member.write(source.read(name))


def pack_faster(member: Any) -> None:
    """Make an open ZIP member compress with ISA-L instead of zlib."""
    # `zipfile` has no public way to choose the compressor. With 300,000 accounts (scale M), an
    # export takes 4.1 s of CPU with ISA-L and 4.5 s with zlib, which is 10 % more (measured). If
    # Python renames `_compressor`, a test fails, and zlib compresses the file.
    member._compressor = _library.compressobj(_COMPRESSION, zlib.DEFLATED, -zlib.MAX_WBITS)  # noqa: SLF001 - see above


def _fill(sheet: str, member: IO[bytes], filling: Filling) -> None:
    model = re.search(rf'<row r="{filling.first_row}".*?</row>', sheet, re.DOTALL)
    size = _DIMENSION.search(sheet)
    if model is None or size is None:
        raise ValueError("a table's sheet has no model row or no size, so no file was written")
    # Programs read a sheet's size from its `dimension` element, which does not cover the table yet.
    last_row = max(filling.last_row, int(size[1] or 1))
    dimension = f'<dimension ref="A1:{filling.last_column}{last_row}"/>'
    member.write(f"{sheet[: size.start()]}{dimension}{sheet[size.end() : model.start()]}".encode())
    # A second core packs rows while the next rows are generated. It is never more than a few
    # batches behind.
    with ThreadPoolExecutor(1, "packing") as packer:
        waiting = deque[Future[int]]()
        for rows in filling.render([style or "0" for style in _STYLED_CELL.findall(model[0])]):
            waiting.append(packer.submit(member.write, rows))
            if len(waiting) > _MOST_UNPACKED_BATCHES:
                waiting.popleft().result()
        for packing in waiting:
            packing.result()
    member.write(sheet[model.end() :].encode())


@dataclass(frozen=True, slots=True)
class SumColumns:
    """The column letters used to add up a sheet: key, flag and exact amount.

    The flag is to the right of the key, and the amount is to the right of both.
    """

    member: str
    key: str
    flag: str
    amount: str


@dataclass(frozen=True, slots=True)
class ReadBack:
    """A sheet's row count, and the sum for each key and flag, as read from its cells."""

    rows: int
    sums: dict[tuple[str, str], Decimal]


def add_up(
    file: IO[bytes], cells: SumColumns, whole: Mapping[str, str], exact: Context
) -> ReadBack:
    """Add up one sheet of a finished file.

    `whole` maps shortened strings to the complete strings. Keys stay escaped as in the file. Raises
    `ValueError` if a row lacks one of the three cells, or if its amount is not a number.
    """
    # Find the cells by column letter in the raw bytes. This is faster than an XML parser, which
    # matters because we read every row, and it is safe because we wrote the XML. Start each match
    # at the cell's own tag, so that it does not scan the row's two dozen other cells.
    keys, amount_cell = _cell_matcher(cells.key, cells.flag), _cell_matcher(cells.amount)
    key_start, amount_start = (f'<c r="{letter}'.encode() for letter in (cells.key, cells.amount))
    rows, sums = 0, _SheetSums(cells.member, whole, exact)
    waiting = sums.waiting
    for row in _rows(file, cells.member):
        rows += 1
        key = keys(row, row.find(key_start))
        amount = key and amount_cell(row, row.find(amount_start, key.end()))
        if key is None or amount is None:
            raise ValueError(f"row {rows + 1} of {cells.member} is missing a cell")
        waiting[key.groups()].append(amount[1])
        if rows % _ROWS_PER_SUM == 0:
            sums.settle()
    sums.settle()
    totals = sums.totals.items()
    return ReadBack(rows, {(key.decode(), flag.decode()): total for (key, flag), total in totals})


def _cell_matcher(*letters: str) -> Callable[[bytes, int], re.Match[bytes] | None]:
    """Return a function that matches these columns' cells in order and captures their content."""
    cells = [_TEXT_CELL.replace(b"%", letter.encode()) for letter in letters]
    return re.compile(b".*?".join(cells), re.DOTALL).match


@dataclass(slots=True)
class _SheetSums:
    """Exact sums by key and flag. Adding up many amounts at once halves the time."""

    member: str
    whole: Mapping[str, str]
    exact: Context
    totals: dict[tuple[bytes, ...], Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    waiting: dict[tuple[bytes, ...], list[bytes]] = field(default_factory=lambda: defaultdict(list))

    def settle(self) -> None:
        with localcontext(self.exact):
            for key, cells in self.waiting.items():
                # `map` avoids a Python-level call for each amount, which saves a third of the time.
                shown = [*map(bytes.decode, cells)]
                texts = [*map(self.whole.get, shown, shown)]
                try:
                    self.totals[key] = sum(map(Decimal, texts), self.totals[key])
                except ArithmeticError:
                    raise ValueError(f"{self._wrong(texts)} is not an amount") from None
        self.waiting.clear()

    def _wrong(self, texts: Iterable[str]) -> str:
        """Describe the first string that is not a number, and name its sheet."""
        for text in texts:
            try:
                Decimal(text)
            except ArithmeticError:
                return f"{text[:60]!r} in {self.member}"
        return f"a total in {self.member}"


def _rows(file: IO[bytes], member: str) -> Iterator[bytes]:
    """Yield a sheet's rows below its header."""
    with (
        zipfile.ZipFile(file) as archive,
        archive.open(member) as sheet,
        ThreadPoolExecutor(1, "unpacking") as unpacker,  # Unpacking runs on a second core.
    ):
        rest, is_header, ahead = b"", True, unpacker.submit(sheet.read, _CHUNK)
        while chunk := ahead.result():
            ahead = unpacker.submit(sheet.read, _CHUNK)
            *rows, rest = (rest + chunk).split(_ROW_END)
            for row in rows:
                if not is_header:
                    yield row
                is_header = False
