"""What a spreadsheet counts on Summary from what people say: the open breaks, by status and age."""

import io
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import islice
from operator import itemgetter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import python_calamine
from xlsxwriter.utility import xl_rowcol_to_cell

from warehouse.contract.model import and_more, count_of
from warehouse.exact import EXACT
from warehouse.reconcile.book import display_names, in_name_cell
from warehouse.reconcile.model import (
    ACCEPTED,
    AGE_BANDS,
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
from warehouse.reconcile.record import signatures
from warehouse.reconcile.record.record import Record
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
)
from warehouse.reconcile.workbook.edits import ROLES, read_edits
from warehouse.reconcile.workbook.imprint import (
    Cell,
    SheetImprint,
    cell_text,
    normal_form,
    with_cells,
)
from warehouse.reconcile.workbook.sheets import exact_amounts
from warehouse.spreadsheet.reading.text import as_text, fold
from warehouse.spreadsheet.writing.cells import SIGNIFICANT, Digits, number
from warehouse.spreadsheet.writing.exact_difference import fixed_point

RecountRow = tuple[str, ...]

_BANNER = re.compile(r"\d+(OPENBREAKS|openbreaks?)\((\d+)intotal\)")


def counted_again(
    ours: Sequence[RecountRow], theirs: Sequence[RecountRow], breaks: Sequence[tuple[str, int]]
) -> list[RecountRow]:
    """Return the rows of a copy with those that were counted again as they were written."""
    # Formulas of Summary count what people write, so a copy may rightly show other numbers than we
    # wrote. The same counts are made here from the statuses of the copy, and only what differs from
    # those is a difference.
    again = {new: row for row in ours if (new := _again(row, breaks)) != row}
    return [again.get(row, row) for row in theirs]


def is_counted(cell: str) -> bool:
    """Return whether a text is what a formula of Summary comes to."""
    return bool(_BANNER.fullmatch(cell)) or cell.startswith("REVIEWERMUSTDIFFER")


def _again(row: RecountRow, breaks: Sequence[tuple[str, int]]) -> RecountRow:
    """Return a row of Summary as a spreadsheet counts it from what people say now."""
    label = row[0] if row else ""
    if banner := _BANNER.fullmatch(label):
        accepted = sum(_same(status, ACCEPTED) for status, _ in breaks)
        number = int(banner[2]) - accepted
        noun = "OPENBREAKS" if banner[1].isupper() else f"openbreak{'s' * (number != 1)}"
        return (f"{number}{noun}({banner[2]}intotal)", *row[1:])
    if any(_same(label, status) for status in STATUSES):
        ages = [age for status, age in breaks if _same(status, label)]
        counts = [sum(low <= age <= high for age in ages) for _, low, high in AGE_BANDS]
        return (label, *map(str, counts), str(len(ages)), *row[6:])
    return row


def _same(written: str, other: str) -> bool:
    return written.replace(" ", "").casefold() == other.replace(" ", "").casefold()


_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,4})?", re.ASCII)

_LOOKED_AT = 60

_BATCH = 16_384

# What a cell may not keep as it was: spaces, and what XML cannot hold, which is written _xHHHH_.
_UNKEPT = r"[\s\x00-\x20\x7f-\x9f\x{FFFE}\x{FFFF}]+|_x[0-9A-Fa-f]{4}_"

_ESCAPED = "(_x005F)+_"


@dataclass(frozen=True, slots=True)
class SheetTable:
    """One table of the workbook: its sheet, the headers that name a row, and those of its figures.

    It is known by the headers `marks`; a row of it has a text like `pattern` under `mark`. Rows of
    one that `adds_up` count as often as they stand there. Of the `values`, `numbers` are number
    cells, of which programs keep 15 digits.
    """

    sheet: str
    marks: tuple[str, ...]
    key: tuple[str, ...]
    values: tuple[str, ...]
    mark: str
    pattern: str = "."
    adds_up: bool = False
    numbers: tuple[str, ...] = ()

    @property
    def titles(self) -> tuple[str, ...]:
        """Every header that is compared."""
        return (*self.key, *self.values)


