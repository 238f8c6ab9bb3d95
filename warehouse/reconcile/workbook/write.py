"""The reconciliation's workbook: all its sheets, in one file that appears whole or not at all."""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from warehouse.contract.model import literal, quote_identifier
from warehouse.query.lookup_key import lookup_key
from warehouse.reconcile.breaks.identity import display_names
from warehouse.reconcile.matching.join import Result
from warehouse.reconcile.matching.names import in_name_cell
from warehouse.reconcile.matching.snapshot import columns
from warehouse.reconcile.terms.dimensions import CUSTOM, WITH_IDS
from warehouse.reconcile.workbook import breaks, over_time, summary, supporting
from warehouse.reconcile.workbook.content import POSITIONS, UNMATCHED, WorkbookContent
from warehouse.reconcile.workbook.sheet import cut_words
from warehouse.spreadsheet.writing.format import define_names, draft, long_table
from warehouse.spreadsheet.writing.layout import (
    ROWS_PER_SHEET,
    SheetColumn,
    SheetColumnKind,
    TableSheet,
    fitting,
    parts,
)
from warehouse.spreadsheet.writing.rows import Rows, RowsXml, Styles
from warehouse.spreadsheet.writing.splice import splice
from warehouse.storage.layout import written_aside

LOOKUP_KEY = "lookup_key"
_RESULTS: Mapping[object, str] = {result.value: result.words for result in Result}
_BATCH = 4096
_CELL_BYTES = 130
_OFF_PAPER = ("Ledger, exact", "Book, exact", "Ledger rows", "Key", "Portfolio id", "Venue id")
_PAPER_ROWS = 40  # of all positions: the breaks are printed whole
_BEFORE = 3  # sheets before the first part of All positions


def write(content: WorkbookContent, path: Path, *, rows_per_sheet: int = ROWS_PER_SHEET) -> None:
    """Write the workbook; the same run gives the same bytes."""
    file_draft = draft(
        title=f"Reconciliation {content.name} as of {content.day}",
        made_at=content.made_at,
        about={"run_id": content.run_id, "base_revision": str(content.revision)},
    )
    name = UNMATCHED if content.left_out else POSITIONS
    sheets = parts(name, _columns(content), content.rows, rows_per_sheet)
    summary.write_summary(file_draft, content)
    breaks.write_breaks(file_draft, content)
    breaks.write_resolved_breaks(file_draft, content)
    for sheet in sheets:
        long_table(
            file_draft,
            sheet,
            footer=content.footer,
            header=cut_words(_PAPER_ROWS, sheet.rows),
            paper_rows=_PAPER_ROWS,
        )
    define_names(file_draft, sheets[0])
    supporting.write_ties(file_draft, content)
    supporting.write_roll_forward(file_draft, content)
    supporting.write_notices(file_draft, content)
    supporting.write_mapping(file_draft, content)
    supporting.write_evidence(file_draft, content)
    over_time.write_trail(file_draft, content)
    supporting.write_help(file_draft, content)
    breaks.write_lists(file_draft, content)
    file_draft.book.close()
    fillings = {}
    for number, sheet in enumerate(sheets, _BEFORE + 1):
        last = sheet.letter(sheet.columns[-1].source, sheet.columns[-1].kind)
        size = sheet.rows * len(sheet.columns) * _CELL_BYTES
        fillings[number] = (
            f"A1:{last}{sheet.last_row}",
            size,
            partial(_fill_sheet, content, sheet),
        )
    with written_aside(path) as file:
        splice(file_draft.file, file, fillings)


