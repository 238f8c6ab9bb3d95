"""What people wrote into a workbook, found by break id, wherever its rows and columns went.

Only the fields for people and the sign-off are read; every number in it is ignored.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from warehouse.reconcile.comments.authors import last_author
from warehouse.reconcile.store.records import SAID
from warehouse.reconcile.terms.errors import reading_files
from warehouse.spreadsheet.reading.safety import NotASpreadsheet
from warehouse.spreadsheet.reading.text import as_text, fold
from warehouse.spreadsheet.reading.workbook import read_workbook

BREAK_ID, WORDING_LABEL = "Break ID", "wording"
ROLES = {"prepared by": "preparer", "reviewed by": "reviewer", "approved by": "approver"}
_LOOKED_AT = 60
_RUN = b"run_id"
_NUMBER = re.compile("[0-9]{1,9}")  # not isdigit(), for which `²` is one
_ID = re.compile(r"B-[0-9A-F]{8,64}")


@dataclass(frozen=True, slots=True)
class SignatureCells:
    """A name beside the label of a role, and the comment beside it."""

    role: str
    who: str
    comment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkbookEdits:
    """One workbook as it was found: what it was made from, and what is written in it.

    `rows` are fields by break id. `written` names the cells that were stored of it, and `wording`
    the words that it was written with: 1 in workbooks that do not say so.
    """

    path: Path
    sha256: str
    run_id: str
    base_revision: int
    who: str
    at: datetime
    rows: Mapping[str, Mapping[str, str]]
    written: str = ""
    wording: int = 1
    signatures: tuple[SignatureCells, ...] = ()

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.name

    @property
    def is_anonymous(self) -> bool:
        """Whether the file does not say which person saved it."""
        return self.who == self.name


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