@dataclass(slots=True)
class TableRows:
    """What stands in a workbook of one page, over all its sheets; `odd` are headers not once there.

    Where no sheet has the table, `sheets` is empty.
    """

    sheets: list[str] = field(default_factory=list)
    tables: list[pa.Table] = field(default_factory=list)
    faulty_titles: dict[str, int] = field(default_factory=dict)


def read_pages(content: bytes, pages: Sequence[SheetTable]) -> dict[str, TableRows]:
    """Read the tables of a workbook by the sheet they were written to.

    Raises `CalamineError` where a sheet cannot be read.
    """
    tables = {page.sheet: TableRows() for page in pages}
    with python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(content)) as book:
        for name in book.sheet_names:
            rows = iter(book.get_sheet_by_name(name).iter_rows())
            for row in islice(rows, _LOOKED_AT):
                titles = [fold(as_text(cell)) for cell in row]
                page = next((page_ for page_ in pages if _has(titles, page_.marks)), None)
                if page is not None:
                    _take_rows(tables[page.sheet], name, page, titles, rows)
                    break
    return tables


def has_header(rows: Iterator[Sequence[object]], page: SheetTable) -> bool:
    """Return whether one of the first rows of a sheet has the headers of a table."""
    first = islice(rows, _LOOKED_AT)
    return any(_has([fold(as_text(cell)) for cell in row], page.marks) for row in first)


def _has(titles: Sequence[str], marks: Sequence[str]) -> bool:
    return all(fold(mark) in titles for mark in marks)


def _take_rows(
    into: TableRows,
    name: str,
    page: SheetTable,
    titles: Sequence[str],
    rows: Iterator[Sequence[object]],
) -> None:
    """Take the rows below a header; a column that is not there is empty, and told."""
    places = {title: titles.index(fold(title)) for title in page.titles if _has(titles, [title])}
    for title in page.titles:
        if titles.count(fold(title)) != 1:
            into.faulty_titles[title] = titles.count(fold(title))
    into.sheets.append(name)
    while batch := list(islice(rows, _BATCH)):
        columns = {
            title: pa.array([as_text(row[places[title]]) for row in batch])
            if title in places
            else pa.repeat("", len(batch))
            for title in page.titles
        }
        is_row = pc.match_substring_regex(columns[page.mark], page.pattern)
        into.tables.append(pa.table(columns).filter(is_row))


def comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts as they are compared: without what some program does not keep in a cell."""
    if not pc.any(pc.match_substring_regex(column, rf"{_UNKEPT}|_x005F")).as_py():
        return column
    spoken = pc.replace_substring_regex(column, _ESCAPED, "_")
    return pc.replace_substring_regex(spoken, _UNKEPT, "")


def is_same_number(number: str, other: str, digits: int = SIGNIFICANT) -> bool:
    """Return whether two number cells differ by at most one unit of their last digit.

    `digits` is the number of digits that every program keeps.
    """
    # A double has 17 digits, and LibreOffice and openpyxl save 15 or 16 of them. A number near the
    # middle between two others is then rounded twice, which can change the last digit by one.
    if number == other:
        return True
    if not (_NUMBER.fullmatch(number) and _NUMBER.fullmatch(other)):
        return False
    amounts = sorted((Decimal(number), Decimal(other)), key=EXACT.abs)
    unit = Decimal(1).scaleb(amounts[1].adjusted() - digits + 1, EXACT)
    return EXACT.abs(EXACT.subtract(*amounts)) <= unit


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
    for line, row in enumerate(sheet.rows):
        titles = [fold(cell) for cell in row]
        if fold("BreakID") in titles and "comment" in titles:
            places = (titles.index(fold(title)) for title in _PEOPLE if fold(title) in titles)
            fields, id_ = frozenset(places), titles.index(fold("BreakID"))
        is_break = bool(fields) and re.fullmatch("B-[0-9A-F]{8,64}", row[id_])
        read = fields if is_break else frozenset((1, 2)) if row and _role(row[0]) else ()
        for place, cell in enumerate(row):
            if place not in read and _TYPED.search(cell):
                texts[line, place] = cell
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
    for line, row in enumerate(theirs.rows):
        cells = list(row)
        for place in range(len(cells)):
            formula = theirs.formulas.get((line, place))
            if formula is not None:
                cells[place] = _formula_result(ours, formulas, formula, cells[place], (line, place))
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


OLDER = "the result was kept by an older nightbook, which did not keep what stands there"

_EXACT = ("Ledger, exact", "Book, exact", "Difference, exact")

_AMOUNTS = ("Ledger", "Book")

_PARTS = ("In breaks, exact", "Within tolerance, exact")

_BREAKS = SheetTable(
    sheet=BREAKS,
    marks=("Break ID", "Comment"),
    key=("Break ID",),
    values=("Result", *(name.capitalize() for name in FIELDS), *_EXACT),
    mark="Break ID",
    pattern=r"^\s*B-[0-9A-F]{8,64}\s*$",
)

_TIES = SheetTable(
    sheet=TIES,
    marks=("Level", "Name", "Asset"),
    key=("Level", "Name", "Asset"),
    values=("Positions", "Breaks", "Result", "Sums agree", *_EXACT, *_PARTS),
    mark="Level",
    pattern=rf"^\s*({'|'.join(TOTALLED)})\s*$",
)

_STEPS = tuple(f"{title}, exact" for title in STEPPED)

_ROLLED = SheetTable(
    sheet=ROLLED,
    marks=("Asset", "Adds up"),
    key=("Asset",),
    values=(*_STEPS, "Adds up"),
    mark="Adds up",
)

WITH_KEYS = (_BREAKS, _TIES, _ROLLED)

_WITH_BLANKS = 3  # the wording from which an amount that was not read is blank, not zero

# Titles of the first wording by those of today.
_FIRST_TITLES = {
    "Level": "Per",
    "Name": "Of",
    "Positions": "Keys",
    "In breaks, exact": "Of breaks, exact",
}


def pages_of(fields: Sequence[str], wording: int) -> tuple[SheetTable, ...]:
    """Return the tables of a workbook at a level, with the titles of its wording."""
    pages = (*WITH_KEYS, _positions_page(fields))
    return pages if wording > 1 else tuple(map(_in_first_wording, pages))


def _in_first_wording(page: SheetTable) -> SheetTable:
    def titles(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(_FIRST_TITLES.get(name, name.replace("Book", "Snapshot")) for name in names)

    return replace(
        page,
        marks=titles(page.marks),
        key=titles(page.key),
        values=titles(page.values),
        mark=titles([page.mark])[0],
        numbers=titles(page.numbers),
    )


def _positions_page(fields: Sequence[str]) -> SheetTable:
    """Return the table of all keys at a level."""
    exact = ("Result", "Break ID", "Ledger, exact", "Book, exact", "Ledger rows")
    return SheetTable(
        POSITIONS,
        marks=("Result", "Break ID", "Ledger rows"),
        key=tuple(name.capitalize() for name in fields),
        values=(*exact, *_AMOUNTS, "Digits"),
        mark="Result",
        adds_up=True,
        numbers=_AMOUNTS,
    )


def sheet_name(page: SheetTable, read: TableRows) -> str:
    """Return what the sheet is called there: the long table has two names, by what it lists."""
    return UNMATCHED if _lists_odd(page, read) else page.sheet


def _lists_odd(page: SheetTable, read: TableRows) -> bool:
    return page.sheet == POSITIONS and any(name.startswith(UNMATCHED) for name in read.sheets)


def stored_table(
    record: Record, page: SheetTable, read: TableRows, result: Run, wording: int
) -> pa.Table:
    """Return what the table must hold; raise `NotReconciled` where that is not known."""
    if page.sheet == BREAKS:
        return _table(page, (_break(break_, wording) for break_ in result.breaks))
    texts = result.workbook
    if texts is None:
        raise NotReconciled(f"{OLDER}. `nightbook reconcile run` keeps it.")
    if page.sheet == TIES:
        return _table(page, (_tie(tie, texts.names) for tie in result.ties))
    if page.sheet == ROLLED:
        return _table(page, texts.rolled)
    path = record.day_files(result.day).positions
    keys = write.read_positions(path, result.run_id, result.fields)
    if _lists_odd(page, read):
        results = texts.left_out or (Result.MATCHED.value,)
        keys = keys.filter(pc.invert(pc.is_in(keys["result"], pa.array(results))))
    table = _position_table(page, keys, result.fields, texts.names)
    place = table.column_names.index("Result")
    shown = pc.dictionary_encode(table["Result"]).combine_chunks()
    words = [_result_words(code, wording) for code in shown.dictionary.to_pylist()]
    return table.set_column(place, "Result", pa.array(words, pa.string()).take(shown.indices))


def texts_of_positions(record: Record, page: SheetTable, result: Run, wording: int) -> set[str]:
    """Return every text of the sheets of all positions, besides lookup keys and break IDs.

    Raise `NotReconciled` if they are not known.
    """
    if result.workbook is None:
        raise NotReconciled(f"{OLDER}. `nightbook reconcile run` keeps it.")
    names, path = result.workbook.names, record.day_files(result.day).positions
    keys = write.read_positions(path, result.run_id, result.fields)
    known = {*page.titles, "Key", *(f"{name.capitalize()} id" for name in result.fields)}
    known |= {_result_words(code.value, wording) for code in Result}
    known |= {digits.words for digits in Digits}
    for name in result.fields:
        for id_ in pc.unique(keys[name]).to_pylist():
            known |= {in_name_cell(id_), in_name_cell(display_asset(id_))}
            for is_unmapped in (False, True):
                shown = display_names((name,), (id_,), names, is_unmapped=is_unmapped)
                known.add(in_name_cell(shown[name]))
    return known


def _table(
    page: SheetTable, rows: Iterator[Sequence[object]] | Sequence[Sequence[object]]
) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(page.titles)
    return pa.table(
        {
            title: pa.array(map(str, cells), pa.string())
            for title, cells in zip(page.titles, columns, strict=True)
        }
    )


def _result_words(code: str, wording: int) -> str:
    """Return the text of a result; in the first wording it was the code."""
    return Result(code).words if wording > 1 else code


def _break(break_: Break, wording: int) -> list[str]:
    names = [in_name_cell(break_.names.get(field, "")) for field in FIELDS]
    exact = exact_amounts(break_)
    if wording < _WITH_BLANKS:
        exact = fixed_point(break_.ledger), fixed_point(break_.snapshot), break_.difference
    return [break_.id, _result_words(break_.result, wording), *names, *exact]


def _tie(table: Tie, names: Mapping[str, Mapping[str, str]]) -> list[object]:
    of = names.get(table.level, {}).get(table.of, table.of)
    of = display_asset(of) if table.level == "asset" else of
    figures = [table.ledger, table.snapshot, table.difference, table.broken, table.near]
    results = [table.keys, table.breaks, table.result, "yes" if table.adds_up else "NO"]
    return [table.level, in_cell(of), in_cell(display_asset(table.asset)), *results, *figures]


def _position_table(
    page: SheetTable, keys: pa.Table, fields: Sequence[str], names: Mapping[str, Mapping[str, str]]
) -> pa.Table:
    """Return the keys as their sheet shows them; each name is looked up once, not once a row."""
    unmapped = pc.is_in(keys["result"], pa.array([Result.UNMAPPED.value, Result.REJECTED.value]))
    columns = []
    for name in fields:
        coded = keys[name].combine_chunks().dictionary_encode()
        mapped, folded = (
            pa.array(
                [
                    in_name_cell(display_names((name,), (id_,), names, is_unmapped=is_one)[name])
                    for id_ in coded.dictionary.to_pylist()
                ],
                pa.string(),
            ).take(coded.indices)
            for is_one in (False, True)
        )
        columns.append(pc.if_else(unmapped.combine_chunks(), folded, mapped))
    others = ("result", "break_id", "ledger_text", "snapshot_text", "ledger_rows")
    columns += [pc.fill_null(keys[name].cast(pa.string()), "") for name in others]
    columns += _numbers(keys["ledger_text"].to_pylist(), keys["snapshot_text"].to_pylist())
    return pa.table(columns, names=list(page.titles))


def _numbers(*sides: Sequence[str | None]) -> list[pa.Array]:
    """Return the number cells of both amounts, and whether they are their texts."""
    cells = [[number(text or "") for text in side] for side in sides]
    ranks = [max(table for _, table in pair) for pair in zip(*cells, strict=True)]
    numbers = [pa.array([_figure(cell) for cell, _ in side], pa.string()) for side in cells]
    return [*numbers, pa.array([rank.words for rank in ranks], pa.string())]


def _figure(cell: str) -> str:
    return as_text(float(cell)) if cell else ""


TOLD = 200  # rows of one table: who finds more has lost the table, not a figure

_LONGEST_MESSAGE, _STRAY, _PLACES = 60, 10, 100

_Row = tuple[dict[str, str], tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """What differs between a workbook and the result it shows.

    `compared` says which rows of which sheets were compared, `uncompared` why others were not.
    """

    file: Path
    run_id: str
    differences: tuple[str, ...]
    compared: tuple[str, ...]
    uncompared: tuple[str, ...]
    signatures: tuple[Signature, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether everything that was compared is as it was."""
        return not self.differences

    @property
    def words(self) -> str:
        """What may be said where it is whole."""
        rows = " and ".join(filter(None, (", ".join(self.compared[:-1]), self.compared[-1])))
        return (
            f"{self.file}: {rows} are as run {self.run_id} wrote them: numbers, texts, names and "
            "formulas. What people write was not compared."
        )


