"""Comparison of two sets of rows, in any order, which tolerates the last digit of numbers."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain, islice

from warehouse.contract.model import count_of
from warehouse.exact import EXACT
from warehouse.reconcile.model import STEPPED
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
from warehouse.reconcile.workbook.imprint import TableHeader, cell_text, title_key
from warehouse.spreadsheet.writing.cells import SIGNIFICANT

MAX_ROWS = 200  # maximum number of rows to report individually in each table
_MAX_LENGTH = 60
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,4})?", re.ASCII)
SUMMARY = "Summary"

# The sheets that contain a table, each with the number of leading columns that identify a row.
KEYS = {BREAKS: 1, RESOLVED: 1, TIES: 3, ROLLED: 1, NOTICES: 0, MAPPING: 0, EVIDENCE: 1, TRAIL: 0}

# Titles of the columns that show amounts as numbers. The exact strings are in other columns.
_AMOUNTS = frozenset(map(title_key, ("Ledger", "Book", "Difference", *STEPPED)))

Row = tuple[str, ...]

# The number of times that a row was written, and the number of times that it was found.
Counts = tuple[int, int]


class ComparedColumns:
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
            if title_key(title) in _AMOUNTS or (label == SUMMARY and column in range(1, 5))
        }

    def key(self, row: Row) -> Row:
        """Return the cells that identify a row, or an empty tuple if the first of them is blank."""
        return row[: self.keys] if self.keys and row[0] else ()

    def name(self, row: Row, most: int | None = None) -> str:
        """Describe a row by its key, or by its first `most` non-blank cells if it has no key."""
        cells = self.key(row) or list(filter(None, row))[:most]
        texts = [cell_text(cell)[:_MAX_LENGTH] for cell in cells]
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


def compare_rows(
    layout: ComparedColumns, ours: Iterable[Row], theirs: Iterable[Row]
) -> Iterator[str]:
    """Yield the differences between the rows that the run wrote and the rows in a copy."""
    ours, theirs = list(filter(any, ours)), list(filter(any, theirs))
    written, found = Counter(ours), Counter(theirs)
    different = (row for row in written | found if written[row] != found[row])
    counts = {row: (written[row], found[row]) for row in different}
    messages = list(row_differences(layout, counts))
    is_moved = not messages and any(map(layout.changes, ours, theirs))
    if is_moved and layout.label not in KEYS:
        yield f"{layout.label}: its rows are in a different order"
    yield from messages


def row_differences(layout: ComparedColumns, counts: Mapping[Row, Counts]) -> Iterator[str]:
    """Yield a message for each row that is missing from, or was added to, the copy."""
    missing, extra = _without_rounding(layout, counts)
    by_key: defaultdict[Row, list[Row]] = defaultdict(list)
    for row in extra:
        by_key[layout.key(row)].append(row)
    for row in missing[:MAX_ROWS]:
        same = by_key[layout.key(row)] if layout.key(row) else []
        other = same[0] if same else _most_alike(layout, row, chain(*by_key.values()))
        if other is None:
            yield f"{layout.name(row)} {_describe_counts(*counts[row])}"
            continue
        by_key[layout.key(other)].remove(other)
        for column in layout.changes(row, other):
            was, now = (cell_text(cells[column])[:_MAX_LENGTH] for cells in (row, other))
            title = cell_text(layout.titles[column])
            yield f"{layout.name(row, 1)}: {title} was {was!r} and is now {now!r}"
    if len(missing) > MAX_ROWS:
        yield f"{layout.label}: {len(missing) - MAX_ROWS} more rows differ"
        return
    for row in islice(chain(*by_key.values()), MAX_ROWS):
        yield f"{layout.name(row)} {_describe_counts(*counts[row])}"


def _describe_counts(written: int, found: int) -> str:
    if written and found:
        wrote = count_of(written, "time")
        return f"appears {count_of(found, 'time')}, but the run wrote it {wrote}"
    return "was not written by the run" if found else "is missing"


def _without_rounding(
    layout: ComparedColumns, counts: Mapping[Row, Counts]
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


def _most_alike(layout: ComparedColumns, row: Row, others: Iterable[Row]) -> Row | None:
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


def match_columns(
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
