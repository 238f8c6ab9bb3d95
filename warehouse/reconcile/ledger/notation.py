"""The notation of a sheet's amounts and dates."""

import re
from collections.abc import Sequence
from datetime import date
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from warehouse.reconcile.ledger.amounts import (
    DECIMAL_MARKS,
    NEEDS_WORD,
    Rules,
    evidence,
    footnote_mark,
    is_plain,
    taken_apart,
    without_footnote,
)
from warehouse.reconcile.ledger.dates import date_of, order_of
from warehouse.reconcile.ledger.header import Header, question_of_order
from warehouse.reconcile.settings.layout import Decimals
from warehouse.reconcile.settings.toml import quote_list
from warehouse.reconcile.terms import Ambiguous, choices
from warehouse.spreadsheet.reading.delimited_text import Cells, Row
from warehouse.spreadsheet.reading.grid import HEAD, Grid
from warehouse.spreadsheet.reading.text import as_text, first_text

# An amount like 1.234 is valid in both decimal conventions, so it does not reveal which of them is
# used.
_UNSURE = "^-?[1-9][0-9]{0,2}[.,][0-9]{3}$"

_DECIMAL, _DATES = "decimal", "dates"

_DECIMAL_LINES = (
    'decimal = "point"   # amounts are written like 1,234.5',
    'decimal = "comma"   # amounts are written like 1.234,5',
)

# Words in footnotes. If a footnote contains one of them, the amounts with its mark may have a
# different sign or unit, or may not count.
_CHANGES = re.compile(
    r"thousand|million|billion|tsd|mio|mrd|tausend|millier|miles|migliaia|satoshi|wei\b|lamport"
    r"|\bin [a-z]{2,8}\b|short|loan|owe|liabil|negativ|borrow|debit|credit|soll|haben|cancel|void"
    r"|storn|pending|not yet|unsettled|estimat|gesch",
    re.IGNORECASE,
)


def telling_cells(cells: pa.Array) -> list[str]:
    """Return the few cells that show how a column's amounts are written, in column order."""
    # Return all cells that are not plain amounts. Of the plain amounts, return one of each kind:
    # valid in both conventions, only with a decimal point, or only with a decimal comma.
    is_unclear = pc.not_equal(cells, "")
    unsure = pc.match_substring_regex(cells, _UNSURE)
    firsts = [pc.index(unsure, pa.scalar(value=True)).as_py()]
    for decimals, mark in DECIMAL_MARKS.items():
        has_mark = pc.match_substring(cells, mark)
        plain = is_plain(cells, decimals)
        is_unclear = pc.and_not(is_unclear, plain)
        sure = pc.and_not(pc.and_(plain, has_mark), unsure)
        firsts.append(pc.index(sure, pa.scalar(value=True)).as_py())
    rows = {*pc.indices_nonzero(is_unclear).to_pylist(), *firsts} - {-1}
    texts: list[str] = cells.take(pa.array(sorted(rows), pa.int64())).to_pylist()
    return texts


def rules_of(head: Header) -> Rules:
    """Determine how a sheet's amounts are written, reusing an earlier decision if there is one.

    Raises `Ambiguous` if the column does not reveal its decimal convention, or uses two.
    """
    # If one amount is valid in only one convention, use that convention for the whole column. Do
    # not just look for dots and commas, because a column of amounts like `1.234` may use either
    # convention.
    word = head.shape.negative_word
    footnotes = head.shape.footnotes
    cells = _telling(head)
    _ask_for_footnotes(head, cells)
    cells = [without_footnote(cell, footnotes) if isinstance(cell, str) else cell for cell in cells]
    if not word and head.sign is None:
        _ask_for_negative_word(head, cells)
    if head.shape.decimals:
        return Rules(head.shape.decimals, word, footnotes)
    sure, unsure = evidence(cells, word)
    settled = head.context.remembered.setdefault(head.fingerprint, {})
    if len(sure) > 1:
        examples = " and ".join(repr(cell[:40]) for cell in sure.values())
        raise Ambiguous(
            f"{head.location}: the amounts are written in two ways, {examples}: one with a decimal "
            f"{' and one with a decimal '.join(rule.value for rule in sure)}. Amounts that are not "
            "written the way you choose will be rejected.",
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
            f"{head.location}: {unsure!r} contains either a decimal separator or a thousands "
            "separator, and no other amount in the column shows which of the two it is.",
            choices(head.table, *_DECIMAL_LINES),
        )
    return Rules(None, word, footnotes)


