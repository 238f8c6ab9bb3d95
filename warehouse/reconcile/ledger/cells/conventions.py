"""Infer from a whole column its decimal separator and the order of its dates."""

import re
from collections.abc import Sequence
from datetime import date
from itertools import chain

from warehouse.reconcile.ledger.cells.amounts import (
    NEEDS_WORD,
    Rules,
    evidence,
    footnote_mark,
    taken_apart,
    without_footnote,
)
from warehouse.reconcile.ledger.cells.fast_rows import telling_cells
from warehouse.reconcile.ledger.header.header_row import Header
from warehouse.reconcile.settings.shape import Decimals
from warehouse.reconcile.settings.toml_table import quote, setting
from warehouse.reconcile.terms.dates import ORDERS, date_of, order_of, order_with
from warehouse.reconcile.terms.errors import Ambiguous, choices
from warehouse.spreadsheet.reading.delimited_text import Cells
from warehouse.spreadsheet.reading.grid import HEAD, Grid
from warehouse.spreadsheet.reading.text import as_text, first_text

_DECIMAL, _DATES = "decimal", "dates"
_DECIMAL_LINES = ('decimal = "point"', 'decimal = "comma"')
# Words in a footnote after which its amounts may have another sign or unit, or are not held.
_CHANGES = re.compile(
    r"thousand|million|billion|tsd|mio|mrd|tausend|millier|miles|migliaia|satoshi|wei\b|lamport"
    r"|\bin [a-z]{2,8}\b|short|loan|owe|liabil|negativ|borrow|debit|credit|soll|haben|cancel|void"
    r"|storn|pending|not yet|unsettled|estimat|gesch",
    re.IGNORECASE,
)


def rules_of(grid: Grid, head: Header, remembered: dict[str, dict[str, str]], where: str) -> Rules:
    """Return how the amounts of a sheet are written; what was settled once is used again.

    Raises `Ambiguous` where the column says nothing, or two things.
    """
    # One amount that only one convention reads settles all the others of its column. Nothing is
    # guessed from how often a letter occurs: a column of `1.234` alone may be either.
    word = head.shape.negative_word
    footnotes = head.shape.footnotes
    cells = _telling(grid, head)
    _ask_for_footnotes(grid, head, cells, where)
    cells = [without_footnote(cell, footnotes) if isinstance(cell, str) else cell for cell in cells]
    if not word and head.sign is None:
        _ask_for_negative_word(cells, head, where)
    if head.shape.decimals:
        return Rules(head.shape.decimals, word, footnotes)
    sure, unsure = evidence(cells, word)
    settled = remembered.setdefault(head.fingerprint, {})
    if len(sure) > 1:
        examples = " and ".join(repr(cell[:40]) for cell in sure.values())
        raise Ambiguous(
            f"{where}: the amounts are written in two ways, {examples}: one with a decimal "
            f"{' and one with a decimal '.join(rule.value for rule in sure)}. The amounts that are "
            "not written in the way that you choose are rejected.",
            choices(head.table, *_DECIMAL_LINES),
        )
    if sure:
        decimals = next(iter(sure))
        settled[_DECIMAL] = decimals.value
        return Rules(decimals, word, footnotes)
    if unsure and _DECIMAL in settled:
        return Rules(Decimals(settled[_DECIMAL]), word, footnotes)
    if unsure:
        raise Ambiguous(
            f"{where}: {unsure!r} can be read with a decimal point or with a decimal comma, and no "
            "other amount of the column settles it.",
            choices(head.table, *_DECIMAL_LINES),
        )
    return Rules(None, word, footnotes)


def _ask_for_footnotes(grid: Grid, head: Header, cells: Sequence[object], where: str) -> None:
    """Raise `Ambiguous` if amounts have marks behind them that seem to refer to footnotes."""
    found = {mark: cell for cell in cells if (mark := footnote_mark(cell))}
    settled = head.shape.footnotes
    if found.keys() <= set(settled):
        return
    examples = " and ".join(repr(as_text(cell)[:40]) for cell in [*found.values()][:2])
    notes = [note for mark in found if (note := _footnote(grid, mark))]
    explained = f" The file says {' and '.join(map(repr, notes))}." if notes else ""
    marks = ", ".join(map(quote, dict.fromkeys([*settled, *found])))
    line = f"footnotes = [{marks}]"
    # A footnote may say that an amount is in thousands, or owed. A letter may say that by itself.
    is_harmless = not any(map(_may_change_amounts, notes)) and not any(map(_is_letter, found))
    words = (
        f"{where}: amounts like {examples} have a mark behind them, which seems to refer to a "
        f"footnote.{explained} With this setting, the amounts are read without the mark."
    )
    raise Ambiguous(words, f"{head.table}\n{line}" if is_harmless else choices(head.table, line))


