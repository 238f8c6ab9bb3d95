"""Whether the book stood still while it was read, and what became of portfolios that are gone.

The API gives no snapshot of itself: each list is true for the moment in which it was made. So both
lists are read once more at the end, and what differs is told: the ids, and by `updatedAt` what was
changed.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from pipelines.edge.errors import AccessRefused, EdgeError, NotFound
from pipelines.landing.manifest import DELETED, REFUSED, THERE, UNTOLD
from pipelines.records.split import id_of
from warehouse.contract.wording import and_more

# Seconds between a list that has lost portfolios and the second read that confirms it.
CONFIRM_AFTER = 10.0
# Portfolios that are asked for by their id.
MOST_ASKED = 10
SHOWN = 3

# Of every record of a list, by its id, what changes when it is changed.
Marks = Mapping[str, tuple[str | None, ...]]


class _Fingerprint(msgspec.Struct, rename="camel", gc=False):
    updated_at: str | None = None
    trading_status: str | None = None


_MARK = msgspec.json.Decoder(_Fingerprint)


def marks(raws: Iterable[msgspec.Raw]) -> Marks:
    """Return what can be compared of a list; records that break the contract are left out."""
    return {id_: (mark.updated_at, mark.trading_status) for id_, mark in _readable(raws)}


def _readable(raws: Iterable[msgspec.Raw]) -> Iterator[tuple[str, _Fingerprint]]:
    for raw in raws:
        try:
            mark = _MARK.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        # Named as everywhere else, also where an id stands twice.
        if (identity := id_of(raw)) is not None:
            yield identity, mark


def changed_ids(first: Marks, last: Marks) -> set[str]:
    """Return the ids that are new, gone or changed."""
    return {id_ for id_ in first.keys() | last.keys() if first.get(id_) != last.get(id_)}


def difference(list_name: str, first: Marks, last: Marks) -> str:
    """Return what differs between two reads of a list in one sentence; empty where nothing does."""
    new, gone = last.keys() - first.keys(), first.keys() - last.keys()
    changed = changed_ids(first, last) - new - gone
    parts = (("new", new), ("gone", gone), ("changed", changed))
    differences = [
        f"{len(ids)} {word} ({and_more([id_[:60] for id_ in sorted(ids)], SHOWN)})"
        for word, ids in parts
        if ids
    ]
    return f"{list_name}: {', '.join(differences)}" if differences else ""


def to_ask(before: Mapping[str, bool], listed: Iterable[str]) -> list[str]:
    """Return some portfolios that a list has lost, those with money first."""
    # Where money is among what is gone, or nothing is left at all, it is worth asking.
    gone = sorted(
        before.keys() - set(listed),
        key=lambda portfolio_id: (not before[portfolio_id], portfolio_id),
    )
    is_worth = any(before[portfolio_id] for portfolio_id in gone) or len(gone) == len(before)
    return gone[:MOST_ASKED] if is_worth else []


def fate(error: EdgeError | None) -> str:
    """Return what `GET /portfolios/{id}` said of a portfolio that the list lacks (4.2)."""
    if error is None:
        return THERE
    if isinstance(error, AccessRefused):
        return REFUSED
    return DELETED if isinstance(error, NotFound) else UNTOLD
