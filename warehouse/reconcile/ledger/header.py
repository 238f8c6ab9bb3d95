"""Detection of a sheet's header row, and of each field's column."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date
from itertools import product
from typing import TypeVar

from warehouse.reconcile.ledger.dates import (
    ORDERS,
    date_of,
    dated_title,
    is_date,
    month_title,
    order_of,
    order_with,
)
from warehouse.reconcile.ledger.header_settings import Candidate, ReadingContext, candidate_at
from warehouse.reconcile.ledger.titles import depths, find_columns
from warehouse.reconcile.settings.layout import READ, UNUSED
from warehouse.reconcile.settings.toml import quote_list, setting
from warehouse.reconcile.terms import FIELDS, Ambiguous, NotReconciled, choices, letters
from warehouse.spreadsheet.reading.grid import HEAD, Grid
from warehouse.spreadsheet.reading.text import as_text, fold

DateCell = TypeVar("DateCell")
_FIGURE = re.compile(r"[-+(\u2212]?[0-9][0-9,.'\u2019 ]*[.,][0-9]+\)?")  # an amount with decimals
_OPERATOR = re.compile(r"\s+([+-])\s+")


@dataclass(frozen=True, slots=True)
class Term:
    """One column that contributes to an amount. A negative term is subtracted."""

    column: int
    is_negative: bool = False


@dataclass(frozen=True, slots=True)
class Layer:
    """The columns that make up one amount of a row, and the names and the day in their titles."""

    terms: tuple[Term, ...]
    names: Mapping[str, str] = field(default_factory=dict)
    day: date | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Header(Candidate):
    """A sheet's header: the settings for it, and each field's column, counted from 0.

    `layers` are the amounts in a row, `sign` is the column that shows whether the amounts are
    negative, and `unit` is the column with the units of the amounts. `rows` maps titles to the
    columns that determine which rows are used. The column `amount` is the first column of an
    amount. `days` maps amount columns to the days in their titles.
    """

    columns: Mapping[str, int]
    layers: tuple[Layer, ...]
    sign: int | None
    unit: int | None
    rows: Mapping[str, int]
    days: Mapping[int, date]

    def title_of(self, column: int) -> str:
        """Return a column's title, or its letter if it has no title."""
        return self.titles[column] or letters(column)

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the ledger's keys, such as asset and venue."""
        labels, groups = self.layers[0].names, self.shape.groups or ()
        stated = {*self.columns, *self.names, *labels, *groups}
        return tuple(name for name in FIELDS if name in stated)

    @property
    def amount_columns(self) -> tuple[int, ...]:
        """The indexes of the columns that contain amounts."""
        return tuple(dict.fromkeys(term.column for layer in self.layers for term in layer.terms))

    @property
    def used_columns(self) -> frozenset[int]:
        """The indexes of all columns that are read."""
        said = [column for column in (self.sign, self.unit) if column is not None]
        indexes = (*self.columns.values(), *self.amount_columns, *said, *self.rows.values())
        return frozenset(indexes)

    @property
    def is_plain(self) -> bool:
        """Whether each amount has one column, and no other column changes its meaning."""
        is_said = self.sign is not None or self.unit is not None or self.rows
        terms = [layer.terms for layer in self.layers]
        return not is_said and all(len(of) == 1 and not of[0].is_negative for of in terms)


def column_of(candidate: Candidate, name: str, wanted: str | None) -> int | None:
    """Return a field's column, or None if the sheet has no column for the field.

    Raises `NotReconciled` if the column from the settings is missing, and `Ambiguous` if there are
    several.
    """
    if wanted is None:
        # Use a second-choice title only if no column has a first-choice title. Ignore the title of
        # a column that the settings already use for something else.
        shape = candidate.shape
        settled = (*shape.columns.values(), *shape.label_columns, *shape.row_columns)
        taken = {fold(title) for title in (*settled, shape.sign, shape.unit_column) if title}
        free = [index for index, title in enumerate(candidate.titles) if fold(title) not in taken]
        first = [index for index in free if candidate.field_of(index) == name]
        indexes = first or [index for index in free if candidate.second_field_of(index) == name]
    else:
        indexes = _settled_columns(candidate, wanted, name)
    if len(indexes) > 1:
        raise two_columns(candidate, name, indexes)
    return indexes[0] if indexes else None


def two_columns(candidate: Candidate, name: str, indexes: Sequence[int]) -> Ambiguous:
    """Return the question to ask if several columns may contain the same field."""
    titles = [candidate.titles[index] for index in indexes]
    # If two columns have the same title, use the column letters instead of titles.
    if len(set(map(fold, titles))) < len(titles):
        titles = [letters(index) for index in indexes]
    shown = " and ".join(map(repr, titles))
    return Ambiguous(
        f"{candidate.location}: each of the columns {shown} could be the {name}.",
        choices(candidate.table, *(setting(name, title) for title in titles)),
    )


