"""Repairs of a home after killed commands, lost files and upgrades.

Each repair can be interrupted and repeated. They run at these times:

- before a night is judged (`before_night`): lost decisions are restored, nights built by an older
  version are rebuilt, and landed nights that no run judged are judged;
- before a version is published without a new night (`before_publishing`): lost decisions are
  restored, and decided nights that are missing from the lake are rebuilt;
- before any version is published (`upgrade_lake`): nights built by an older version are rebuilt.

Files of killed runs are deleted by `pipelines.landing.lock.sweep` when a version is built.

A crash cannot lose a decision, because each decision is written to disk before it is published. But
a person may delete the file, or the disk may fail. Then the guards would judge a night that was
already rejected. Therefore, lost decisions are copied from the published warehouse.
"""

# ruff: noqa: S608 - ids are quoted by warehouse.contract.model.literal

import contextlib
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from assets.console.terminal import progress_reporter
from assets.nightbook import WARNING, EventCallback, Nightbook
from pipelines import night
from pipelines.lake import lessons
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.landing import snapshots
from pipelines.landing.reasons import Reason
from pipelines.landing.snapshots import Decision, Snapshot
from pipelines.maintenance.upgrade import is_behind, outdated_nights, rebuild_nights
from warehouse.contract import states
from warehouse.contract.model import count_of, literal
from warehouse.database.versions import is_as_published
from warehouse.query.connect import QueryFailed
from warehouse.query.read import run as ask
from warehouse.storage.digests import read_digests
from warehouse.storage.layout import Layout

JUDGES = (snapshots.GUARDS, lessons.BY)


def before_night(nightbook: Nightbook, tell: EventCallback, *, but: str) -> None:
    """Judge landed nights that a dead run left behind, so that the next version includes them.

    `but` is the ID of the snapshot that the caller handles itself. An unreadable night is reported
    and remains a gap, so it cannot block other nights.
    """
    layout = nightbook.layout
    manifests = LakeManifests(layout)
    for message in restore_decisions(layout, manifests.nights):
        tell(message, event="restored")
        manifests = LakeManifests(layout)
    if is_behind(layout):
        upgrade_lake(nightbook, tell, manifests)
        manifests = LakeManifests(layout)
    for folder in night.left_over(manifests):
        if folder.name == but:
            continue
        try:
            judged = night.finish(manifests, folder, nightbook.now())
        except Exception as error:  # noqa: BLE001 - tonight's run must continue in any case
            message = f"snapshot {folder.name} from a run that died could not be judged: {error}"
            tell(message, event="left over", level=WARNING, snapshot=folder.name)
        else:
            message = f"judged snapshot {folder.name} from a run that died: it is {judged.state}"
            tell(message, event=judged.state, snapshot=folder.name)


def before_publishing(nightbook: Nightbook) -> bool:
    """Rebuild nights that are missing from the lake after an interrupted rebuild.

    Returns whether the published warehouse lacks decisions. Call this before publishing without a
    new night, because nights missing from the lake would disappear from the warehouse.
    """
    layout = nightbook.layout
    manifests = LakeManifests(layout)
    if restore_decisions(layout, manifests.nights):
        manifests = LakeManifests(layout)
    for folder in night.left_over(manifests):
        if snapshots.read(folder).decision is not None:
            night.finish(manifests, folder, nightbook.now())
    return bool(unpublished_snapshots(layout, manifests.nights))


def upgrade_lake(
    nightbook: Nightbook, tell: EventCallback | None, manifests: LakeManifests
) -> bool:
    """Rebuild judged nights that are missing from the lake or were built by an older nightbook.

    Returns True if any nights were rebuilt, in which case `manifests` is out of date. A damaged
    landed night is reported, and only its date will be missing from the warehouse.
    """
    nights = [lost for lost in outdated_nights(manifests) if lost.is_decided]
    older = [old for old in nights if old.contract is not None]
    if older and tell is not None:
        message = (
            f"the lake tables of {count_of(len(older), 'night')} were built by an older version "
            f"(contract {older[-1].contract}), so they are rebuilt from the landing folder"
        )
        tell(message, event="upgrading")
    say = progress_reporter(nightbook, tell, "upgrading")
    for error in rebuild_nights(nightbook.layout, nights, nightbook.now(), say):
        if tell is None:
            print(error, file=sys.stderr)
        else:
            tell(str(error), event="not made", level=WARNING)
    return bool(nights)


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
