"""Comparison of a workbook with its run's stored result and with the cells that the run wrote.

The result stores the exact amounts, so tables that show exact amounts are compared with the result.
The imprint stores all cells, so every sheet is compared with the imprint. Both comparisons ignore
the order of rows and columns, because people may sort rows and move columns.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import python_calamine

from warehouse.contract.model import count_of, quote_identifier
from warehouse.reconcile.book import display_names, in_name_cell
from warehouse.reconcile.model import (
    STEPPED,
    Break,
    DisplayNames,
    Result,
    Run,
    Signature,
    WorkbookEdits,
    in_cell,
)
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.terms import FIELDS, TOTALLED, NotReconciled
from warehouse.reconcile.workbook import imprint, write
from warehouse.reconcile.workbook.content import (
    BREAKS,
    POSITIONS,
    ROLLED,
    TIES,
    UNMATCHED,
    WORDING,
)
from warehouse.reconcile.workbook.edits import BREAK_ID, BREAK_MARKS, read_edits
from warehouse.reconcile.workbook.imprint import (
    POSITION_MARKS,
    Cell,
    SheetImprint,
    comparable,
    find_header,
    text_of,
    title_key,
)
from warehouse.reconcile.workbook.row_comparison import (
    ComparedColumns,
    Counts,
    Row,
    compare_rows,
    match_columns,
    row_differences,
)
from warehouse.reconcile.workbook.sheet_comparison import compare_sheets, paired_sheets
from warehouse.reconcile.workbook.sheets import exact_amounts, tie_cells
from warehouse.spreadsheet.writing.cells import number

_SIDES = ("Ledger, exact", "Book, exact")
_EXACT = (*_SIDES, "Difference, exact")
_NAMES = tuple(name.capitalize() for name in FIELDS)
_TIED = ("Level", "Name", "Asset")
_SUMS = (*_EXACT, "In breaks, exact", "Within tolerance, exact")
_STEPS = tuple(f"{title}, exact" for title in STEPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """The differences between a workbook and its run's stored result.

    `compared` lists the rows and sheets that were compared. `uncompared` lists the parts that were
    not compared, with reasons.
    """

    file: Path
    run_id: str
    digest: str
    differences: tuple[str, ...]
    compared: tuple[str, ...]
    uncompared: tuple[str, ...]
    signatures: tuple[Signature, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether the comparison found no differences."""
        return not self.differences

    @property
    def message(self) -> str:
        """The message for a workbook without differences."""
        rows = " and ".join(filter(None, (", ".join(self.compared[:-1]), self.compared[-1])))
        return (
            f"{self.file}: {rows} have not changed since run {self.run_id} wrote them. Numbers, "
            "text, names and formulas were compared, but not the cells that people fill in."
        )


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A workbook table whose rows are also in the stored result.

    The titles in `marks` identify its header. A row belongs to the table if its cell below the
    first of these titles matches `pattern`.
    """

    sheet: str
    marks: tuple[str, ...]
    key: tuple[str, ...]
    values: tuple[str, ...]
    pattern: str = ".+"

    @property
    def titles(self) -> tuple[str, ...]:
        """The titles of all compared columns."""
        return (*self.key, *self.values)


_BREAKS = StoredTable(
    BREAKS, BREAK_MARKS, ("Break ID",), ("Result", *_NAMES, *_EXACT), BREAK_ID.pattern
)

_TIES = StoredTable(
    TIES, _TIED, _TIED, ("Positions", "Breaks", "Result", "Sums agree", *_SUMS), "|".join(TOTALLED)
)

_ROLLED = StoredTable(ROLLED, ("Adds up", "Asset"), ("Asset",), (*_STEPS, "Adds up"))


def verify_workbook(record: Record, file: Path) -> VerifyResult:
    """Compare a workbook with its run's stored result. The returned `signatures` are empty.

    Raises `NotReconciled` if no stored run wrote the file, or if a sheet cannot be read.
    """
    if not file.is_file():
        raise NotReconciled(
            f"There is no file {file}. Nothing was verified. Give its path relative to the current "
            f"folder: nightbook reconcile verify{record.option} FILE. Workbooks are in the home's "
            f"{record.root.name}/out folder."
        )
    content = file.read_bytes()
    edits = read_edits(file, content) if content else None
    result = record.result_of(edits.run_id) if edits else None
    if edits is None or result is None:
        raise NotReconciled(
            f"{file.name} was not written by any run that is stored here. Nothing was verified."
        )
    if edits.wording != WORDING:
        raise NotReconciled(
            f"{file.name} was written by an older version of nightbook. Nothing was verified. "
            "Verify it with the version that wrote it, or rerun its day."
        )
    try:
        return _compare_workbook(record, file, content, result, edits)
    except python_calamine.CalamineError as error:
        raise NotReconciled(
            f"A sheet in {file.name} cannot be read ({error}), because it is damaged. Nothing was "
            f"verified. Copy the workbook from {record.root.name}/out or from the backup."
        ) from error


def position_table(fields: Sequence[str]) -> StoredTable:
    """Return the table of all positions, which has a column for each of these fields."""
    names = tuple(name.capitalize() for name in fields)
    values = ("Result", "Break ID", *_SIDES, "Ledger rows", "Ledger", "Book", "Digits")
    return StoredTable(POSITIONS, POSITION_MARKS, names, values)


def shown_names(keys: pa.Table, field: str, names: DisplayNames) -> pa.ChunkedArray:
    """Return the display names of all positions in one field, as the workbook shows them."""

    def show(*, is_unmapped: bool) -> pa.ChunkedArray:
        def name(id_: str) -> str:
            return display_names((field,), (id_,), names, is_unmapped=is_unmapped)[field]

        return _replace(keys[field], lambda id_: in_name_cell(name(id_)))

    is_unmapped = pc.is_in(keys["result"], pa.array([Result.UNMAPPED.value, Result.REJECTED.value]))
    return pc.if_else(is_unmapped, show(is_unmapped=True), show(is_unmapped=False))


def _compare_workbook(
    record: Record, file: Path, content: bytes, result: Run, edits: WorkbookEdits
) -> VerifyResult:
    copy = imprint.read(content)
    imprints = map(imprint.unpack, map(record.imprint, (edits.written, result.written)))
    written = next(filter(None, imprints), None)
    pairs = paired_sheets(written or {}, copy)
    added = [name for name in copy if name not in pairs.values()]
    differences: list[str] = []
    compared: list[str] = []
    uncompared: list[str] = []
    for table in (_BREAKS, _TIES, _ROLLED):
        rows = _stored_rows(table, result)
        # The copy is compared with the cells that were stored with the run, so also check that
        # these cells match the result.
        sheets = [written[table.sheet]] if written else []
        sheets += [copy[name] for name in sorted(added, key=lambda name: name != table.sheet)]
        differences += _compare_with_result(table, rows, sheets)
        compared.append(f"{count_of(len(rows), 'row')} of {table.sheet}")
    positions = position_table(result.fields)
    label, found, problems = _read_positions(content, positions)
    try:
        stored = _stored_positions(record, positions, label, result)
        differences += [*problems, *_compare_positions(label, positions.key, stored, found)]
        compared.append(f"{count_of(stored.num_rows, 'row')} of {label}")
    except NotReconciled as error:
        uncompared.append(f"{label} was not compared: {error}")
    if written is None:
        uncompared.append(
            "number cells, Summary and other sheets were not compared, because the cells that the "
            "run wrote are not stored. To store them, run "
            f"`nightbook reconcile run{record.option}`"
        )
    else:
        differences += compare_sheets(written, copy)
        compared.append(f"every other cell of {', '.join(written)}")
        uncompared += [f"the {name!r} sheet was not written by the run" for name in added]
    return VerifyResult(
        file=file,
        run_id=result.run_id,
        digest=result.digest,
        differences=tuple(differences),
        compared=tuple(compared),
        uncompared=tuple(uncompared),
    )


def _compare_with_result(
    table: StoredTable, stored: Sequence[Row], sheets: Iterable[SheetImprint]
) -> Iterator[str]:
    """Compare a table's rows with the stored result.

    The first sheet with the table's header must have all rows. Other sheets may have copies of some
    rows.
    """
    headers = [(sheet, find_header(sheet.rows, table.marks)) for sheet in sheets]
    found = [(sheet, header) for sheet, header in headers if header]
    if not found:
        marks = ", ".join(table.marks)
        yield f"{table.sheet} is missing: no sheet has a row with the headers {marks}"
    for place, (sheet, header) in enumerate(found):
        columns, problems = match_columns(table.sheet, table.titles, header)
        yield from problems
        mark = header.titles.index(title_key(table.marks[0]))
        theirs = {
            tuple(row[column] for column in columns.values())
            for row in sheet.rows[header.row + 1 :]
            if re.fullmatch(table.pattern, row[mark])
        }
        ours = {tuple(row[column] for column in columns) for row in stored}
        keys = sum(column in columns for column in range(len(table.key)))
        layout = ComparedColumns(table.sheet, [table.titles[column] for column in columns], keys)
        theirs, ours = (theirs - ours, set()) if place else (theirs, ours)
        yield from compare_rows(layout, sorted(ours), sorted(theirs))


def _stored_rows(table: StoredTable, result: Run) -> list[Row]:
    """Return the rows that a table must contain."""
    rows: Iterable[Sequence[object]] = result.workbook.rolled
    if table is _BREAKS:
        rows = map(_break_row, result.breaks)
    elif table is _TIES:
        rows = (tie_cells(tie, result.workbook.names) for tie in result.ties)
    return [tuple(Cell(in_cell(str(cell))) for cell in row) for row in rows]


def _break_row(break_: Break) -> list[str]:
    names = [in_name_cell(break_.names.get(field, "")) for field in FIELDS]
    return [break_.id, break_.result_words, *names, *exact_amounts(break_)]


def _read_positions(content: bytes, table: StoredTable) -> tuple[str, pa.Table | None, list[str]]:
    """Read the positions table. Return its sheet label, its rows and any column problems.

    The rows contain only columns that are on every sheet of the table. The rows are None if no
    sheet has the table's header.
    """
    label, kept = POSITIONS, list(table.titles)
    parts, problems = list[pa.Table](), dict[str, None]()
    empty = pa.table({title: pa.array([], pa.string()) for title in table.titles})
    for name, sheet in imprint.open_sheets(content, has_positions=True):
        if header := find_header(sheet.iter_rows(), table.marks):
            label = UNMATCHED if name.startswith(UNMATCHED) else label
            columns, wrong = match_columns(label, table.titles, header)
            kept = [title for title in kept if table.titles.index(title) in columns]
            problems |= dict.fromkeys(wrong)
            parts += [empty, *imprint.read_columns(sheet, header, table.titles)]
    rows = [part.filter(pc.not_equal(part["Result"], "")).select(kept) for part in parts]
    return label, pa.concat_tables(rows) if rows else None, list(problems)


def _stored_positions(record: Record, table: StoredTable, label: str, result: Run) -> pa.Table:
    """Return the rows that the positions table must contain.

    Raises `NotReconciled` if the rows are not stored.
    """
    _, path, _ = record.day_files(result.day)
    keys = write.read_positions(path, result.run_id, result.fields)
    if label == UNMATCHED:
        left_out = pa.array(result.workbook.left_out, pa.string())
        keys = keys.filter(pc.invert(pc.is_in(keys["result"], left_out)))
    names = [shown_names(keys, name, result.workbook.names) for name in result.fields]
    words = _replace(keys["result"], lambda code: Result(code).label)
    others = ("break_id", "ledger_text", "snapshot_text", "ledger_rows")
    texts = [pc.fill_null(keys[name].cast(pa.string()), "") for name in others]
    amounts = _numbers(keys["ledger_text"].to_pylist(), keys["snapshot_text"].to_pylist())
    return pa.table([*names, words, *texts, *amounts], names=list(table.titles))


def _replace(column: pa.ChunkedArray, text: Callable[[str], str]) -> pa.ChunkedArray:
    """Convert each value in a column to a new string.

    Each distinct value is converted only once.
    """
    coded = column.combine_chunks().dictionary_encode()
    texts = pa.array(map(text, coded.dictionary.to_pylist()), pa.string())
    return pa.chunked_array([texts.take(coded.indices)])


def _numbers(*sides: Sequence[str | None]) -> list[pa.Array]:
    """Return the number cells for both amounts, and the label that shows how exact they are."""
    cells = [[number(text or "") for text in side] for side in sides]
    digits = [max(kind for _, kind in pair) for pair in zip(*cells, strict=True)]
    numbers = [
        pa.array([text_of(float(cell)) if cell else "" for cell, _ in side], pa.string())
        for side in cells
    ]
    return [*numbers, pa.array([kind.words for kind in digits], pa.string())]


def _compare_positions(
    label: str, key: Sequence[str], stored: pa.Table, found: pa.Table | None
) -> Iterator[str]:
    if found is None:
        marks = ", ".join(POSITION_MARKS)
        yield f"{POSITIONS} is missing: no sheet has a row with the headers {marks}"
        return
    titles = found.column_names
    layout = ComparedColumns(label, titles, sum(title in titles for title in key))
    yield from row_differences(layout, _count_rows(stored.select(titles), found))


def _count_rows(stored: pa.Table, seen: pa.Table) -> dict[Row, Counts]:
    """Count how often each row was written and how often it was found. Return rows that differ."""
    both = pa.concat_tables([stored, seen])
    plain = pa.table([comparable(column) for column in both.columns], names=both.column_names)
    size = stored.num_rows
    if plain.slice(0, size).equals(plain.slice(size)):
        return {}
    plain = plain.append_column("line", pa.array(range(plain.num_rows)))
    columns = ", ".join(map(quote_identifier, stored.column_names))
    with duckdb.connect() as connection:
        connection.register("plain", plain)
        counts = connection.execute(
            "select min(line), count(*) filter (line < $1) as written, "  # noqa: S608 - our titles
            "count(*) filter (line >= $1) as found from plain "
            f"group by {columns} having written <> found order by 1",
            [size],
        ).fetchall()
    rows = both.take(pa.array((line for line, _, _ in counts), pa.int64())).to_pylist()
    return {
        tuple(map(Cell, row.values())): (written, found)
        for row, (_, written, found) in zip(rows, counts, strict=True)
    }
