"""A day's files: the workbook for people, and the position and break files for programs.

The workbook may omit matching positions. The Parquet file next to it contains all positions.
"""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from warehouse.contract.model import literal, quote_identifier
from warehouse.query.lookup_keys import key_of_names, lookup_key
from warehouse.reconcile.book import columns, copy_table, display_names, in_name_cell
from warehouse.reconcile.model import Result
from warehouse.reconcile.terms import CUSTOM, DIMENSIONS, WITH_IDS, NotReconciled
from warehouse.reconcile.workbook.content import POSITIONS, UNMATCHED, WorkbookContent
from warehouse.reconcile.workbook.sheet import describe_printed_rows
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
from warehouse.reconcile.workbook.summary import write_summary, write_trail
from warehouse.spreadsheet.writing.format import define_names, draft, long_table
from warehouse.spreadsheet.writing.layout import (
    ROWS_PER_SHEET,
    SheetColumn,
    SheetColumnKind,
    TableSheet,
    fitting,
    parts,
)
from warehouse.spreadsheet.writing.rows import RowsXml, Styles, render_rows
from warehouse.spreadsheet.writing.splice import splice
from warehouse.storage.layout import write_bytes, written_aside
from warehouse.storage.parquet import ROW_GROUP, stream_rows

_CUSTOM = f"ends_with(asset, {literal(CUSTOM)})"

_MEANINGS = {
    "portfolio_id": "Portfolio of the position. An unknown name is lower-case and begins with ?.",
    "asset_id": "Asset of the position.",
    "is_custom_asset": "Whether the organisation defined the asset itself.",
    "venue_id": "Venue of the position.",
    "account_name": "Account of the position.",
    "bucket": "The position's balance kind and state.",
    "ledger_text": "The exact amount in the ledger. NULL if the position is not in the ledger.",
    "snapshot_text": "The exact amount in the book. NULL if the position is not in the book.",
    "ledger_rows": "Number of ledger rows for this position.",
    "result": "The result code, as in ops.breaks.",
    "break_id": "ID of the position's break. NULL if the position has no break.",
}

_WITHOUT_DICTIONARY = ("account_name", "ledger_text", "snapshot_text", "break_id")
_RESULT_COLUMNS = ("ledger_text", "snapshot_text", "ledger_rows", "result", "break_id")
_RESULTS: Mapping[object, str] = {result.value: result.label for result in Result}
_BATCH = 4096
# Maximum number of positions to print. All breaks are printed on a separate sheet.
_PAPER_ROWS = 40
_NOT_PRINTED = ("Ledger, exact", "Book, exact", "Ledger rows", "Key", "Portfolio id", "Venue id")
_DIGITS_MEANING = "exact if both numbers equal their exact texts, otherwise rounded."
_KEY_MEANING = "For lookups. The positions workbook has the same text for the same position."
_Kind = SheetColumnKind

_COLUMNS: tuple[tuple[str, str, str, SheetColumnKind, float], ...] = (
    ("ledger", "Ledger", "The amount in the ledger.", _Kind.NUMBER, 24),
    ("snapshot", "Book", "The amount in the book.", _Kind.NUMBER, 24),
    ("digits", "Digits", _DIGITS_MEANING, _Kind.DIGITS, 10),
    ("result", "Result", "Result for this position (see Help).", _Kind.TEXT, 20),
    ("id", "Break ID", "The ID of the position's break, if there is one.", _Kind.TEXT, 14),
    ("ledger", "Ledger, exact", "The exact amount in the ledger.", _Kind.EXACT, 34),
    ("snapshot", "Book, exact", "The exact amount in the book.", _Kind.EXACT, 34),
    ("rows", "Ledger rows", "Number of ledger rows for this position.", _Kind.COUNT, 11),
    ("lookup_key", "Key", _KEY_MEANING, _Kind.TEXT, 21),
)


