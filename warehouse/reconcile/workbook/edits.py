"""The edits that people made in a workbook, and the person who last saved it."""

import hashlib
import io
import re
import zipfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from html import unescape
from itertools import pairwise
from pathlib import Path

from warehouse.reconcile.model import SAID, SignatureCells, WorkbookEdits
from warehouse.reconcile.terms import reading_files
from warehouse.reconcile.workbook.content import POSITIONS
from warehouse.reconcile.workbook.imprint import find_header, title_key
from warehouse.spreadsheet.reading.files import UNREADABLE, NotASpreadsheet
from warehouse.spreadsheet.reading.grid import is_ledger_name
from warehouse.spreadsheet.reading.text import as_text
from warehouse.spreadsheet.reading.workbook import read_workbook

WORDING_LABEL = "wording"
BREAK_MARKS = ("Break ID", "Comment")  # column titles that identify the table that people fill in
ROLES = {"prepared by": "preparer", "reviewed by": "reviewer", "approved by": "approver"}
_ROLES = {title_key(label): role for label, role in ROLES.items()}
_WORKBOOKS = (".xlsx", ".xlsm", ".ods")

# In an Excel file, `dc:creator` is the person who created the file. In an OpenDocument file, it is
# the person who last saved it.
_SAVED_BY = {
    "docProps/core.xml": re.compile(r"<(?:\w+:)?lastModifiedBy\b[^>]*>([^<]*)<"),
    "meta.xml": re.compile(r"<dc:creator\b[^>]*>([^<]*)<"),
}

_SAVED_AT = re.compile(r"<(?:dcterms:modified|dc:date)\b[^>]*>([^<]*)<")
_MAX_LENGTH = 200

# Names that programs and libraries write instead of a person's name.
_NOBODY = re.compile(
    r"nightbook|openpyxl|xlsxwriter|pandas|python[\w .-]*|apache poi|poi|sheetjs|exceljs"
    r"|aspose[\w .]*"
    r"|microsoft( office)?( excel)?( user)?|excel|ms office|libreoffice[\w .]*|openoffice[\w .]*"
    r"|google( sheets)?|numbers|user|unknown( author| creator)?|unbekannt|author|administrator",
    re.IGNORECASE,
)


# Do not use `isdigit` instead of this pattern, because it accepts `²`.
_NUMBER = re.compile("[0-9]{1,9}")
BREAK_ID = re.compile(r"B-[0-9A-F]{8,64}")


def find_workbooks(
    out: Path, inbox: Path, seen: Collection[str]
) -> tuple[list[WorkbookEdits], frozenset[Path]]:
    """Return the workbooks that were not read yet (oldest change first), and all workbook paths.

    `seen` contains the SHA-256 digests of workbooks that were already read or written. Raises
    `NotReconciled` if a workbook cannot be read.
    """
    unread: list[WorkbookEdits] = []
    ours: list[Path] = []
    for path in sorted([*out.rglob("*"), *inbox.glob("*")]):
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


def last_author(path: Path, content: bytes) -> tuple[str, datetime]:
    """Return who last saved a file, and when (UTC).

    If the file does not name a person, return the file name instead.
    """
    who = stated = None
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as names:
            for part, pattern in _SAVED_BY.items():
                if part in names.namelist():
                    properties = names.read(part).decode("utf-8", "replace")
                    who, stated = pattern.search(properties), _SAVED_AT.search(properties)
    except UNREADABLE:
        who = stated = None
    name = " ".join(unescape(who[1]).split())[:_MAX_LENGTH] if who else ""
    # The timestamp in the file may be missing, or may still be ours. So if the modification time on
    # disk is later, use the modification time.
    saved_at = datetime.fromtimestamp(path.stat().st_mtime, UTC).replace(microsecond=0)
    with suppress(ValueError):
        time = datetime.fromisoformat(stated[1].strip()[:19] if stated else "")
        saved_at = max(saved_at, time.replace(tzinfo=UTC))
    return path.name if _NOBODY.fullmatch(name) or not name else name, saved_at


@reading_files()
def read_edits(path: Path, content: bytes) -> WorkbookEdits | None:
    """Read people's entries from a workbook. Return None if the file is not one of our workbooks.

    Raises `NotReconciled` if a file cannot be read but may be one of our workbooks.
    """
    try:
        # Only our workbooks contain `run_id`, so skip all other files, such as ledgers. The sheets
        # with all positions are opened to detect damage, but not read, because nobody fills them
        # in.
        book = read_workbook(path, content, marker=b"run_id", skipped=POSITIONS)
    except NotASpreadsheet:
        return None
    sheets = [grid.rows for grid in book.grids if grid.rows]
    made_from = _read_values(sheets, ("run_id", "base_revision", "written", WORDING_LABEL))
    tables = [table for rows in sheets if (table := _read_table(rows)) is not None]
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
        wording=_number(made_from.get(WORDING_LABEL, ""), 0),
        signatures=tuple(_read_signatures(sheets)),
    )


def role_of(label: object) -> str:
    """Return the role for a label such as `Prepared by`, or an empty string."""
    return _ROLES.get(title_key(label), "")


def _number(text: str, default: int) -> int:
    return int(text) if _NUMBER.fullmatch(text) else default


def _read_values(
    sheets: Sequence[Sequence[Sequence[object]]], labels: Sequence[str]
) -> dict[str, str]:
    """Map each label to the value in the cell to its right, on any sheet."""
    values: dict[str, str] = {}
    for cell, value in (pair for rows in sheets for row in rows for pair in pairwise(row)):
        if isinstance(cell, str) and cell in labels and as_text(value):
            values.setdefault(cell, as_text(value))
    return values


def _read_table(rows: Sequence[Sequence[object]]) -> dict[str, dict[str, str]] | None:
    """Return the cells that people fill in, by break ID, or None if this is not the break table."""
    header = find_header(rows, BREAK_MARKS)
    if header is None or title_key("Last comment") in header.titles:
        return None
    id_column = header.titles.index(title_key(BREAK_MARKS[0]))
    titles = ((field, title_key(field.replace("_", " "))) for field in SAID)
    columns = {field: header.titles.index(key) for field, key in titles if key in header.titles}
    return {
        break_id: {field: as_text(row[column]) for field, column in columns.items()}
        for row in rows[header.row + 1 :]
        if BREAK_ID.fullmatch(break_id := as_text(row[id_column]).strip())
    }


def _read_signatures(sheets: Sequence[Sequence[Sequence[object]]]) -> Iterator[SignatureCells]:
    """Yield the names and comments next to role labels, on any sheet."""
    for row in (row for rows in sheets for row in rows if row):
        who, comment, *_ = (*(as_text(cell).strip() for cell in row[1:3]), "", "")
        if who and (role := role_of(row[0])):
            yield SignatureCells(role, who, comment)
