"""The deletion of pruned nights from the shelf."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

from pipelines.lakehouse.decisions import require_same_answers
from pipelines.lakehouse.night_manifest import UNUSABLE, NightManifest
from pipelines.lakehouse.object_store import ObjectStore
from pipelines.lakehouse.shelf_list import newest_manifests, read_night
from pipelines.lakehouse.shelving import Shelver
from pipelines.lakehouse.transfer import Transfer
from pipelines.landing import snapshots
from pipelines.landing.snapshots import Snapshot, merge
from warehouse.contract.states import PRUNED

FOLDERS = ("landing/", "lake/")


@dataclass(frozen=True, slots=True)
class ShelfPruneResult(Transfer):
    """The nights pruned from the shelf, problems with other nights, and the deleted objects.

    `objects` maps each object's key to its size.
    """

    objects: Mapping[str, int] = field(default_factory=dict)


def prune_shelf(
    shelver: Shelver,
    forget: Callable[[Collection[str]], object],
    would_go: Collection[str] = (),
    *,
    dry_run: bool,
) -> ShelfPruneResult:
    """Delete the objects of pruned nights from the shelf. With `dry_run`, only list them.

    `forget` is called before any object is deleted. It removes the nights from the Iceberg tables,
    which refer to their objects. In a dry run, `would_go` contains the nights to be pruned in this
    home. Raises `StoreFailed`.
    """
    pruned = [
        snapshot
        for snapshot in snapshots.landed_snapshots(shelver.layout)
        if snapshot.state == PRUNED or snapshot.snapshot_id in would_go
    ]
    objects = _objects(shelver.store, {snapshot.snapshot_id for snapshot in pruned})
    going = [snapshot for snapshot in pruned if snapshot.snapshot_id in objects]
    problems = list[str]()
    if going and not dry_run:
        forget([snapshot.snapshot_id for snapshot in going])
        going, problems = _mark(shelver, going)
    names = tuple(snapshot.snapshot_id for snapshot in going)
    gone = {key: size for name in names for key, size in objects[name].items()}
    if gone and not dry_run:
        shelver.store.delete([*gone])
    return ShelfPruneResult(names, tuple(problems), objects=gone)


def _objects(store: ObjectStore, snapshot_ids: Collection[str]) -> dict[str, dict[str, int]]:
    """Return the large objects of these nights on the shelf, including leftovers of killed runs."""
    objects: dict[str, dict[str, int]] = {}
    for folder in FOLDERS:
        for key, size in store.list(folder).items():
            snapshot_id = key.rpartition("/")[2].partition("-")[0]
            if snapshot_id in snapshot_ids:
                objects.setdefault(snapshot_id, {})[key] = size
    return objects


def _mark(shelver: Shelver, nights: list[Snapshot]) -> tuple[list[Snapshot], list[str]]:
    """Mark nights as pruned on the shelf by writing a new generation of each night's manifest.

    Return the nights for which this succeeded, and the problems with other nights.
    """
    newest, marked, problems = newest_manifests(shelver.store), list[Snapshot](), list[str]()
    for snapshot in nights:
        next_generation = partial(_pruned_generation, shelver, snapshot)
        try:
            if (key := newest.get(snapshot.snapshot_id)) is not None:
                before = read_night(shelver.store, key)
                shelver.commit(before, next_generation(before), next_generation)
            marked.append(snapshot)  # If a killed run left no manifest, there is nothing to mark.
        except UNUSABLE as error:
            problems.append(str(error))
    return marked, problems


def _pruned_generation(
    shelver: Shelver, snapshot: Snapshot, before: NightManifest
) -> NightManifest:
    """Build the next manifest, which marks the night as pruned, unless `before` already does."""
    if before.state == PRUNED:
        return before
    require_same_answers(snapshot, before)
    decisions = merge(snapshot.decisions, before.decisions)
    return shelver.generation(snapshot, before, decisions, before.documents, files=())
