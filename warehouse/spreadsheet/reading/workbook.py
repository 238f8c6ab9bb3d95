"""A workbook's cells, read in a child process (see `warehouse.isolation`).

calamine allocates the whole rectangle from A1 to the last filled cell, unpacks everything in the
archive, and panics on some programs' files. All of this happens in the child process. If the child
ends without a result, the file is rejected.
"""

import io
import struct
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from typing import Any

import msgspec
import python_calamine
from msgspec.msgpack import Ext

from warehouse.isolation import ChildLimits, ChildStopped, run_in_child
from warehouse.spreadsheet.reading.files import (
    FLAT,
    MOST_CELLS,
    REFUSED,
    FileKind,
    FileName,
    Named,
    NotASpreadsheet,
    UnreadableSpreadsheet,
    archive,
    is_compound,
    kind_of,
    password_refusal,
    refusal,
    require_no_password,
    too_wide,
)
from warehouse.spreadsheet.reading.openxml import SheetFindings, findings
from warehouse.spreadsheet.reading.xml_workbooks import (
    NoSuchFormat,
    SheetRows,
    TooWide,
    filled_spans,
    read_open_document,
    read_spreadsheet_ml,
)

_FIRST_RECORD = (
    b"\x09\x08\x10\x00\x00\x06\x05\x00"  # the first record of a BIFF8 workbook (Excel 97 and later)
)
_SECTOR = 512
_CODE_PAGE = 0x42
_UTF_16 = struct.pack("<H", 1200)


def mend_code_page(content: bytes) -> bytes:
    """Set an xls file's code page to UTF-16, the only one that BIFF8 allows.

    Perl and PHP libraries write a Windows code page instead. calamine then returns strings with a
    zero after each character.
    """
    book = content.find(_FIRST_RECORD)
    while book >= 0:
        end = min(book - book % _SECTOR + _SECTOR, len(content))
        offset = book
        while offset + 6 <= end:
            record, length = struct.unpack_from("<HH", content, offset)
            if record == _CODE_PAGE and length == len(_UTF_16):
                content = content[: offset + 4] + _UTF_16 + content[offset + 6 :]
                break
            offset += 4 + length
        book = content.find(_FIRST_RECORD, book + 1)
    return content


