"""The list of shelved nights, and the local record of it."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from pipelines.landing import night_folders
from pipelines.landing.night_folders import Damaged
from pipelines.landing.snapshots import DECISION, Snapshot
from pipelines.shelf.night_manifest import ADVICE, NightManifest, decode
from pipelines.shelf.object_store import FOLDER, LATEST, ObjectStore, StoreFailed, generation_of
from warehouse.contract.model import count_of
from warehouse.contract.states import ACCEPTED, HELD, PRUNED, REJECTED
from warehouse.storage.layout import Layout


class LatestPointer(msgspec.Struct, frozen=True, kw_only=True):
    """What `LATEST` holds: the newest manifest, and the token of the run that wrote it."""

    snapshot_id: str = ""
    generation: int = 0
    manifest: str = ""
    token: str = ""

    @property
    def rank(self) -> tuple[str, int]:
        """What a newer one has more of."""
        return (self.snapshot_id, self.generation)


def parse_latest(content: bytes) -> LatestPointer:
    """Return what `LATEST` says; nothing where it is not readable, and the next writer mends it."""
    with contextlib.suppress(msgspec.MsgspecError):
        return msgspec.json.decode(content, type=LatestPointer)
    return LatestPointer()


def newest_manifests(store: ObjectStore, known: Iterable[str] = ()) -> dict[str, str]:
    """Return the key of the newest generation of each night, by its id.

    Raises `Damaged` where the store does not list what `LATEST` names: of a list that is not whole,
    a night that is missing would look like one that never was. Raises `StoreFailed` if one of the
    `known` nights is missing, as in the empty folder of a disk that is not mounted.
    """
    latest = store.get(LATEST)  # read first: what is named by then must be listed
    keys = [entry.key for entry in store.list(f"{FOLDER}/")]
    named = parse_latest(latest.content).manifest if latest else ""
    if named and named not in keys:
        raise Damaged(Path(FOLDER), f"a list of {len(keys)} without {named}", "it", ADVICE)
    newest: dict[str, tuple[int, str]] = {}
    for key in keys:
        snapshot_id, generation = generation_of(key)
        if snapshot_id and generation > newest.get(snapshot_id, (0, ""))[0]:
            newest[snapshot_id] = (generation, key)
    if lost := sorted(set(known) - newest.keys()):
        raise StoreFailed(
            store.address.url,
            f"list {lost[-1]}",
            f"{count_of(len(lost), 'night')} that this home found there before "
            f"{'is' if len(lost) == 1 else 'are'} missing. Is the store mounted, and its address "
            "right? If they were deleted, remove shelf.json in this home to shelve all again",
        )
    return {snapshot_id: key for snapshot_id, (_, key) in sorted(newest.items())}


def read_night(store: ObjectStore, key: str) -> NightManifest:
    """Read a manifest that is listed; raises `Damaged` where it is not as it was written."""
    content = store.get(key)
    if content is None:
        raise StoreFailed(store.address.url, f"give {key}", "it was listed, and is not there")
    return decode(content.content, key)


RECORD = "shelf.json"
JUDGED = (ACCEPTED, HELD, REJECTED)


class NightRecord(msgspec.Struct, frozen=True):
    """A night as it was when shelf and home agreed; `stamp` is of the files that may change."""

    generation: int
    seal: str
    stamp: tuple[int, ...]
    has_bodies: bool
    is_pruned: bool = False  # on the shelf, so that there is nothing to come


class ShelfRecord(msgspec.Struct, frozen=True):
    """Of one shelf: by its address, whether it kept its word, and the nights by id."""

    url: str = ""
    is_probed: bool = False
    nights: Mapping[str, NightRecord] = {}

    @property
    def shelved_nights(self) -> set[str]:
        """The nights that this home found on that shelf."""
        return {snapshot_id for snapshot_id, night in self.nights.items() if night.seal}


def read_record(layout: Layout, url: str) -> ShelfRecord:
    """Return what is known of a shelf: of another than the last only whose bodies are here."""
    record = _read(layout)
    if record.url == url:
        return record
    nights = {
        snapshot_id: NightRecord(0, "", (), has_bodies=False)
        for snapshot_id, night in record.nights.items()
        if not night.has_bodies
    }
    return ShelfRecord(url, nights=nights)


def write_record(layout: Layout, record: ShelfRecord) -> None:
    """Keep what is known, whole or not at all."""
    night_folders.write(layout.home / RECORD, msgspec.to_builtins(record))


def without_bodies(layout: Layout) -> set[str]:
    """Return the nights that came from a shelf without their bodies."""
    return {name for name, night in _read(layout).nights.items() if not night.has_bodies}


def waiting_nights(layout: Layout, url: str, nights: Sequence[Snapshot]) -> list[Snapshot]:
    """Return the judged nights that are not on a shelf as they are now; the store is not asked."""
    known = read_record(layout, url).nights
    return [
        snapshot
        for snapshot in nights
        if _is_to_be_shelved(layout, snapshot)
        and (
            (night := known.get(snapshot.snapshot_id)) is None
            or night.stamp != stamp(layout, snapshot)
        )
    ]


def _is_to_be_shelved(layout: Layout, snapshot: Snapshot) -> bool:
    if snapshot.state in JUDGED:
        return layout.manifest(snapshot.snapshot_id).is_file()
    # A pruned night stays on the shelf as it was, but for what was decided after it was pruned.
    pruned, *others = reversed(snapshot.decisions) if snapshot.state == PRUNED else (None,)
    return pruned is not None and any(
        datetime.fromisoformat(other.at) > datetime.fromisoformat(pruned.at) for other in others
    )


def stamp(layout: Layout, snapshot: Snapshot) -> tuple[int, ...]:
    """Return what tells whether a night's decisions or tables were written again."""
    return _times(snapshot.folder / DECISION) + _times(layout.manifest(snapshot.snapshot_id))


def _times(path: Path) -> tuple[int, ...]:
    with contextlib.suppress(OSError):
        status = path.stat()
        return status.st_mtime_ns, status.st_size
    return ()


def _read(layout: Layout) -> ShelfRecord:
    with contextlib.suppress(Damaged, msgspec.ValidationError):
        if (layout.home / RECORD).is_file():
            return msgspec.convert(night_folders.read(layout.home / RECORD), ShelfRecord)
    return ShelfRecord()
