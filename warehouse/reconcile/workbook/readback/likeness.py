"""Any copy of a workbook held against what was written into it: each cell that differs is named.

Rows and columns may have been moved, sheets renamed and columns added; the fields for people are
theirs, and what is counted from them may have been counted again.
"""

import io
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import python_calamine
from xlsxwriter.utility import xl_rowcol_to_cell

from warehouse.reconcile.comments.edits import ROLES
from warehouse.reconcile.ledger.header.titles import letters
from warehouse.reconcile.matching.totals import STEPPED
from warehouse.reconcile.workbook.content import (
    BREAKS,
    EVIDENCE,
    MAPPING,
    NOTICES,
    RESOLVED,
    ROLLED,
    TIES,
    TRAIL,
)
from warehouse.reconcile.workbook.readback.imprint import (
    Cell,
    SheetImprint,
    cell_text,
    normal_form,
    with_cells,
)
from warehouse.reconcile.workbook.readback.read_tables import SheetTable, has_header, is_same_number
from warehouse.reconcile.workbook.readback.recount import counted_again, is_counted
from warehouse.spreadsheet.reading.text import fold
from warehouse.spreadsheet.writing.cells import SIGNIFICANT

SUMMARY = "Summary"
_TABLES = (BREAKS, RESOLVED, TIES, ROLLED, NOTICES, MAPPING, EVIDENCE, TRAIL)
_HEADER = 1  # the row of the titles in each of them
_KEYS = {BREAKS: 1, RESOLVED: 1, TIES: 3, ROLLED: 1, EVIDENCE: 1}  # columns that name a row
_PEOPLE = frozenset(("Status", "Owner", "Rootcause", "Comment"))
_STEPPED = tuple(title.replace(" ", "") for title in STEPPED)
# The number cells of amounts, by the digits on which all programs agree. The difference is live.
# "Snapshot" is the title of the book in the first wording.
_NUMBERS = {
    name: dict.fromkeys(titles, SIGNIFICANT)
    for name, titles in (
        (SUMMARY, tuple(letters(place) for place in range(1, 5))),
        (BREAKS, ("Ledger", "Book", "Snapshot")),
        (TIES, ("Ledger", "Book", "Snapshot", "Difference")),
        (ROLLED, (*_STEPPED, *(title.replace("Book", "Snapshot") for title in _STEPPED))),
    )
}
_NUMBERS[BREAKS]["Difference"] = 13
_LONGEST, _MOST = 60, 200
_TYPED = re.compile(r"[^\W\d_]{2}")  # a text that says something
_ID = re.compile(r"K-[0-9A-F]{16}|B-[0-9A-F]{8,64}")  # of a position, or a break
Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Likeness:
    """What differs, and the sheets that nothing is known of."""

    differences: tuple[str, ...]
    others: tuple[str, ...]


def likeness(
    written: Mapping[str, SheetImprint],
    copy: Mapping[str, SheetImprint],
    left: Mapping[str, SheetTable],
) -> Likeness:
    """Hold the sheets of a copy against those that were written.

    `left` are by sheet the tables whose figures are compared elsewhere.
    """
    pairs = _pairs(written, copy)
    differences: list[str] = []
    for name, sheet in written.items():
        sheet_of_copy = copy.get(pairs.get(name, ""))
        if sheet_of_copy is None:
            differences.append(f"{name} is missing: no sheet has what was written there")
            continue
        columns = _columns(name, sheet, sheet_of_copy)
        theirs = _rows(sheet_of_copy, columns, sheet)
        ours = [tuple(row) for row in sheet.rows]
        if name == SUMMARY:
            theirs = counted_again(ours, theirs, _breaks(written, copy, pairs))
            ours, theirs = _without_signatures(ours), _without_signatures(theirs)
        differences += _compare(name, ours, theirs, left.get(name))
    paired = set(pairs.values())
    return Likeness(tuple(differences), tuple(name for name in copy if name not in paired))