def _footnote(grid: Grid, mark: str) -> str:
    """Return the line of a sheet that begins with a mark, or an empty string."""
    texts = (first_text(row) for row in chain(grid.rows[:HEAD], reversed(grid.rows[-HEAD:])))
    return next((text[:80] for text in texts if text.startswith(mark) and text != mark), "")


def _may_change_amounts(note: str) -> bool:
    return bool(_CHANGES.search(note))


def _is_letter(mark: str) -> bool:
    return any(letter.isalpha() for letter in mark)


def _ask_for_negative_word(cells: Sequence[object], head: Header, where: str) -> None:
    """Raise `Ambiguous` where amounts are written with CR or DR beside them."""
    example = next((cell for cell in cells if taken_apart(as_text(cell)) == NEEDS_WORD), None)
    if example is not None:
        raise Ambiguous(
            f"{where}: amounts like {as_text(example)[:40]!r} say CR or DR, and it is not known "
            "which of them makes an amount negative.",
            choices(head.table, 'negative_word = "CR"', 'negative_word = "DR"'),
        )


def _telling(grid: Grid, head: Header) -> Sequence[object]:
    """Return the cells that say how amounts are written."""
    cells: list[object] = []
    for place in head.amount_places:
        if isinstance(grid.rows, Cells):
            cells += telling_cells(grid.rows.column(place).slice(head.body))
        else:
            cells += [row[place] for row in grid.rows[head.body :] if len(row) > place]
    return cells


def dates_of(
    grid: Grid, head: Header, remembered: dict[str, dict[str, str]], where: str, day: date
) -> tuple[Sequence[date | None], frozenset[int]]:
    """Return the date of every row, None where it states none, and rows of an unreadable date.

    `day` is that of the book. A date that is not understood is not the same as none: it may be of
    another day. Raises `Ambiguous` where 01/02/2026 may be January or February, and where no date
    is understood.
    """
    place = head.columns.get("as_of")
    if place is None:
        return [None] * len(grid.rows), frozenset()
    cells = _column(grid, place)
    order = head.shape.dates or order_of(dict.fromkeys(cells[head.body :]))
    settled = remembered.setdefault(head.fingerprint, {})
    if order == "?":
        order = settled.get(_DATES, "?")
    if order == "?":
        example = next(cell for cell in cells[head.body :] if order_of([cell]) == "?")
        words = (
            f"{where}: the date {example!r} may begin with the day or with the month, and no other "
            "date of the column settles it."
        )
        if likely := order_with(dict.fromkeys(cells[head.body :]), day):
            words += f" Only dates with the {likely} include {day}, the day of the book."
            raise Ambiguous(words, f"{head.table}\n{setting('dates', likely)}")
        raise Ambiguous(words, choices(head.table, *(setting("dates", order) for order in ORDERS)))
    if order:
        settled[_DATES] = order
    dates = {cell: date_of(cell, order) for cell in set(cells)}
    odd = {cell for cell, day in dates.items() if day is None and as_text(cell).strip()}
    rows = (
        [row for row, cell in enumerate(cells) if row >= head.body and cell in odd] if odd else []
    )
    if rows and not any(dates[cell] for cell in cells[head.body :]):
        _ask_for_dates(grid, head, where, [(row, cells[row]) for row in rows])
    return [dates[cell] for cell in cells], frozenset(rows)


def _ask_for_dates(grid: Grid, head: Header, where: str, odd: Sequence[tuple[int, object]]) -> None:
    """Raise `Ambiguous` for a column without one date, unless only notes stand in it."""
    amounts = _column(grid, head.columns["amount"])
    example = next((cell for row, cell in odd if as_text(amounts[row]).strip()), None)
    if example is not None:
        title = head.titles[head.columns["as_of"]]
        raise Ambiguous(
            f"{where}: the column {title!r} is taken for the date of each row, and no date in it "
            f"is understood, like {as_text(example)[:40]!r}. Write dates like 2026-11-20. If the "
            "column does not say the day of the ledger, take the line.",
            choices(head.table, 'as_of = ""'),
        )


def _column(grid: Grid, place: int) -> list[object]:
    if isinstance(grid.rows, Cells):
        texts: list[object] = grid.rows.column(place).to_pylist()
        return texts
    return [row[place] if len(row) > place else "" for row in grid.rows]
