"""A break of tonight beside what is known of it: yesterday's amounts, its episode, its comments."""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date
from typing import Any

from warehouse.contract.model import literal
from warehouse.exact import plain
from warehouse.query.book import OpenBook
from warehouse.reconcile.breaks.causes import Case, Past
from warehouse.reconcile.breaks.identity import Break, age_of, previous_ids
from warehouse.reconcile.comments.annotations import State, status_now
from warehouse.reconcile.config import Config
from warehouse.reconcile.ledger.model import Ledger
from warehouse.reconcile.matching import snapshot
from warehouse.reconcile.matching.snapshot import Reference
from warehouse.reconcile.notices import Notice
from warehouse.reconcile.store.archive import Json, by_id

Prior = Json | None
MayOpen = Callable[[str], bool]


def known_before(
    prior: Prior, fields: tuple[str, ...], keys: Mapping[str, tuple[str, ...]]
) -> tuple[dict[str, Json], list[Notice]]:
    """The breaks of the day before by the ids of today, also where the level has changed."""
    before = by_id(prior)
    old = tuple((prior or {}).get("fields", fields))
    if old == fields:
        return before, []
    same = previous_ids(before, old, fields, keys)
    words = (
        f"the level changed from {', '.join(old)} to {', '.join(fields)}: breaks have new ids; "
        f"{len(same)} of {len(before)} could only be the same ones and keep their history"
    )
    return {new: before[then] for new, then in same.items()}, [Notice("medium", words)]


def past_of(known: Json | None) -> Past:
    """What the break before says, as causes need it."""
    if known is None:
        return Past()
    return Past(None, known["ledger"], known["difference"], known["first_seen"])


def with_yesterday(source: OpenBook, fields: tuple[str, ...], cases: Sequence[Case]) -> list[Case]:
    """The cases with the amount that the book before had for their keys."""
    if not cases:
        return []
    place = fields.index("asset")
    known = book_before(source, fields, {case.judged.pair.key[place] for case in cases})
    return [
        Case(
            case.judged,
            case.id,
            Past(
                known.get(case.judged.pair.key),
                case.past.ledger,
                case.past.difference,
                case.past.first_seen,
            ),
            case.shown,
        )
        for case in cases
    ]


def book_before(
    source: OpenBook, fields: tuple[str, ...], assets: Collection[str] | None = None
) -> dict[tuple[str, ...], str]:
    """The amounts of the book before by key, of some assets or all; none where there is no such."""
    day = literal(source.day.isoformat())
    ask = source.connection.execute
    found = ask(
        f"select max(snapshot_date) from ops.snapshots where is_book and snapshot_date < {day}"
    ).fetchone()
    if not found or found[0] is None:
        return {}
    snapshot.side_of(source.connection, found[0], fields)
    rows = ask(
        f"select {snapshot.columns(fields)}, amount from book_side "
        "where ? or list_contains(?, asset)",
        [assets is None, sorted(assets or ())],
    ).fetchall()
    return {row[:-1]: row[-1] for row in rows}


def tonight(
    case: Case,
    causes: Mapping[str, str],
    about: tuple[Ledger, Reference, Config],
    past: tuple[date, Mapping[str, Any], Mapping[str, Any], tuple[Prior, State, MayOpen]],
) -> Break:
    """A break as it is tonight: what was found, what was before, and what people say of it."""
    ledger, known, config = about
    day, before, episodes, (_, said, may_open) = past
    classified, pair = case.judged, case.judged.pair
    given = age_of(classified, case.id, day, before, episodes)
    said_of = before[case.id]["id"] if case.id in before else case.id
    difference = plain(classified.difference)
    status, note = said.of(said_of, "status"), ""
    if may_open(said_of):
        found = {"episode": given["episode"], "difference": difference}
        status, note = status_now(said, said_of, found, day, config.accept_days)
    notes = [note, _venue_note(pair.key, ledger.fields, known)]
    return Break(
        id=case.id,
        key=pair.key,
        names=case.shown,
        result=classified.result.value,
        ledger=pair.ledger,
        snapshot=pair.snapshot,
        difference=difference,
        rows=pair.rows,
        source=", ".join(ledger.place(ledger.lines[line]) for line in pair.lines[:5]),
        rule=classified.rule,
        placement=classified.placement,
        cause=causes.get(case.id, ""),
        note="; ".join(filter(None, notes)),
        status=status,
        owner=said.of(said_of, "owner"),
        root_cause=said.of(said_of, "root_cause"),
        comment=said.of(said_of, "comment"),
        accepted=said.breaks.get(said_of, {}).get("accepted", ""),
        **given,
    )


def _venue_note(key: tuple[str, ...], fields: tuple[str, ...], known: Reference) -> str:
    if "venue" not in fields:
        return ""
    venue = key[fields.index("venue")]
    status = known.closed.get(venue)
    return f"the venue is {status}" if status else ""