def write_positions(content: WorkbookContent, path: Path) -> None:
    """Write all positions, in key order, to a Parquet file. The same run writes the same bytes."""
    connection, ids = content.source.connection, content.break_ids
    breaks = {"break_no": pa.array(list(ids), pa.int64()), "break_id": list(ids.values())}
    copy_table(connection, "break_ids", pa.table(breaks))
    rows = connection.sql(
        f"select {', '.join(map(_key, content.run.fields))}, "
        "ledger as ledger_text, snapshot as snapshot_text, rows as ledger_rows, result, "
        "break_id from compared left join break_ids on break_no = no order by no"
    )
    about = {"nightbook.run": content.run.run_id, "nightbook.snapshot": content.source.snapshot_id}
    stream_rows(rows.to_arrow_reader(ROW_GROUP), path, _MEANINGS, about, plain=_WITHOUT_DICTIONARY)


def _key(name: str) -> str:
    if name == "asset":
        bare = f"case when {_CUSTOM} then left(asset, length(asset) - 1) else asset end"
        return f"{bare} as asset_id, {_CUSTOM} as is_custom_asset"
    return f"{name} as {DIMENSIONS[name].column}"


def read_positions(path: Path, run_id: str, fields: Sequence[str]) -> pa.Table:
    """Read a run's positions: field IDs, both amounts as strings, and the result columns.

    Raises `NotReconciled` if the file is missing, damaged, or belongs to another run.
    """
    remedy = "`nightbook reconcile run` writes this file for its latest result."
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            of_run = (file.schema_arrow.metadata or {}).get(b"nightbook.run", b"").decode()
            if of_run != run_id:
                raise NotReconciled(
                    f"{path.name} belongs to run {of_run or 'unknown'}, not {run_id}. {remedy}"
                )
            table = file.read()
        if "asset" in fields:
            custom = pc.binary_join_element_wise(table["asset_id"], CUSTOM, "")
            asset = pc.if_else(table["is_custom_asset"], custom, table["asset_id"])
            table = table.append_column("asset", asset)
        names = {name: "asset" if name == "asset" else DIMENSIONS[name].column for name in fields}
        names |= {name: name for name in _RESULT_COLUMNS}
        return pa.table({name: table[column] for name, column in names.items()})
    except (OSError, pa.ArrowException, KeyError) as error:
        problem = "is missing" if isinstance(error, FileNotFoundError) else "cannot be read"
        raise NotReconciled(f"{path.name} {problem} in {path.parent.name}. {remedy}") from error


def write(content: WorkbookContent, path: Path, *, rows_per_sheet: int = ROWS_PER_SHEET) -> None:
    """Write the workbook. The same run writes the same bytes."""
    file_draft = draft(
        title=f"Reconciliation {content.run.name} as of {content.run.day}",
        made_at=content.source.snapshot["finished_at"],
        about={"run_id": content.run.run_id, "base_revision": str(content.run.revision)},
    )
    name = UNMATCHED if content.left_out else POSITIONS
    sheets = parts(name, _columns(content), content.rows, rows_per_sheet)
    for write_sheet in (write_summary, write_breaks, write_resolved_breaks):
        write_sheet(file_draft, content)
    for sheet in sheets:
        header = describe_printed_rows(_PAPER_ROWS, sheet.rows)
        fill = partial(_fill_sheet, content, sheet)
        print_as = partial(long_table, footer=content.footer, header=header, paper_rows=_PAPER_ROWS)
        print_as(file_draft, sheet, fill)
    define_names(file_draft, sheets[0])
    for write_sheet in (
        *(write_ties, write_roll_forward, write_notices, write_mapping, write_evidence),
        *(write_trail, write_help, write_lists),
    ):
        write_sheet(file_draft, content)
    file_draft.book.close()
    with written_aside(path) as file:
        splice(file_draft, file)


def _columns(content: WorkbookContent) -> tuple[SheetColumn, ...]:
    fields, text = content.run.fields, SheetColumnKind.TEXT
    columns = [
        *(
            (name, name.capitalize(), f"The {name} of the position.", text, _width(content, name))
            for name in fields
        ),
        *_COLUMNS,
        *(
            (f"{name}_id", f"{name.capitalize()} id", f"The ID of the {name}.", text, 24)
            for name in WITH_IDS
            if name in fields
        ),
    ]
    return tuple(
        SheetColumn(source, title, meaning, kind, width=width, is_printed=title not in _NOT_PRINTED)
        for source, title, meaning, kind, width in columns
    )