def terms_of(wanted: Sequence[str], titles: Sequence[str]) -> tuple[Term, ...] | None:
    """Find the amount columns that recon.toml lists. Return None if any column is missing."""
    texts = list(wanted)
    if len(texts) == 1 and not find_columns(texts[0], titles):
        texts = _OPERATOR.split(texts[0])
    # A list in recon.toml contains only column names. A single string may contain operators between
    # column names.
    is_expression = len(wanted) == 1 and len(texts) > 1
    names = texts[::2] if is_expression else texts
    signs = ["+", *texts[1::2]] if is_expression else ["+"] * len(texts)
    terms = []
    for name, sign in zip(names, signs, strict=True):
        indexes = find_columns(name.strip(), titles)
        if not indexes:
            return None
        terms.append(Term(indexes[0], sign == "-"))
    return tuple(terms)


def titles_of_role(candidate: Candidate, *roles: str) -> list[str]:
    """Return the column titles that have one of these roles, for example `free` or `locked`."""
    return [title for title in candidate.titles if candidate.words.role_of(title) in roles]


def layers_of(candidate: Candidate, columns: Mapping[str, int]) -> tuple[Layer, ...]:
    """Return the columns of each amount in a row.

    Raise `Ambiguous` if a person must choose them.
    """
    shape, titles = candidate.shape, candidate.titles
    if shape.columns_are:
        indexes = _label_columns(candidate, columns)
        if not indexes:
            raise NotReconciled(
                f"{candidate.location} has no amount column whose title is a "
                f"{shape.columns_are} name, as required by `columns_are` in recon.toml. Nothing "
                "was reconciled. List these columns under `label_columns`, or delete the "
                "`columns_are` line."
            )
        return tuple(
            Layer((Term(column),), {shape.columns_are: titles[column]}) for column in indexes
        )
    if wanted := shape.amount_titles:
        terms = terms_of(wanted, titles)
        if terms is None:
            raise _missing_column(candidate, " or ".join(map(repr, wanted)), "amount")
        return (Layer(terms),)
    if days := day_columns(candidate):
        return (_layer_of_day(candidate, days),)
    if months := month_columns(candidate):
        if candidate.context.day not in months:
            raise _question_of_months(candidate, months)
        return (_layer_of_day(candidate, months),)
    return (Layer((Term(_amount_column(candidate)),)),)


def day_columns(candidate: Candidate) -> dict[date, list[int]]:
    """Return the amount columns whose titles are dates, like `Balance 2026-11-20`, by day.

    The result is empty if another column's title names the amount. Raises `Ambiguous` if the dates
    may be day first or month first.
    """
    # The dates may be in the row above, where each date is above the first column for its day.
    several = len(_plain_amounts(candidate)) > 1
    above = candidate.dates_above() if several else {}
    dated = {}
    for index in range(len(candidate.titles)):
        stem, written = dated_title(candidate.title_cell(index))
        if written is None:
            written = next((above[left] for left in range(index, -1, -1) if left in above), None)
        dated[index] = stem, written
    columns = _columns_of_amounts(candidate, dated)
    order = candidate.shape.dates or order_of(columns.values())
    if order == "?":
        dates = list(columns.values())
        raise question_of_order(
            f"{candidate.location}: the titles {_examples(dates)} are dates, and each may begin "
            "with the day or with the month.",
            dates,
            candidate.file_table,
            candidate.context.day,
        )
    return _by_day({index: date_of(written, order) for index, written in columns.items()})


def month_columns(candidate: Candidate) -> dict[date, list[int]]:
    """Return the amount columns whose titles are months, by the last day of the month."""
    indexes = range(len(candidate.titles))
    dated = {index: month_title(candidate.title_cell(index)) for index in indexes}
    return _by_day(_columns_of_amounts(candidate, dated))


def question_of_order(message: str, dates: Sequence[object], table: str, day: date) -> Ambiguous:
    """Return the question to ask if dates may be day first or month first."""
    if likely := order_with(dates, day):
        message += f" They include {day}, the day of the book, only if read with the {likely}."
        return Ambiguous(message, f"{table}\n{setting('dates', likely)}")
    return Ambiguous(message, choices(table, *(setting("dates", order) for order in ORDERS)))


