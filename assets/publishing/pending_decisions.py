"""Decisions that are missing from the published warehouse, because a command was killed.

Fast commands import this module, so it imports neither DuckDB nor the modules that build a night
(0.25 CPU s).
"""

from datetime import UTC, datetime

from pipelines.landing import snapshots
from pipelines.landing.snapshots import Decision, Snapshot
from warehouse.storage.digests import read_digests
from warehouse.storage.layout import Layout


def unpublished_snapshots(layout: Layout, nights: list[Snapshot] | None = None) -> set[str]:
    """Return the IDs of snapshots with a decision that is missing from the published warehouse.

    Pass the landed snapshots as `nights` if they have already been read.
    """
    # A command can crash after it stores a decision but before it publishes the decision. Compare
    # the counts too, because a decision from another machine may be older than the last one here.
    digests = read_digests(layout.database.parent)
    times, counts = (digests.decided, digests.decisions) if digests else ({}, {})
    return {
        snapshot.snapshot_id
        for snapshot in (snapshots.landed_snapshots(layout) if nights is None else nights)
        if snapshot.decision
        and (
            times.get(snapshot.snapshot_id) != _utc_time(snapshot.decision)
            or counts.get(snapshot.snapshot_id, len(snapshot.decisions)) != len(snapshot.decisions)
        )
    }


def _utc_time(decision: Decision) -> str:
    return datetime.fromisoformat(decision.at).astimezone(UTC).isoformat()
