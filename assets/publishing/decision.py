"""A person's decision on a night: recorded, published, and finished where a command died on it."""

from assets.nightbook import Nightbook
from assets.publishing import lost_decisions, publish, withdrawal
from pipelines.lake import lessons, placement
from pipelines.landing import snapshots
from pipelines.landing.snapshots import Snapshot
from warehouse.contract import states
from warehouse.storage.layout import Layout


def decide(nightbook: Nightbook, snapshot_id: str, state: str, *, by: str, why: str) -> Snapshot:
    """Decide, publish, and mark what was made of a night that is taken back."""
    # The caller is the writer.
    layout, now = nightbook.layout, nightbook.now()
    publish.restore_lake(nightbook)
    before = snapshots.find(layout, snapshot_id)
    is_taken_back = before.state == states.ACCEPTED
    snapshot = snapshots.decide_by_hand(
        layout,
        snapshot_id,
        state,
        by=by,
        at=now,
        why=why,
        withdrawn=withdrawal.made_of(layout, before) if is_taken_back else (),
    )
    lessons.let_through(layout, at=now)
    if is_taken_back and snapshot.decision is not None:
        withdrawal.mark(layout, snapshot, snapshot.decision)
    placement.settle(layout)
    publish.refresh(nightbook)
    return snapshots.find(layout, snapshot_id)


def is_unfinished(layout: Layout, snapshot: Snapshot) -> bool:
    """Return whether a command died after deciding, before all saw it."""
    return snapshot.decision is not None and (
        snapshot.snapshot_id in lost_decisions.unpublished_snapshots(layout)
        or withdrawal.is_without_note(layout, snapshot.decision)
    )


def finish(nightbook: Nightbook, snapshot: Snapshot) -> None:
    """Publish what a command left that died after deciding; the caller is the writer."""
    if snapshot.decision is not None:
        withdrawal.mark(nightbook.layout, snapshot, snapshot.decision)
    publish.restore_lake(nightbook)