def find_header(grid: Grid, context: ReadingContext, file: str) -> Header | None:
    """Find a sheet's header, or return None if no row can be a header.

    Raises `Ambiguous` if two columns may be the same field, and `NotReconciled` if a column from
    the settings is missing.
    """
    # The header is the first row that names both an asset and an amount, in known words or in words
    # from the settings. The rows above it, such as titles and addresses, never contain both.
    settings = context.config.of_file(file, grid.sheet)
    for row in range(min(HEAD, len(grid.rows))):
        for depth in depths(grid, row, settings.shape.header_rows):
            candidate = candidate_at(grid, range(row, row + depth), context, settings, file)
            if _is_header(candidate):
                return _header(candidate)
    return None


def _settled_columns(candidate: Candidate, title: str, use: str) -> list[int]:
    """Return the columns with this title. Raise `NotReconciled` if no column has the title."""
    if indexes := find_columns(title, candidate.titles):
        return indexes
    raise _missing_column(candidate, repr(title), use)


def _missing_column(candidate: Candidate, titles: str, use: str) -> NotReconciled:
    return NotReconciled(
        f"{candidate.location} has no column {titles}, but recon.toml names this column for "
        f"{use}. Nothing was reconciled. Correct {candidate.table} in recon.toml."
    )


def _label_columns(candidate: Candidate, columns: Mapping[str, int]) -> list[int]:
    """Return the columns whose titles are names in the dimension that `columns_are` specifies."""
    shape, titles, words = candidate.shape, candidate.titles, candidate.words
    if shape.label_columns:
        wanted = {fold(title) for title in shape.label_columns}
        return [column for column, title in enumerate(titles) if fold(title) in wanted]
    unused = {fold(title) for title in shape.unused}
    return [
        column
        for column, title in enumerate(titles)
        if title
        and column not in columns.values()
        and fold(title) not in unused
        and words.field_of(title) != "amount"
        and words.total_name(title) is None
        and candidate.has_numbers(column)
    ]


def _plain_amounts(candidate: Candidate) -> list[int]:
    """Return the columns whose titles name the amount."""
    indexes = range(len(candidate.titles))
    return [index for index in indexes if candidate.field_of(index) == "amount"]


def _columns_of_amounts(
    candidate: Candidate, titles: Mapping[int, tuple[str, DateCell | None]]
) -> dict[int, DateCell]:
    """Map each amount column to its title's date. `titles` contains each title's text and date."""
    dated = {
        index: (stem, written)
        for index, (stem, written) in titles.items()
        if written is not None and candidate.has_numbers(index)
    }
    if not set(_plain_amounts(candidate)) <= dated.keys():
        return {}
    # `Quantity 2026-11-20` takes precedence over a bare date, which may be the title of something
    # else.
    named = [index for index in dated if candidate.words.field_of(dated[index][0]) == "amount"]
    indexes = named or [index for index in dated if not dated[index][0]]
    return {index: dated[index][1] for index in indexes}


def _by_day(days: Mapping[int, date | None]) -> dict[date, list[int]]:
    indexes: dict[date, list[int]] = {}
    for index, day in days.items():
        if day is not None:
            indexes.setdefault(day, []).append(index)
    return indexes


def _layer_of_day(candidate: Candidate, days: Mapping[date, list[int]]) -> Layer:
    """Return the amount column for the last day that is not after the book's day.

    If all days are after the book's day, return the column for the latest day.
    """
    # `read_ledgers` decides later whether amounts from another day may be used.
    day = max([day for day in days if day <= candidate.context.day] or days)
    if len(days[day]) > 1:
        raise two_columns(candidate, "amount", days[day])
    return Layer((Term(days[day][0]),), day=day)


def _question_of_months(candidate: Candidate, months: Mapping[date, list[int]]) -> Ambiguous:
    titles = [candidate.titles[column] for indexes in months.values() for column in indexes]
    day = candidate.context.day
    message = (
        f"{candidate.location}: the titles {_examples(titles)} are months, but none of them ends "
        f"on {day}, the day of the book."
    )
    last = next((last for last in months if (last.year, last.month) == (day.year, day.month)), None)
    if last is None:
        line = choices("[inbox]", setting(candidate.file, UNUSED))
        return Ambiguous(f"{message} Put a ledger for that day into the inbox instead.", line)
    line = setting("amount", candidate.titles[months[last][0]])
    return Ambiguous(
        f"{message} The column for the book's month may contain the amounts for that day.",
        choices(candidate.file_table, line),
    )


def _examples(cells: Sequence[object]) -> str:
    return ", ".join(repr(as_text(cell)) for cell in cells[:4])


def _amount_column(candidate: Candidate) -> int:
    """Return the only amount column. Raise `Ambiguous` if there are only parts of an amount."""
    column = column_of(candidate, "amount", candidate.settled.get("amount"))
    if column is not None:
        return column
    debit, credit = (titles_of_role(candidate, role) for role in ("debit", "credit"))
    if len(debit) == len(credit) == 1:
        pair = (*debit, *credit)
        raise Ambiguous(
            f"{candidate.location}: the amounts are in two columns, {pair[0]!r} and {pair[1]!r}. "
            "The file does not show which of them increases the holdings.",
            choices(
                candidate.table,
                setting("amount", " - ".join(pair)),
                setting("amount", " - ".join(reversed(pair))),
            ),
        )
    raise _question_of_parts(candidate)


