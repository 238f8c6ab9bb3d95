"""Take in the workbooks that people wrote into."""

import hashlib
from collections.abc import Container
from pathlib import Path

from warehouse.reconcile.comments.edits import WorkbookEdits, read_edits
from warehouse.reconcile.store.archive import Folder
from warehouse.spreadsheet.reading.grid import is_ledger_name

_WORKBOOKS = (".xlsx", ".xlsm", ".ods")


def workbooks(folder: Folder, seen: Container[str]) -> tuple[list[WorkbookEdits], list[Path]]:
    """Workbooks of ours that were not read yet, the oldest change first, and all of ours."""
    found: list[WorkbookEdits] = []
    ours: list[Path] = []
    for path in sorted([*folder.out.rglob("*"), *folder.inbox.glob("*")]):
        is_workbook = path.suffix.lower() in _WORKBOOKS and is_ledger_name(path)
        if not is_workbook or path.is_symlink() or not path.is_file():
            continue
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() in seen:
            ours.append(path)
            continue
        read = read_edits(path, content)
        if read is not None:
            found.append(read)
            ours.append(path)
    return sorted(found, key=lambda file: (file.at, file.name, file.sha256)), ours