def _width(content: WorkbookContent, field: str) -> float:
    """Return the column width that a field's longest display name needs."""
    names, name = content.names.get(field), quote_identifier(field)
    select = f"distinct {name}"
    if names is None:
        select = f"max(length(replace({name}, {literal(CUSTOM)}, ' (custom)')))"
    rows = content.source.connection.execute(f"select {select} from compared").fetchall()
    if names is None:
        return fitting(rows[0][0] or 0)
    return fitting(max((len(names.get(id_, id_)) for (id_,) in rows), default=0))


def _fill_sheet(content: WorkbookContent, sheet: TableSheet, styles: Styles) -> Iterator[RowsXml]:
    yield from render_rows(sheet.columns, _position_values(content, sheet), styles, {})


def _position_values(
    content: WorkbookContent, sheet: TableSheet
) -> Iterator[dict[str, Sequence[object]]]:
    """Yield batches of positions for a sheet. Each batch maps column sources to values."""
    fields, ids = content.run.fields, content.break_ids
    for batch in _read_batches(content, sheet.start, sheet.rows):
        numbers, *columns = zip(*batch, strict=True)
        keys, (is_unmapped, *others) = columns[: len(fields)], columns[len(fields) :]
        shown = [
            display_names(fields, key, content.names, is_unmapped=is_one)
            for key, is_one in zip(zip(*keys, strict=True), is_unmapped, strict=True)
        ]
        sources = ("ledger", "snapshot", "rows", "result", "lookup_key")
        values: dict[str, Sequence[object]] = dict(zip(sources, others, strict=True))
        values["result"] = [_RESULTS[code] for code in values["result"]]
        values["id"] = [ids.get(number) for number in numbers]
        for name, column in zip(fields, keys, strict=True):
            values[name] = [in_name_cell(names[name]) for names in shown]
            if name in WITH_IDS:
                values[f"{name}_id"] = list(map(in_name_cell, column))
        yield values


def _read_batches(
    content: WorkbookContent, start: int, count: int
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield batches of positions: number, fields, unmapped flag, amounts, rows, result, key."""
    left_out = ", ".join(literal(result.value) for result in content.left_out)
    is_listed = f"result not in ({left_out})" if left_out else "true"
    key = lookup_key((name, quote_identifier(name)) for name in content.run.fields)
    cursor = content.source.connection.execute(
        f"select no, {columns(content.run.fields)}, is_unmapped, ledger, snapshot, rows, "
        f"result, {key} from compared where {is_listed} order by no limit {count} offset {start}"
    )
    while batch := cursor.fetchmany(_BATCH):
        yield batch


def write_day(content: WorkbookContent, files: tuple[Path, Path, Path]) -> bytes:
    """Write the workbook, all positions and the breaks to `files`. Return the workbook's bytes."""
    workbook, positions, breaks = files
    write(content, workbook)
    text = io.StringIO()
    csv.writer(text).writerows(_break_rows(content))
    write_positions(content, positions)
    write_bytes(breaks, text.getvalue().encode())
    return workbook.read_bytes()


def _break_rows(content: WorkbookContent) -> Iterator[list[str]]:
    """Yield the header and the rows of the breaks file. Its strings are not truncated."""
    fields = content.run.fields
    ids = [name for name in WITH_IDS if name in fields]
    titles = ["ledger", "snapshot", "difference", "first_seen", "cause", "lookup_key"]
    yield ["break_id", "result", *fields, *titles, *(f"{name}_id" for name in ids), "ever_seen"]
    for break_ in content.run.breaks:
        key = dict(zip(fields, break_.key, strict=True))
        yield [
            *(break_.id, break_.result, *(break_.names[name] for name in fields)),
            *(break_.ledger or "", break_.snapshot or "", break_.difference),
            *(break_.first_seen.isoformat(), break_.cause, key_of_names(key.items())),
            *(*(key[name] for name in ids), break_.ever_seen.isoformat()),
        ]
