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
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from decimal import Decimal, localcontext
from typing import IO, Any

from warehouse.exact import EXACT
from warehouse.spreadsheet.writing.format import Draft, Filling

try:
    _library: Any = importlib.import_module("isal.isal_zlib")
except ImportError:  # Some machines have no ISA-L package, so use zlib there.
    _library = zlib
# The compression level. With ISA-L, level 0 produces files that are a quarter larger, and level 3
# takes three times as long.
_COMPRESSION = 1
_LARGEST_WITHOUT_ZIP64 = 2**31 - 1  # maximum size of a member without Zip64, in bytes
_MAX_UNPACKED_BATCHES = 4
_CELL_BYTES = 130
_STYLED_CELL = re.compile(r'<c r="[A-Z]+[0-9]+"(?: s="([0-9]+)")?')
_DIMENSION = re.compile(r'<dimension ref="[A-Z]+[0-9]+(?::[A-Z]+([0-9]+))?"/>')

# The size of a chunk in bytes. Chunks that fit in the cache of a core save a tenth of the time
# (measured).
_CHUNK = 1 << 17
# The number of amounts that are added up at once. It saves an eighth of the read-back (measured).
_BATCH = 20_000
_ROW_END = b"</row"  # Keep this short, because a longer pattern makes the search a third slower.
_TEXT_CELL = rb'<c r="%[0-9]+"[^>]*><is><t[^>]*>([^<]*)</t></is></c>'


def splice(draft: Draft, target: IO[bytes]) -> None:
    """Write a workbook with the rows of its tables. Its XlsxWriter book must be closed."""
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
    # export takes 18 s of CPU time, and compressing with zlib takes 2.7 s longer (measured). If a
    # new Python version renames `_compressor`, zlib compresses the file and a test fails.
    member._compressor = _library.compressobj(_COMPRESSION, zlib.DEFLATED, -zlib.MAX_WBITS)  # noqa: SLF001 - see above


def unpack_faster(member: Any) -> None:
    """Make an open ZIP member decompress with ISA-L. zlib still checks the content's CRC-32."""
    # ISA-L saves another 0.5 s of the export that is described in `pack_faster`.
    member._decompressor = _library.decompressobj(-zlib.MAX_WBITS)  # noqa: SLF001 - see `pack_faster`


def _fill(sheet: str, member: IO[bytes], filling: Filling) -> None:
    model = re.search(rf'<row r="{filling.first_row}".*?</row>', sheet, re.DOTALL)
    size = _DIMENSION.search(sheet)
    if model is None or size is None:
        raise ValueError(
            "a table's sheet has no model row or no `dimension` element. No file was written"
        )
    # Programs read a sheet's size from its `dimension` element, which does not cover the table yet.
    last_row = max(filling.last_row, int(size[1] or 1))
    dimension = f'<dimension ref="A1:{filling.last_column}{last_row}"/>'
    member.write(f"{sheet[: size.start()]}{dimension}{sheet[size.end() : model.start()]}".encode())
    # Pack rows on a second core while the next rows are generated. Packing is never more than a few
    # batches behind.
    with ThreadPoolExecutor(1, "packing") as packer:
        waiting = deque[Future[int]]()
        for rows in filling.render([style or "0" for style in _STYLED_CELL.findall(model[0])]):
            waiting.append(packer.submit(member.write, rows))
            if len(waiting) > _MAX_UNPACKED_BATCHES:
                waiting.popleft().result()
        for packing in waiting:
            packing.result()
    member.write(sheet[model.end() :].encode())


def add_up(
    file: IO[bytes], member: str, letters: tuple[str, str, str], whole: Mapping[str, str]
) -> tuple[int, dict[tuple[str, str], Decimal]]:
    """Count the rows of one sheet of a finished file, and add up its amounts by key and flag.

    `letters` are the columns of the key, the flag and the exact amount, from left to right. `whole`
    maps shortened strings to the complete strings. Keys stay escaped as in the file. Raises
    `ValueError` if a row lacks one of the three cells, or if its amount is not a number.
    """
    # Find the cells by column letter in the raw bytes. This is faster than an XML parser, which
    # matters because we read every row. It is safe, because we wrote the XML. Start each match at
    # the tag of the cell, so that the match does not scan the two dozen other cells in the row.
    key_letter, flag_letter, amount_letter = letters
    keys, amount_cell = _cell_matcher(key_letter, flag_letter), _cell_matcher(amount_letter)
    key_start, amount_start = f'<c r="{key_letter}'.encode(), f'<c r="{amount_letter}'.encode()
    rows = 0
    sums: dict[tuple[bytes, ...], Decimal] = defaultdict(Decimal)
    waiting: defaultdict[tuple[bytes, ...], list[str]] = defaultdict(list)
    for row in _rows(file, member):
        rows += 1
        key = keys(row, row.find(key_start))
        amount = key and amount_cell(row, row.find(amount_start, key.end()))
        if key is None or amount is None:
            raise ValueError(f"row {rows + 1} of {member} is missing a cell")
        shown = amount[1].decode()
        waiting[key.groups()].append(whole.get(shown, shown))
        if rows % _BATCH == 0:
            _add_waiting(sums, waiting, member)
    _add_waiting(sums, waiting, member)
    return rows, {(key.decode(), flag.decode()): total for (key, flag), total in sums.items()}


def _add_waiting(
    sums: dict[tuple[bytes, ...], Decimal],
    waiting: dict[tuple[bytes, ...], list[str]],
    member: str,
) -> None:
    """Add the collected amounts to the sums, in a context that raises if a digit is lost."""
    with localcontext(EXACT):
        for key, texts in waiting.items():
            try:
                sums[key] = sum(map(Decimal, texts), sums[key])
            except ArithmeticError:
                raise ValueError(f"one of {texts[:3]} in {member} is not an amount") from None
    waiting.clear()


def _cell_matcher(*letters: str) -> Callable[[bytes, int], re.Match[bytes] | None]:
    """Return a function that matches these columns' cells in order and captures their content."""
    cells = [_TEXT_CELL.replace(b"%", letter.encode()) for letter in letters]
    return re.compile(b".*?".join(cells), re.DOTALL).match


def _rows(file: IO[bytes], member: str) -> Iterator[bytes]:
    """Yield a sheet's rows below its header."""
    with (
        zipfile.ZipFile(file) as archive,
        archive.open(member) as sheet,
        # Unpack the sheet in a separate thread, which runs on a second core.
        ThreadPoolExecutor(1, "unpacking") as unpacker,
    ):
        unpack_faster(sheet)
        rest, is_header, ahead = b"", True, unpacker.submit(sheet.read, _CHUNK)
        while chunk := ahead.result():
            ahead = unpacker.submit(sheet.read, _CHUNK)
            *rows, rest = (rest + chunk).split(_ROW_END)
            for row in rows:
                if not is_header:
                    yield row
                is_header = False
