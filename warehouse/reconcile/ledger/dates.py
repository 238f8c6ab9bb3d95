"""Functions that find and parse dates in cells, titles and other strings."""

import re
from calendar import monthrange
from collections.abc import Iterable
from datetime import date, datetime

from warehouse.spreadsheet.reading.text import as_text

_YEAR_FIRST = re.compile(r"([0-9]{4})([-/.]?)([0-9]{1,2})\2([0-9]{1,2})(?:[T ].*)?")
_DAY_MONTH = re.compile(r"([0-9]{1,2})[ -]([a-z]{3,9})\.?[ -]([0-9]{4})", re.IGNORECASE)
_MONTH_DAY = re.compile(r"([a-z]{3,9})\.? ([0-9]{1,2}),? ([0-9]{4})", re.IGNORECASE)

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)

_NUMBERS = re.compile(r"([0-9]{1,2})([./-])([0-9]{1,2})\2([0-9]{4})(?: .*)?")
_LAST_MONTH = 12
ORDERS = ("day first", "month first")

# A pattern for dates anywhere in a string.
DATE = re.compile(
    r"(?<![0-9])(?:20[0-9]{2}([-/.])[0-9]{1,2}\1[0-9]{1,2}|[0-9]{1,2}([./-])[0-9]{1,2}\2(?:20[0-9]{2})"
    r"|[0-9]{1,2}[ -][a-z]{3,9}\.?[ -]20[0-9]{2}|[a-z]{3,9}\.? [0-9]{1,2},? 20[0-9]{2})(?![0-9])",
    re.IGNORECASE,
)

_DIGITS = re.compile(r"(?<![0-9])20[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])(?![0-9])")

_MONTH = re.compile(
    r"(?<![0-9./-])(?:(?P<name>(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6})"
    r"\.?[ -](?P<year>20[0-9]{2})|(?P<year_first>20[0-9]{2})[-/.](?P<last>[0-9]{1,2})"
    r"|(?P<first>[0-9]{1,2})[-/.](?P<year_last>20[0-9]{2}))(?![0-9./-])",
    re.IGNORECASE,
)

_TIME = re.compile(
    r"[T ][0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
)

# Words between a title and its date, like `as of` in `Balance as of 20 Nov 2026`.
_BEFORE_DATE = re.compile(
    r"[\W_]*(?:(?<![^\W_])(?:as[ -](?:of|at)|per|at|on|stand|zum|am|au|al|a|del|op)[\W_]*)?$",
    re.IGNORECASE,
)


def order_of(cells: Iterable[object]) -> str:
    """Return `day first`, `month first`, `?` if unclear, or "" if the order does not matter."""
    # A number above 12 must be the day. If dots separate the numbers, the day is first. A date like
    # 02/02/2026 is the same in both orders. Other dates do not reveal the order.
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


def order_with(cells: Iterable[object], day: date) -> str:
    """Return the order (`day first` or `month first`) that turns one of these dates into `day`.

    Return "" if both orders do, or neither does.
    """
    dates = list(cells)
    orders = [order for order in ORDERS if day in {date_of(cell, order) for cell in dates}]
    return orders[0] if len(orders) == 1 else ""


def dated_title(cell: object) -> tuple[str, object]:
    """Split a title into its text and its date. The date is unparsed, or None if it is missing."""
    if isinstance(cell, date):
        return "", cell
    text = _TIME.sub("", as_text(cell).strip())
    dates = [*DATE.finditer(text), *_DIGITS.finditer(text)]
    if len(dates) != 1 or not is_date(dates[0][0]):
        return text, None
    return _without(text, dates[0]), dates[0][0]


def _without(text: str, written: re.Match[str]) -> str:
    """Return a title without its date and without words before the date, like `as of`."""
    before = _BEFORE_DATE.sub("", text[: written.start()])
    return f"{before} {text[written.end() :].strip(' _-()[]:,')}".strip()


def month_title(cell: object) -> tuple[str, date | None]:
    """Split a title into its text and the last day of its month, or None if no month is named."""
    text = as_text(cell).strip()
    match = _MONTH.search(text)
    if match is None or not isinstance(cell, str):
        return text, None
    year = int(match["year"] or match["year_first"] or match["year_last"])
    name = match["name"]
    month = _month_number(name) if name else int(match["last"] or match["first"])
    if not 1 <= month <= _LAST_MONTH:
        return text, None
    return _without(text, match), date(year, month, monthrange(year, month)[1])


def _month_number(name: str) -> int:
    """Return the number of the month with this English name or abbreviation, or 0 if unclear."""
    numbers = [number for number, month in enumerate(_MONTHS, 1) if month.startswith(name.lower())]
    return numbers[0] if len(numbers) == 1 else 0


def is_date(cell: object) -> bool:
    """Return whether a cell contains a date in one of the known formats."""
    return any(date_of(cell, order) is not None for order in ORDERS)


def date_of(cell: object, order: str) -> date | None:
    """Parse a cell as a date. Return None if it is not a valid date."""
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
    """Parse a date's year, month and day, which may be invalid. Return None for other strings."""
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
    """Return the year, month and day of a date with an English month name, or None."""
    day_month, month_day = _DAY_MONTH.fullmatch(text), _MONTH_DAY.fullmatch(text)
    if day_month:
        day, name, year = day_month.groups()
    elif month_day:
        name, day, year = month_day.groups()
    else:
        return None
    month = _month_number(name)
    return (int(year), month, int(day)) if month else None
