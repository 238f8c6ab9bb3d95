"""Which column is a field, and the question where several may be it."""

from collections.abc import Sequence

from warehouse.reconcile.ledger.header.candidate import Candidate
from warehouse.reconcile.ledger.header.titles import letters, places_of
from warehouse.reconcile.settings.toml_table import setting
from warehouse.reconcile.terms.errors import Ambiguous, NotReconciled
from warehouse.spreadsheet.reading.text import fold


def column_of(candidate: Candidate, name: str, wanted: str | None) -> int | None:
    """Return the column of a field; raise where it is not there, or where two may be it."""
    if wanted is None:
        # A second choice of words counts only where no column has one of the first; a column that
        # was settled for another field, or as the amounts of a name, is not this one by its words.
        shape = candidate.shape
        settled_titles = {fold(title) for title in (*shape.columns.values(), *shape.label_columns)}
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
    others = "".join(f' or "{title}"' for title in titles[1:])
    return Ambiguous(
        f"{candidate.where}: the columns {shown} may each be the {name}.",
        f"{candidate.table}\n{setting(name, titles[0])}   #{others}",
    )


def sign_place(candidate: Candidate) -> int | None:
    """Return the column that says the sign of the amounts, if one was settled."""
    if not candidate.shape.sign:
        return None
    places = places_of(candidate.shape.sign, candidate.titles)
    if not places:
        raise NotReconciled(
            f"{candidate.where} has no column {candidate.shape.sign!r}, which was settled for the "
            f"sign. Nothing was reconciled. Mend {candidate.table} in recon.toml."
        )
    return places[0]
