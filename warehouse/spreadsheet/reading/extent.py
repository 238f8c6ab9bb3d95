"""How many cells the sheets of a workbook span, from its XML alone.

A reader of spreadsheets makes room for the whole rectangle between A1 and the last cell with
something in it, and where there is no such room the process ends without a word. Cells that are
only formatted, and the dimension that a sheet states of itself, take no room.
"""

import re
import zipfile
from itertools import chain, pairwise

MOST_CELLS = 60_000_000
_LONG = 4 * 1024**2  # bytes of XML: what is shorter is taken apart in a moment
# Bounds that a long sheet may keep to, the letters and digits of its places, and their cells.
_BOUNDS = (
    (rb"[A-Z]", rb"[1-9][0-9]{0,4}", 26 * 99_999),
    (rb"[A-Z]", rb"(?:[1-9][0-9]{0,5}|10[0-4][0-9]{4})", 26 * 1_049_999),
    (rb"A?[A-Z]", rb"(?:[1-9][0-9]{0,5}|10[0-4][0-9]{4})", 52 * 1_049_999),
    (rb"[A-V]?[A-Z]", rb"[1-9][0-9]{0,4}", 598 * 99_999),
)
# With a literal start, and so one for each of two, a search is four times as fast.
_BEYOND = tuple(
    (
        [re.compile(b'%bc(?=[\\s/>])(?! r="%b%b")' % (start, *bound)) for start in (b"<", b":")],
        cells,
    )
    for *bound, cells in _BOUNDS
)
_TAG = re.compile(rb"<(?:[^\s<>/:]+:)?(row|c)(?=[\s/>])")
_OPEN_TAG = re.compile(rb"<table:table(-row)?(?=[\s/>])")
_OPEN_CELL = re.compile(rb"<table:(?:covered-)?table-cell(?=[\s/>])")
_COLUMNS = b"-columns-repeated"
# What follows a tag's name: its attributes, and whether the end of it follows at once.
_REST = re.compile(rb"([^<>\"']*(?:(?:\"[^<\"]*\"|'[^<']*')[^<>\"']*)*)>(\s*</)?")
_ROW = re.compile(rb"\br\s*=\s*[\"']([0-9]{1,19})[\"']")
_CELL = re.compile(rb"\br\s*=\s*[\"']([A-Za-z]{1,9})([0-9]{1,19})[\"']")
_REPEATED = re.compile(rb"-repeated\s*=\s*[\"']([0-9]{1,19})[\"']")
_VALUE = re.compile(rb"\b(?:value-type|formula)\s*=")
_ENDLESS = 2**63


def count_cells(names: zipfile.ZipFile) -> int:
    """How many cells all sheets span together, never fewer; exactly, where they may be too many.

    Every part is looked at, since the reader decides which parts are sheets. Raises what `zipfile`
    and `zlib` raise for a damaged part.
    """
    quick = sum(_part(names, info, is_quick=True) for info in names.infolist())
    if quick <= MOST_CELLS:
        return quick
    return sum(_part(names, info, is_quick=False) for info in names.infolist())


def _part(names: zipfile.ZipFile, info: zipfile.ZipInfo, *, is_quick: bool) -> int:
    xml = names.read(info)
    found = _open_span(xml) if info.filename.endswith("content.xml") else 0
    if b"sheetData" not in xml:
        return found
    return found + ((_bound(xml) if is_quick and len(xml) > _LONG else None) or _span(xml))


def _bound(xml: bytes) -> int | None:
    """The first bound that every cell keeps to, be it filled or not; None where none is kept."""
    for beyond, cells in _BEYOND:
        if not any(bound.search(xml) for bound in beyond):
            return cells
    return None


def _span(xml: bytes) -> int:
    """Of Excel: a cell that does not say its place stands right of the one before."""
    row = column = height = width = 0
    for tag in _TAG.finditer(xml):
        rest = _REST.match(xml, tag.end())
        if rest is None:
            return _ENDLESS
        if tag[1] == b"row":
            row, column = max(map(int, _ROW.findall(rest[1])), default=row + 1), 0
            continue
        places = _CELL.findall(rest[1])
        at = max((int(digits) for _, digits in places), default=row)
        column = max((_number(letters) for letters, _ in places), default=column + 1)
        if _is_filled(rest):
            height, width = max(height, at), max(width, column)
    return height * width


def _open_span(xml: bytes) -> int:
    """Of OpenDocument: rows and cells may be repeated, which counts as far as one is filled."""
    whole = below = height = width = 0
    for tag, after in pairwise(chain(_OPEN_TAG.finditer(xml), [None])):
        rest = _REST.match(xml, tag.end()) if tag else None
        if tag is None or rest is None:
            return _ENDLESS
        if tag[1] is None:
            whole += height * width
            below = height = width = 0
            continue
        times = _times(rest)
        below += times
        stop = after.start() if after else len(xml)
        columns = _plain_columns(xml, rest.end(1), stop) if times == 1 else None
        columns = _columns(xml, rest.end(1), stop) if columns is None else columns
        if columns:
            height, width = below, max(width, columns)
    return whole + height * width


def _plain_columns(xml: bytes, start: int, stop: int) -> int | None:
    """The cells of a row in which none is repeated but for an empty last one; else None."""
    repeated = xml.count(_COLUMNS, start, stop)
    if repeated:
        last = _OPEN_CELL.match(xml, max(xml.rfind(b"<table:", start, stop), start))
        rest = _REST.match(xml, last.end()) if last else None
        if repeated > 1 or rest is None or _COLUMNS not in rest[1] or _is_filled(rest):
            return None
    cells = xml.count(b"<table:table-cell", start, stop)
    return cells + xml.count(b"<table:covered-table-cell", start, stop) - repeated


def _columns(xml: bytes, start: int, stop: int) -> int:
    column = width = 0
    for cell in _OPEN_CELL.finditer(xml, start, stop):
        rest = _REST.match(xml, cell.end())
        if rest is None:
            return _ENDLESS
        column += _times(rest)
        if _is_filled(rest) or _VALUE.search(rest[1]):
            width = column
    return width


def _times(rest: re.Match[bytes]) -> int:
    if b"-repeated" not in rest[1]:
        return 1
    return max(map(int, _REPEATED.findall(rest[1])), default=1)


def _is_filled(rest: re.Match[bytes]) -> bool:
    return not (rest[1].endswith(b"/") or rest[2])


def _number(letters: bytes) -> int:
    column = 0
    for letter in letters.upper():
        column = column * 26 + letter - ord("A") + 1
    return column
