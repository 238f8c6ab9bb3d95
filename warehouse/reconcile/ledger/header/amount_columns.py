"""The columns that amounts are read from: one, several added up, or one for each name.

`amount = ["Free", "Locked"]` and `amount = "Debit - Credit"` are one amount a row;
`columns_are = "venue"` makes every column an amount of its own, whose title is the venue.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from warehouse.reconcile.ledger.header.candidate import Candidate
from warehouse.reconcile.ledger.header.field_columns import column_of
from warehouse.reconcile.ledger.header.titles import places_of
from warehouse.reconcile.settings.toml_table import quote, setting
from warehouse.reconcile.terms.errors import Ambiguous, NotReconciled
from warehouse.spreadsheet.reading.text import fold

_OPERATOR = re.compile(r"\s+([+-])\s+")


@dataclass(frozen=True, slots=True)
class Term:
    """One column of an amount; a negative one is taken off."""

    place: int
    is_negative: bool = False


@dataclass(frozen=True, slots=True)
class Layer:
    """One amount of each row, and the names that the titles of its columns say, by field."""

    terms: tuple[Term, ...]
    names: Mapping[str, str] = field(default_factory=dict)


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
    return (Layer((Term(_amount_place(candidate)),)),)


def _amount_place(candidate: Candidate) -> int:
    """Return the one column of amounts; raise `Ambiguous` where there are parts of it instead."""
    place = column_of(candidate, "amount", candidate.settled.get("amount"))
    if place is not None:
        return place
    debit, credit = (titles_of_role(candidate, role) for role in ("debit", "credit"))
    if len(debit) == len(credit) == 1:
        pair = (*debit, *credit)
        raise Ambiguous(
            f"{candidate.where}: the amounts stand in two columns, {pair[0]!r} and {pair[1]!r}, "
            "and it is not known which of them is what is held and which is taken off it.",
            f"{candidate.table}\n{setting('amount', ' - '.join(pair))}"
            f"   # or {setting('amount', ' - '.join(reversed(pair)))}",
        )
    parts = titles_of_role(candidate, "free", "locked")
    raise Ambiguous(
        f"{candidate.where}: no column is the whole amount, and {', '.join(map(repr, parts))} may "
        "be its parts.",
        f"{candidate.table}\namount = [{', '.join(quote(part) for part in parts)}]"
        f"   # which are added up; or {setting('amount', parts[0])} alone",
    )