def verify_workbook(record: Record, file: Path) -> VerifyResult:
    """Hold a workbook against the stored result of its run.

    Raises `NotReconciled` where the file is no workbook of ours, its run is not known, or a sheet
    cannot be read.
    """
    if not file.is_file():
        raise NotReconciled(
            f"There is no file {file}. Nothing was verified. Give its path from here: nightbook "
            "reconcile verify FILE. Workbooks are written in the home, under reconcile/out."
        )
    content = file.read_bytes()
    edits = read_edits(file, content) if content else None
    result = record.result_of(edits.run_id) if edits else None
    if edits is None or result is None:
        raise NotReconciled(
            f"{file.name} is no workbook of a run that this folder knows. Nothing was verified."
        )
    try:
        return _compare_workbook(record, file, content, result, edits)
    except python_calamine.CalamineError as error:
        raise NotReconciled(
            f"A sheet of {file.name} cannot be read ({error}): it is damaged. Nothing was "
            "verified. Take the workbook from where it was written, or from the backup."
        ) from error


def stray_notices(record: Record, edits: WorkbookEdits) -> Iterator[Notice]:
    """Yield a notice for each text outside the fields for people, which nobody reads back."""
    written = imprint.read_imprint(record, edits.written)
    if written is None:
        return
    try:
        content = edits.path.read_bytes()
        texts = list(stray_texts(written, imprint.read(content)))
        texts += _stray_beside_positions(record, content, edits)
    except python_calamine.CalamineError:
        return  # what people wrote was read by another reader, and verify tells the damage
    for place, text in texts[:_STRAY]:
        words = f"{text[:200]!r} is outside the yellow cells, so it is not read back. Write it "
        words += "under Status, Owner, Root cause or Comment of a break"
        yield Notice("medium", words, f"{edits.name}!{place}", text[:1000])
    if len(texts) > _STRAY:
        places = and_more([place for place, _ in texts[_STRAY:]], _PLACES)
        words = f"{count_of(len(texts) - _STRAY, 'more text')} outside the yellow cells: {places}"
        yield Notice("medium", words, edits.name)


