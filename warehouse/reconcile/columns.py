"""What a whole column says: its decimal convention, and the order of its dates."""

import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime

from warehouse.reconcile.amounts import Decimals, Rules, evidence
from warehouse.reconcile.delimited import Cells
from warehouse.reconcile.grids import Grid
from warehouse.reconcile.headers import Header
from warehouse.reconcile.plain_amounts import telling
from warehouse.reconcile.refusals import Ambiguous

_ISO = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[T ].*)?")
_NUMBERS = re.compile(r"([0-9]{1,2})([./-])([0-9]{1,2})\2([0-9]{4})(?: .*)?")
_DECIMAL, _DATES = "decimal", "dates"
_LAST_MONTH = 12


def as_text(cell: object) -> str:
    """A cell as the text its reader sees: 123.0 is 123."""
    if isinstance(cell, str):
        return cell
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "TRUE" if cell else "FALSE"
    if isinstance(cell, float):
        return format(cell, ".15g")
    return str(cell)


def rules_of(grid: Grid, head: Header, remembered: dict[str, dict[str, str]], where: str) -> Rules:
    """How the amounts of a sheet are written; what was settled once is used again.

    Raises `Ambiguous` where the column says nothing, or two things.
    """
    word = head.shape.negative_word
    if head.shape.decimals:
        return Rules(head.shape.decimals, word)
    sure, unsure = evidence(_telling(grid, head), word)
    known = remembered.setdefault(head.print, {})
    if len(sure) > 1:
        shown = " and ".join(repr(cell[:40]) for cell in sure.values())
        raise Ambiguous(
            f"{where}: the amounts are written in two ways, {shown}: one with a decimal "
            f"{' and one with a decimal '.join(one.value for one in sure)}.",
            _line(head, 'decimal = "point"   # or "comma": the others are then rejected'),
        )
    if sure:
        found = next(iter(sure))
        known[_DECIMAL] = found.value
        return Rules(found, word)
    if unsure and _DECIMAL in known:
        return Rules(Decimals(known[_DECIMAL]), word)
    if unsure:
        raise Ambiguous(
            f"{where}: {unsure!r} can be read with a decimal point or with a decimal comma, and no "
            "other amount of the column settles it.",
            _line(head, 'decimal = "point"   # or "comma"'),
        )
    return Rules(None, word)


def _telling(grid: Grid, head: Header) -> Sequence[object]:
    """The cells that say how amounts are written."""
    place = head.columns["amount"]
    if isinstance(grid.rows, Cells):
        return telling(grid.rows.column(place).slice(head.row + 1))
    return [row[place] for row in grid.rows[head.row + 1 :] if len(row) > place]


def _line(head: Header, setting: str) -> str:
    return f'[ledger."{head.print}"]\n{setting}'


def dates_of(
    grid: Grid, head: Header, remembered: dict[str, dict[str, str]], where: str
) -> Sequence[date | None]:
    """The date of every row of a sheet, None where it states none.

    Raises `Ambiguous` where 01/02/2026 may be January or February.
    """
    place = head.columns.get("as_of")
    if place is None:
        return [None] * len(grid.rows)
    cells = _column(grid, place)
    order = head.shape.dates or _order(dict.fromkeys(cells[head.row + 1 :]))
    known = remembered.setdefault(head.print, {})
    if order == "?":
        order = known.get(_DATES, "?")
    if order == "?":
        shown = next(cell for cell in cells[head.row + 1 :] if _is_unsure(cell))
        raise Ambiguous(
            f"{where}: the date {shown!r} may begin with the day or with the month, and no other "
            "date of the column settles it.",
            _line(head, 'dates = "day first"   # or "month first"'),
        )
    if order:
        known[_DATES] = order
    dates = {cell: _date(cell, order) for cell in set(cells)}
    return [dates[cell] for cell in cells]


def _column(grid: Grid, place: int) -> list[object]:
    if isinstance(grid.rows, Cells):
        texts: list[object] = grid.rows.column(place).to_pylist()
        return texts
    return [row[place] if len(row) > place else "" for row in grid.rows]


def _order(cells: Iterable[object]) -> str:
    """`day first`, `month first`, `?` where both may be, nothing where no date needs it."""
    unsure = ""
    for cell in cells:
        found = _NUMBERS.fullmatch(cell.strip()) if isinstance(cell, str) else None
        if not found:
            continue
        first, second = int(found[1]), int(found[3])
        if found[2] == "." or first > _LAST_MONTH:
            return "day first"
        if second > _LAST_MONTH:
            return "month first"
        if first != second:
            unsure = "?"
    return unsure


def _is_unsure(cell: object) -> bool:
    return isinstance(cell, str) and bool(_NUMBERS.fullmatch(cell.strip()))


def _date(cell: object, order: str) -> date | None:
    if isinstance(cell, datetime):
        return cell.date()
    if isinstance(cell, date):
        return cell
    found = _parts(cell.strip(), order) if isinstance(cell, str) else None
    try:
        return date(*found) if found else None
    except ValueError:
        return None


def _parts(text: str, order: str) -> tuple[int, int, int] | None:
    """Year, month and day of a text that is a date."""
    iso, numbers = _ISO.fullmatch(text), _NUMBERS.fullmatch(text)
    if iso:
        return int(iso[1]), int(iso[2]), int(iso[3])
    if not numbers:
        return None
    first, second = int(numbers[1]), int(numbers[3])
    day, month = (second, first) if order == "month first" else (first, second)
    return int(numbers[4]), month, day
