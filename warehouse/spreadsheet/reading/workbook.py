"""Read the cells of a workbook in a child process (see `warehouse.isolation`).

A reader of spreadsheets makes room for the whole rectangle between A1 and the last cell with
something in it, unpacks whatever the archive holds, and panics on files of some programs. All of
it happens in the child: where that ends without a result, the file is refused.
"""

import io
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import msgspec
import python_calamine
from msgspec.msgpack import Ext

from warehouse.isolation import ChildStopped, Limits, run_in_child
from warehouse.spreadsheet.reading.safety import (
    MOST_CELLS,
    NotASpreadsheet,
    UnreadableSpreadsheet,
    archive,
    is_compound,
    password_refusal,
    refusal,
    require_no_password,
    too_wide,
)
from warehouse.spreadsheet.reading.xml_findings import SheetFindings, findings

# Room for the largest sheet that is read, 60 million cells of 24 bytes, for the same cells as
# Python's objects, and for what an interpreter maps for itself.
LIMITS = Limits(seconds=600, memory_bytes=4 * 1024**3)
_PLAIN = {str, float, int, bool}
# MessagePack knows no times without a zone: each kind has an extension, whose content is its text.
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
    """A file to read, what it must contain, and how sheets begin that are opened but not read."""

    name: str
    content: bytes
    marker: bytes = b""
    skipped: str = ""


class SheetCells(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """One tab: only one of kind `WorkSheet` has cells."""

    name: str
    kind: str
    is_visible: bool = True
    rows: list[list[Any]] = []
    merged: tuple[tuple[tuple[int, int], tuple[int, int]], ...] = ()


class WorkbookCells(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """What was read of a workbook: its tabs, and by name what the reader does not tell of them.

    `refused` says why nothing was read; `is_damaged` where the reader took it for no workbook,
    `lacks_marker` where it does not contain what was asked for.
    """

    sheets: tuple[SheetCells, ...] = ()
    findings: dict[str, SheetFindings] = {}
    refused: str = ""
    is_damaged: bool = False
    lacks_marker: bool = False


def read_workbook(
    path: Path, content: bytes, *, marker: bytes = b"", skipped: str = ""
) -> WorkbookCells | None:
    """Read the cells of every tab, or return None where no part of the file has the marker.

    Tabs whose name begins with `skipped` are opened but not read. Raises `NotASpreadsheet` where
    the file is none, and `UnreadableSpreadsheet` where it cannot be read for another reason.
    """
    request = msgspec.msgpack.encode(WorkbookRequest(path.name, content, marker, skipped))
    try:
        reply = _DECODER.decode(run_in_child(f"{__name__}:read_in_child", request, LIMITS))
    except ChildStopped as error:
        raise refusal(
            path,
            "broke the reader of spreadsheets: it spans more cells than a ledger has, from A1 to "
            "the last one that is filled, or it is damaged, or was made by a program that writes "
            "spreadsheets in a way of its own",
            "Delete what stands far to the right or far below, and save it again as xlsx, ods or "
            "CSV",
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
    path = Path(request.name)
    if request.marker and not _has_marker(path, request):
        return WorkbookCells(lacks_marker=True)
    findings_by_sheet = {} if request.marker else _findings(path, request.content)
    try:
        source = io.BytesIO(request.content)
        with python_calamine.CalamineWorkbook.from_filelike(source) as book:
            sheets = tuple(_sheet(path, book, tab, request.skipped) for tab in book.sheets_metadata)
    except python_calamine.PasswordError as error:
        raise password_refusal(path) from error
    except python_calamine.CalamineError as error:
        raise NotASpreadsheet(
            str(
                refusal(
                    path, f"is no whole spreadsheet ({error})", "Save it again as xlsx, ods or CSV"
                )
            )
        ) from error
    return WorkbookCells(sheets=sheets, findings=findings_by_sheet)


def _has_marker(path: Path, request: WorkbookRequest) -> bool:
    try:
        with archive(path, request.content) as names:
            return any(request.marker in names.read(info) for info in names.infolist())
    except UnreadableSpreadsheet:
        return False


def _findings(path: Path, content: bytes) -> dict[str, SheetFindings]:
    if is_compound(content):
        require_no_password(path, content)
        return {}
    with archive(path, content) as names:
        return findings(names)


def _sheet(
    path: Path,
    book: python_calamine.CalamineWorkbook,
    tab: python_calamine.SheetMetadata,
    skipped: str,
) -> SheetCells:
    kind = str(tab.typ).rpartition(".")[2]
    if tab.typ is not python_calamine.SheetTypeEnum.WorkSheet:
        return SheetCells(name=tab.name, kind=kind)
    sheet = book.get_sheet_by_name(tab.name)
    height, width = sheet.end or (0, 0)
    if (height + 1) * (width + 1) > MOST_CELLS:
        raise too_wide(path)
    is_read = not (skipped and tab.name.startswith(skipped))
    return SheetCells(
        name=tab.name,
        kind=kind,
        is_visible=tab.visible is python_calamine.SheetVisibleEnum.Visible,
        rows=_packable(sheet.to_python(skip_empty_area=False)) if is_read else [],
        merged=tuple(sheet.merged_cell_ranges or ()),
    )


def _packable(rows: list[list[Any]]) -> list[list[Any]]:
    return [[cell if type(cell) in _PLAIN else _pack(cell) for cell in row] for row in rows]


def _pack(cell: Any) -> Ext:
    code, text = _TO_TEXT[type(cell)]
    return Ext(code, text(cell).encode())


def _unpack(code: int, text: memoryview) -> object:
    return _FROM_TEXT[code](bytes(text).decode())


_DECODER = msgspec.msgpack.Decoder(WorkbookCells, ext_hook=_unpack)
