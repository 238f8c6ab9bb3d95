"""Infer from a whole column its decimal separator and the order of its dates."""

import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime

from warehouse.reconcile.ledger.cells.amounts import NEEDS_WORD, Rules, evidence, taken_apart
from warehouse.reconcile.ledger.cells.fast_rows import telling_cells
from warehouse.reconcile.ledger.header.header_row import Header
from warehouse.reconcile.settings.shape import Decimals
from warehouse.reconcile.terms.errors import Ambiguous
from warehouse.spreadsheet.reading.delimited_text import Cells
from warehouse.spreadsheet.reading.grid import Grid
from warehouse.spreadsheet.reading.text import as_text

_YEAR_FIRST = re.compile(r"([0-9]{4})([-/.]?)([0-9]{1,2})\2([0-9]{1,2})(?:[T ].*)?")
_DAY_MONTH = re.compile(r"([0-9]{1,2})[ -]([a-z]{3,9})\.?[ -]([0-9]{4})", re.IGNORECASE)
_MONTH_DAY = re.compile(r"([a-z]{3,9})\.? ([0-9]{1,2}),? ([0-9]{4})", re.IGNORECASE)
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_NUMBERS = re.compile(r"([0-9]{1,2})([./-])([0-9]{1,2})\2([0-9]{4})(?: .*)?")
_DECIMAL, _DATES = "decimal", "dates"
_LAST_MONTH = 12


def rules_of(grid: Grid, head: Header, remembered: dict[str, dict[str, str]], where: str) -> Rules:
    """Return how the amounts of a sheet are written; what was settled once is used again.

    Raises `Ambiguous` where the column says nothing, or two things.
    """
    # One amount that only one convention reads settles all the others of its column. Nothing is
    # guessed from how often a letter occurs: a column of `1.234` alone may be either.
    word = head.shape.negative_word
    cells = _telling(grid, head)
    if not word and head.sign is None:
        _ask_for_negative_word(cells, head, where)
    if head.shape.decimals:
        return Rules(head.shape.decimals, word)
    sure, unsure = evidence(cells, word)
    settled = remembered.setdefault(head.fingerprint, {})
    if len(sure) > 1:
        examples = " and ".join(repr(cell[:40]) for cell in sure.values())
        raise Ambiguous(
            f"{where}: the amounts are written in two ways, {examples}: one with a decimal "
            f"{' and one with a decimal '.join(rule.value for rule in sure)}.",
            f'{head.table}\ndecimal = "point"   # or "comma": the others are then rejected',
        )
    if sure:
        decimals = next(iter(sure))
        settled[_DECIMAL] = decimals.value
        return Rules(decimals, word)
    if unsure and _DECIMAL in settled:
        return Rules(Decimals(settled[_DECIMAL]), word)
    if unsure:
        raise Ambiguous(
            f"{where}: {unsure!r} can be read with a decimal point or with a decimal comma, and no "
            "other amount of the column settles it.",
            f'{head.table}\ndecimal = "point"   # or "comma"',
        )
    return Rules(None, word)


def _ask_for_negative_word(cells: Sequence[object], head: Header, where: str) -> None:
    """Raise `Ambiguous` where amounts are written with CR or DR beside them."""
    example = next((cell for cell in cells if taken_apart(as_text(cell)) == NEEDS_WORD), None)
    if example is not None:
        raise Ambiguous(
            f"{where}: amounts like {as_text(example)[:40]!r} say CR or DR, and it is not known "
            "which of them makes an amount negative.",
            f'{head.table}\nnegative_word = "CR"   # or "DR"',
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
    grid: Grid, head: Header, remembered: dict[str, dict[str, str]], where: str
) -> tuple[Sequence[date | None], frozenset[int]]:
    """Return the date of every row, None where it states none, and rows of an unreadable date.

    A date that is not understood is not the same as none: it may be of another day. Raises
    `Ambiguous` where 01/02/2026 may be January or February, and where no date is understood.
    """
    place = head.columns.get("as_of")
    if place is None:
        return [None] * len(grid.rows), frozenset()
    cells = _column(grid, place)
    order = head.shape.dates or _order(dict.fromkeys(cells[head.body :]))
    settled = remembered.setdefault(head.fingerprint, {})
    if order == "?":
        order = settled.get(_DATES, "?")
    if order == "?":
        example = next(cell for cell in cells[head.body :] if _order([cell]) == "?")
        raise Ambiguous(
            f"{where}: the date {example!r} may begin with the day or with the month, and no other "
            "date of the column settles it.",
            f'{head.table}\ndates = "day first"   # or "month first"',
        )
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
            f"is understood, like {as_text(example)[:40]!r}. Write dates like 2026-11-20, or say "
            "that the column is none.",
            f'{head.table}\nas_of = ""',
        )


def _column(grid: Grid, place: int) -> list[object]:
    if isinstance(grid.rows, Cells):
        texts: list[object] = grid.rows.column(place).to_pylist()
        return texts
    return [row[place] if len(row) > place else "" for row in grid.rows]


def _order(cells: Iterable[object]) -> str:
    """Return `day first`, `month first`, `?` where both may be; nothing where no date needs it."""
    # A part above 12 is a day, and a point between the parts is written where days come first.
    # 02/02/2026 is the same either way; any other date leaves the order open.
    unsure = ""
    for cell in cells:
        match = _NUMBERS.fullmatch(cell.strip()) if isinstance(cell, str) else None
        if not match:
            continue
        first, second = int(match[1]), int(match[3])
        if match[2] == "." or first > _LAST_MONTH:
            return "day first"
        if second > _LAST_MONTH:
            return "month first"
        if first != second:
            unsure = "?"
    return unsure


def is_date(cell: object) -> bool:
    """Return whether a cell is a date that is written in one of the known ways."""
    return date_of(cell, "day first") is not None or date_of(cell, "month first") is not None


def date_of(cell: object, order: str) -> date | None:
    """Return the date that a cell is, or None."""
    if isinstance(cell, datetime):
        return cell.date()
    if isinstance(cell, date):
        return cell
    parts = _parts(as_text(cell).strip(), order)
    try:
        return date(*parts) if parts else None
    except ValueError:
        return None


def _parts(text: str, order: str) -> tuple[int, int, int] | None:
    """Return year, month and day of a text that is a date."""
    year_first, numbers = _YEAR_FIRST.fullmatch(text), _NUMBERS.fullmatch(text)
    if year_first:
        has_all = bool(year_first[2]) or len(text) == len("20261120")
        return (int(year_first[1]), int(year_first[3]), int(year_first[4])) if has_all else None
    if not numbers:
        return _date_with_month_name(text)
    first, second = int(numbers[1]), int(numbers[3])
    day, month = (second, first) if order == "month first" else (first, second)
    return int(numbers[4]), month, day


def _date_with_month_name(text: str) -> tuple[int, int, int] | None:
    """Return the parts of a date with its month in English, which needs no order."""
    day_month, month_day = _DAY_MONTH.fullmatch(text), _MONTH_DAY.fullmatch(text)
    if day_month:
        day, name, year = day_month.groups()
    elif month_day:
        name, day, year = month_day.groups()
    else:
        return None
    month = [place for place, month_ in enumerate(_MONTHS, 1) if month_.startswith(name.lower())]
    return (int(year), month[0], int(day)) if len(month) == 1 else None
