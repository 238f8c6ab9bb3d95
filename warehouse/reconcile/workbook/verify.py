"""Comparison of a workbook with its run's stored result and with the cells that the run wrote.

The result stores the exact amounts, so tables that show exact amounts are compared with the result.
The imprint stores all cells, so every sheet is compared with the imprint. Both comparisons ignore
the order of rows and columns, because people may sort rows and move columns.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path
from typing import Protocol

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import python_calamine
from xlsxwriter.utility import xl_rowcol_to_cell

from warehouse.contract.model import and_more, count_of, quote_identifier
from warehouse.exact import EXACT
from warehouse.reconcile.book import display_names, in_name_cell
from warehouse.reconcile.model import (
    ACCEPTED,
    AGE_BANDS,
    SAID,
    STATUSES,
    STEPPED,
    Break,
    Notice,
    Result,
    Run,
    Signature,
    Tie,
    WorkbookEdits,
    in_cell,
)
from warehouse.reconcile.terms import FIELDS, TOTALLED, NotReconciled, display_asset, letters
from warehouse.reconcile.workbook import imprint, write
from warehouse.reconcile.workbook.content import (
    BREAKS,
    EVIDENCE,
    MAPPING,
    NOTICES,
    POSITIONS,
    RESOLVED,
    ROLLED,
    TIES,
    TRAIL,
    UNMATCHED,
    WORDING,
)
from warehouse.reconcile.workbook.edits import BREAK_MARKS, read_edits, role_of
from warehouse.reconcile.workbook.imprint import (
    POSITION_MARKS,
    Cell,
    SheetImprint,
    TableHeader,
    cell_text,
    comparable,
    find_header,
    normal_form,
    text_of,
    title_key,
)
from warehouse.reconcile.workbook.sheets import exact_amounts
from warehouse.spreadsheet.writing.cells import SIGNIFICANT, Digits, number

MOST_ROWS = 200  # maximum number of rows to report individually in each table
_LONGEST, _MOST_STRAY, _MOST_PLACES = 60, 10, 100
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,4})?", re.ASCII)
_BANNER = re.compile(r"\d+(OPENBREAKS|openbreaks?)\((\d+)intotal\)(.*)")
_LETTERS = re.compile(r"[^\W\d_]{2}")
_BREAK_ID = re.compile("B-[0-9A-F]{8,64}")
_ID = re.compile(rf"K-[0-9A-F]{{16}}|{_BREAK_ID.pattern}")
_SUMMARY = "Summary"

# The sheets that contain a table, each with the number of leading columns that identify a row.
_KEYS = {BREAKS: 1, RESOLVED: 1, TIES: 3, ROLLED: 1, NOTICES: 0, MAPPING: 0, EVIDENCE: 1, TRAIL: 0}
_HEADER = 1  # the index of the title row, which is the same on all sheets with tables

# Titles of the columns that show amounts as numbers. The exact strings are in other columns.
_AMOUNTS = frozenset(map(title_key, ("Ledger", "Book", "Difference", *STEPPED)))

_PEOPLE = frozenset(title_key(name.replace("_", " ")) for name in SAID)

Row = tuple[str, ...]
# The number of times that a row was written, and the number of times that it was found.
_Counts = tuple[int, int]


class StoredRuns(Protocol):
    """Access to the stored data of runs. `record.Record` implements these methods."""

    def result_of(self, run_id: str) -> Run | None:
        """Return the result of a run."""

    def imprint(self, identity: str) -> bytes | None:
        """Return a workbook's stored imprint, which contains its cells in compressed form."""

    def day_files(self, day: date) -> tuple[Path, Path, Path]:
        """Return the paths of the workbook, the file of all positions and the file of breaks."""


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


_SIDES = ("Ledger, exact", "Book, exact")
_EXACT = (*_SIDES, "Difference, exact")
_NAMES = tuple(name.capitalize() for name in FIELDS)

_BREAKS = StoredTable(
    BREAKS, BREAK_MARKS, ("Break ID",), ("Result", *_NAMES, *_EXACT), _BREAK_ID.pattern
)

_TIED = ("Level", "Name", "Asset")
_SUMS = (*_EXACT, "In breaks, exact", "Within tolerance, exact")

