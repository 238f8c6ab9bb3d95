"""Decisions that were lost from the landing zone, given back from the published warehouse.

A crash cannot lose one (it is on disk before anything is published of it), a person or a disk can.
Without it a rejected night would be judged again as if nobody had looked at it.
"""

# ruff: noqa: S608 - ids are quoted by warehouse.contract.model.literal

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

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


def restore_decisions(layout: Layout, nights: Sequence[Snapshot] | None = None) -> tuple[str, ...]:
    """Write the lost decisions again, each as it was last; says which, in sentences."""
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
    """Return snapshots whose last decision is not in the published warehouse."""
    # There are some after a command that died between deciding and publishing. `nights` are those
    # that were landed, where they were read already.
    published = _published_decisions(layout)
    return {
        snapshot.snapshot_id
        for snapshot in (snapshots.landed_snapshots(layout) if nights is None else nights)
        if snapshot.decision and published.get(snapshot.snapshot_id) != _moment(snapshot.decision)
    }


def _moment(decision: Decision) -> str:
    return datetime.fromisoformat(decision.at).astimezone(UTC).isoformat()


def _published_decisions(layout: Layout) -> Mapping[str, str | None]:
    """Return when the published warehouse says that each snapshot was decided on."""
    digests = read_digests(layout.database.parent)
    return digests.decided if digests else {}


def _restore(layout: Layout, snapshot: Snapshot) -> str:
    rows = ask(
        layout.database,
        "select state, decided_by, decided_at::varchar, reason from ops.snapshots "
        f"where snapshot_id = {literal(snapshot.snapshot_id)} and decided_by is not null",
    ).rows
    if not rows:
        return ""
    state, by, at, reason = map(str, rows[0])
    causes = _reasons(layout, snapshot, "reasons", "is_teachable, share, is_known")
    taught = _reasons(layout, snapshot, "lessons", "true, share, false", "taken_back_at is null")
    if state == states.ACCEPTED and by != snapshots.GUARDS and causes:
        # What it was held for, so that it still counts as a night that was.
        held = tuple(cause.sentence for cause in causes)
        snapshot = snapshots.decide(
            snapshot,
            states.HELD,
            by=snapshots.GUARDS,
            at=datetime.fromisoformat(at),
            reasons=held,
            causes=causes,
        )
        causes = ()
    snapshots.decide(
        snapshot,
        state,
        by=by,
        at=datetime.fromisoformat(at),
        reasons=(reason,) if reason else (),
        causes=causes,
        teaches=taught if state == states.ACCEPTED else (),
    )
    return (
        f"the decision on snapshot {snapshot.snapshot_id} was lost from the landing zone; it is "
        f"{state} again, by {by}, as the published warehouse says"
    )


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
