"""Decisions of several machines on one night: a home and the shelf each get the union of both.

A night is pruned on the machine that pruned it, and on the shelf by `prune --shelf`. So a pruning
is the one decision that a home does not take over, and that the shelf takes over only then.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipelines.landing import snapshots
from pipelines.landing.night_folders import MANIFEST
from pipelines.landing.snapshots import DECISION, Decision, Snapshot
from pipelines.shelf import night_files
from pipelines.shelf.local_record import NightRecord, ShelfRecord, read_record, stamp
from pipelines.shelf.night_manifest import UNUSABLE, AnotherWriter, Document, NightManifest
from pipelines.shelf.object_keys import generation_of
from pipelines.shelf.object_store import ObjectStore
from pipelines.shelf.shelf_list import newest_manifests, read_night
from warehouse.contract.states import PRUNED
from warehouse.storage.layout import Layout, written_aside

LONGEST = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedNight:
    """A night whose decisions in this home were completed from the shelf: before and after.

    `is_conflict` says whether both had decisions that the other did not have.
    """

    before: Snapshot
    after: Snapshot
    is_conflict: bool
    message: str


Tell = Callable[[FollowedNight], object]


def follow(snapshot: Snapshot, night: NightManifest, tell: Tell) -> Snapshot:
    """Complete the decisions of a night in this home by those of the shelf; tells what came.

    Raises `AnotherWriter` if the shelf's night is of other answers.
    """
    require_same_answers(snapshot, night)
    theirs = without_pruning(night.decisions)
    merged = snapshots.merge(snapshot.decisions, theirs)
    if merged == snapshot.decisions:
        return snapshot
    if merged == night.decisions:
        with written_aside(snapshot.folder / DECISION) as file:
            file.write(night.documents[Document.DECIDED].encode())
        after = snapshots.read(snapshot.folder)
    else:
        after = snapshots.write_decisions(snapshot, merged)
    new = unknown_decisions(theirs, snapshot.decisions)
    own = unknown_decisions(without_pruning(snapshot.decisions), theirs)
    tell(
        FollowedNight(
            before=snapshot,
            after=after,
            is_conflict=bool(new and own),
            message=_message(after, new, own),
        )
    )
    return after


def require_same_answers(snapshot: Snapshot, night: NightManifest) -> None:
    """Raise `AnotherWriter` if a home and the shelf have two nights of one name."""
    if (snapshot.folder / MANIFEST).read_bytes() != night.documents[Document.LANDED].encode():
        raise AnotherWriter(night)


def follow_shelf(
    layout: Layout, store: ObjectStore, nights: Iterable[Snapshot], tell: Tell
) -> None:
    """Complete the decisions of a home from the shelf, which is only read.

    A night that cannot be read is left to `nightbook shelve`, which names it. Raises `StoreFailed`,
    and `Damaged` if the list of the shelf is not whole.
    """
    record = read_record(layout, store.address.url)
    newest = newest_manifests(store, record.shelved_nights)
    for snapshot in behind(nights, newest, record):
        with contextlib.suppress(*UNUSABLE):
            follow(snapshot, read_night(store, newest[snapshot.snapshot_id]), tell)


def behind(
    nights: Iterable[Snapshot], newest: Mapping[str, str], record: ShelfRecord
) -> Iterator[Snapshot]:
    """Yield the nights of a home of which the shelf has another generation than the home knows."""
    for snapshot in nights:
        if (key := newest.get(snapshot.snapshot_id)) is not None:
            known = record.nights.get(snapshot.snapshot_id)
            if known is None or known.generation != generation_of(key)[1]:
                yield snapshot


def agreement(layout: Layout, here: Snapshot, night: NightManifest) -> NightRecord:
    """Return what is noted of a night whose home and newest generation were compared.

    Decisions that the shelf does not have wait to be shelved. A lake of another generation waits to
    be fetched.
    """
    is_pruned = PRUNED in (here.state, night.state)
    lake = layout.manifest(here.snapshot_id)
    has_lake = is_pruned or (
        lake.is_file() and lake.read_text(encoding="utf-8") == night.documents[Document.LAKE]
    )
    is_waiting = unknown_decisions(without_pruning(here.decisions), night.decisions)
    return NightRecord(
        generation=night.generation if has_lake else 0,
        seal=night.seal,
        stamp=() if is_waiting else stamp(layout, here),
        has_bodies=is_pruned or night_files.has_bodies(here),
        is_pruned=is_pruned,
    )


def without_pruning(decisions: Iterable[Decision]) -> tuple[Decision, ...]:
    """Return the decisions that concern every machine."""
    return tuple(decision for decision in decisions if decision.state != PRUNED)


def unknown_decisions(decisions: Iterable[Decision], known: Iterable[Decision]) -> list[Decision]:
    """Return the decisions that are not among those that are known."""
    tokens = {decision.token for decision in known}
    return [decision for decision in decisions if decision.token not in tokens]


def _message(night: Snapshot, new: Sequence[Decision], own: Sequence[Decision]) -> str:
    """Say what came from the shelf, and what applies if this machine had decided as well."""
    if not own:
        return (
            f"Night {night.snapshot_id} was decided on another machine: {_sentence(new)}. It is "
            f"{night.state} here, too."
        )
    both = snapshots.merge(own, new)
    return (
        f"Two machines decided on night {night.snapshot_id}: {_sentence(both)}. The newest "
        f"decision applies: the night is {night.state}. All of them are in ops.decisions; to "
        "change the result, accept or reject the night again."
    )


def _sentence(decisions: Iterable[Decision]) -> str:
    return "; ".join(
        f"{decision.state} by {decision.by}"
        + (f" on {decision.machine}" if decision.machine else "")
        + f" at {decision.at}"
        + (f" ({'; '.join(decision.reasons)[:LONGEST]})" if decision.reasons else "")
        for decision in decisions
    )