# Enough memory for the largest sheet (60 million cells of 24 bytes), its cells as Python objects,
# and the interpreter.
LIMITS = ChildLimits(seconds=600, memory_bytes=4 * 1024**3)
_PACKABLE_TYPES = {str, float, int, bool}
_CONTENT = "content.xml"  # the part of an OpenDocument file that contains the sheets
# MessagePack cannot store times without a time zone, so each of these types is packed as a string
# in an extension.
_TO_TEXT: dict[type, tuple[int, Callable[[Any], str]]] = {
    datetime: (1, datetime.isoformat),
    date: (2, date.isoformat),
    time: (3, time.isoformat),
    timedelta: (4, lambda value: str(value // timedelta(microseconds=1))),
}
_FROM_TEXT: dict[int, Callable[[str], object]] = {
    1: datetime.fromisoformat,
    2: date.fromisoformat,
    3: time.fromisoformat,
    4: lambda text: timedelta(microseconds=int(text)),
}


class WorkbookRequest(msgspec.Struct, array_like=True, frozen=True):
    """A file to read, the marker that it must contain, and the name prefix of sheets to skip."""

    name: str
    content: bytes
    marker: bytes = b""
    skipped: str = ""


class SheetCells(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """One tab. Only tabs of kind `WorkSheet` have cells."""

    name: str
    kind: str
    is_visible: bool = True
    rows: list[list[Any]] = []
    merged: tuple[tuple[tuple[int, int], tuple[int, int]], ...] = ()


class WorkbookCells(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """A workbook's tabs, and the findings by sheet name.

    `refused` is the reason if nothing was read. `is_damaged` is true if the file is not recognized
    as a spreadsheet, and `lacks_marker` if it does not contain the marker.
    """

    sheets: tuple[SheetCells, ...] = ()
    findings: dict[str, SheetFindings] = {}
    refused: str = ""
    is_damaged: bool = False
    lacks_marker: bool = False


def read_workbook(
    path: Named, content: bytes, *, marker: bytes = b"", skipped: str = ""
) -> WorkbookCells | None:
    """Read the cells of every tab. Return None if no part of the file contains the marker.

    Tabs whose name starts with `skipped` get no cells. Raises `NotASpreadsheet` if the file is not
    a spreadsheet, and `UnreadableSpreadsheet` if it cannot be read for another reason.
    """
    request = msgspec.msgpack.encode(WorkbookRequest(path.name, content, marker, skipped))
    try:
        reply = _DECODER.decode(run_in_child(f"{__name__}:read_in_child", request, LIMITS))
    except ChildStopped as error:
        raise refusal(
            path,
            "could not be read: it has too many cells between A1 and the last filled cell, or it "
            "is damaged, or its program uses an unusual format",
            "Delete the cells far to the right or far below, and save the file again as xlsx, ods "
            "or CSV",
        ) from error
    if reply.refused:
        raise (NotASpreadsheet if reply.is_damaged else UnreadableSpreadsheet)(reply.refused)
    return None if reply.lacks_marker else reply


def read_in_child(request: bytes) -> bytes:
    """Read a workbook in the child process."""
    try:
        reply = _read(msgspec.msgpack.decode(request, type=WorkbookRequest))
    except UnreadableSpreadsheet as error:
        reply = WorkbookCells(refused=str(error), is_damaged=isinstance(error, NotASpreadsheet))
    return msgspec.msgpack.encode(reply)


def _read(request: WorkbookRequest) -> WorkbookCells:
    path = FileName(request.name)
    if request.marker and not _has_marker(path, request):
        return WorkbookCells(lacks_marker=True)
    kind = kind_of(request.content)
    if kind in REFUSED:
        raise refusal(path, kind.value, "Open it in its program and save it as xlsx or CSV")
    try:
        own = _read_ourselves(path, request, kind)
        return _read_by_calamine(path, request) if own is None else _as_cells(own, request)
    except TooWide as error:
        raise too_wide(path) from error
    except python_calamine.PasswordError as error:
        raise password_refusal(path) from error
    except (python_calamine.CalamineError, NoSuchFormat) as error:
        problem = f"is not a complete spreadsheet ({error})"
        message = str(refusal(path, problem, "Save it again as xlsx, ods or CSV"))
        raise NotASpreadsheet(message) from error


def _read_ourselves(
    path: Named, request: WorkbookRequest, kind: FileKind
) -> list[SheetRows] | None:
    """Read the sheets with our own reader. Return None if we leave this format to calamine."""
    if kind in FLAT:
        file = io.BytesIO(request.content)
        is_open = kind is FileKind.FLAT_OPEN
        return read_open_document(file) if is_open else read_spreadsheet_ml(file)
    if is_compound(request.content):
        require_no_password(path, request.content)
        return None
    with archive(path, request.content) as names:
        if _CONTENT not in names.namelist():
            return None
        with names.open(_CONTENT) as content:
            return read_open_document(content, request.skipped)


def _as_cells(sheets: list[SheetRows], request: WorkbookRequest) -> WorkbookCells:
    if request.marker:  # callers that pass a marker expect rows of equal length
        for sheet in sheets:
            for row in sheet.rows:
                row.extend([""] * (sheet.width - len(row)))
    return WorkbookCells(
        sheets=tuple(
            SheetCells(
                name=sheet.name,
                kind="WorkSheet",
                is_visible=sheet.is_visible,
                rows=_packable(sheet.rows),
                merged=filled_spans(sheet.rows, sheet.merged),
            )
            for sheet in sheets
        ),
        findings={
            sheet.name: SheetFindings(
                sheet.errors, sheet.hidden_rows, frozenset(sheet.hidden_columns)
            )
            for sheet in sheets
        },
    )


def _read_by_calamine(path: Named, request: WorkbookRequest) -> WorkbookCells:
    content = request.content
    findings_by_sheet: dict[str, SheetFindings] = {}
    if is_compound(content):
        content = mend_code_page(content)
    elif not request.marker:
        with archive(path, content) as names:
            findings_by_sheet = findings(names)
    with python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(content)) as book:
        sheets = tuple(_sheet(path, book, tab, request) for tab in book.sheets_metadata)
    return WorkbookCells(sheets=sheets, findings=findings_by_sheet)


def _has_marker(path: Named, request: WorkbookRequest) -> bool:
    try:
        with archive(path, request.content) as names:
            return any(request.marker in names.read(info) for info in names.infolist())
    except UnreadableSpreadsheet:
        return False


def _sheet(
    path: Named,
    book: python_calamine.CalamineWorkbook,
    tab: python_calamine.SheetMetadata,
    request: WorkbookRequest,
) -> SheetCells:
    kind = str(tab.typ).rpartition(".")[2]
    if tab.typ is not python_calamine.SheetTypeEnum.WorkSheet:
        return SheetCells(name=tab.name, kind=kind)
    sheet = book.get_sheet_by_name(tab.name)
    height, width = sheet.end or (0, 0)
    if (height + 1) * (width + 1) > MOST_CELLS:
        raise too_wide(path)
    is_read = not (request.skipped and tab.name.startswith(request.skipped))
    rows = sheet.to_python(skip_empty_area=False) if is_read else []
    if not request.marker:
        _trim(rows)
    return SheetCells(
        name=tab.name,
        kind=kind,
        is_visible=tab.visible is python_calamine.SheetVisibleEnum.Visible,
        rows=_packable(rows),
        merged=filled_spans(rows, sheet.merged_cell_ranges or ()),
    )


def _trim(rows: list[list[Any]]) -> None:
    """Remove trailing blank cells, because one cell in column IV makes all rows 256 cells wide."""
    for row in rows:
        filled = len(row)
        while filled and row[filled - 1] == "":
            filled -= 1
        del row[filled:]


def _packable(rows: list[list[Any]]) -> list[list[Any]]:
    return [
        [cell if type(cell) in _PACKABLE_TYPES else _pack_time(cell) for cell in row]
        for row in rows
    ]


def _pack_time(cell: Any) -> Ext:
    code, text = _TO_TEXT[type(cell)]
    return Ext(code, text(cell).encode())


def _unpack_time(code: int, text: memoryview) -> object:
    return _FROM_TEXT[code](bytes(text).decode())


_DECODER = msgspec.msgpack.Decoder(WorkbookCells, ext_hook=_unpack_time)
