"""The day of a ledger, and ledgers from other days."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime

from warehouse.reconcile.ledger.dates import DATE, ORDERS, date_of
from warehouse.reconcile.model import Ledger, LedgerSource
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.settings.layout import day_in
from warehouse.reconcile.settings.toml import setting
from warehouse.reconcile.terms import LateError, choices
from warehouse.spreadsheet.reading.delimited_text import Row
from warehouse.spreadsheet.reading.text import as_text

_STATED, _MADE = "stated", "made"

# The words before a date show whether the amounts are for that day, or whether the report was only
# created on that day.
_WORDS = re.compile(
    r"\b(?:(?P<made>print|creat|generat|export|produc|made|run|download|extract|gedruckt|druck"
    r"|erstellt|erzeugt|imprim|[e\u00e9]dit|cr[e\u00e9][e\u00e9]|g[e\u00e9]n[e\u00e9]r|impres|stampa)"
    r"|(?P<stated>as[ -](?:of|at)\b|per\b|stand\b|stichtag|valuation|value date|balance date"
    r"|position date|business date|au\b|al\b|situation))",
    re.IGNORECASE,
)


def title_day(rows: Iterable[Row], day: date) -> date | None:
    """Return the date found in the rows above the header, or None.

    A date after words like `as of` takes precedence over other dates. The date on which a report
    was printed does not count. If several dates are equally good, for example the two ends of a
    period, return the book's day if it is one of them, or else the latest date.
    """
    days_by_kind = _days_by_kind(rows, day)
    counting = days_by_kind[_STATED] or days_by_kind[""]
    return day if day in counting else max(counting, default=None)


def stated_days(rows: Iterable[Row], day: date) -> list[date]:
    """Return the dates after words like `as of`, which say for which day the amounts are."""
    return _days_by_kind(rows, day)[_STATED]


def day_of(source: LedgerSource) -> date | None:
    """Return a ledger's day.

    A date in its rows or titles takes precedence over one in its names.
    """
    return source.as_of or day_in(source.sheet) or day_in(source.name)


def late_sources(ledger: Ledger, config: Config, day: date) -> list[LedgerSource]:
    """Return the ledgers from other days that recon.toml does not allow for this day."""
    return [
        source
        for source in ledger.sources
        if day_of(source) not in (None, day)
        and source.name not in config.late.get(day.isoformat(), ())
    ]


def question_of_late(late: Sequence[LedgerSource], day: date) -> LateError:
    """Build the question that asks whether to use other days' ledgers."""
    sentences = " and ".join(f"{source.name} is as of {day_of(source)}" for source in late)
    lines = [setting(name, "used") for name in dict.fromkeys(source.name for source in late)]
    return LateError(
        f"The book is as of {day}, but {sentences}. A ledger for another day is not used, because "
        "the comparison would show breaks that are already settled. Put the ledger for the book's "
        "day into the inbox, or remove the other ledger. To use the other ledger anyway, add its "
        "line to recon.toml.",
        choices(f"[late.{day}]", *lines),
    )


def _days_by_kind(rows: Iterable[Row], day: date) -> dict[str, list[date]]:
    """Return the dates in rows, by the kind of the words before them."""
    days_by_kind: dict[str, list[date]] = {_STATED: [], "": [], _MADE: []}
    for row in rows:
        label = ""
        for cell in row:
            for about, written in _days(cell, label, day):
                days_by_kind[about].append(written)
            label = as_text(cell) or label
    return days_by_kind


def _days(cell: object, label: str, day: date) -> Iterator[tuple[str, date]]:
    """Yield the dates in a cell, each classified by the words before it.

    If a date like 02/03/2026 can mean two days, and one of them is the book's day, yield that day.
    """
    if isinstance(cell, date):
        yield _kind_of_words(label), cell.date() if isinstance(cell, datetime) else cell
    elif isinstance(cell, str):
        end, about = 0, _kind_of_words(label)
        for written in DATE.finditer(cell):
            about = _kind_of_words(cell[end : written.start()]) or about
            end = written.end()
            read = [date_of(written[0], order) for order in ORDERS]
            days = [read_day for read_day in read if read_day is not None]
            if days:
                yield about, day if day in days else days[0]


def _kind_of_words(words: str) -> str:
    """Classify the words before a date by the known word that is closest to the date."""
    kinds = [word.lastgroup or "" for word in _WORDS.finditer(words)]
    return kinds[-1] if kinds else ""
