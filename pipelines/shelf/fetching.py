"""Nights come from the shelf into a home that is to show them: all that is there and not here.

Killed at any instant, the next fetch goes on from there.
"""

from dataclasses import dataclass

from pipelines.landing import night_folders, snapshots
from pipelines.shelf import night_files, object_keys, shelf_list
from pipelines.shelf.arrival import Arrival
from pipelines.shelf.local_record import NightRecord, ShelfRecord, read_record, write_record
from pipelines.shelf.merging import Tell
from pipelines.shelf.night_manifest import UNUSABLE
from pipelines.shelf.object_store import ObjectStore
from warehouse.progress import Say, Tally, silent
from warehouse.storage.layout import Layout

NOTED = 25  # nights after which what is done is noted


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    """Nights that came or changed, how many the shelf holds, and why others did not come."""

    fetched: tuple[str, ...]
    on_shelf: int
    problems: tuple[str, ...]


def fetch(
    layout: Layout,
    store: ObjectStore,
    say: Say = silent,
    tell: Tell = lambda _: None,
    *,
    with_landing: bool = False,
) -> FetchResult:
    """Bring a home up to the shelf; the caller is its writer, and settles and publishes then.

    Decisions made here that the shelf does not have are merged with those of the shelf, and wait to
    be shelved; `tell` hears of them. The shelf is only read.
    Raises `StoreFailed`, and `Damaged` where the list of the shelf is not whole.
    """
    url = store.address.url
    record = read_record(layout, url)
    newest = shelf_list.newest_manifests(store, record.shelved_nights)
    wanted = [
        key
        for key in newest.values()
        if not _is_here(layout, record, key, with_landing=with_landing)
    ]
    progress, problems = Tally(say, len(wanted), "nights fetched"), list[str]()
    done: dict[str, NightRecord] = {}
    for number, key in enumerate(wanted, 1):
        try:
            night = shelf_list.read_night(store, key)
            arrival = Arrival.of(layout, store, night, with_landing=with_landing)
            done[night.snapshot_id] = arrival.take(tell)
        except UNUSABLE as error:
            problems.append(str(error))
        progress.add(1)
        if number % NOTED == 0 or number == len(wanted):
            nights = {**record.nights, **done}
            write_record(layout, ShelfRecord(url, is_probed=record.is_probed, nights=nights))
    return FetchResult(fetched=tuple(done), on_shelf=len(newest), problems=tuple(problems))


def _is_here(layout: Layout, record: ShelfRecord, key: str, *, with_landing: bool) -> bool:
    """Return whether a night is here as its newest manifest says, without reading that."""
    snapshot_id, generation = object_keys.generation_of(key)
    night = record.nights.get(snapshot_id)
    return (
        night is not None
        and night.generation == generation
        and (night.is_pruned or layout.manifest(snapshot_id).is_file())
        and (night.is_pruned or not with_landing or _has_bodies(layout, snapshot_id))
    )


def _has_bodies(layout: Layout, snapshot_id: str) -> bool:
    """Return whether the bodies of a night are here; they may have been lost since it came."""
    folder = night_folders.folder_of(layout, snapshot_id)
    return folder is not None and night_files.has_bodies(snapshots.read(folder))
