"""Of which day a ledger is: by its date column, its title lines, its tab's name or its own name.

A ledger of another day than the book is not used unless a person says so: held against the wrong
book it opens what was settled, and closes what is open.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime

from warehouse.reconcile.ledger.model import Ledger, LedgerSource
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.settings.toml_table import setting
from warehouse.reconcile.terms.dates import DATE, ORDERS, date_of
from warehouse.reconcile.terms.errors import Late, choices
from warehouse.reconcile.terms.file_names import day_in
from warehouse.spreadsheet.reading.delimited_text import Row
from warehouse.spreadsheet.reading.text import as_text

_STATED, _MADE = "stated", "made"
# When a report was made says nothing of the day that it is of.
_WORDS = re.compile(
    r"\b(?:(?P<made>print|creat|generat|export|produc|made|run|download|extract|gedruckt|druck"
    r"|erstellt|erzeugt|imprim|[e\u00e9]dit|cr[e\u00e9][e\u00e9]|g[e\u00e9]n[e\u00e9]r|impres|stampa)"
    r"|(?P<stated>as[ -](?:of|at)\b|per\b|stand\b|stichtag|valuation|value date|balance date"
    r"|position date|business date|au\b|al\b|situation))",
    re.IGNORECASE,
)


def title_day(rows: Iterable[Row], day: date) -> date | None:
    """Return the day that the lines above the header state, or None.

    A date beside words like `as of` counts before others; of several, that of the book counts.
    """
    days_by_kind: dict[str, list[date]] = {_STATED: [], "": [], _MADE: []}
    for row in rows:
        label = ""
        for cell in row:
            for about, written in _days(cell, label, day):
                days_by_kind[about].append(written)
            label = as_text(cell) or label
    # "As of" beats a bare date, a bare date beats "printed on". A report may state several days, of
    # a period say: that of the book counts if it is among them, else the latest.
    counting = days_by_kind[_STATED] or days_by_kind[""]
    return day if day in counting else max(counting, default=None)


def _days(cell: object, label: str, day: date) -> Iterator[tuple[str, date]]:
    """Yield the dates in a cell with what is said of each by the words before it.

    Of 02/03/2026, which may be two days, that of the book is taken.
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
    """Return which kind of words these are; the last ones before a date count."""
    kinds = [word.lastgroup or "" for word in _WORDS.finditer(words)]
    return kinds[-1] if kinds else ""


def day_of(source: LedgerSource) -> date | None:
    """Return the day that a ledger says it is of: its rows and titles count before names."""
    return source.as_of or day_in(source.sheet) or day_in(source.name)


def late_sources(ledger: Ledger, config: Config, day: date) -> list[LedgerSource]:
    """Return the ledgers of another day of which nobody has said that they are used."""
    return [
        source
        for source in ledger.sources
        if day_of(source) not in (None, day) and source.name not in used_late(config, day)
    ]


def used_late(config: Config, day: date) -> frozenset[str]:
    """Return the ledgers of other days that a person uses for a day."""
    return config.late.get(day.isoformat(), frozenset())


def question_of_late(late: Sequence[LedgerSource], day: date) -> Late:
    """Return the question whether ledgers of other days are used for a day."""
    sentences = " and ".join(f"{source.name} is of {day_of(source)}" for source in late)
    lines = [setting(name, "used") for name in dict.fromkeys(source.name for source in late)]
    return Late(
        f"The book is of {day}, and {sentences}: it was not used, for against another day's book "
        "it opens what was settled. Put the ledger of the day into the inbox, or take this one out "
        "of it; or say that it is used for this day all the same.",
        choices(f"[late.{day}]", *lines),
    )
