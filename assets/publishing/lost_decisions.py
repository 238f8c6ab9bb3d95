"""Decisions that are missing from the landing folder, and are in the published warehouse.

A crash cannot lose a decision, because each decision is written to disk before it is published. But
a person may delete the file, or the disk may fail. Then the guards would judge a night that was
already rejected. Therefore, lost decisions are copied from the published warehouse.
"""

# ruff: noqa: S608 - ids are quoted by warehouse.contract.model.literal

import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from pipelines.lake import lessons
from pipelines.landing import snapshots
from pipelines.landing.reasons import Reason
from pipelines.landing.snapshots import Decision, Snapshot
from warehouse.contract import states
from warehouse.contract.model import literal
from warehouse.database.versions import is_as_published
from warehouse.query.errors import QueryFailed
from warehouse.query.read import run as ask
from warehouse.storage.digests import read_digests
from warehouse.storage.layout import Layout

JUDGES = (snapshots.GUARDS, lessons.BY)


def restore_decisions(layout: Layout, nights: Sequence[Snapshot] | None = None) -> tuple[str, ...]:
    """Restore lost decisions from the published warehouse. Return one message per snapshot.

    Pass the landed snapshots as `nights` if they have already been read.
    """
    # Restore decisions only from a warehouse that has not changed since it was published.
    digests = read_digests(layout.database.parent)
    published = digests.decided if digests else {}
    lost = [
        snapshot
        for snapshot in (snapshots.landed_snapshots(layout) if nights is None else nights)
        if snapshot.decision is None and published.get(snapshot.snapshot_id) is not None
    ]
    if not lost or not is_as_published(layout, layout.database):
        return ()
    return tuple(filter(None, (_restore(layout, snapshot) for snapshot in lost)))


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
        f"the decision on snapshot {snapshot.snapshot_id} was missing from the landing zone, so it "
        f"was restored from the published warehouse ({last.state} by {last.by})"
    )


def _decisions(layout: Layout, snapshot: Snapshot) -> list[Decision]:
    """Return the published decisions about a snapshot, oldest first."""
    where = f"where snapshot_id = {literal(snapshot.snapshot_id)}"
    # In the warehouses of older versions of nightbook, decisions have no machine, or only the last
    # decision is stored.
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
    """Add the guards' reasons to the decisions of a night that was once held."""
    if not any(decision.by in JUDGES for decision in decisions):
        at = datetime.fromisoformat(decisions[0].at) - timedelta(microseconds=1)
        reasons = tuple(cause.sentence for cause in causes)
        first = Decision(state=states.HELD, by=snapshots.GUARDS, at=at.isoformat(), reasons=reasons)
        decisions = [first, *decisions]
    judged = [number for number, decision in enumerate(decisions) if decision.by in JUDGES]
    held = [number for number in judged if decisions[number].state == states.HELD]
    last_ones = {*judged[-1:], *held[-1:]}
    return [
        replace(decision, causes=causes) if number in last_ones else decision
        for number, decision in enumerate(decisions)
    ]


def _reasons(
    layout: Layout, snapshot: Snapshot, table: str, columns: str, where: str = "true"
) -> tuple[Reason, ...]:
    """Return a snapshot's reasons from a published table, or () if the table is missing."""
    try:
        rows = ask(
            layout.database,
            f"select reason_key, words, {columns} from ops.{table} "
            f"where snapshot_id = {literal(snapshot.snapshot_id)} and {where} order by reason_key",
        ).rows
    except QueryFailed:
        # This warehouse was published by an older version of nightbook, so it lacks this table.
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
