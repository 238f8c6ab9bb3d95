"""Decisions from other machines, which are merged into the nights of this home."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipelines.lakehouse.night_manifest import (
    Document,
    DuplicateNight,
    NightManifest,
    generation_of,
)
from pipelines.lakehouse.shelf_list import NightRecord, ShelfRecord, stamp
from pipelines.landing import snapshots
from pipelines.landing.manifest import load_manifest
from pipelines.landing.night_folders import MANIFEST
from pipelines.landing.snapshots import DECISION, Decision, Snapshot
from warehouse.contract.states import PRUNED
from warehouse.storage.layout import Layout, write_bytes

MAX_REASON_LENGTH = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedNight:
    """A night whose decisions in this home were updated from the shelf.

    `before` and `after` are the night's states in this home. `is_conflict` is True if this home and
    the shelf each had decisions that the other lacked.
    """

    before: Snapshot
    after: Snapshot
    is_conflict: bool
    message: str


OnFollowed = Callable[[FollowedNight], object]


def follow(snapshot: Snapshot, night: NightManifest, on_followed: OnFollowed) -> Snapshot:
    """Merge the shelf's decisions on a night into this home. Report changes to `on_followed`.

    Raises `DuplicateNight` if the night on the shelf was built from different API responses.
    """
    require_same_answers(snapshot, night)
    theirs = without_pruning(night.decisions)
    merged = snapshots.merge(snapshot.decisions, theirs)
    if merged == snapshot.decisions:
        return snapshot
    if merged == night.decisions:
        write_bytes(snapshot.folder / DECISION, night.documents[Document.DECIDED].encode())
        after = snapshots.read(snapshot.folder)
    else:
        after = snapshots.write_decisions(snapshot, merged)
    new = unknown_decisions(theirs, snapshot.decisions)
    unshelved = unknown_decisions(without_pruning(snapshot.decisions), theirs)
    on_followed(
        FollowedNight(
            before=snapshot,
            after=after,
            is_conflict=bool(new and unshelved),
            message=_message(after, new, unshelved),
        )
    )
    return after


def require_same_answers(snapshot: Snapshot, night: NightManifest) -> None:
    """Raise `DuplicateNight` if the home's night and the shelf's night have different manifests."""
    if (snapshot.folder / MANIFEST).read_bytes() != night.documents[Document.LANDED].encode():
        raise DuplicateNight(night)


def behind(
    nights: Iterable[Snapshot], newest: Mapping[str, str], record: ShelfRecord
) -> Iterator[Snapshot]:
    """Yield the nights that have changed on the shelf since this home last read it."""
    for snapshot in nights:
        if (key := newest.get(snapshot.snapshot_id)) is not None:
            known = record.nights.get(snapshot.snapshot_id)
            if known is None or known.generation != generation_of(key)[1]:
                yield snapshot


def agreement(layout: Layout, local: Snapshot, night: NightManifest) -> NightRecord:
    """Compare a night here with its newest generation on the shelf. Return the night's record.

    If some decisions must still be shelved, the record's `stamp` is empty. If the night's lake
    files are missing in this home or differ, they must still be fetched, and the generation is 0.
    """
    is_pruned = PRUNED in (local.state, night.state)
    lake = layout.manifest(local.snapshot_id)
    has_lake = is_pruned or (
        lake.is_file() and lake.read_text(encoding="utf-8") == night.documents[Document.LAKE]
    )
    is_waiting = unknown_decisions(without_pruning(local.decisions), night.decisions)
    return NightRecord(
        generation=night.generation if has_lake else 0,
        seal=night.seal,
        stamp=() if is_waiting else stamp(layout, local),
        has_bodies=is_pruned or has_bodies(local),
        is_pruned=is_pruned,
    )


def has_bodies(snapshot: Snapshot) -> bool:
    """Return whether all of a night's response bodies are in this home."""
    return all((snapshot.folder / name).is_file() for name in load_manifest(snapshot.folder).stored)


def without_pruning(decisions: Iterable[Decision]) -> tuple[Decision, ...]:
    """Return all decisions except those to prune, because pruning applies to only one machine."""
    return tuple(decision for decision in decisions if decision.state != PRUNED)


def unknown_decisions(decisions: Iterable[Decision], known: Iterable[Decision]) -> list[Decision]:
    """Return the decisions that are not among the known decisions."""
    tokens = {decision.token for decision in known}
    return [decision for decision in decisions if decision.token not in tokens]


def _message(night: Snapshot, new: Sequence[Decision], unshelved: Sequence[Decision]) -> str:
    """Describe the decisions that came from the shelf, and the night's resulting state."""
    if not unshelved:
        return (
            f"Night {night.snapshot_id} was decided on another machine: {_sentence(new)}. It is "
            f"now {night.state} in this home too."
        )
    both = snapshots.merge(unshelved, new)
    return (
        f"Two machines decided on night {night.snapshot_id}: {_sentence(both)}. The latest "
        f"decision applies, so the night is {night.state}. All decisions are in ops.decisions. "
        "To change the result, accept or reject the night again."
    )


def _sentence(decisions: Iterable[Decision]) -> str:
    """Describe decisions with their author, machine, time and reasons."""
    return "; ".join(
        f"{decision.state} by {decision.by}"
        + (f" on {decision.machine}" if decision.machine else "")
        + f" at {decision.at}"
        + (f" ({'; '.join(decision.reasons)[:MAX_REASON_LENGTH]})" if decision.reasons else "")
        for decision in decisions
    )
