"""Every key of a run with both amounts and what is said of it, as Parquet for machines.

Beside the workbook, and whole however many keys there are: a sheet has its end, this file has none.
"""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model

import csv
import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from duckdb import DuckDBPyConnection

from warehouse.contract.model import literal, quote_identifier
from warehouse.query.origins import key_of_names, lookup_key
from warehouse.reconcile.book import columns, copy_table, display_names, in_name_cell
from warehouse.reconcile.model import Result, Run
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.terms import CUSTOM, DIMENSIONS, WITH_IDS, NotReconciled
from warehouse.reconcile.workbook import imprint, summary
from warehouse.reconcile.workbook.content import POSITIONS, UNMATCHED, WorkbookContent
from warehouse.reconcile.workbook.sheet import cut_words
from warehouse.reconcile.workbook.sheets import (
    write_breaks,
    write_evidence,
    write_help,
    write_lists,
    write_mapping,
    write_notices,
    write_resolved_breaks,
    write_roll_forward,
    write_ties,
)
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
from warehouse.storage.parquet import ROW_GROUP, stream_rows

_CUSTOM = f"ends_with(asset, {literal(CUSTOM)})"

_WORDS = {
    "portfolio_id": "Portfolio of the position; an unknown name is folded, after a ?.",
    "asset_id": "Asset of the position.",
    "is_custom_asset": "Whether the asset is one the organization defined itself.",
    "venue_id": "Venue of the position.",
    "account_name": "Account of the position.",
    "bucket": "Balance kind and state of the position.",
    "ledger_text": "The exact amount in the ledger; NULL if the ledger does not have the position.",
    "snapshot_text": "The exact amount in the book; NULL if the book does not have the position.",
    "ledger_rows": "Rows of the ledger for this position.",
    "result": "The code of the result, as in ops.breaks.",
    "break_id": "The ID of its break; NULL if it has none.",
}

_PLAIN = ("account_name", "ledger_text", "snapshot_text", "break_id")

_SAID = ("ledger_text", "snapshot_text", "ledger_rows", "result", "break_id")


def write_positions(content: WorkbookContent, path: Path) -> None:
    """Write every key in order; the same run gives the same bytes."""
    connection = content.source.connection
    _add_names(connection, content.outcome.ids)
    rows = connection.sql(
        f"select {', '.join(map(_key, content.outcome.fields))}, "
        "ledger as ledger_text, snapshot as snapshot_text, rows as ledger_rows, result, "
        "break_id from compared left join break_ids on break_no = no order by no"
    )
    about = {"nightbook.run": content.run_id, "nightbook.snapshot": content.source.snapshot_id}
    stream_rows(rows.to_arrow_reader(ROW_GROUP), path, _WORDS, about, plain=_PLAIN)


def read_positions(path: Path, run_id: str, fields: Sequence[str]) -> pa.Table:
    """Read every key of a run again: its fields as their ids, then the amounts and the result.

    Raises `NotReconciled` where the file is not there, not whole, or of another run.
    """
    then = "`nightbook reconcile run` writes it for its newest result."
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            of_run = (file.schema_arrow.metadata or {}).get(b"nightbook.run", b"").decode()
            if of_run != run_id:
                raise NotReconciled(
                    f"{path.name} is of run {of_run or 'unknown'}, not {run_id}. {then}"
                )
            table = file.read()
        if "asset" in fields:
            custom = pc.binary_join_element_wise(table["asset_id"], CUSTOM, "")
            asset = pc.if_else(table["is_custom_asset"], custom, table["asset_id"])
            table = table.append_column("asset", asset)
        columns = {
            name: table[name if name == "asset" else DIMENSIONS[name].column] for name in fields
        }
        return pa.table(columns | {name: table[name] for name in _SAID})
    except (OSError, pa.ArrowException, KeyError) as error:
        what = "is not there" if isinstance(error, FileNotFoundError) else "cannot be read"
        raise NotReconciled(f"{path.name} {what} in {path.parent.name}. {then}") from error


def _add_names(connection: DuckDBPyConnection, ids: Mapping[int, str]) -> None:
    table = {"break_no": pa.array(list(ids), pa.int64()), "break_id": list(ids.values())}
    copy_table(connection, "break_ids", pa.table(table))


def _key(name: str) -> str:
    if name == "asset":
        bare = f"case when {_CUSTOM} then left(asset, length(asset) - 1) else asset end"
        return f"{bare} as asset_id, {_CUSTOM} as is_custom_asset"
    return f"{name} as {DIMENSIONS[name].column}"


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
    write_breaks(file_draft, content)
    write_resolved_breaks(file_draft, content)
    for sheet in sheets:
        long_table(
            file_draft,
            sheet,
            footer=content.footer,
            header=cut_words(_PAPER_ROWS, sheet.rows),
            paper_rows=_PAPER_ROWS,
        )
    define_names(file_draft, sheets[0])
    write_ties(file_draft, content)
    write_roll_forward(file_draft, content)
    write_notices(file_draft, content)
    write_mapping(file_draft, content)
    write_evidence(file_draft, content)
    summary.write_trail(file_draft, content)
    write_help(file_draft, content)
    write_lists(file_draft, content)
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


def write_files(record: Record, content: WorkbookContent, result: Run) -> tuple[Path, ...]:
    """Write the workbook, and for machines the breaks and every key."""
    files = record.day_files(content.day)
    write(replace(content, written=result.written), files.workbook)
    written = files.workbook.read_bytes()
    imprint.store_imprint(record, result.written, written)
    text = io.StringIO()
    csv.writer(text).writerows(_rows_of_breaks(content))
    write_positions(content, files.positions)
    with written_aside(files.breaks) as file:
        file.write(text.getvalue().encode())
    # What we wrote need not be read back.
    record.add_workbooks([hashlib.sha256(written).hexdigest()])
    return files.workbook, files.breaks, files.positions


def _rows_of_breaks(content: WorkbookContent) -> Iterator[list[str]]:
    """Yield the breaks as a table for machines: every text as it is."""
    fields = content.outcome.fields
    ids = [name for name in WITH_IDS if name in fields]
    heads = ["ledger", "snapshot", "difference", "first_seen", "cause", "lookup_key"]
    yield ["break_id", "result", *fields, *heads, *(f"{name}_id" for name in ids), "ever_seen"]
    for break_ in content.outcome.breaks:
        names = [break_.names[name] for name in fields]
        key = dict(zip(fields, break_.key, strict=True))
        yield [
            break_.id,
            break_.result,
            *names,
            break_.ledger or "",
            break_.snapshot or "",
            break_.difference,
            break_.first_seen.isoformat(),
            break_.cause,
            key_of_names(key.items()),
            *(key[name] for name in ids),
            break_.ever_seen.isoformat(),
        ]
