"""The titles in a header of one or more rows, and the header's fingerprint."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from warehouse.reconcile.ledger.dates import is_date
from warehouse.reconcile.ledger.words import words_of
from warehouse.reconcile.terms import letters
from warehouse.spreadsheet.reading.delimited_text import Row
from warehouse.spreadsheet.reading.grid import HEAD, Grid
from warehouse.spreadsheet.reading.text import as_text, fold

REQUIRED = ("asset", "amount")
_TWO = 2
_MAX_LENGTH = 200
_LETTER = re.compile(r"[^\W\d_]")


def fingerprint(titles: Sequence[str]) -> str:
    """Return a header's fingerprint. The order of the titles does not matter."""
    folded = sorted(fold(title) for title in titles if title)
    return hashlib.sha256("\x1f".join(folded).encode()).hexdigest()[:8]


def count_fields(rows: Sequence[Row], own_words: str = "") -> int:
    """Score one way of reading a file by the row that names the most fields. Higher is better.

    A row with both an asset and an amount beats rows with any number of other fields.
    """
    # This function is called for each encoding and delimiter of a text file, and the result with
    # the most fields is used. Look up only short strings with a letter, because looking up all
    # strings took 10 % of a run (measured).
    best = 0
    words = words_of(own_words)
    for row in rows[:HEAD]:
        titles = (
            text for text in titles_of(row) if len(text) <= _MAX_LENGTH and _LETTER.search(text)
        )
        fields = {words.field_of(text) or words.second_field_of(text) for text in titles}
        best = max(best, len(fields - {""}) + 10 * fields.issuperset(REQUIRED))
    return best


def titles_of(row: Row) -> tuple[str, ...]:
    """Return the cells of a row as titles. A cell that is not a string becomes an empty string."""
    return tuple(" ".join(cell.split()) if isinstance(cell, str) else "" for cell in row)


def find_columns(wanted: str, titles: Sequence[str]) -> list[int]:
    """Find columns by their title, or by a name like `column C` if no title matches."""
    name = fold(wanted)
    by_title = [column for column, title in enumerate(titles) if title and fold(title) == name]
    return by_title or [column for column in range(len(titles)) if fold(letters(column)) == name]


def depths(grid: Grid, row: int, settled: int) -> tuple[int, ...]:
    """Return the possible numbers of header rows, if the header begins in this row.

    `settled` is the number of header rows in the settings, or 0.
    """
    # A second header row has at least one title below a blank cell or a date, and at least one
    # blank cell below a title. A row that contains a number is a ledger row.
    if settled:
        return (settled,) if row + settled <= len(grid.rows) else ()
    if row + _TWO >= len(grid.rows):
        return (1,)
    upper, second = titles_of(grid.rows[row]), titles_of(grid.rows[row + 1])
    below = [column for column, title in enumerate(second) if title]
    if any(as_text(cell).strip() and not isinstance(cell, str) for cell in grid.rows[row + 1]):
        return (1,)
    has_gap = any(
        column >= len(upper) or not upper[column] or is_date(upper[column]) for column in below
    )
    has_label = any(
        title and (column >= len(second) or not second[column])
        for column, title in enumerate(upper)
    )
    has_digits = any(any(letter.isdigit() for letter in second[column]) for column in below)
    return (_TWO, 1) if len(below) >= _TWO and has_gap and has_label and not has_digits else (1,)


def joined_titles(grid: Grid, row: int, depth: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return a header's titles joined across its rows, and the titles in its last row."""
    # If a title spans several columns, it is in the leftmost cell, and the cells to its right are
    # blank.
    rows = [titles_of(cells) for cells in islice(grid.rows, row, row + depth)]
    width = max(map(len, rows), default=0)
    rows = [titles + ("",) * (width - len(titles)) for titles in rows]
    parts: list[list[str]] = [[] for _ in range(width)]
    for number, titles in enumerate(rows):
        above = ""
        for column, title in enumerate(titles):
            above = title or above
            is_spanned = number + 1 < depth and bool(rows[number + 1][column])
            text = title or (above if is_spanned else "")
            if text:
                parts[column].append(text)
    return tuple(" ".join(texts) for texts in parts), rows[-1]


def samples(grid: Grid, row: int, most: int) -> Iterator[str]:
    """Yield each title in a row, with the first two values below the title."""
    for column, title in list(enumerate(titles_of(grid.rows[row])))[:most]:
        below = [
            str(cells[column])[:30]
            for cells in islice(grid.rows, row + 1, row + 20)
            if len(cells) > column and cells[column] != ""
        ]
        if title:
            yield f"{title!r} ({', '.join(below[:2])})"
