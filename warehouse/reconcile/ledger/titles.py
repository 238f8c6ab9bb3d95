"""The titles of a header: one row or several, and the name of the shape that they make."""

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

_LONGEST = 200

_LETTER = re.compile(r"[^\W\d_]")


def fingerprint(titles: Sequence[str]) -> str:
    """Return the name of a shape: the same for the same headers in any order."""
    folded = sorted(fold(title) for title in titles if title)
    return hashlib.sha256("\x1f".join(folded).encode()).hexdigest()[:8]


def count_fields(rows: Sequence[Row], own_words: str = "") -> int:
    """Return how many fields the best of these rows names, to compare readings of a file."""
    # A text file is tried with several letter sets and separators. That reading is right whose
    # header names most fields; one with both an asset and an amount beats any number of others.
    # A text without a letter, or as long as a line, is no title: the rows below a header are full
    # of them, and to look each up took a tenth of a whole run (measured).
    best = 0
    words = words_of(own_words)
    for row in rows[:HEAD]:
        titles = (text for text in titles_of(row) if len(text) <= _LONGEST and _LETTER.search(text))
        fields = {words.field_of(text) or words.second_field_of(text) for text in titles}
        best = max(best, len(fields - {""}) + 10 * fields.issuperset(REQUIRED))
    return best


def titles_of(row: Row) -> tuple[str, ...]:
    """Return the cells of a row as titles; a cell that is no text is none."""
    return tuple(" ".join(cell.split()) if isinstance(cell, str) else "" for cell in row)


def find_columns(wanted: str, titles: Sequence[str]) -> list[int]:
    """Return the columns of a title, or of a name like `column C`."""
    by_title = [
        place for place, title in enumerate(titles) if title and fold(title) == fold(wanted)
    ]
    return by_title or [
        place for place in range(len(titles)) if fold(letters(place)) == fold(wanted)
    ]


def depths(grid: Grid, row: int, settled: int) -> tuple[int, ...]:
    """Return how many rows a header that begins here may have."""
    # A second row of a header has texts below blanks or dates of the first, and blanks below its
    # texts; a number in it makes it a row of the ledger.
    if settled:
        return (settled,) if row + settled <= len(grid.rows) else ()
    if row + _TWO >= len(grid.rows):
        return (1,)
    upper, second = titles_of(grid.rows[row]), titles_of(grid.rows[row + 1])
    below = [place for place, title in enumerate(second) if title]
    if any(as_text(cell).strip() and not isinstance(cell, str) for cell in grid.rows[row + 1]):
        return (1,)
    has_gap = any(
        place >= len(upper) or not upper[place] or is_date(upper[place]) for place in below
    )
    has_label = any(
        title and (place >= len(second) or not second[place]) for place, title in enumerate(upper)
    )
    has_digits = any(any(letter.isdigit() for letter in second[place]) for place in below)
    return (_TWO, 1) if len(below) >= _TWO and has_gap and has_label and not has_digits else (1,)


def joined_titles(grid: Grid, row: int, depth: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the titles of a header of several rows, and those of its last row alone."""
    # A title above several columns stands in the first of them; the cells to its right are blank.
    rows = [titles_of(cells) for cells in islice(grid.rows, row, row + depth)]
    width = max(map(len, rows), default=0)
    rows = [titles + ("",) * (width - len(titles)) for titles in rows]
    parts: list[list[str]] = [[] for _ in range(width)]
    for number, titles in enumerate(rows):
        above = ""
        for place, title in enumerate(titles):
            above = title or above
            is_spanned = number + 1 < depth and bool(rows[number + 1][place])
            text = title or (above if is_spanned else "")
            if text:
                parts[place].append(text)
    return tuple(" ".join(texts) for texts in parts), rows[-1]


def samples(grid: Grid, row: int, most: int) -> Iterator[str]:
    """Yield the titles of a row with two values below each."""
    for place, title in list(enumerate(titles_of(grid.rows[row])))[:most]:
        below = [
            str(cells[place])[:30]
            for cells in islice(grid.rows, row + 1, row + 20)
            if len(cells) > place and cells[place] != ""
        ]
        if title:
            yield f"{title!r} ({', '.join(below[:2])})"