def stray_texts(
    written: Mapping[str, SheetImprint], copy: Mapping[str, SheetImprint]
) -> Iterator[tuple[str, str]]:
    """Yield each text that a person typed where it is not read back, after its sheet and cell.

    Sheets that a person added are that person's own.
    """
    for ours, theirs in _pairs(written, copy).items():
        then, now = _texts_outside(written[ours]), _texts_outside(copy[theirs])
        # Rows and columns may have been moved, so a text counts in any cell, as often as it was
        # written. One that is still in its cell counts there.
        moved = Counter(text for place, text in then.items() if now.get(place) != text)
        for place, text in now.items():
            if then.get(place) == text:
                continue
            if moved[text]:
                moved[text] -= 1
            elif not is_counted(text) and place not in copy[theirs].formulas:
                yield f"{theirs}!{xl_rowcol_to_cell(*place)}", cell_text(text)


def _texts_outside(sheet: SheetImprint) -> dict[tuple[int, int], str]:
    """Return the texts of a sheet outside the fields for people, by row and column."""
    texts: dict[tuple[int, int], str] = {}
    fields: frozenset[int] = frozenset()
    id_ = 0
    for number, row in enumerate(sheet.rows):
        titles = [fold(cell) for cell in row]
        if fold("BreakID") in titles and "comment" in titles:
            places = (titles.index(fold(title)) for title in _PEOPLE if fold(title) in titles)
            fields, id_ = frozenset(places), titles.index(fold("BreakID"))
        is_break = bool(fields) and re.fullmatch("B-[0-9A-F]{8,64}", row[id_])
        read = fields if is_break else frozenset((1, 2)) if row and _role(row[0]) else ()
        for place, cell in enumerate(row):
            if place not in read and _TYPED.search(cell):
                texts[number, place] = cell
    return texts