_TIES = StoredTable(
    TIES, _TIED, _TIED, ("Positions", "Breaks", "Result", "Sums agree", *_SUMS), "|".join(TOTALLED)
)

_STEPS = tuple(f"{title}, exact" for title in STEPPED)
_ROLLED = StoredTable(ROLLED, ("Adds up", "Asset"), ("Asset",), (*_STEPS, "Adds up"))


def _position_table(fields: Sequence[str]) -> StoredTable:
    names = tuple(name.capitalize() for name in fields)
    values = ("Result", "Break ID", *_SIDES, "Ledger rows", "Ledger", "Book", "Digits")
    return StoredTable(POSITIONS, POSITION_MARKS, names, values)


def verify_workbook(runs: StoredRuns, file: Path) -> VerifyResult:
    """Compare a workbook with its run's stored result. The returned `signatures` are empty.

    Raises `NotReconciled` if no stored run wrote the file, or if a sheet cannot be read.
    """
    if not file.is_file():
        raise NotReconciled(
            f"There is no file {file}. Nothing was verified. Give its path relative to the current "
            "folder: nightbook reconcile verify FILE. Workbooks are in the home's reconcile/out "
            "folder."
        )
    content = file.read_bytes()
    edits = read_edits(file, content) if content else None
    result = runs.result_of(edits.run_id) if edits else None
    if edits is None or result is None:
        raise NotReconciled(
            f"{file.name} was not written by any run that is stored here. Nothing was verified."
        )
    try:
        return _compare_workbook(runs, file, content, result, edits)
    except python_calamine.CalamineError as error:
        raise NotReconciled(
            f"A sheet in {file.name} cannot be read ({error}), because it is damaged. Nothing was "
            "verified. Copy the workbook from reconcile/out or from the backup."
        ) from error


