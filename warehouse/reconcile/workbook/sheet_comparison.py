"""Comparison of a workbook's sheets with the cells that the run wrote."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from warehouse.reconcile.model import AGE_BANDS, DERIVED, SAID, SETTLED, STATUSES
from warehouse.reconcile.terms import letters
from warehouse.reconcile.workbook.content import BREAKS
from warehouse.reconcile.workbook.edits import BREAK_ID, BREAK_MARKS, role_of
from warehouse.reconcile.workbook.imprint import SheetImprint, find_header, normal_form, title_key
from warehouse.reconcile.workbook.row_comparison import (
    KEYS,
    SUMMARY,
    ComparedColumns,
    Row,
    compare_rows,
    match_columns,
)

Sheets = Mapping[str, SheetImprint]  # the cells of a workbook, by the name of each sheet
BANNER = re.compile(r"\d+(OPENBREAKS|openbreaks?)\((\d+)intotal\)(.*)")
_HEADER = 1  # the index of the title row, which is the same on all sheets with tables
_PEOPLE = frozenset(title_key(name.replace("_", " ")) for name in SAID)


def compare_sheets(written: Sheets, copy: Sheets) -> Iterator[str]:
    """Yield the differences between the sheets that the run wrote and the sheets in a copy."""
    pairs = paired_sheets(written, copy)
    for name, sheet in written.items():
        if name not in pairs:
            yield f"{name} is missing, and no other sheet contains its cells"
            continue
        layout, ours, theirs, problems = _align(name, sheet, copy[pairs[name]])
        yield from problems
        if name == SUMMARY and BREAKS in pairs:
            # Formulas on the Summary sheet count break statuses, so a copy may show different
            # counts.
            breaks = _statuses(written[BREAKS], copy[pairs[BREAKS]])
            recounted = {new: row for row in ours if (new := _recount(row, breaks)) != row}
            theirs = [recounted.get(row, row) for row in theirs]
        yield from compare_rows(layout, ours, theirs)


def paired_sheets(written: Sheets, copy: Sheets) -> dict[str, str]:
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
) -> tuple[ComparedColumns, list[Row], list[Row], list[str]]:
    """Return the rows of a sheet and of its copy with matching columns, and any column problems."""
    width = max(map(len, sheet.rows), default=0)
    ours, theirs = without_people(sheet.rows), without_people(_results(sheet, other))
    titles = sheet.rows[_HEADER] if name in KEYS else [letters(column) for column in range(width)]
    columns, problems = {column: column for column in range(width)}, list[str]()
    header = find_header(theirs, titles[:2]) if name in KEYS else None
    if header:
        columns, problems = match_columns(name, titles, header)
    shown = [*(titles[column] for column in columns), "position in the sheet"]
    return (
        ComparedColumns(name, shown, KEYS.get(name, 0)),
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


def without_people(rows: Iterable[Sequence[str]]) -> list[list[str]]:
    """Return a copy of a sheet's rows, with the cells that people fill in left blank."""
    blanked = [list(row) for row in rows]
    header = find_header(blanked, BREAK_MARKS)
    titles = header.titles if header else []
    people = [column for column, title in enumerate(titles) if title in _PEOPLE]
    for row in blanked:
        is_break = header and BREAK_ID.fullmatch(row[titles.index(title_key(BREAK_MARKS[0]))])
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
    return {row["breakid"]: row for row in breaks if BREAK_ID.fullmatch(row["breakid"])}


def _recount(row: Row, breaks: Sequence[tuple[str, int]]) -> Row:
    """Return a Summary row with the counts that its formulas calculate for these breaks."""
    label = title_key(row[0])
    if banner := BANNER.fullmatch(row[0]):
        accepted = sum(title_key(status) in map(title_key, SETTLED) for status, _ in breaks)
        number = int(banner[2]) - accepted
        noun = "OPENBREAKS" if banner[1].isupper() else f"openbreak{'s' * (number != 1)}"
        return (f"{number}{noun}({banner[2]}intotal){banner[3]}", *row[1:])
    if label in map(title_key, (*STATUSES, *DERIVED)):
        ages = [age for status, age in breaks if title_key(status) == label]
        counts = [sum(low <= age <= high for age in ages) for _, low, high in AGE_BANDS]
        return (row[0], *map(str, counts), str(len(ages)), *row[6:])
    return row
