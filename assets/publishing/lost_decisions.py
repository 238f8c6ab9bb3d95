"""Decisions that were lost from the landing zone, given back from the published warehouse.

A crash cannot lose one (it is on disk before anything is published of it), a person or a disk can.
Without it a rejected night would be judged again as if nobody had looked at it.
"""

# ruff: noqa: S608 - ids are quoted by warehouse.contract.model.literal

import contextlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from pipelines.lake import lessons
from pipelines.landing import snapshots
from pipelines.landing.reasons import Reason
from pipelines.landing.snapshots import Decision, Snapshot
from warehouse.contract import states
from warehouse.contract.model import literal
from warehouse.database.versions import is_as_published
from warehouse.query.connect import QueryFailed
from warehouse.query.read import run as ask
from warehouse.storage.digests import read_digests
from warehouse.storage.layout import Layout

JUDGES = (snapshots.GUARDS, lessons.BY)


def restore_decisions(layout: Layout, nights: Sequence[Snapshot] | None = None) -> tuple[str, ...]:
    """Write the lost decisions again as they were published; says which, in sentences."""
    # Only a warehouse that is as it was published is believed. `nights` are as below.
    published = _published_decisions(layout)
    lost = [
        snapshot
        for snapshot in (snapshots.landed_snapshots(layout) if nights is None else nights)
        if snapshot.decision is None and published.get(snapshot.snapshot_id) is not None
    ]
    if not lost or not is_as_published(layout, layout.database):
        return ()
    return tuple(filter(None, (_restore(layout, snapshot) for snapshot in lost)))


def unpublished_snapshots(layout: Layout, nights: list[Snapshot] | None = None) -> set[str]:
    """Return snapshots of which a decision is not in the published warehouse."""
    # There are some after a command that died between deciding and publishing. A decision that came
    # from another machine may be older than the last. `nights` are those that were landed, where
    # they were read already.
    digests = read_digests(layout.database.parent)
    times, counts = (digests.decided, digests.decisions) if digests else ({}, {})
    return {
        snapshot.snapshot_id
        for snapshot in (snapshots.landed_snapshots(layout) if nights is None else nights)
        if snapshot.decision
        and (
            times.get(snapshot.snapshot_id) != _moment(snapshot.decision)
            or counts.get(snapshot.snapshot_id, len(snapshot.decisions)) != len(snapshot.decisions)
        )
    }


def _moment(decision: Decision) -> str:
    return datetime.fromisoformat(decision.at).astimezone(UTC).isoformat()


def _published_decisions(layout: Layout) -> Mapping[str, str | None]:
    """Return when the published warehouse says that each snapshot was decided on."""
    digests = read_digests(layout.database.parent)
    return digests.decided if digests else {}


def _restore(layout: Layout, snapshot: Snapshot) -> str:
    decisions = _decisions(layout, snapshot)
    if not decisions:
        return ""
    last = decisions[-1]
    if causes := _reasons(layout, snapshot, "reasons", "is_teachable, share, is_known"):
        decisions = _with_causes(decisions, causes)
    if last.state == states.ACCEPTED:
        taught = _reasons(
            layout, snapshot, "lessons", "true, share, false", "taken_back_at is null"
        )
        decisions[-1] = replace(decisions[-1], teaches=taught)
    snapshots.write_decisions(snapshot, decisions)
    return (
        f"the decision on snapshot {snapshot.snapshot_id} was lost from the landing zone; it is "
        f"{last.state} again, by {last.by}, as the published warehouse says"
    )


def _decisions(layout: Layout, snapshot: Snapshot) -> list[Decision]:
    """Return what the published warehouse has of the decisions on a snapshot, oldest first."""
    where = f"where snapshot_id = {literal(snapshot.snapshot_id)}"
    # Older versions had no machine, or the last decision alone.
    for source in (
        f"machine, decision_id from ops.decisions {where} order by decision_no",
        f"null, null from ops.decisions {where} order by decision_no",
        f"null, null from ops.snapshots {where} and decided_by is not null",
    ):
        with contextlib.suppress(QueryFailed):
            columns = "state, decided_by, decided_at::varchar, reason"
            return [
                Decision(
                    state=state,
                    by=by,
                    at=datetime.fromisoformat(at).astimezone(UTC).isoformat(),
                    reasons=(reason,) if reason else (),
                    machine=machine or "",
                    original=original or "",
                )
                for state, by, at, reason, machine, original in ask(
                    layout.database, f"select {columns}, {source}"
                ).rows
            ]
    return []


def _with_causes(decisions: list[Decision], causes: tuple[Reason, ...]) -> list[Decision]:
    """Return decisions with what the guards saw, so that a night that was held still counts so."""
    if not any(decision.by in JUDGES for decision in decisions):
        at = datetime.fromisoformat(decisions[0].at) - timedelta(microseconds=1)
        reasons = tuple(cause.sentence for cause in causes)
        held = Decision(state=states.HELD, by=snapshots.GUARDS, at=at.isoformat(), reasons=reasons)
        decisions = [held, *decisions]
    judged = [place for place, decision in enumerate(decisions) if decision.by in JUDGES]
    held_places = [place for place in judged if decisions[place].state == states.HELD]
    return [
        replace(decision, causes=causes) if place in (*judged[-1:], *held_places[-1:]) else decision
        for place, decision in enumerate(decisions)
    ]


def _reasons(
    layout: Layout, snapshot: Snapshot, table: str, columns: str, where: str = "true"
) -> tuple[Reason, ...]:
    """Return the reasons of a snapshot as a published table has them."""
    try:
        rows = ask(
            layout.database,
            f"select reason_key, words, {columns} from ops.{table} "
            f"where snapshot_id = {literal(snapshot.snapshot_id)} and {where} order by reason_key",
        ).rows
    except QueryFailed:  # published by a version that had none
        return ()
    return tuple(
        Reason(
            key=str(key),
            words=str(words),
            is_teachable=bool(is_teachable),
            share=str(share),
            is_known=bool(is_known),
        )
        for key, words, is_teachable, share, is_known in rows
    )
