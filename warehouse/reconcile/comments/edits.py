"""What people wrote into a workbook, found by break id, wherever its rows and columns went.

Only the fields for people and the sign-off are read; every number in it is ignored.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from warehouse.reconcile.comments.authors import last_saved
from warehouse.reconcile.errors import reading_files
from warehouse.spreadsheet.reading.safety import NotASpreadsheet
from warehouse.spreadsheet.reading.text import as_text, fold
from warehouse.spreadsheet.reading.workbook import read_workbook

BREAK_ID = "Break ID"
TITLES = ("status", "owner", "root cause", "comment")
ROLES = {"prepared by": "preparer", "reviewed by": "reviewer"}
_LOOKED_AT = 60
_RUN = b"run_id"
_ID = re.compile(r"B-[0-9A-F]{8,64}")


@dataclass(frozen=True, slots=True)
class WorkbookEdits:
    """One workbook as it was found: what it was made from, and what is written in it.

    `rows` are fields by break id; `written` names what was kept of its cells.
    """

    path: Path
    sha256: str
    run_id: str
    base_revision: int
    who: str
    at: datetime
    rows: Mapping[str, Mapping[str, str]]
    written: str = ""
    signed: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.name


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
    made_from = _beside(sheets, ("run_id", "base_revision", "written"))
    found = [table for rows in sheets if (table := _table(rows)) is not None]
    if not found or "run_id" not in made_from:
        return None
    who, at = last_saved(path, content)
    revision = made_from.get("base_revision", "0")
    return WorkbookEdits(
        path,
        hashlib.sha256(content).hexdigest(),
        made_from["run_id"],
        int(revision) if revision.isdigit() else 0,
        who,
        at,
        found[0],
        made_from.get("written", ""),
        dict(_signatures(sheets)),
    )


def _beside(sheets: Sequence[Sequence[Sequence[object]]], labels: Sequence[str]) -> dict[str, str]:
    """What stands right of some labels, on any sheet."""
    found: dict[str, str] = {}
    for rows in sheets:
        for row in rows:
            for cell, beside in pairwise(row):
                if isinstance(cell, str) and cell in labels and as_text(beside):
                    found.setdefault(cell, as_text(beside))
    return found


def _table(rows: Sequence[Sequence[object]]) -> dict[str, dict[str, str]] | None:
    """The table of breaks on a sheet, by its header, which may stand anywhere near the top."""
    for number, row in enumerate(rows[:_LOOKED_AT]):
        titles = [fold(as_text(cell)) for cell in row]
        if fold(BREAK_ID) in titles and "comment" in titles and "last comment" not in titles:
            place = titles.index(fold(BREAK_ID))
            below = [
                row_ for row_ in rows[number + 1 :] if _ID.fullmatch(as_text(row_[place]).strip())
            ]
            people = {
                name.replace(" ", "_"): titles.index(name) for name in TITLES if name in titles
            }
            return _cells(below, place, people)
    return None


def _cells(
    rows: Sequence[Sequence[object]], place: int, columns: Mapping[str, int]
) -> dict[str, dict[str, str]]:
    return {
        as_text(row[place]).strip(): {name: as_text(row[at]) for name, at in columns.items()}
        for row in rows
    }


def _signatures(
    sheets: Sequence[Sequence[Sequence[object]]],
) -> Iterator[tuple[str, tuple[str, str]]]:
    """By role the name and the comment beside its label."""
    for rows in sheets:
        for row in rows:
            role = ROLES.get(fold(as_text(row[0]))) if row else None
            if role and len(row) > 1 and as_text(row[1]).strip():
                comment = as_text(row[2]).strip() if len(row) > 2 else ""  # noqa: PLR2004 - third cell
                yield role, (as_text(row[1]).strip(), comment)