def unknown_texts(
    content: bytes, page: SheetTable, names: tuple[str, ...], known: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield each text on the sheets of a table that is not known, after its sheet and cell.

    The sheets are those whose names begin with one of `names`, and those with its header.
    """
    plain: set[str] = set()
    with python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(content)) as book:
        for name in book.sheet_names:
            sheet = book.get_sheet_by_name(name)
            if not name.startswith(names) and not has_header(sheet.iter_rows(), page):
                continue
            for number, row in enumerate(sheet.iter_rows()):
                for place, cell in enumerate(row):
                    # Of millions of cells, most are numbers or known as they are.
                    if type(cell) is not str or cell in known or _ID.fullmatch(cell):
                        continue
                    if not _TYPED.search(cell):
                        continue
                    plain = plain or {Cell(text) for text in known}
                    if Cell(cell) not in plain:
                        yield f"{name}!{xl_rowcol_to_cell(number, place)}", cell


def _pairs(written: Mapping[str, SheetImprint], copy: Mapping[str, SheetImprint]) -> dict[str, str]:
    """Return which sheet is which: by its name, else by what it shares with the one written."""
    pairs = {name: name for name in written if name in copy}
    for name in [name for name in written if name not in pairs]:
        # A sheet that was renamed is the one that shares most of its rows, in whatever order of
        # columns: so each row is a set of its cells.
        ours = {frozenset(filter(None, row)) for row in written[name].rows} - {frozenset()}
        shared = {
            other: len(ours & {frozenset(filter(None, row)) for row in sheet.rows})
            for other, sheet in copy.items()
            if other not in pairs.values()
        }
        best = max(shared, key=lambda other: shared[other], default="")
        if best and shared[best]:
            pairs[name] = best
    return pairs


def _columns(name: str, ours: SheetImprint, theirs: SheetImprint) -> list[int | None]:
    """Return where each column of ours stands in a copy."""
    width = max(map(len, ours.rows), default=0)
    if name not in _TABLES:
        return list(range(width))
    titles = [fold(title) for title in ours.rows[_HEADER]]
    wanted = Counter(filter(None, titles))
    for row in theirs.rows:
        heads = [fold(cell) for cell in row]
        if sum((wanted & Counter(heads)).values()) > wanted.total() // 2:
            return [heads.index(title) if title in heads else None for title in titles]
    return list(range(width))


def _rows(theirs: SheetImprint, columns: Sequence[int | None], ours: SheetImprint) -> list[Row]:
    """Return the rows of a copy in the order of our columns, formulas judged."""
    formulas = {normal_form(formula) for formula in ours.formulas.values()}
    rows = []
    for number, row in enumerate(theirs.rows):
        cells = list(row)
        for place in range(len(cells)):
            formula = theirs.formulas.get((number, place))
            if formula is not None:
                cells[place] = _formula_result(
                    ours, formulas, formula, cells[place], (number, place)
                )
        rows.append(
            tuple(cells[at] if at is not None and at < len(cells) else "" for at in columns)
        )
    return rows


def _formula_result(
    ours: SheetImprint, forms: set[str], formula: str, value: str, place: tuple[int, int]
) -> str:
    """Return what a formula comes to; one of none of our forms comes to something else."""
    # A formula of ours may stand anywhere, for rows are sorted: it is known by its form without
    # cells. Its value is taken from the program that calculated it; one that has not calculated
    # keeps ours, if the formula is still the same in the same cell.
    if not formula:  # shares the one of another cell
        return value
    if normal_form(formula) not in forms:
        return f"={formula}"
    if value:
        return value
    same = with_cells(ours.formulas.get(place, "")) == with_cells(formula)
    return ours.at(place) if same else f"={formula}"


def _compare(
    name: str, ours: Sequence[Row], theirs: Sequence[Row], page: SheetTable | None
) -> Iterator[str]:
    titles = _titles(name, ours)
    mine, yours = (
        [line for row in rows if any(line := _own(name, row, titles, page))]
        for rows in (ours, theirs)
    )
    yours = _with_our_numbers(mine, yours, _number_cells(name, titles))
    missing, extra = _only(mine, yours), _only(yours, mine)
    if not missing and not extra:
        if name not in _TABLES and mine != yours:
            yield f"{name}: its rows stand in another order"
        return
    yield from _difference_words(name, missing, extra, titles, page)


def _difference_words(
    name: str,
    missing: list[Row],
    extra: list[Row],
    titles: Sequence[str],
    page: SheetTable | None,
) -> Iterator[str]:
    for row in missing[:_MOST]:
        row_of_copy = _like(row, extra, _KEYS.get(name, 0))
        if row_of_copy is not None:
            extra.remove(row_of_copy)
            yield from _cells(name, row, row_of_copy, titles)
        elif not _is_elsewhere(row, titles, page):
            yield f"{name}: the row {_row_label(row)} is missing"
    if len(missing) > _MOST:
        yield f"{name}: {len(missing) - _MOST} more rows differ"
        return
    for row in extra[:_MOST]:
        if not _is_elsewhere(row, titles, page):
            yield f"{name}: the row {_row_label(row)} is in no such run"


def _is_elsewhere(row: Row, titles: Sequence[str], page: SheetTable | None) -> bool:
    """Return whether a row is compared by its key elsewhere, with exact texts."""
    return page is not None and bool(re.search(page.pattern, row[titles.index(_mark(page))]))


def _mark(page: SheetTable) -> str:
    return page.mark.replace(" ", "")


def _own(name: str, row: Row, titles: Sequence[str], page: SheetTable | None) -> Row:
    """Return a row without the cells that are compared elsewhere, and without those of people."""
    row = (*row, *[""] * (len(titles) - len(row)))
    if page is None or not _is_elsewhere(row, titles, page):
        return row
    values = frozenset(title.replace(" ", "") for title in page.values)
    hidden = values | (_PEOPLE if name == BREAKS else frozenset())
    return tuple("" if title in hidden else cell for title, cell in zip(titles, row, strict=True))


def _number_cells(name: str, titles: Sequence[str]) -> dict[int, int]:
    """Return by column index how many digits of a number all programs agree on."""
    numbers = _NUMBERS.get(name, {})
    return {place: numbers[title] for place, title in enumerate(titles) if title in numbers}


def _with_our_numbers(
    ours: Sequence[Row], theirs: Sequence[Row], numbers: Mapping[int, int]
) -> list[Row]:
    """Return rows of a copy with our numbers where only the last digit of them differs."""

    def rest(row: Row) -> Row:
        return tuple("" if place in numbers else cell for place, cell in enumerate(row))

    similar: dict[Row, list[Row]] = {}
    for row in _only(ours, theirs):
        similar.setdefault(rest(row), []).append(row)
    changed = Counter(_only(theirs, ours))
    rows = []
    for row in theirs:
        same = None
        if changed[row]:
            changed[row] -= 1
            candidates = similar.get(rest(row), [])
            same = next((own for own in candidates if _is_same(own, row, numbers)), None)
            if same is not None:
                candidates.remove(same)
        rows.append(row if same is None else same)
    return rows


def _is_same(row: Row, other: Row, numbers: Mapping[int, int]) -> bool:
    return all(is_same_number(row[place], other[place], numbers[place]) for place in numbers)


def _titles(name: str, rows: Sequence[Row]) -> list[str]:
    width = max(map(len, rows), default=0)
    by_letter = [letters(place) for place in range(width)]
    if name not in _TABLES:
        return by_letter
    heads = [*rows[_HEADER], *[""] * width][:width]
    return [head or letter for head, letter in zip(heads, by_letter, strict=True)]


def _only(rows: Sequence[Row], others: Sequence[Row]) -> list[Row]:
    """Return the rows that the others have not, or not as often, in their order."""
    counts = Counter(others)
    rows_left = []
    for row in rows:
        if counts[row]:
            counts[row] -= 1
        else:
            rows_left.append(row)
    return rows_left


def _like(row: Row, others: Sequence[Row], keys: int) -> Row | None:
    """Return the row that is this one with some cells changed."""
    if keys and row[0]:
        same = [other for other in others if other[:keys] == row[:keys]]
        if same or len(row) == keys:
            return next(iter(same), None)
    # Without a key, that row is the same which shares most cells, if it shares at least half.
    best = max(others, key=lambda other: _alike(row, other), default=None)
    enough = max(1, sum(map(bool, row)) // 2)
    if best is not None and _alike(row, best) >= enough:
        return best
    # A row of one cell has nothing left to know it by.
    alone = [other for other in others if sum(map(bool, other)) == sum(map(bool, row)) == 1]
    return next((other for other in alone if bool(other[0]) == bool(row[0])), None)


def _alike(row: Row, other: Row) -> int:
    return sum(bool(cell) and cell == there for cell, there in zip(row, other, strict=True))


def _cells(name: str, ours: Row, theirs: Row, titles: Sequence[str]) -> Iterator[str]:
    at = cell_text(next(filter(None, ours), ""))[:_LONGEST]
    numbers = _number_cells(name, titles)
    for place, (title, was, now) in enumerate(zip(titles, ours, theirs, strict=True)):
        if was != now and not (place in numbers and is_same_number(was, now, numbers[place])):
            change = f"was {cell_text(was)[:_LONGEST]!r} and is now {cell_text(now)[:_LONGEST]!r}"
            yield f"{name}, {at}: {cell_text(title)} {change}"


def _row_label(row: Row) -> str:
    return " / ".join(cell_text(cell)[:_LONGEST] for cell in row if cell)[:300]


def _without_signatures(rows: Sequence[Row]) -> list[Row]:
    """Return the rows without the names and comments beside the sign-off, which are people's."""
    return [(row[0], "", "", *row[3:]) if row and _role(row[0]) else row for row in rows]


def _role(label: str) -> str:
    return next(
        (role for name, role in ROLES.items() if name.replace(" ", "") == label.casefold()), ""
    )


def _breaks(
    written: Mapping[str, SheetImprint], copy: Mapping[str, SheetImprint], pairs: Mapping[str, str]
) -> list[tuple[str, int]]:
    """Return status, as people say it now, and age of every break that was written."""
    ours, theirs = written[BREAKS], copy.get(pairs.get(BREAKS, ""))
    if theirs is None:
        return []
    columns = _columns(BREAKS, ours, theirs)
    heads = [fold(title) for title in ours.rows[_HEADER]]
    id_, status, age = (heads.index(fold(title)) for title in ("BreakID", "Status", "Agedays"))
    now = {row[id_]: row[status] for row in _rows(theirs, columns, ours)}
    return [
        (now.get(row[id_], row[status]), int(float(row[age])))
        for row in ours.rows[_HEADER + 1 :]
        if row[id_].startswith("B-")
    ]