def _columns(content: WorkbookContent) -> tuple[SheetColumn, ...]:
    kinds = SheetColumnKind
    names = [
        (name, name.capitalize(), f"The {name} of the position.", kinds.TEXT, _width(content, name))
        for name in content.outcome.fields
    ]
    columns_ = (
        *names,
        ("ledger", "Ledger", "The amount in the ledger.", kinds.NUMBER, 24),
        ("snapshot", "Book", "The amount in the book.", kinds.NUMBER, 24),
        (
            "digits",
            "Digits",
            "exact if both numbers equal their exact texts, otherwise rounded.",
            kinds.DIGITS,
            10,
        ),
        ("result", "Result", "Result for this position (see Help).", kinds.TEXT, 20),
        ("id", "Break ID", "The ID of its break, if it has one.", kinds.TEXT, 14),
        ("ledger", "Ledger, exact", "The exact amount in the ledger.", kinds.EXACT, 34),
        ("snapshot", "Book, exact", "The exact amount in the book.", kinds.EXACT, 34),
        ("rows", "Ledger rows", "Rows of the ledger for this position.", kinds.COUNT, 11),
        (
            LOOKUP_KEY,
            "Key",
            "The same text as in the positions workbook, for lookups.",
            kinds.TEXT,
            21,
        ),
        *(
            (f"{name}_id", f"{name.capitalize()} id", f"The ID of the {name}.", kinds.TEXT, 24)
            for name in WITH_IDS
            if name in content.outcome.fields
        ),
    )
    return tuple(
        SheetColumn(source, title, meaning, kind, width=width, is_printed=title not in _OFF_PAPER)
        for source, title, meaning, kind, width in columns_
    )


def _width(content: WorkbookContent, field: str) -> float:
    """Return room for the longest name of a field, as people see it."""
    names = content.names.get(field)
    name = quote_identifier(field)
    if names is None:
        longest = f"max(length(replace({name}, {literal(CUSTOM)}, ' (custom)')))"
        rows = content.source.connection.execute(f"select {longest} from compared")
        return fitting(max(row[0] or 0 for row in rows.fetchall()))
    rows = content.source.connection.execute(f"select distinct {name} from compared")
    return fitting(max((len(names.get(row[0], row[0])) for row in rows.fetchall()), default=0))


def _fill_sheet(content: WorkbookContent, sheet: TableSheet, styles: Styles) -> Iterator[RowsXml]:
    rows = Rows(sheet.columns, styles, {})
    first = 2
    for batch in positions(content, sheet.start, sheet.rows):
        values = _values(content, batch)
        yield rows.render(values, first)
        first += len(batch)


def positions(content: WorkbookContent, start: int, count: int) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the listed keys: number, fields, amounts, rows, result, key, and whether unmapped."""
    left = ", ".join(literal(result.value) for result in content.left_out)
    is_listed = f"result not in ({left})" if left else "true"
    key = lookup_key((name, quote_identifier(name)) for name in content.outcome.fields)
    cursor = content.source.connection.execute(
        f"select no, {columns(content.outcome.fields)}, ledger, snapshot, rows, result, "
        f"{key}, is_unmapped from compared where {is_listed} order by no "
        f"limit {count} offset {start}"
    )
    while batch := cursor.fetchmany(_BATCH):
        yield batch


def _values(
    content: WorkbookContent, batch: Sequence[tuple[Any, ...]]
) -> dict[str, Sequence[object]]:
    fields = content.outcome.fields
    names = [
        display_names(fields, row[1 : len(fields) + 1], content.names, is_unmapped=row[-1])
        for row in batch
    ]
    values: dict[str, Sequence[object]] = {
        field: [in_name_cell(names_of_row[field]) for names_of_row in names] for field in fields
    }
    others = ("ledger", "snapshot", "rows", "result", LOOKUP_KEY)
    for place, name in enumerate(others, len(fields) + 1):
        values[name] = [row[place] for row in batch]
    values["result"] = [_RESULTS[code] for code in values["result"]]
    for name in WITH_IDS:
        if name in fields:
            place = fields.index(name) + 1
            values[f"{name}_id"] = [in_name_cell(row[place]) for row in batch]
    values["id"] = [content.outcome.ids.get(row[0]) for row in batch]
    return values