def _stray_beside_positions(
    record: Record, content: bytes, edits: WorkbookEdits
) -> Iterator[tuple[str, str]]:
    """Yield the texts on the sheets of all positions that the run did not write, with their cells.

    The imprint does not have these sheets. Their texts are those of the file with all positions.
    """
    result = record.result_of(edits.run_id)
    if result is None:
        return
    page = next(page for page in pages_of(result.fields, edits.wording) if page.sheet == POSITIONS)
    try:
        known = texts_of_positions(record, page, result, edits.wording)
    except NotReconciled:  # verify says what is wrong with that file
        return
    yield from unknown_texts(content, page, (POSITIONS, UNMATCHED), known)


def _compare_workbook(
    record: Record, file: Path, content: bytes, result: Run, edits: WorkbookEdits
) -> VerifyResult:
    """Hold every table of a workbook against the stored result, and every cell that was written.

    `edits` names the writing and the wording that the workbook shows.

    Raises `CalamineError` where a sheet cannot be read.
    """
    pages = pages_of(result.fields, edits.wording)
    read = read_pages(content, pages)
    differences: list[str] = []
    compared: list[str] = []
    uncompared: list[str] = []
    for page in pages:
        table = read[page.sheet]
        try:
            stored = stored_table(record, page, table, result, edits.wording)
        except NotReconciled as error:
            uncompared.append(f"{sheet_name(page, table)} was not compared: {error}")
            continue
        differences += _differences(page, table, stored)
        rows = "row" if stored.num_rows == 1 else "rows"
        compared.append(f"{stored.num_rows} {rows} of {sheet_name(page, table)}")
    written_cells = imprint.read_imprint(record, edits.written) or imprint.read_imprint(
        record, result.written
    )
    if written_cells is None:
        uncompared.append(
            f"number cells, Summary and the sheets of words were not compared: {OLDER}."
        )
    else:
        copy = imprint.read(content, read[POSITIONS].sheets)
        like = likeness(
            written_cells, copy, {page.sheet: page for page in pages if page.sheet != POSITIONS}
        )
        differences += like.differences
        compared.append(f"every other cell of {', '.join(written_cells)}")
        uncompared += [f"the sheet {name!r} is none of the run" for name in like.others]
    return VerifyResult(
        file=file,
        run_id=result.run_id,
        differences=tuple(differences),
        compared=tuple(compared),
        uncompared=tuple(uncompared),
        signatures=tuple(signatures.valid(record, result.digest).values()),
    )


