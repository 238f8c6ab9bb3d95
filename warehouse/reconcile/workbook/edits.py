"""Who saved a workbook last, and when: evidence, so that a name which is nobody's is none.

Excel and LibreOffice write who saved last beside who made the file, which is us. In a workbook of
OpenDocument `dc:creator` is who saved it last; in one of Excel it is who made it.
"""

import hashlib
import io
import re
import zipfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import unescape
from itertools import pairwise
from pathlib import Path

from warehouse.reconcile.model import SAID, SignatureCells, WorkbookEdits
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.terms import reading_files
from warehouse.spreadsheet.reading.grid import is_ledger_name
from warehouse.spreadsheet.reading.safety import UNREADABLE, NotASpreadsheet
from warehouse.spreadsheet.reading.text import as_text, fold
from warehouse.spreadsheet.reading.workbook import read_workbook


def find_workbooks(record: Record) -> tuple[list[WorkbookEdits], frozenset[Path]]:
    """Return workbooks of ours that were not read yet, the oldest change first, and all of ours."""
    seen = record.known_workbooks()
    unread: list[WorkbookEdits] = []
    ours: list[Path] = []
    for path in sorted([*record.out.rglob("*"), *record.inbox.glob("*")]):
        is_workbook = path.suffix.lower() in _WORKBOOKS and is_ledger_name(path)
        if not is_workbook or path.is_symlink() or not path.is_file():
            continue
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() in seen:
            ours.append(path)
        elif (edits := read_edits(path, content)) is not None:
            unread.append(edits)
            ours.append(path)
    return sorted(unread, key=lambda file: (file.at, file.name, file.sha256)), frozenset(ours)


_WORKBOOKS = (".xlsx", ".xlsm", ".ods")

_EXCEL, _OPEN = "docProps/core.xml", "meta.xml"

_WHO = {
    _EXCEL: re.compile(r"<(?:\w+:)?lastModifiedBy\b[^>]*>([^<]*)<"),
    _OPEN: re.compile(r"<dc:creator\b[^>]*>([^<]*)<"),
}

_WHEN = re.compile(r"<(?:dcterms:modified|dc:date)\b[^>]*>([^<]*)<")

_LONGEST = 200

# Programs and libraries that put their own name, or one for anybody, where a person's belongs.
_NOBODY = re.compile(
    r"nightbook|openpyxl|xlsxwriter|pandas|python[\w .-]*|apache poi|poi|sheetjs|exceljs"
    r"|aspose[\w .]*"
    r"|microsoft( office)?( excel)?( user)?|excel|ms office|libreoffice[\w .]*|openoffice[\w .]*"
    r"|google( sheets)?|numbers|user|unknown( author| creator)?|unbekannt|author|administrator",
    re.IGNORECASE,
)


def last_author(path: Path, content: bytes) -> tuple[str, datetime]:
    """Return who saved a file last and when, as it says; else its name, and its time on disk."""
    properties, who = "", re.compile("$^")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as names:
            for part, pattern in _WHO.items():
                if part in names.namelist():
                    properties, who = names.read(part).decode("utf-8", "replace"), pattern
    except UNREADABLE:
        properties = ""
    return _person(who.search(properties)) or path.name, _moment(path, _WHEN.search(properties))


def _person(match: re.Match[str] | None) -> str:
    """Return the name that was written, or nothing where it is nobody's."""
    name = " ".join(unescape(match[1]).split())[:_LONGEST] if match else ""
    return "" if _NOBODY.fullmatch(name) else name


def _moment(path: Path, when: re.Match[str] | None) -> datetime:
    """Return when it was saved: the later of what it says and its time on disk."""
    # Either may be missing, or be the time at which we wrote the file: so the later one counts.
    changed = datetime.fromtimestamp(path.stat().st_mtime, UTC).replace(microsecond=0)
    try:
        stated = (
            datetime.fromisoformat(when[1].strip()[:19]).replace(tzinfo=UTC) if when else changed
        )
    except ValueError:
        stated = changed
    return max(stated, changed)


BREAK_ID, WORDING_LABEL = "Break ID", "wording"

ROLES = {"prepared by": "preparer", "reviewed by": "reviewer", "approved by": "approver"}

_LOOKED_AT = 60

_RUN = b"run_id"

_NUMBER = re.compile("[0-9]{1,9}")  # not isdigit(), for which `²` is one

_ID = re.compile(r"B-[0-9A-F]{8,64}")


@reading_files()
def read_edits(path: Path, content: bytes) -> WorkbookEdits | None:
    """Read a workbook of ours, or None where a file is something else.

    Raises `NotReconciled` where one that may be ours cannot be read: its comments would be lost.
    """
    try:
        # A large ledger that names no run anywhere is not read a second time; "All positions" is
        # opened, so that what breaks a reader is found, but nobody writes into it.
        book = read_workbook(path, content, marker=_RUN, skipped="All positions")
    except NotASpreadsheet:
        return None
    if book is None:
        return None
    sheets = [sheet.rows for sheet in book.sheets if sheet.rows]
    made_from = _beside(sheets, ("run_id", "base_revision", "written", WORDING_LABEL))
    tables = [table for rows in sheets if (table := _table(rows)) is not None]
    if not tables or "run_id" not in made_from:
        return None
    who, at = last_author(path, content)
    return WorkbookEdits(
        path=path,
        sha256=hashlib.sha256(content).hexdigest(),
        run_id=made_from["run_id"],
        base_revision=_number(made_from.get("base_revision", ""), 0),
        who=who,
        at=at,
        rows=tables[0],
        written=made_from.get("written", ""),
        wording=_number(made_from.get(WORDING_LABEL, ""), 1),
        signatures=tuple(_signatures(sheets)),
    )


def _number(text: str, default: int) -> int:
    return int(text) if _NUMBER.fullmatch(text) else default


def _beside(sheets: Sequence[Sequence[Sequence[object]]], labels: Sequence[str]) -> dict[str, str]:
    """Return what stands right of some labels, on any sheet."""
    values: dict[str, str] = {}
    for rows in sheets:
        for row in rows:
            for cell, beside in pairwise(row):
                if isinstance(cell, str) and cell in labels and as_text(beside):
                    values.setdefault(cell, as_text(beside))
    return values


def _table(rows: Sequence[Sequence[object]]) -> dict[str, dict[str, str]] | None:
    """Return what people wrote by break id, of a sheet that has the table of breaks."""
    # The header may stand anywhere near the top: people put lines above it, sort and move columns.
    for number, row in enumerate(rows[:_LOOKED_AT]):
        titles = [fold(as_text(cell)) for cell in row]
        if fold(BREAK_ID) not in titles or "comment" not in titles or "last comment" in titles:
            continue
        id_place = titles.index(fold(BREAK_ID))
        heads = {field: field.replace("_", " ") for field in SAID}
        places = {field: titles.index(head) for field, head in heads.items() if head in titles}
        return {
            as_text(below[id_place]).strip(): {
                field: as_text(below[place]) for field, place in places.items()
            }
            for below in rows[number + 1 :]
            if _ID.fullmatch(as_text(below[id_place]).strip())
        }
    return None


def _signatures(sheets: Sequence[Sequence[Sequence[object]]]) -> Iterator[SignatureCells]:
    """Yield the names beside the labels of roles, on any sheet."""
    for row in (row for rows in sheets for row in rows if row):
        role = ROLES.get(fold(as_text(row[0])))
        who, comment, *_ = (*(as_text(cell).strip() for cell in row[1:3]), "", "")
        if role and who:
            yield SignatureCells(role, who, comment)
