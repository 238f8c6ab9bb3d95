"""A workbook's cells, read in a child process (see `warehouse.isolation`).

calamine allocates the whole rectangle from A1 to the last filled cell, unpacks everything in the
archive, and panics on some programs' files. All of this happens in the child process. If the child
ends without a result, the file is rejected.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from itertools import chain
from typing import Any

import msgspec
import python_calamine
from msgspec.msgpack import Ext

from warehouse.isolation import (
    ChildKilled,
    ChildLimits,
    ChildNotStarted,
    ChildStopped,
    ChildTimedOut,
    run_in_child,
)
from warehouse.spreadsheet.reading.files import (
    MAX_CELLS,
    OPEN_DOCUMENT,
    Named,
    NotASpreadsheet,
    UnreadableSpreadsheet,
    archive,
    flat_root,
    format_problem,
    is_compound,
    password_refusal,
    refusal,
    require_no_password,
    too_wide,
)
from warehouse.spreadsheet.reading.formulas import letters_of
from warehouse.spreadsheet.reading.openxml import SheetFindings, findings
from warehouse.spreadsheet.reading.xml_workbooks import (
    FormatError,
    OpenDocument,
    SheetRows,
    SpreadsheetML,
    TooWideError,
    filled_spans,
)

# The memory limit is enough for the largest sheet (60 million cells of 24 bytes), its cells as
# Python objects, and the interpreter.
LIMITS = ChildLimits(seconds=600, memory_bytes=4 * 1024**3)

_PACKABLE_TYPES = {str, float, int, bool}
_CONTENT = "content.xml"  # the part of an OpenDocument file that contains the sheets

# Pack dates, times and durations as strings in extensions, because MessagePack supports only times
# with a time zone.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """One sheet, or the table in a text file.

    `lines` contains the rows' line numbers if they are not simply 1, 2, 3 and so on. `errors` maps
    the row and column index of each error cell to its text. If `is_blank_sure` is false, an empty
    cell may be an error cell, because the format does not distinguish them. `is_printed` is true
    for a text file without a known header that looks like a printed table.
    """

    sheet: str
    rows: Sequence[Sequence[object]]
    lines: Sequence[int] = ()
    errors: Mapping[tuple[int, int], str] = field(default_factory=dict)
    merged: tuple[tuple[tuple[int, int], tuple[int, int]], ...] = ()
    hidden_rows: int = 0
    hidden_columns: frozenset[int] = frozenset()
    is_visible: bool = True
    is_blank_sure: bool = True
    is_printed: bool = False

    def line(self, row: int) -> int:
        """Convert a row index to the row number shown in a spreadsheet program or an editor."""
        return self.lines[row] if self.lines else row + 1


class WorkbookCells(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """A workbook's worksheets, the name and kind of each other tab, and notices for the reader.

    If the file could not be read, `refused` is the reason. `is_damaged` is true if the file is not
    recognised as a spreadsheet.
    """

    grids: tuple[Grid, ...] = ()
    others: tuple[tuple[str, str], ...] = ()
    notices: tuple[str, ...] = ()
    refused: str = ""
    is_damaged: bool = False


def read_workbook(
    path: Named, content: bytes, *, marker: bytes = b"", skipped: str = ""
) -> WorkbookCells:
    """Read the cells of every worksheet. If no part of the file contains the marker, read nothing.

    Sheets whose name starts with `skipped` get no cells. Raises `NotASpreadsheet` if the file is
    not a spreadsheet, and `UnreadableSpreadsheet` if it cannot be read for another reason.
    """
    request = msgspec.msgpack.encode(WorkbookRequest(path.name, content, marker, skipped))
    try:
        reply = decode_reply(run_in_child(f"{__name__}:read_in_child", request, LIMITS))
    except (ChildNotStarted, ChildKilled) as error:
        problem = "could not start" if isinstance(error, ChildNotStarted) else "was killed"
        raise refusal(
            path,
            f"was not read, because the process that reads files {problem}"
            f"{f' ({error})' * bool(str(error))}",
            "Check the installation and its memory with `nightbook doctor`",
        ) from error
    except ChildTimedOut as error:
        raise refusal(
            path,
            f"could not be read within {LIMITS.seconds:g} seconds",
            "Delete sheets and cells that are not needed, and save the file again",
        ) from error
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
    return reply


def read_in_child(request: bytes) -> bytes:
    """Read a workbook in the child process."""
    try:
        reply = _read(msgspec.msgpack.decode(request, type=WorkbookRequest))
    except UnreadableSpreadsheet as error:
        reply = WorkbookCells(refused=str(error), is_damaged=isinstance(error, NotASpreadsheet))
    return msgspec.msgpack.encode(reply)


def _read(request: WorkbookRequest) -> WorkbookCells:
    if request.marker and not _has_marker(request):
        return WorkbookCells()
    if problem := format_problem(request.content):
        raise refusal(
            request, problem, "Open it in the program that created it, and save it as xlsx or CSV"
        )
    try:
        own = _read_ourselves(request)
        return _read_by_calamine(request) if own is None else own
    except TooWideError as error:
        raise too_wide(request) from error
    except python_calamine.PasswordError as error:
        raise password_refusal(request) from error
    except (python_calamine.CalamineError, FormatError) as error:
        problem = f"is not a complete spreadsheet ({error})"
        message = str(refusal(request, problem, "Save it again as xlsx, ods or CSV"))
        raise NotASpreadsheet(message) from error


def _read_ourselves(request: WorkbookRequest) -> WorkbookCells | None:
    """Read the sheets with our own reader. Return None for formats that calamine reads."""
    if root := flat_root(request.content):
        handler = OpenDocument() if root == OPEN_DOCUMENT else SpreadsheetML()
        return _as_cells(handler.read(io.BytesIO(request.content)), request)
    if is_compound(request.content):
        require_no_password(request, request.content)
        return None
    with archive(request, request.content) as names:
        if _CONTENT not in names.namelist():
            return None
        with names.open(_CONTENT) as content:
            return _as_cells(OpenDocument(request.skipped).read(content), request)


def _as_cells(sheets: list[SheetRows], request: WorkbookRequest) -> WorkbookCells:
    if request.marker:  # if the caller passes a marker, it expects rows of equal length
        for sheet in sheets:
            for row in sheet.rows:
                row.extend([""] * (sheet.width - len(row)))
    grids = (
        Grid(
            sheet=sheet.name,
            rows=_packable(sheet.rows),
            errors=sheet.errors,
            merged=filled_spans(sheet.rows, sheet.merged),
            hidden_rows=sheet.hidden_rows,
            hidden_columns=frozenset(sheet.hidden_columns),
            is_visible=sheet.is_visible,
        )
        for sheet in sheets
    )
    return WorkbookCells(grids=tuple(grids))


def _read_by_calamine(request: WorkbookRequest) -> WorkbookCells:
    content = request.content
    findings_by_sheet: dict[str, SheetFindings] = {}
    if not is_compound(content) and not request.marker:
        with archive(request, content) as names:
            findings_by_sheet = findings(names)
    grids: list[Grid] = []
    notices: list[str] = []
    others: list[tuple[str, str]] = []
    with python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(content)) as book:
        for tab in book.sheets_metadata:
            if tab.typ is not python_calamine.SheetTypeEnum.WorkSheet:
                others.append((tab.name, str(tab.typ).rpartition(".")[2]))
                continue
            found = findings_by_sheet.get(tab.name, SheetFindings())
            grids.append(_grid(request, book, tab, found))
            notices += [
                f"{tab.name}: column {letters_of(column)} shows its numbers in thousands or "
                f"millions (format {code!r}). The unscaled cell values were read"
                for column, code in sorted(found.scaled.items())
            ]
    return WorkbookCells(grids=tuple(grids), others=tuple(others), notices=tuple(notices))


def _has_marker(request: WorkbookRequest) -> bool:
    try:
        with archive(request, request.content) as names:
            return any(request.marker in names.read(info) for info in names.infolist())
    except UnreadableSpreadsheet:
        return False


def _grid(
    request: WorkbookRequest,
    book: python_calamine.CalamineWorkbook,
    tab: python_calamine.SheetMetadata,
    found: SheetFindings,
) -> Grid:
    sheet = book.get_sheet_by_name(tab.name)
    height, width = sheet.end or (0, 0)
    if (height + 1) * (width + 1) > MAX_CELLS:
        raise too_wide(request)
    is_read = not (request.skipped and tab.name.startswith(request.skipped))
    rows = sheet.to_python(skip_empty_area=False) if is_read else []
    if is_compound(request.content) and any(map(_is_garbled, chain.from_iterable(rows))):
        raise refusal(
            request,
            "is an xls file whose texts cannot be read, because it states a wrong code page",
            "Open it in a spreadsheet program, and save it as xlsx or CSV",
        )
    if not request.marker:
        _trim(rows)
    return Grid(
        sheet=tab.name,
        rows=_packable(rows),
        errors=found.errors,
        merged=filled_spans(rows, sheet.merged_cell_ranges or ()),
        hidden_rows=found.hidden_rows,
        hidden_columns=found.hidden_columns,
        is_visible=tab.visible is python_calamine.SheetVisibleEnum.Visible,
        is_blank_sure=not is_compound(request.content),
    )


def _is_garbled(cell: object) -> bool:
    """Return whether a text was decoded byte by byte, although it is UTF-16.

    Perl and PHP libraries write a Windows code page into xls files, which allow only UTF-16.
    calamine then returns a control character next to each Latin (0) or Cyrillic (4) character.
    """
    return isinstance(cell, str) and ("\0" in cell or "\x04" in cell)


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


def decode_reply(reply: bytes) -> WorkbookCells:
    """Decode the bytes that `read_in_child` returned."""
    return _DECODER.decode(reply)
