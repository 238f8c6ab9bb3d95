"""What the engine itself says of breaks: opened again, and known by another id.

It says so of a day. A run that replaces one of the same day takes back what the engine had said of
that day and decides anew; what people wrote stays.
"""

from collections.abc import Iterator, Sequence
from datetime import date, datetime

from warehouse.reconcile.breaks.assemble import History
from warehouse.reconcile.breaks.engine import Outcome
from warehouse.reconcile.comments.annotations import ENGINE, State, state
from warehouse.reconcile.store.records import OPEN, SAID, Annotation, Entry
from warehouse.reconcile.store.store import Store


def history(store: Store, day: date) -> History:
    """Return what was known when a run begins: the result before, and what people decided.

    The newest day may open any break again; an earlier one only says anew what it had said.
    """
    comments, in_force = state(store, without=day), state(store)
    is_newest = store.is_newest(day)
    return History(
        day=day,
        prior=store.result_before(day),
        comments=comments,
        may_open=lambda id_: is_newest or comments.of(id_, "status") != in_force.of(id_, "status"),
    )


def store_entries(store: Store, outcome: Outcome, at: datetime) -> None:
    """Store what the engine says of the day of a run, in place of what it had said of it."""
    before = _in_force(store, outcome.day)
    old = [entry for note in before for entry in note.entries if not entry.is_restored]
    now = state(store, without=outcome.day)
    ids = None if store.is_newest(outcome.day) else {entry.break_id for entry in old}
    entries = [*_renames(outcome, now, ids), *_reopenings(outcome, now)]
    if entries == old:
        return
    restored = _restorations(old, entries, state(store), now)
    store.annotations.add(
        Annotation(
            who=ENGINE,
            at=at.isoformat(),
            source="",
            sha256="",
            run_id="",
            base_revision=now.revision,
            entries=(*restored, *entries),
            engine_day=outcome.day.isoformat(),
            replaces=tuple(note.no for note in before),
        )
    )


def _in_force(store: Store, day: date) -> list[Annotation]:
    """Return what the engine said of a day and did not take back."""
    undone = {number for note in store.annotations for number in note.replaces}
    return [
        note
        for note in store.annotations
        if note.engine_day == day.isoformat() and note.no not in undone
    ]


def _renames(outcome: Outcome, now: State, ids: set[str] | None) -> Iterator[Entry]:
    """Yield what was said under an id of before, where nobody said anything under that of now."""
    for new, old in outcome.renamed.items():
        for field in SAID:
            values = now.breaks.get(old, {})
            if (ids is not None and new not in ids) or field not in values:
                continue
            if field in now.breaks.get(new, {}):
                continue
            if field != "status":
                yield Entry(break_id=new, field=field, value=now.of(old, field))
                continue
            # Whose decision it is, of which difference and when: all that a status is judged by.
            decision = now.decision(old)
            yield Entry(
                break_id=new,
                field=field,
                value=decision.status,
                accepted=decision.accepted,
                episode=decision.episode,
                said_on=decision.on,
                said_by=decision.by,
            )


def _reopenings(outcome: Outcome, now: State) -> Iterator[Entry]:
    for break_ in outcome.breaks:
        is_opened = break_.status == OPEN != now.of(break_.id, "status")
        if is_opened and break_.id not in outcome.renamed:
            yield Entry(
                break_id=break_.id,
                field="status",
                value=OPEN,
                note=break_.note,
                episode=break_.episode,
            )


def _restorations(
    old: Sequence[Entry], new: Sequence[Entry], in_force: State, now: State
) -> Iterator[Entry]:
    """Yield what holds again where a word of the engine is taken back, for readers of the list."""
    again = {(entry.break_id, entry.field) for entry in new}
    for entry in old:
        id_, field = entry.break_id, entry.field
        if (id_, field) not in again and in_force.of(id_, field) != now.of(id_, field):
            yield Entry(
                break_id=id_,
                field=field,
                value=now.of(id_, field),
                is_restored=True,
                note="taken back: the day was run again",
                accepted=now.decision(id_).accepted,
            )
