"""Take in the workbooks that people wrote into, wherever they saved them."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from pathlib import Path

from warehouse.reconcile.comments import signoff
from warehouse.reconcile.comments.annotations import MergeStates, merge_edits, state
from warehouse.reconcile.comments.edits import WorkbookEdits, read_edits
from warehouse.reconcile.settings.closing import CloseSettings
from warehouse.reconcile.store.records import Annotation, breaks_by_id
from warehouse.reconcile.store.store import Store
from warehouse.reconcile.terms.notices import Notice
from warehouse.spreadsheet.reading.grid import is_ledger_name

_WORKBOOKS = (".xlsx", ".xlsm", ".ods")


def find_workbooks(store: Store) -> tuple[list[WorkbookEdits], frozenset[Path]]:
    """Return workbooks of ours that were not read yet, the oldest change first, and all of ours."""
    seen = store.known_workbooks()
    unread: list[WorkbookEdits] = []
    ours: list[Path] = []
    for path in sorted([*store.out.rglob("*"), *store.inbox.glob("*")]):
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


def read_comments(
    store: Store,
    workbooks: list[WorkbookEdits],
    day: date,
    settings: CloseSettings,
    *,
    notices_of: Callable[[Store, WorkbookEdits], Iterable[Notice]],
) -> None:
    """Store what people wrote, once for each version of each file, and what is to say of it.

    `notices_of` says of a workbook what people wrote where it is not read back.
    """
    for workbook in workbooks:
        states = MergeStates(
            shown=state(store, workbook.base_revision),
            base=state(store, workbook.base_revision, without=day),
            current=state(store, without=day),
        )
        result = store.result_of(workbook.run_id)
        refusal = signoff.why_not_accept(store, workbook, result, settings)
        entries, notices = merge_edits(workbook, states, breaks_by_id(result), refusal)
        notices += signoff.take_signatures(store, workbook, settings)
        notices += notices_of(store, workbook)
        if entries or notices:
            store.annotations.add(
                Annotation(
                    who=workbook.who,
                    at=workbook.at.isoformat(),
                    source=workbook.name,
                    sha256=workbook.sha256,
                    run_id=workbook.run_id,
                    base_revision=workbook.base_revision,
                    entries=tuple(entries),
                    read_for=day.isoformat(),
                    notices=tuple(notices),
                )
            )
    store.add_workbooks([workbook.sha256 for workbook in workbooks])


def notices_of_day(store: Store, day: date) -> Iterator[Notice]:
    """Yield what there was to say of the workbooks read for a day, by this run or one before it."""
    for annotation in store.annotations:
        if annotation.read_for == day.isoformat():
            yield from annotation.notices
