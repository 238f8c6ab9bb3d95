"""Which column is a field, and the question where several may be it."""

from collections.abc import Sequence

from warehouse.reconcile.ledger.header.candidate import Candidate
from warehouse.reconcile.ledger.header.titles import letters, places_of
from warehouse.reconcile.settings.toml_table import setting
from warehouse.reconcile.terms.errors import Ambiguous, NotReconciled, choices
from warehouse.spreadsheet.reading.text import fold


def column_of(candidate: Candidate, name: str, wanted: str | None) -> int | None:
    """Return the column of a field; raise where it is not there, or where two may be it."""
    if wanted is None:
        # A second choice of words counts only where no column has one of the first; a column that
        # was settled for another field, or as the amounts of a name, is not this one by its words.
        shape = candidate.shape
        settled = (*shape.columns.values(), *shape.label_columns, *shape.row_columns)
        settled = (*settled, shape.sign or "", shape.unit_column)
        settled_titles = {fold(title) for title in settled if title}
        titles = [
            place
            for place, title in enumerate(candidate.titles)
            if fold(title) not in settled_titles
        ]
        places = [place for place in titles if candidate.field_of(place) == name] or [
            place for place in titles if candidate.also_field_of(place) == name
        ]
    else:
        places = places_of(wanted, candidate.titles)
        if not places:
            raise NotReconciled(
                f"{candidate.where} has no column {wanted!r}, which was settled for {name}. "
                f"Nothing was reconciled. Mend {candidate.table} in recon.toml."
            )
    if len(places) > 1:
        raise two_columns(candidate, name, places)
    return places[0] if places else None


def two_columns(candidate: Candidate, name: str, places: Sequence[int]) -> Ambiguous:
    """Return the question which of several columns is a field."""
    titles = [candidate.titles[place] for place in places]
    # Two columns of one title are told apart by their letters.
    if len(set(map(fold, titles))) < len(titles):
        titles = [letters(place) for place in places]
    shown = " and ".join(repr(title) for title in titles)
    return Ambiguous(
        f"{candidate.where}: the columns {shown} may each be the {name}.",
        choices(candidate.table, *(setting(name, title) for title in titles)),
    )


def sign_place(candidate: Candidate) -> int | None:
    """Return the column that says the sign of the amounts, if one was settled."""
    title = candidate.shape.sign
    return _settled_place(candidate, title, "the sign") if title else None


def unit_place(candidate: Candidate) -> int | None:
    """Return the column that says the unit of each amount, if one was settled."""
    title = candidate.shape.unit_column
    return _settled_place(candidate, title, "the unit") if title else None


def row_places(candidate: Candidate) -> dict[str, int]:
    """Return by title the columns that say which rows are used."""
    titles = candidate.shape.row_columns
    return {title: _settled_place(candidate, title, "keep_rows or skip_rows") for title in titles}


def _settled_place(candidate: Candidate, title: str, use: str) -> int:
    places = places_of(title, candidate.titles)
    if not places:
        raise NotReconciled(
            f"{candidate.where} has no column {title!r}, which was settled for {use}. "
            f"Nothing was reconciled. Mend {candidate.table} in recon.toml."
        )
    return places[0]
