"""Workbooks with long tables: rows are put into the file of XlsxWriter, and read back."""

import importlib
import re
import zipfile
import zlib
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Context, Decimal, localcontext
from io import BytesIO
from typing import IO, Any

from warehouse.spreadsheet.writing.rows import RowsXml, Styles

try:
    _library: Any = importlib.import_module("isal.isal_zlib")
except ImportError:  # ISA-L is not built for every machine
    _library = zlib
_COMPRESSION = (
    1  # of ISA-L: level 0 gives files a quarter larger, level 3 takes three times as long
)
_LARGE = 2**31 - 1
_BEHIND = 4  # batches of rows that wait to be packed
_CELL = re.compile(r'<c r="([A-Z]+)([0-9]+)"(?: s="([0-9]+)")?')
_MODELS = re.compile(r'<row r="2".*?(?=</sheetData>)', re.DOTALL)
_DIMENSION = re.compile(r'<dimension ref="[^"]*"/>')

Filling = Callable[[Styles], Iterable[RowsXml]]


def splice(
    skeleton: BytesIO,
    target: IO[bytes],
    fillings: Mapping[int, tuple[str, int, Filling]],
) -> None:
    """Write the workbook; `fillings` has, by sheet number from 1, its range, size and rows.

    Members are opened by name, which leaves the time of day out. The size is the most bytes that
    the rows may come to: it only decides on the archive's form.
    """
    parts = {f"xl/worksheets/sheet{number}.xml": filling for number, filling in fillings.items()}
    with (
        zipfile.ZipFile(skeleton) as source,
        zipfile.ZipFile(
            target, "w", zipfile.ZIP_DEFLATED, compresslevel=_COMPRESSION
        ) as target_archive,
    ):
        for name in source.namelist():
            # Members are opened by name, so no time of day is in the archive: the same book is the
            # same file. Beyond 2 GiB a member needs the form of Zip64, which must be said before.
            large = name in parts and parts[name][1] > _LARGE
            with target_archive.open(name, "w", force_zip64=large) as out:
                pack_faster(out)
                if name in parts:
                    _fill(source.read(name).decode(), out, parts[name])
                else:
                    out.write(source.read(name))


def pack_faster(member: Any) -> None:
    """Compress a ZIP member that is open for writing with ISA-L instead of zlib."""
    # `zipfile` has no public way to choose the compressor. Measured for rows of 1.1 kB: ISA-L takes
    # 1.0 microseconds of CPU for a row, zlib 3.7. That is 12 % of `nightbook export` at scale M. On
    # a Python that renames `_compressor`, a test fails and zlib does the work.
    member._compressor = _library.compressobj(_COMPRESSION, zlib.DEFLATED, -zlib.MAX_WBITS)  # noqa: SLF001 - see above


def _fill(model: str, out: IO[bytes], part: tuple[str, int, Filling]) -> None:
    cells, _, filling = part
    models = _MODELS.search(model)
    if models is None:
        raise ValueError("the skeleton of a long table has no model rows; no file was made")
    # The skeleton says that it reaches to the second model row: the real range replaces that, since
    # programs size the sheet by it.
    before = _DIMENSION.sub(f'<dimension ref="{cells}"/>', model[: models.start()], count=1)
    out.write(before.encode())
    # Packed on a second core while the next rows are made, never many batches behind.
    with ThreadPoolExecutor(1, "packing") as packer:
        behind = deque[Future[int]]()
        for rows in filling(_styles(models[0])):
            behind.append(packer.submit(out.write, rows))
            if len(behind) > _BEHIND:
                behind.popleft().result()
        for packing in behind:
            packing.result()
    out.write(model[models.end() :].encode())


def _styles(models: str) -> Styles:
    by_row: dict[str, dict[str, str]] = {}
    for letter, row, style in _CELL.findall(models):
        by_row.setdefault(row, {})[letter] = style or "0"
    return Styles(by_row.pop("2", {}), by_row.pop("3", {}), tuple(by_row.values()))


_CHUNK = 1 << 17  # bytes read at once: what a core's cache holds is a tenth cheaper (measured)
# Python looks for more than five bytes in a large text by another way, a third slower (measured).
_ROW = b"</row"
_READBACK_CELL = rb'<c r="%[0-9]+"[^>]*><is><t[^>]*>([^<]*)</t></is></c>'
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
    cells = [_READBACK_CELL.replace(b"%", letter.encode()) for letter in letters]
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