def _compare_workbook(
    runs: StoredRuns, file: Path, content: bytes, result: Run, edits: WorkbookEdits
) -> VerifyResult:
    if edits.wording != WORDING:
        raise NotReconciled(
            f"{file.name} was written by a version of nightbook before 0.1.0. Nothing was "
            "verified. Verify it with the version that wrote it, or rerun its day."
        )
    copy = imprint.read(content)
    imprints = map(imprint.unpack, map(runs.imprint, (edits.written, result.written)))
    written = next(filter(None, imprints), None)
    pairs = _pairs(written or {}, copy)
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
    positions = _position_table(result.fields)
    label, found, problems = _read_positions(content, positions)
    try:
        stored = _stored_positions(runs, positions, label, result)
        differences += [*problems, *_compare_positions(label, positions.key, stored, found)]
        compared.append(f"{count_of(stored.num_rows, 'row')} of {label}")
    except NotReconciled as error:
        uncompared.append(f"{label} was not compared: {error}")
    if written is None:
        uncompared.append(
            "number cells, Summary and other sheets were not compared, because the cells that the "
            "run wrote are not stored. To store them, run `nightbook reconcile run`"
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


class _ComparedColumns:
    """The columns of rows to compare. The first `keys` columns identify a row.

    `digits` maps the index of each number column to the number of digits that are the same in all
    programs.
    """

    def __init__(self, label: str, titles: Sequence[str], keys: int) -> None:
        self.label, self.titles, self.keys = label, titles, keys
        # Compare fewer digits of a break's difference, because spreadsheet programs recalculate the
        # difference less precisely.
        self.digits = {
            column: 13 if (label, title) == (BREAKS, "Difference") else SIGNIFICANT
            for column, title in enumerate(titles)
            if title_key(title) in _AMOUNTS or (label == _SUMMARY and column in range(1, 5))
        }

    def key(self, row: Row) -> Row:
        """Return the cells that identify a row, or an empty tuple if the first of them is blank."""
        return row[: self.keys] if self.keys and row[0] else ()

    def name(self, row: Row, most: int | None = None) -> str:
        """Describe a row by its key, or by its first `most` non-blank cells if it has no key."""
        cells = self.key(row) or list(filter(None, row))[:most]
        texts = [cell_text(cell)[:_LONGEST] for cell in cells]
        return f"{self.label}, {' / '.join(texts)[:300]}"

    def changes(self, row: Row, other: Row) -> list[int]:
        """Return the columns whose cells differ, ignoring the last digit of numbers."""
        return [
            column
            for column, (cell, now) in enumerate(zip(row, other, strict=True))
            if cell != now
            and not (column in self.digits and is_same_number(cell, now, self.digits[column]))
        ]

    def without_numbers(self, row: Row) -> Row:
        """Return a copy of a row with blank number cells."""
        return tuple(
            "" if column in self.digits and _NUMBER.fullmatch(cell) else cell
            for column, cell in enumerate(row)
        )


def is_same_number(number: str, other: str, digits: int = SIGNIFICANT) -> bool:
    """Return whether two number cells differ by at most one unit in the last digit.

    `digits` is the number of digits that every program keeps.
    """
    # A double has 17 digits, and LibreOffice and openpyxl save 15 or 16 of them. A number close to
    # a rounding boundary is then rounded twice, which can change the last digit by one.
    if not (_NUMBER.fullmatch(number) and _NUMBER.fullmatch(other)):
        return False
    amounts = sorted((Decimal(number), Decimal(other)), key=EXACT.abs)
    unit = Decimal(1).scaleb(amounts[1].adjusted() - digits + 1, EXACT)
    return EXACT.abs(EXACT.subtract(*amounts)) <= unit


def _compare_rows(
    layout: _ComparedColumns, ours: Iterable[Row], theirs: Iterable[Row]
) -> Iterator[str]:
    """Yield the differences between the rows that the run wrote and the rows in a copy."""
    ours, theirs = list(filter(any, ours)), list(filter(any, theirs))
    written, found = Counter(ours), Counter(theirs)
    counts = {
        row: (written[row], found[row]) for row in written | found if written[row] != found[row]
    }
    messages = list(_differences(layout, counts))
    is_moved = not messages and any(map(layout.changes, ours, theirs))
    if is_moved and layout.label not in _KEYS:
        yield f"{layout.label}: its rows are in a different order"
    yield from messages


def _differences(layout: _ComparedColumns, counts: Mapping[Row, _Counts]) -> Iterator[str]:
    """Yield a message for each row that is missing from, or was added to, the copy."""
    missing, extra = _without_rounding(layout, counts)
    by_key: defaultdict[Row, list[Row]] = defaultdict(list)
    for row in extra:
        by_key[layout.key(row)].append(row)
    for row in missing[:MOST_ROWS]:
        same = by_key[layout.key(row)] if layout.key(row) else []
        other = same[0] if same else _most_alike(layout, row, chain(*by_key.values()))
        if other is None:
            yield f"{layout.name(row)} {_describe_counts(*counts[row])}"
            continue
        by_key[layout.key(other)].remove(other)
        for column in layout.changes(row, other):
            was, now = (cell_text(cells[column])[:_LONGEST] for cells in (row, other))
            title = cell_text(layout.titles[column])
            yield f"{layout.name(row, 1)}: {title} was {was!r} and is now {now!r}"
    if len(missing) > MOST_ROWS:
        yield f"{layout.label}: {len(missing) - MOST_ROWS} more rows differ"
        return
    for row in islice(chain(*by_key.values()), MOST_ROWS):
        yield f"{layout.name(row)} {_describe_counts(*counts[row])}"


def _describe_counts(written: int, found: int) -> str:
    if written and found:
        wrote = count_of(written, "time")
        return f"appears {count_of(found, 'time')}, but the run wrote it {wrote}"
    return "was not written by the run" if found else "is missing"


def _without_rounding(
    layout: _ComparedColumns, counts: Mapping[Row, _Counts]
) -> tuple[list[Row], list[Row]]:
    """Return the missing rows and the extra rows, ignoring differences in the last digit."""
    similar: defaultdict[Row, list[Row]] = defaultdict(list)
    for row, (written, found) in counts.items():
        similar[layout.without_numbers(row)] += [row] * (found - written)
    missing: list[Row] = []
    for row, (written, found) in counts.items():
        candidates = similar[layout.without_numbers(row)]
        for _ in range(written - found):
            same = next((other for other in candidates if not layout.changes(row, other)), None)
            if same is None:
                missing.append(row)
            else:
                candidates.remove(same)
    return missing, [*chain(*similar.values())]


def _most_alike(layout: _ComparedColumns, row: Row, others: Iterable[Row]) -> Row | None:
    """Return the row with the most cells in common with `row`, or None if fewer than half match."""

    def likeness(other: Row) -> int:
        return sum(bool(cell) and cell == now for cell, now in zip(row, other, strict=True))

    # Do not search the table of all positions for similar rows, because it has too many rows and
    # every row has a key.
    if layout.label in (POSITIONS, UNMATCHED):
        return None
    best = max(others, key=likeness, default=None)
    least = max(1, sum(map(bool, row)) // 2)
    return best if best is not None and likeness(best) >= least else None


def _match_columns(
    label: str, titles: Sequence[str], header: TableHeader
) -> tuple[dict[int, int], list[str]]:
    """Map our columns to a header's columns. Also return a problem for each missing column."""
    keys = list(map(title_key, titles))
    columns = {
        column: header.titles.index(key)
        for column, key in enumerate(keys)
        if header.titles.count(key) == 1
    }
    return columns, [
        f"{label}: the {cell_text(titles[column])!r} column is "
        f"{'present more than once' if key in header.titles else 'missing'}; its cells were not "
        "compared"
        for column, key in enumerate(keys)
        if column not in columns
    ]


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
        columns, problems = _match_columns(table.sheet, table.titles, header)
        yield from problems
        mark = header.titles.index(title_key(table.marks[0]))
        theirs = {
            tuple(row[column] for column in columns.values())
            for row in sheet.rows[header.row + 1 :]
            if re.fullmatch(table.pattern, row[mark])
        }
        ours = {tuple(row[column] for column in columns) for row in stored}
        keys = sum(column in columns for column in range(len(table.key)))
        layout = _ComparedColumns(table.sheet, [table.titles[column] for column in columns], keys)
        theirs, ours = (theirs - ours, set()) if place else (theirs, ours)
        yield from _compare_rows(layout, sorted(ours), sorted(theirs))


def compare_sheets(
    written: Mapping[str, SheetImprint], copy: Mapping[str, SheetImprint]
) -> Iterator[str]:
    """Yield the differences between the sheets that the run wrote and the sheets in a copy."""
    pairs = _pairs(written, copy)
    for name, sheet in written.items():
        if name not in pairs:
            yield f"{name} is missing, and no other sheet contains its cells"
            continue
        layout, ours, theirs, problems = _align(name, sheet, copy[pairs[name]])
        yield from problems
        if name == _SUMMARY and BREAKS in pairs:
            # Formulas on the Summary sheet count break statuses, so a copy may show different
            # counts.
            breaks = _statuses(written[BREAKS], copy[pairs[BREAKS]])
            recounted = {new: row for row in ours if (new := _recount(row, breaks)) != row}
            theirs = [recounted.get(row, row) for row in theirs]
        yield from _compare_rows(layout, ours, theirs)


def _pairs(written: Mapping[str, SheetImprint], copy: Mapping[str, SheetImprint]) -> dict[str, str]:
    """Pair each sheet with a sheet of the copy, by name or else by the number of equal rows."""
    pairs = {name: name for name in written if name in copy}
    for name in [name for name in written if name not in pairs]:
        # People may have moved columns, so compare each row as a set of cells.
        rows = {frozenset(filter(None, row)) for row in written[name].rows} - {frozenset()}
        shared = {
            other: len(rows & {frozenset(filter(None, row)) for row in sheet.rows})
            for other, sheet in copy.items()
            if other not in pairs.values()
        }
        best = max(shared, key=lambda other: shared[other], default="")
        if best and shared[best]:
            pairs[name] = best
    return pairs


def _align(
    name: str, sheet: SheetImprint, other: SheetImprint
) -> tuple[_ComparedColumns, list[Row], list[Row], list[str]]:
    """Return the rows of a sheet and of its copy with matching columns, and any column problems."""
    width = max(map(len, sheet.rows), default=0)
    ours, theirs = _without_people(sheet.rows), _without_people(_results(sheet, other))
    titles = sheet.rows[_HEADER] if name in _KEYS else [letters(column) for column in range(width)]
    columns, problems = {column: column for column in range(width)}, list[str]()
    header = find_header(theirs, titles[:2]) if name in _KEYS else None
    if header:
        columns, problems = _match_columns(name, titles, header)
    shown = [*(titles[column] for column in columns), "position in the sheet"]
    return (
        _ComparedColumns(name, shown, _KEYS.get(name, 0)),
        _select(ours, list(columns), _HEADER if header else 0),
        _select(theirs, list(columns.values()), header.row if header else 0),
        problems,
    )


def _select(rows: Sequence[Sequence[str]], columns: Sequence[int], header: int) -> list[Row]:
    """Reduce rows to these columns, and mark rows above the header."""
    # The rows may be in any order, but no row of the table may be above the header.
    selected = (
        tuple(row[column] if column < len(row) else "" for column in columns) for row in rows
    )
    return [
        (*cells, "above the header" if line < header and any(cells) else "")
        for line, cells in enumerate(selected)
    ]


def _results(ours: SheetImprint, theirs: SheetImprint) -> list[list[str]]:
    """Return a copy's rows. Formulas that the run did not write appear as text, not as results."""
    # People sort rows, so accept a formula in any cell, and ignore its cell references. Use the
    # result that was stored by the program that saved the copy. If that result is missing, use our
    # own result, but only if the formula is still in the same cell.
    forms = {normal_form(formula) for formula in ours.formulas.values()}
    rows = [list(row) for row in theirs.rows]
    for (line, column), formula in theirs.formulas.items():
        # If several cells share a formula, most of them contain a blank formula.
        is_there = line < len(rows) and column < len(rows[line])
        if not (formula and is_there):
            continue
        own = normal_form(ours.formulas.get((line, column), ""), keep_cells=True)
        if normal_form(formula) not in forms:
            rows[line][column] = f"={formula}"
        elif not rows[line][column]:
            is_same = own == normal_form(formula, keep_cells=True)
            rows[line][column] = ours.at((line, column)) if is_same else f"={formula}"
    return rows


def _without_people(rows: Iterable[Sequence[str]]) -> list[list[str]]:
    """Return a copy of a sheet's rows, with the cells that people fill in left blank."""
    blanked = [list(row) for row in rows]
    header = find_header(blanked, BREAK_MARKS)
    titles = header.titles if header else []
    people = [column for column, title in enumerate(titles) if title in _PEOPLE]
    for row in blanked:
        is_break = header and _BREAK_ID.fullmatch(row[titles.index(title_key(BREAK_MARKS[0]))])
        for column in people if is_break else (1, 2) if row and role_of(row[0]) else ():
            row[column : column + 1] = [""] * (column < len(row))
    return blanked


def _statuses(ours: SheetImprint, theirs: SheetImprint) -> list[tuple[str, int]]:
    """Return the current status and the age of each break that the run wrote."""
    then, now = (_breaks_by_id(sheet.rows) for sheet in (ours, theirs))
    return [(now.get(id_, row)["status"], int(float(row["agedays"]))) for id_, row in then.items()]


def _breaks_by_id(rows: Sequence[Sequence[str]]) -> dict[str, dict[str, str]]:
    header = find_header(rows, (*BREAK_MARKS, "Status", "Age days"))
    below = rows[header.row + 1 :] if header else []
    breaks = (dict(zip(header.titles, row, strict=False)) for row in below) if header else ()
    return {row["breakid"]: row for row in breaks if _BREAK_ID.fullmatch(row["breakid"])}


def _recount(row: Row, breaks: Sequence[tuple[str, int]]) -> Row:
    """Return a Summary row with the counts that its formulas calculate for these breaks."""
    label = title_key(row[0])
    if banner := _BANNER.fullmatch(row[0]):
        accepted = sum(title_key(status) == title_key(ACCEPTED) for status, _ in breaks)
        number = int(banner[2]) - accepted
        noun = "OPENBREAKS" if banner[1].isupper() else f"openbreak{'s' * (number != 1)}"
        return (f"{number}{noun}({banner[2]}intotal){banner[3]}", *row[1:])
    if label in map(title_key, STATUSES):
        ages = [age for status, age in breaks if title_key(status) == label]
        counts = [sum(low <= age <= high for age in ages) for _, low, high in AGE_BANDS]
        return (row[0], *map(str, counts), str(len(ages)), *row[6:])
    return row


def _stored_rows(table: StoredTable, result: Run) -> list[Row]:
    """Return the rows that a table must contain."""
    rows: Iterable[Sequence[object]] = result.workbook.rolled
    if table is _BREAKS:
        rows = map(_break_row, result.breaks)
    elif table is _TIES:
        rows = (_tie_row(tie, result.workbook.names) for tie in result.ties)
    return [tuple(Cell(str(cell)) for cell in row) for row in rows]


def _break_row(break_: Break) -> list[str]:
    names = [in_name_cell(break_.names.get(field, "")) for field in FIELDS]
    return [break_.id, break_.result_words, *names, *exact_amounts(break_)]


def _tie_row(tie: Tie, names: Mapping[str, Mapping[str, str]]) -> list[object]:
    name = names.get(tie.level, {}).get(tie.of, tie.of)
    name = display_asset(name) if tie.level == "asset" else name
    results = [tie.keys, tie.breaks, tie.result, "yes" if tie.adds_up else "NO"]
    amounts = [tie.ledger, tie.snapshot, tie.difference, tie.broken, tie.near]
    return [tie.level, in_cell(name), in_cell(display_asset(tie.asset)), *results, *amounts]


def _read_positions(content: bytes, table: StoredTable) -> tuple[str, pa.Table | None, list[str]]:
    """Read the positions table. Return its sheet label, its rows and any column problems.

    The rows contain only columns that are on every sheet of the table. The rows are None if no
    sheet has the table's header.
    """
    label, kept = POSITIONS, list(table.titles)
    parts, problems = list[pa.Table](), dict[str, None]()
    empty = pa.table({title: pa.array([], pa.string()) for title in table.titles})
    for name, sheet in imprint.position_sheets(content):
        if header := find_header(sheet.iter_rows(), table.marks):
            label = UNMATCHED if name.startswith(UNMATCHED) else label
            columns, wrong = _match_columns(label, table.titles, header)
            kept = [title for title in kept if table.titles.index(title) in columns]
            problems |= dict.fromkeys(wrong)
            parts += [empty, *imprint.read_columns(sheet, header, table.titles)]
    rows = [part.filter(pc.not_equal(part["Result"], "")).select(kept) for part in parts]
    return label, pa.concat_tables(rows) if rows else None, list(problems)


def _stored_positions(runs: StoredRuns, table: StoredTable, label: str, result: Run) -> pa.Table:
    """Return the rows that the positions table must contain.

    Raises `NotReconciled` if the rows are not stored.
    """
    _, path, _ = runs.day_files(result.day)
    keys = write.read_positions(path, result.run_id, result.fields)
    if label == UNMATCHED:
        left_out = pa.array(result.workbook.left_out, pa.string())
        keys = keys.filter(pc.invert(pc.is_in(keys["result"], left_out)))
    names = [_shown_names(keys, name, result.workbook.names) for name in result.fields]
    words = _replace(keys["result"], lambda code: Result(code).label)
    others = ("break_id", "ledger_text", "snapshot_text", "ledger_rows")
    texts = [pc.fill_null(keys[name].cast(pa.string()), "") for name in others]
    amounts = _numbers(keys["ledger_text"].to_pylist(), keys["snapshot_text"].to_pylist())
    return pa.table([*names, words, *texts, *amounts], names=list(table.titles))


def _shown_names(
    keys: pa.Table, field: str, names: Mapping[str, Mapping[str, str]]
) -> pa.ChunkedArray:
    """Return the display names of all positions in one field, as the workbook shows them."""

    def show(*, is_unmapped: bool) -> pa.ChunkedArray:
        def name(id_: str) -> str:
            return display_names((field,), (id_,), names, is_unmapped=is_unmapped)[field]

        return _replace(keys[field], lambda id_: in_name_cell(name(id_)))

    is_unmapped = pc.is_in(keys["result"], pa.array([Result.UNMAPPED.value, Result.REJECTED.value]))
    return pc.if_else(is_unmapped, show(is_unmapped=True), show(is_unmapped=False))


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
    layout = _ComparedColumns(label, titles, sum(title in titles for title in key))
    yield from _differences(layout, _count_rows(stored.select(titles), found))


def _count_rows(stored: pa.Table, seen: pa.Table) -> dict[Row, _Counts]:
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
    lines = pa.array((line for line, _, _ in counts), pa.int64())
    rows = both.take(lines).to_pylist()
    return {
        tuple(map(Cell, row.values())): (written, found)
        for row, (_, written, found) in zip(rows, counts, strict=True)
    }


def stray_notices(runs: StoredRuns, edits: WorkbookEdits) -> Iterator[Notice]:
    """Yield notices about text outside the yellow cells, because such text is not read back."""
    written = imprint.unpack(runs.imprint(edits.written))
    if written is None:
        return
    try:
        content = edits.path.read_bytes()
        texts = [
            *_stray_texts(written, imprint.read(content)),
            *_stray_near_positions(runs, content, edits),
        ]
    except python_calamine.CalamineError:
        # Ignore a damaged sheet here, because the comments were already read and `verify` reports
        # the damage.
        return
    for place, text in texts[:_MOST_STRAY]:
        message = f"{text[:200]!r} is outside the yellow cells, so nightbook ignores it. Write it "
        message += "in a break's Status, Owner, Root cause or Comment cell instead"
        yield Notice("medium", message, f"{edits.name}!{place}", text[:1000])
    if len(texts) > _MOST_STRAY:
        places = and_more([place for place, _ in texts[_MOST_STRAY:]], _MOST_PLACES)
        more = count_of(len(texts) - _MOST_STRAY, "more text")
        yield Notice("medium", f"{more} outside the yellow cells: {places}", edits.name)


def _stray_texts(
    written: Mapping[str, SheetImprint], copy: Mapping[str, SheetImprint]
) -> Iterator[tuple[str, str]]:
    """Yield each string that a person added to our sheets, with the sheet and the cell."""
    for name, other in _pairs(written, copy).items():
        then, now = _texts_outside(written[name]), _texts_outside(copy[other])
        # People may have moved rows and columns, so accept each string in any cell, as often as it
        # was written. Strings that are still in their original cells do not count as moved.
        moved = Counter(text for place, text in then.items() if now.get(place) != text)
        for place, text in now.items():
            if then.get(place) == text:
                continue
            is_counted = _BANNER.fullmatch(text) or text.startswith("REVIEWERMUSTDIFFER")
            if moved[text]:
                moved[text] -= 1
            elif not is_counted and place not in copy[other].formulas:
                yield f"{other}!{xl_rowcol_to_cell(*place)}", cell_text(text)


def _texts_outside(sheet: SheetImprint) -> dict[tuple[int, int], str]:
    """Return the text outside the cells that people fill in, by row and column."""
    return {
        (line, column): cell
        for line, row in enumerate(_without_people(sheet.rows))
        for column, cell in enumerate(row)
        if _LETTERS.search(cell)
    }


def _stray_near_positions(
    runs: StoredRuns, content: bytes, edits: WorkbookEdits
) -> Iterator[tuple[str, str]]:
    """Yield text that a person added to the sheets with all positions.

    The cells of these sheets are not stored, so compare the text with the stored positions.
    """
    result = runs.result_of(edits.run_id)
    if result is None:
        return
    try:
        keys = write.read_positions(runs.day_files(result.day)[1], result.run_id, result.fields)
    except NotReconciled:  # Ignore a damaged file here, because `verify` reports damage.
        return
    known = _texts_of_positions(keys, result.fields, result.workbook.names)
    # Skip numbers and known strings first, because there are millions of cells and nearly all of
    # them contain numbers or known strings.
    added = (
        (f"{name}!{xl_rowcol_to_cell(line, column)}", cell)
        for name, sheet in imprint.position_sheets(content)
        for line, row in enumerate(sheet.iter_rows())
        for column, cell in enumerate(row)
        if type(cell) is str and cell not in known and not _ID.fullmatch(cell)
    )
    plain: set[str] = set()
    for place, text in added:
        plain = plain or {Cell(known_text) for known_text in known}
        if _LETTERS.search(text) and Cell(text) not in plain:
            yield place, text


def _texts_of_positions(
    keys: pa.Table, fields: Sequence[str], names: Mapping[str, Mapping[str, str]]
) -> set[str]:
    """Return the strings that the run wrote to the position sheets, except IDs."""
    known = {
        *_position_table(fields).titles,
        "Key",
        *(f"{name.capitalize()} id" for name in fields),
    }
    known |= {code.label for code in Result}
    known |= {digits.words for digits in Digits}
    for name in fields:
        known.update(map(in_name_cell, pc.unique(keys[name]).to_pylist()))
        known.update(pc.unique(_shown_names(keys, name, names)).to_pylist())
    return known