def _differences(page: SheetTable, read: TableRows, stored: pa.Table) -> Iterator[str]:
    if not read.sheets:
        marks = ", ".join(page.marks)
        yield f"{page.sheet} is missing: no sheet has a row with the headers {marks}"
        return
    for title, count in read.faulty_titles.items():
        what = "stands there more than once" if count else "is missing"
        yield f"{sheet_name(page, read)}: the column {title!r} {what}; its cells were not compared"
    titles = [title for title in page.titles if title not in read.faulty_titles]
    key = [title for title in page.key if title in titles]
    seen = pa.concat_tables([stored.slice(0, 0), *read.tables]).select(titles)
    odd = _row_differences(stored.select(titles), seen, adds_up=page.adds_up)
    by_key: dict[tuple[str, ...], tuple[list[_Row], list[_Row]]] = {}
    for row, often in odd:
        sides = by_key.setdefault(tuple(row[title].strip() for title in key), ([], []))
        sides[often[0] < often[1]].append((row, often))
    changed = [(names, sides) for names, sides in by_key.items() if _differ(*sides, page.numbers)]
    for names, (then, now) in sorted(changed, key=itemgetter(0))[:TOLD]:
        at = " / ".join(name[:_LONGEST_MESSAGE] for name in names)
        where = at if page.sheet == BREAKS else f"{sheet_name(page, read)}, {at}"
        yield from _cell_difference(where, then, now, page.numbers)
    if len(changed) > TOLD:
        yield f"{sheet_name(page, read)}: {len(changed) - TOLD} more rows differ"


