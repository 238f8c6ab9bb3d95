"""The reconciliation's workbook: all its sheets, in one file that appears whole or not at all."""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from warehouse.contract.model import literal, quote_identifier
from warehouse.reconcile.breaks.identity import shown_names
from warehouse.reconcile.dimensions import CUSTOM
from warehouse.reconcile.matching.join import Result
from warehouse.reconcile.matching.names import in_name_cell
from warehouse.reconcile.matching.snapshot import columns
from warehouse.reconcile.workbook import breaks, summary, supporting
from warehouse.reconcile.workbook.content import POSITIONS, UNMATCHED, WorkbookContent
from warehouse.spreadsheet.writing.format import define_names, draft, long_table
from warehouse.spreadsheet.writing.layout import (
    ROWS_PER_SHEET,
    SheetColumn,
    SheetColumnKind,
    TableSheet,
    fitting,
    parts,
)
from warehouse.spreadsheet.writing.rows import Rows, Styles
from warehouse.spreadsheet.writing.splice import splice
from warehouse.storage.layout import written_aside

_BATCH = 4096
_CELL_BYTES = 130
_BEFORE = 3  # sheets before the first part of All positions


def write(shown: WorkbookContent, path: Path, *, rows_per_sheet: int = ROWS_PER_SHEET) -> None:
    """Write the workbook; the same run gives the same bytes."""
    made = draft(
        title=f"Reconciliation {shown.name} as of {shown.day}",
        made_at=shown.made_at,
        about={"run_id": shown.run_id, "base_revision": str(shown.revision)},
    )
    name = POSITIONS if shown.rows == shown.keys else UNMATCHED
    sheets = parts(name, _columns(shown), shown.rows, rows_per_sheet)
    summary.summary(made, shown)
    breaks.breaks(made, shown)
    breaks.write_closed(made, shown)
    for sheet in sheets:
        long_table(made, sheet, footer=shown.footer)
    define_names(made, sheets[0])
    supporting.ties(made, shown)
    supporting.write_roll_forward(made, shown)
    supporting.notices(made, shown)
    supporting.mapping(made, shown)
    supporting.evidence(made, shown)
    supporting.explanations(made, shown)
    breaks.lists(made, shown)
    made.book.close()
    fillings = {}
    for number, sheet in enumerate(sheets, _BEFORE + 1):
        last = sheet.letter(sheet.columns[-1].source, sheet.columns[-1].kind)
        size = sheet.rows * len(sheet.columns) * _CELL_BYTES
        fillings[number] = (f"A1:{last}{sheet.last_row}", size, partial(_fill_sheet, shown, sheet))
    with written_aside(path) as file:
        splice(made.file, file, fillings)


def _columns(shown: WorkbookContent) -> tuple[SheetColumn, ...]:
    return (
        *(
            SheetColumn(
                name,
                name.capitalize(),
                f"{name} of the key.",
                SheetColumnKind.TEXT,
                width=_width(shown, name),
            )
            for name in shown.outcome.fields
        ),
        SheetColumn(
            "ledger",
            "Ledger",
            "The ledger's amount.",
            SheetColumnKind.NUMBER,
            width=24,
        ),
        SheetColumn(
            "snapshot",
            "Snapshot",
            "The snapshot's amount.",
            SheetColumnKind.NUMBER,
            width=24,
        ),
        SheetColumn(
            "digits",
            "Digits",
            "Whether the numbers are their exact texts.",
            SheetColumnKind.DIGITS,
            width=10,
        ),
        SheetColumn(
            "result",
            "Result",
            "What is said of the key: see Help.",
            SheetColumnKind.TEXT,
            width=20,
        ),
        SheetColumn(
            "id",
            "Break ID",
            "Its break, where it is one.",
            SheetColumnKind.TEXT,
            width=14,
        ),
        SheetColumn(
            "ledger",
            "Ledger, exact",
            "The truth.",
            SheetColumnKind.EXACT,
            width=34,
        ),
        SheetColumn(
            "snapshot",
            "Snapshot, exact",
            "The truth.",
            SheetColumnKind.EXACT,
            width=34,
        ),
        SheetColumn(
            "rows",
            "Ledger rows",
            "Rows of the ledger of this key.",
            SheetColumnKind.COUNT,
            width=11,
        ),
    )


def _width(shown: WorkbookContent, field: str) -> float:
    """Room for the longest name of a field, as people see it."""
    names = shown.shown.get(field)
    name = quote_identifier(field)
    if names is None:
        longest = f"max(length(replace({name}, {literal(CUSTOM)}, ' (custom)')))"
        found = shown.source.connection.execute(f"select {longest} from compared")
        return fitting(max(row[0] or 0 for row in found.fetchall()))
    found = shown.source.connection.execute(f"select distinct {name} from compared")
    return fitting(max((len(names.get(row[0], row[0])) for row in found.fetchall()), default=0))


def _fill_sheet(shown: WorkbookContent, sheet: TableSheet, styles: Styles) -> Iterator[bytes]:
    rows = Rows(sheet.columns, styles, {})
    first = 2
    for batch in positions(shown, sheet.start, sheet.rows):
        values = _values(shown, batch)
        yield rows.render(values, first)
        first += len(batch)


def positions(shown: WorkbookContent, start: int, count: int) -> Iterator[list[tuple[Any, ...]]]:
    """The listed keys by number, both amounts, how many rows, the result, and whether unmapped."""
    is_listed = "true" if shown.rows == shown.keys else f"result <> '{Result.MATCHED.value}'"
    found = shown.source.connection.execute(
        f"select no, {columns(shown.outcome.fields)}, ledger, snapshot, rows, result, is_unmapped "
        f"from compared where {is_listed} order by no limit {count} offset {start}"
    )
    while batch := found.fetchmany(_BATCH):
        yield batch


def _values(
    shown: WorkbookContent, batch: Sequence[tuple[Any, ...]]
) -> dict[str, Sequence[object]]:
    fields = shown.outcome.fields
    names = [
        shown_names(fields, row[1 : len(fields) + 1], shown.shown, is_unmapped=row[-1])
        for row in batch
    ]
    values: dict[str, Sequence[object]] = {
        field: [in_name_cell(name_[field]) for name_ in names] for field in fields
    }
    for place, name in enumerate(("ledger", "snapshot", "rows", "result"), len(fields) + 1):
        values[name] = [row[place] for row in batch]
    values["id"] = [shown.outcome.ids.get(row[0]) for row in batch]
    return values


def rows_of_breaks(shown: WorkbookContent) -> Iterable[list[str]]:
    """The breaks as a table for machines: every text as it is."""
    fields = shown.outcome.fields
    yield ["break_id", "result", *fields, "ledger", "snapshot", "difference", "first_seen", "cause"]
    for break_ in shown.outcome.breaks:
        names = [break_.names[name] for name in fields]
        yield [
            break_.id,
            break_.result,
            *names,
            break_.ledger or "",
            break_.snapshot or "",
            break_.difference,
            break_.first_seen.isoformat(),
            break_.cause,
        ]
