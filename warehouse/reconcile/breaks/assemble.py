"""Assemble the breaks of a run: what was matched, what was before, and what people wrote."""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date

from warehouse.contract.model import literal
from warehouse.exact import plain
from warehouse.query.book import OpenBook
from warehouse.reconcile.breaks.causes import Case
from warehouse.reconcile.breaks.identity import Key, age_of, previous_ids
from warehouse.reconcile.comments.annotations import State, status_now
from warehouse.reconcile.ledger.model import Ledger
from warehouse.reconcile.matching import levels, snapshot
from warehouse.reconcile.matching.scope import Scope
from warehouse.reconcile.matching.snapshot import Reference
from warehouse.reconcile.store.records import Break, RunResult
from warehouse.reconcile.terms.notices import Notice

_SOURCES, _UNREAD = 5, 3  # rows that a break names, and amounts that its note lists


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What was known when a run began: the result before, the comments, and what may be opened.

    `may_open` says of a break's id whether a run of this day may open it again where it was
    settled: any on the newest day.
    """

    day: date
    prior: RunResult | None
    comments: State
    may_open: Callable[[str], bool]


def earlier_breaks(
    prior: RunResult | None, before: Mapping[str, Break], fields: Key, keys: Mapping[str, Key]
) -> tuple[dict[str, Break], list[Notice]]:
    """Return the breaks of before by the ids of now, also where their level has changed.

    `before` are the breaks of the run before that can still be breaks, `keys` those of now by id.
    """
    same = previous_ids(before, fields, keys)
    earlier = {new: before[old] for new, old in same.items()}
    if prior is None or prior.fields == fields:
        return earlier, []
    words = (
        f"the level changed from {', '.join(prior.fields)} to {', '.join(fields)}: breaks have new "
        f"ids; {len(same)} of {len(before)} could only be the same ones and keep their history"
    )
    return earlier, [Notice("medium", words)]


def amounts_before(
    source: OpenBook, fields: Key, assets: Collection[str] | None = None
) -> dict[Key, str]:
    """Return the amounts of the book before by key, of some assets or all."""
    day = day_before(source)
    return {} if day is None else snapshot.amounts_of(source.connection, day, fields, assets)


def amounts_before_at_levels(
    source: OpenBook, ledger: Ledger, scope: Scope, assets: Collection[str]
) -> dict[Key, str]:
    """Return the amounts of the book before by key, each at the level of tonight's files."""
    day = day_before(source)
    if day is None:
        return {}
    snapshot.make_book_side(source.connection, day, ledger.fields)
    levels.assign(source.connection, ledger, scope)
    return snapshot.amounts_in_book_side(source.connection, ledger.fields, assets)


def totals_before(source: OpenBook, fields: Key, scope: Scope) -> dict[str, str] | None:
    """Return by asset what the book before has of all that is compared; None without a book."""
    day = day_before(source)
    if day is None:
        return None
    snapshot.make_book_side(source.connection, day, ("asset",) if scope.is_whole else fields)
    is_compared = "true" if scope.is_whole else scope.predicate("book_side")
    return dict(
        source.connection.execute(
            f"select asset, exact_sum(amount) from book_side where {is_compared} group by 1"
        ).fetchall()
    )


def day_before(source: OpenBook) -> date | None:
    """Return the day of the book before, or None without one."""
    day = literal(source.day.isoformat())
    newest = source.connection.execute(
        f"select max(snapshot_date) from ops.snapshots where is_book and snapshot_date < {day}"
    ).fetchone()
    return newest[0] if newest else None


def assemble_break(
    case: Case,
    *,
    cause: str,
    ledger: Ledger,
    reference: Reference,
    history: History,
    accept_days: int,
) -> Break:
    """Return one break of this run with its age, its status and its comments."""
    pair, prior = case.pair.pair, history.prior
    last_episode = prior.episodes.get(case.id) if prior else None
    age = age_of(case.pair, history.day, case.earlier, last_episode)
    # Comments are kept under the id that a break had before its level changed.
    id_ = case.earlier.id if case.earlier else case.id
    comments, difference = history.comments, plain(case.pair.difference)
    decided, status, note = comments.decision(id_), comments.of(id_, "status"), ""
    if history.may_open(id_):
        status, note = status_now(decided, age.episode, difference, history.day, accept_days)
    notes = note, _venue_note(pair.key, ledger.fields, reference), *_unread(case, ledger)
    return Break(
        id=case.id,
        key=pair.key,
        names=case.names,
        result=case.pair.result.value,
        ledger=pair.ledger,
        snapshot=pair.snapshot,
        difference=difference,
        rows=pair.rows,
        source=", ".join(_places(case, ledger)),
        rule=case.pair.rule,
        placement=case.pair.placement,
        cause=cause,
        note="; ".join(filter(None, notes)),
        episode=age.episode,
        first_seen=age.first_seen,
        ever_seen=age.ever_seen,
        age_days=age.days,
        change=age.change,
        status=status,
        owner=comments.of(id_, "owner"),
        root_cause=comments.of(id_, "root_cause"),
        comment=comments.of(id_, "comment"),
        accepted=decided.accepted,
    )


def _places(case: Case, ledger: Ledger) -> list[str]:
    """Return where the rows of a break are, those that could not be read first."""
    places = [ledger.place(row) for row in case.rejected]
    places += (ledger.place(ledger.lines[line]) for line in case.pair.pair.lines[:_SOURCES])
    return places[:_SOURCES]


def _unread(case: Case, ledger: Ledger) -> Iterator[str]:
    """Yield the amounts that could not be read, so that no zero is taken for one of them."""
    for row in case.rejected[:_UNREAD]:
        yield f"{row.raw[:60]!r} in {ledger.place(row)} was not read"


def _venue_note(key: Key, fields: Key, reference: Reference) -> str:
    status = reference.closed.get(key[fields.index("venue")]) if "venue" in fields else None
    return f"the venue is {status}" if status else ""
