"""The columns that amounts are read from: one, several added up, or one for each name.

`amount = ["Free", "Locked"]` and `amount = "Debit - Credit"` are one amount a row;
`columns_are = "venue"` makes every column an amount of its own, whose title is the venue.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import product
from typing import TypeVar

from warehouse.reconcile.ledger.header.candidate import Candidate
from warehouse.reconcile.ledger.header.field_columns import column_of, two_columns
from warehouse.reconcile.ledger.header.titles import places_of
from warehouse.reconcile.settings.shape import UNUSED
from warehouse.reconcile.settings.toml_table import quote, setting
from warehouse.reconcile.terms.dates import (
    ORDERS,
    date_of,
    dated_title,
    month_title,
    order_of,
    order_with,
)
from warehouse.reconcile.terms.errors import Ambiguous, NotReconciled, choices
from warehouse.spreadsheet.reading.text import as_text, fold

DateCell = TypeVar("DateCell")
_OPERATOR = re.compile(r"\s+([+-])\s+")


@dataclass(frozen=True, slots=True)
class Term:
    """One column of an amount; a negative one is taken off."""

    place: int
    is_negative: bool = False


@dataclass(frozen=True, slots=True)
class Layer:
    """One amount of each row, and what the titles of its columns say: names by field, and a day."""

    terms: tuple[Term, ...]
    names: Mapping[str, str] = field(default_factory=dict)
    day: date | None = None


def terms_of(wanted: Sequence[str], titles: Sequence[str]) -> tuple[Term, ...] | None:
    """Return the columns of an amount as it is settled, or None where one of them is not there."""
    texts = list(wanted)
    if len(texts) == 1 and not places_of(texts[0], titles):
        texts = _OPERATOR.split(texts[0])
    # A list has names only; a text with operators has them between its names.
    is_expression = len(wanted) == 1 and len(texts) > 1
    names = texts[::2] if is_expression else texts
    signs = ["+", *texts[1::2]] if is_expression else ["+"] * len(texts)
    terms = []
    for name, sign in zip(names, signs, strict=True):
        places = places_of(name.strip(), titles)
        if not places:
            return None
        terms.append(Term(places[0], sign == "-"))
    return tuple(terms)


def _label_places(candidate: Candidate, columns: Mapping[str, int]) -> list[int]:
    """Return the columns whose titles are names of the field that `columns_are` says."""
    shape, titles, words = candidate.shape, candidate.titles, candidate.words
    if shape.label_columns:
        wanted = {fold(title) for title in shape.label_columns}
        return [place for place, title in enumerate(titles) if fold(title) in wanted]
    unused = {fold(title) for title in shape.unused}
    return [
        place
        for place, title in enumerate(titles)
        if title
        and place not in columns.values()
        and fold(title) not in unused
        and words.field_of(title) != "amount"
        and words.total_name(title) is None
        and candidate.has_numbers(place)
    ]


def titles_of_role(candidate: Candidate, *roles: str) -> list[str]:
    """Return the titles that name such parts of an amount, like `free` and `locked`."""
    return [title for title in candidate.titles if candidate.words.role_of(title) in roles]


def layers_of(candidate: Candidate, columns: Mapping[str, int]) -> tuple[Layer, ...]:
    """Return the amounts of a row; raise `Ambiguous` where a person must say which they are."""
    shape, titles = candidate.shape, candidate.titles
    if shape.columns_are:
        places = _label_places(candidate, columns)
        if not places:
            raise NotReconciled(
                f"{candidate.where} has no column of amounts whose title is a {shape.columns_are}, "
                "as `columns_are` in recon.toml says. Nothing was reconciled. Name them by "
                "`label_columns`, or take that line out."
            )
        return tuple(Layer((Term(place),), {shape.columns_are: titles[place]}) for place in places)
    if wanted := shape.amount_titles:
        terms = terms_of(wanted, titles)
        if terms is None:
            raise NotReconciled(
                f"{candidate.where} has no column {' or '.join(map(repr, wanted))}, which was "
                f"settled for amount. Nothing was reconciled. Mend {candidate.table} in recon.toml."
            )
        return (Layer(terms),)
    if days := day_columns(candidate):
        return (_layer_of_day(candidate, days),)
    if months := month_columns(candidate):
        if candidate.day not in months:
            raise _question_of_months(candidate, months)
        return (_layer_of_day(candidate, months),)
    return (Layer((Term(_amount_place(candidate)),)),)


def day_columns(candidate: Candidate) -> dict[date, list[int]]:
    """Return by day the columns of amounts whose titles are dates, like `Balance 2026-11-20`.

    There are none if another column is the amount by its title. Raises `Ambiguous` if the dates may
    begin with the day or with the month.
    """
    titles = range(len(candidate.titles))
    plain = [place for place in titles if candidate.field_of(place) == "amount"]
    # The dates may be in the row above, each of them above the columns of its day.
    above = candidate.dates_above() if len(plain) > 1 else {}
    dated = {}
    for place in titles:
        stem, written = dated_title(candidate.title_cell(place))
        if written is None:
            written = next((above[left] for left in range(place, -1, -1) if left in above), None)
        if written is not None and candidate.has_numbers(place):
            dated[place] = stem, written
    columns = _columns_of_amounts(candidate, dated, plain)
    order = candidate.shape.dates or order_of(columns.values())
    if order == "?":
        raise _question_of_order(candidate, list(columns.values()))
    return _by_day({place: date_of(written, order) for place, written in columns.items()})


def month_columns(candidate: Candidate) -> dict[date, list[int]]:
    """Return by its last day the columns of amounts whose titles are months, like `Nov 2026`."""
    titles = range(len(candidate.titles))
    plain = [place for place in titles if candidate.field_of(place) == "amount"]
    dated = {place: month_title(candidate.title_cell(place)) for place in titles}
    dated = {
        place: found
        for place, found in dated.items()
        if found[1] is not None and candidate.has_numbers(place)
    }
    return _by_day(_columns_of_amounts(candidate, dated, plain))


def _columns_of_amounts(
    candidate: Candidate, dated: Mapping[int, tuple[str, DateCell]], plain: Sequence[int]
) -> dict[int, DateCell]:
    """Return the columns of amounts among those with a title and a date."""
    if not set(plain) <= dated.keys():
        return {}
    # `Quantity 2026-11-20` counts before a bare date, which may be the title of anything.
    named = [place for place in dated if candidate.words.field_of(dated[place][0]) == "amount"]
    places = named or [place for place in dated if not dated[place][0]]
    return {place: dated[place][1] for place in places}


def _by_day(days: Mapping[int, date | None]) -> dict[date, list[int]]:
    places: dict[date, list[int]] = {}
    for place, day in days.items():
        if day is not None:
            places.setdefault(day, []).append(place)
    return places


def _layer_of_day(candidate: Candidate, days: Mapping[date, list[int]]) -> Layer:
    """Return the column of the day of the book, or else that of the newest day before it."""
    # Whether amounts of another day are used at all is decided later (`reading.read_ledgers`).
    day = max([day for day in days if day <= candidate.day] or days)
    if len(days[day]) > 1:
        raise two_columns(candidate, "amount", days[day])
    return Layer((Term(days[day][0]),), day=day)


def _question_of_order(candidate: Candidate, dates: Sequence[object]) -> Ambiguous:
    words = (
        f"{candidate.where}: the titles {_examples(dates)} are dates, and each may begin with the "
        "day or with the month."
    )
    likely = order_with(dates, candidate.day)
    lines = [setting("dates", order) for order in ORDERS]
    if likely:
        words += f" Only dates with the {likely} include {candidate.day}."
        return Ambiguous(words, f"{candidate.file_table}\n{setting('dates', likely)}")
    return Ambiguous(words, choices(candidate.file_table, *lines))


def _question_of_months(candidate: Candidate, months: Mapping[date, list[int]]) -> Ambiguous:
    titles = [candidate.titles[place] for places in months.values() for place in places]
    day = candidate.day
    words = (
        f"{candidate.where}: the titles {_examples(titles)} are months, and none of them ends on "
        f"{day}, the day of the book."
    )
    last = next((last for last in months if (last.year, last.month) == (day.year, day.month)), None)
    if last is None:
        line = choices("[inbox]", setting(candidate.file, UNUSED))
        return Ambiguous(f"{words} Put a ledger of that day into the inbox instead.", line)
    line = setting("amount", candidate.titles[months[last][0]])
    return Ambiguous(
        f"{words} The column of that month may hold the amounts of that day.",
        choices(candidate.file_table, line),
    )


def _examples(cells: Sequence[object]) -> str:
    return ", ".join(repr(as_text(cell)) for cell in cells[:4])


def _amount_place(candidate: Candidate) -> int:
    """Return the one column of amounts; raise `Ambiguous` where there are parts of it instead."""
    place = column_of(candidate, "amount", candidate.settled.get("amount"))
    if place is not None:
        return place
    debit, credit = (titles_of_role(candidate, role) for role in ("debit", "credit"))
    if len(debit) == len(credit) == 1:
        pair = (*debit, *credit)
        raise Ambiguous(
            f"{candidate.where}: the amounts are in two columns, {pair[0]!r} and {pair[1]!r}. "
            "Nothing in the file says which of them increases what is held.",
            choices(
                candidate.table,
                setting("amount", " - ".join(pair)),
                setting("amount", " - ".join(reversed(pair))),
            ),
        )
    raise _question_of_parts(candidate)


def _question_of_parts(candidate: Candidate) -> Ambiguous:
    """Return the question which columns are the parts of an amount."""
    free, locked = (titles_of_role(candidate, role) for role in ("free", "locked"))
    parts = titles_of_role(candidate, "free", "locked")
    words = f"{candidate.where}: no column is the whole amount, and {', '.join(map(repr, parts))} "
    # Free and available may be one amount under two titles, so only a person can add them up.
    pairs = [list(filter(None, pair)) for pair in product(free or [""], locked or [""])]
    lines = [f"amount = [{', '.join(map(quote, titles))}]" for titles in (parts, *pairs)]
    lines = [*dict.fromkeys(lines)]
    if len(lines) == 1:
        return Ambiguous(
            f"{words}seem to be its parts, which are added up.", f"{candidate.table}\n{lines[0]}"
        )
    return Ambiguous(
        f"{words}may be its parts, or several of them may state one part.",
        choices(candidate.table, *lines),
    )