def dates_of(head: Header) -> tuple[Sequence[date | None], frozenset[int]]:
    """Return the date of each row (or None), and the rows whose date cannot be read.

    Unlike a row without a date, a row whose date cannot be read may belong to a different day.
    Raises `Ambiguous` if a date like 01/02/2026 may be in January or February, or if no date can be
    read.
    """
    column = head.columns.get("as_of")
    if column is None:
        return [None] * len(head.grid.rows), frozenset()
    cells = _column(head.grid.rows, column)
    order = head.shape.dates or order_of(dict.fromkeys(cells[head.body :]))
    settled = head.context.remembered.setdefault(head.fingerprint, {})
    if order == "?":
        order = settled.get(_DATES, "?")
    if order == "?":
        example = next(cell for cell in cells[head.body :] if order_of([cell]) == "?")
        raise question_of_order(
            f"{head.location}: the date {example!r} could begin with the day or the month, and no "
            "other date in the column shows which one is right.",
            list(dict.fromkeys(cells[head.body :])),
            head.table,
            head.context.day,
        )
    if order:
        settled[_DATES] = order
    dates = {cell: date_of(cell, order) for cell in set(cells)}
    invalid = {cell for cell, day in dates.items() if day is None and as_text(cell).strip()}
    rows = [row for row, cell in enumerate(cells) if row >= head.body and cell in invalid]
    if rows and not any(dates[cell] for cell in cells[head.body :]):
        _ask_for_dates(head, [(row, cells[row]) for row in rows])
    return [dates[cell] for cell in cells], frozenset(rows)


def _ask_for_footnotes(head: Header, cells: Sequence[object]) -> None:
    """Raise `Ambiguous` if amounts are followed by marks that seem to refer to footnotes."""
    found = {mark: cell for cell in cells if (mark := footnote_mark(cell))}
    settled = head.shape.footnotes
    if found.keys() <= set(settled):
        return
    examples = " and ".join(repr(as_text(cell)[:40]) for cell in [*found.values()][:2])
    notes = [note for mark in found if (note := _footnote(head.grid, mark))]
    explained = f" The file says {' and '.join(map(repr, notes))}." if notes else ""
    line = f"footnotes = {quote_list(dict.fromkeys([*settled, *found]))}"
    # A footnote or a letter may mean that amounts are in thousands, or that they are debts, so a
    # person must decide.
    is_harmless = not any(map(_CHANGES.search, notes)) and not any(map(str.isalpha, "".join(found)))
    message = (
        f"{head.location}: amounts like {examples} are followed by a mark that looks like a "
        f"footnote mark.{explained} With this setting, the amounts are read without the mark."
    )
    raise Ambiguous(message, f"{head.table}\n{line}" if is_harmless else choices(head.table, line))


def _footnote(grid: Grid, mark: str) -> str:
    """Return the line in a sheet that begins with a footnote mark, or an empty string."""
    texts = (first_text(row) for row in chain(grid.rows[:HEAD], reversed(grid.rows[-HEAD:])))
    return next((text[:80] for text in texts if text.startswith(mark) and text != mark), "")


def _ask_for_negative_word(head: Header, cells: Sequence[object]) -> None:
    """Raise `Ambiguous` if amounts are marked CR or DR."""
    example = next((cell for cell in cells if taken_apart(as_text(cell)) == NEEDS_WORD), None)
    if example is not None:
        raise Ambiguous(
            f"{head.location}: amounts like {as_text(example)[:40]!r} say CR or DR, and the file "
            "does not show which of the two means negative.",
            choices(head.table, 'negative_word = "CR"', 'negative_word = "DR"'),
        )


def _telling(head: Header) -> Sequence[object]:
    """Return the cells that show how amounts are written."""
    cells: list[object] = []
    rows = head.grid.rows
    for column in head.amount_columns:
        if isinstance(rows, Cells):
            cells += telling_cells(rows.column(column).slice(head.body))
        else:
            cells += _column(rows, column)[head.body :]
    return cells


def _ask_for_dates(head: Header, invalid: Sequence[tuple[int, object]]) -> None:
    """Raise `Ambiguous` for a date column without valid dates, unless it contains only notes."""
    amounts = _column(head.grid.rows, head.columns["amount"])
    example = next((cell for row, cell in invalid if as_text(amounts[row]).strip()), None)
    if example is not None:
        title = head.titles[head.columns["as_of"]]
        raise Ambiguous(
            f"{head.location}: the {title!r} column seems to contain each row's date, but values "
            f"like {as_text(example)[:40]!r} are not valid dates. Write dates as YYYY-MM-DD, for "
            "example 2026-11-20. If the column does not contain the rows' dates, use this setting "
            "to ignore it.",
            choices(head.table, 'as_of = ""'),
        )


def _column(rows: Sequence[Row], column: int) -> list[object]:
    if isinstance(rows, Cells):
        texts: list[object] = rows.column(column).to_pylist()
        return texts
    return [row[column] if len(row) > column else "" for row in rows]