def _question_of_parts(candidate: Candidate) -> Ambiguous:
    """Return the question to ask if only parts of the amount have columns."""
    free, locked = (titles_of_role(candidate, role) for role in ("free", "locked"))
    parts = titles_of_role(candidate, "free", "locked")
    message = f"{candidate.location}: no column contains the whole amount, and "
    message += ", ".join(map(repr, parts))
    # `Free` and `available` may be two titles for the same amount, so a person must decide whether
    # to add them up.
    pairs = [list(filter(None, pair)) for pair in product(free or [""], locked or [""])]
    lines = list(dict.fromkeys(f"amount = {quote_list(titles)}" for titles in (parts, *pairs)))
    if len(lines) == 1:
        message += " seem to contain its parts. This setting adds up these columns."
        return Ambiguous(message, f"{candidate.table}\n{lines[0]}")
    message += " may contain its parts, but several of them may contain the same part."
    return Ambiguous(message, choices(candidate.table, *lines))


def _is_header(candidate: Candidate) -> bool:
    """Return whether a row names an asset and an amount."""
    shape = candidate.shape
    titles = [column for column, title in enumerate(candidate.titles) if title]
    refusal = candidate.profile.refusal if candidate.profile else ""
    if not titles or (refusal and not shape.amount_titles) or _is_data(candidate):
        return False
    stated = {candidate.field_of(column) or candidate.second_field_of(column) for column in titles}
    # A column from the settings counts only if its title is in this row.
    stated |= candidate.settled.keys() | {
        name
        for name, title in shape.columns.items()
        if title and find_columns(title, candidate.titles)
    }
    stated |= {*candidate.names, *(shape.groups or ()), shape.columns_are or ""}
    return "asset" in stated and ("amount" in stated or _has_amounts(candidate))


def _is_data(candidate: Candidate) -> bool:
    """Return whether a row is one of the ledger's rows: it has an amount, or names of two kinds.

    Titles may be names of one kind, such as the venues of several amount columns.
    """
    known, shape = candidate.context.known, candidate.shape
    cells = [
        title
        for column, title in enumerate(candidate.titles)
        if title and not candidate.field_of(column) and title not in shape.columns.values()
    ]
    kinds = {known.dimension_of(cell) for cell in cells} - {""}
    return len(kinds) > 1 or any(_FIGURE.fullmatch(cell) and not is_date(cell) for cell in cells)


def _has_amounts(candidate: Candidate) -> bool:
    """Return whether a row names several columns that together form the amount."""
    shape, titles = candidate.shape, candidate.titles
    if wanted := shape.amount_titles:
        return terms_of(wanted, titles) is not None
    roles = Counter(map(candidate.words.role_of, titles))
    return (
        bool(shape.columns_are and sum(map(bool, titles)) > 1)
        or min(roles["debit"], roles["credit"]) >= 1
        or roles["free"] + roles["locked"] > 1
        or bool(day_columns(candidate) or month_columns(candidate))
    )


def _header(candidate: Candidate) -> Header:
    columns = _columns(candidate)
    layers = layers_of(candidate, columns)
    columns["amount"] = layers[0].terms[0].column
    days = day_columns(candidate) or month_columns(candidate) if layers[0].day else {}
    shape, unit = candidate.shape, candidate.shape.unit_column
    found = {known.name: getattr(candidate, known.name) for known in fields(candidate)}
    found["names"] = {name: text for name, text in candidate.names.items() if name not in columns}
    return Header(
        **found,
        columns=columns,
        layers=layers,
        sign=_settled_columns(candidate, shape.sign, "the sign")[0] if shape.sign else None,
        unit=_settled_columns(candidate, unit, "the unit")[0] if unit else None,
        rows={
            title: _settled_columns(candidate, title, "keep_rows or skip_rows")[0]
            for title in shape.row_columns
        },
        days={column: day for day, indexes in days.items() for column in indexes},
    )


def _columns(candidate: Candidate) -> dict[str, int]:
    """Return each field's column, except for the amount."""
    settled = {**candidate.settled, **candidate.shape.columns}
    columns: dict[str, int] = {}
    for name in READ:
        is_label = name == candidate.shape.columns_are
        if name == "amount" or settled.get(name) == "" or is_label:
            continue
        index = column_of(candidate, name, settled.get(name))
        if index is not None:
            columns[name] = index
    return columns