def _row_differences(stored: pa.Table, seen: pa.Table, *, adds_up: bool) -> Iterator[_Row]:
    """Yield the rows that only one side has, or more often, with how often each has them."""
    # Both sides are stacked, marked with whose they are, and grouped by all their cells: a million
    # rows are compared without one of them becoming an object, and in any order.
    sides = [stored, seen]
    plain = [
        pa.table([comparable(column) for column in side.columns], names=side.column_names)
        for side in sides
    ]
    if plain[0].equals(plain[1]):
        return
    signed = [
        side.append_column("stored", pa.repeat(int(not number), side.num_rows))
        .append_column("seen", pa.repeat(number, side.num_rows))
        .append_column("place", pa.array(range(start, start + side.num_rows), pa.int64()))
        for number, (side, start) in enumerate(zip(plain, (0, stored.num_rows), strict=True))
    ]
    how = "sum" if adds_up else "max"
    counted = (
        pa.concat_tables(signed)
        .group_by(stored.column_names)
        .aggregate([("stored", how), ("seen", how), ("place", "min")])
    )
    odd = counted.filter(pc.not_equal(counted[f"stored_{how}"], counted[f"seen_{how}"]))
    rows = pa.concat_tables(sides).take(odd["place_min"]).to_pylist()
    often = zip(odd[f"stored_{how}"].to_pylist(), odd[f"seen_{how}"].to_pylist(), strict=True)
    yield from zip(rows, often, strict=True)


def _differ(then: list[_Row], now: list[_Row], numbers: Collection[str]) -> bool:
    """Return whether rows of one key differ by more than the last digit of `numbers`.

    Remove the rows that do not.
    """
    for row, (stored, seen) in list(then):
        same = next(
            (
                other
                for other in now
                if other[1] == (seen, stored) and not any(_changes(row, other[0], numbers))
            ),
            None,
        )
        if same is not None:
            now.remove(same)
            then.remove((row, (stored, seen)))
    return bool(then or now)


def _changes(
    row: Mapping[str, str], other: Mapping[str, str], numbers: Collection[str]
) -> Iterator[str]:
    """Yield the titles of the cells that differ."""
    for title, was in row.items():
        is_now = other[title]
        if was == is_now or (title in numbers and is_same_number(was, is_now)):
            continue
        if len(comparable(pa.chunked_array([[was, is_now]])).unique()) > 1:
            yield title


def _cell_difference(
    where: str, then: Sequence[_Row], now: Sequence[_Row], numbers: Collection[str]
) -> Iterator[str]:
    """Say what became of one key, of which each side has none, one or several rows."""
    if len(then) == len(now) == 1:
        for title in _changes(then[0][0], now[0][0], numbers):
            was, is_now = then[0][0][title], now[0][0][title]
            name = title.removesuffix(", exact").lower()
            yield (
                f"{where}: {name} was {was[:_LONGEST_MESSAGE]} and is now "
                f"{is_now[:_LONGEST_MESSAGE]!r}"
            )
        return
    for _, (stored, seen) in (*then, *now):
        if not seen:
            yield f"{where} is missing"
        elif not stored:
            yield f"{where} is in no such row of the run"
        else:
            yield f"{where} stands there {seen} times and not {stored}"
