"""A workbook whose long tables are filled in: XlsxWriter's skeleton, and rows from elsewhere.

In the skeleton every long table has its header and model rows. They say the style of each column's
cells and are then replaced. Same inputs give the same bytes.
"""

import importlib
import re
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from io import BytesIO
from typing import IO, Any

from warehouse.spreadsheet.writing.rows import RowsXml, Styles

try:
    _library: Any = importlib.import_module("isal.isal_zlib")
except ImportError:  # ISA-L is not built for every machine
    _library = zlib
_COMPRESSION = 1  # of ISA-L: level 0 gives files a quarter larger, level 3 takes three times as long
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
