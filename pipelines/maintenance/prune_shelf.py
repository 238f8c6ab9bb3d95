"""Pruned nights go from the shelf too: what points at them first, then their objects.

What stays for ever there is what stays at home: manifests and decisions. A night's next generation
says that it is pruned and names no file; killed before its objects are gone, the next time deletes
them.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from pipelines.landing import snapshots
from pipelines.landing.snapshots import Snapshot, merge
from pipelines.shelf.merging import require_same_answers
from pipelines.shelf.night_manifest import UNUSABLE, NightManifest
from pipelines.shelf.object_store import ObjectStore, StoredObject
from pipelines.shelf.shelf_list import newest_manifests, read_night
from pipelines.shelf.shelving import Shelver
from warehouse.contract.states import PRUNED

ROOMS = ("landing/", "lake/")


@dataclass(frozen=True, slots=True)
class ShelfPruneResult:
    """Nights that went from the shelf, their objects, and why others did not."""

    snapshots: tuple[str, ...]
    objects: tuple[StoredObject, ...]
    problems: tuple[str, ...] = ()


def prune_shelf(
    shelver: Shelver,
    forget: Callable[[Collection[str]], None],
    would_go: Collection[str] = (),
    *,
    dry_run: bool,
) -> ShelfPruneResult:
    """Delete what the shelf holds of nights that are pruned here; `dry_run` only says what.

    `forget` takes them out of whatever else points at their objects, before anything goes;
    `would_go` are nights that a dry run has not pruned. Raises `StoreFailed`.
    """
    pruned = [
        snapshot
        for snapshot in snapshots.landed_snapshots(shelver.layout)
        if snapshot.state == PRUNED or snapshot.snapshot_id in would_go
    ]
    objects = _objects(shelver.store, {snapshot.snapshot_id for snapshot in pruned})
    going = [snapshot for snapshot in pruned if snapshot.snapshot_id in objects]
    if going and not dry_run:
        forget([snapshot.snapshot_id for snapshot in going])
        going, problems = _mark(shelver, going)
        keys = [item.key for snapshot in going for item in objects[snapshot.snapshot_id]]
        shelver.store.delete(keys)
    else:
        problems = []
    names = tuple(snapshot.snapshot_id for snapshot in going)
    gone = tuple(item for name in names for item in objects[name])
    return ShelfPruneResult(names, gone, tuple(problems))


def _objects(store: ObjectStore, snapshot_ids: Collection[str]) -> dict[str, list[StoredObject]]:
    """Return the large objects of some nights, also those that a dead run left unnamed."""
    objects: dict[str, list[StoredObject]] = {}
    for room in ROOMS:
        for item in store.list(room):
            snapshot_id = item.key.rpartition("/")[2].partition("-")[0]
            if snapshot_id in snapshot_ids:
                objects.setdefault(snapshot_id, []).append(item)
    return objects


def _mark(shelver: Shelver, nights: list[Snapshot]) -> tuple[list[Snapshot], list[str]]:
    """Write the generation that says that a night is pruned; returns those, and why others not."""
    newest, marked, problems = newest_manifests(shelver.store), list[Snapshot](), list[str]()
    for snapshot in nights:

        def next_generation(before: NightManifest, snapshot: Snapshot = snapshot) -> NightManifest:
            return _pruned_generation(shelver, snapshot, before)

        try:
            if (key := newest.get(snapshot.snapshot_id)) is not None:
                before = read_night(shelver.store, key)
                shelver.commit(before, next_generation(before), next_generation)
            marked.append(snapshot)  # without a manifest there is only what a dead run uploaded
        except UNUSABLE as error:
            problems.append(str(error))
    return marked, problems


def _pruned_generation(
    shelver: Shelver, snapshot: Snapshot, before: NightManifest
) -> NightManifest:
    """Return the generation of a night that is pruned, or the one before if it says so already."""
    if before.state == PRUNED:
        return before
    require_same_answers(snapshot, before)
    decisions = merge(snapshot.decisions, before.decisions)
    return shelver.generation(snapshot, before, decisions, before.documents, files=())
