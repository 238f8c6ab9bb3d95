"""The list of shelved nights, and this home's record of the shelf."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from pipelines.lakehouse.errors import StoreFailed
from pipelines.lakehouse.night_manifest import (
    ADVICE,
    FOLDER,
    NightManifest,
    decode,
    generation_of,
)
from pipelines.lakehouse.object_store import ObjectStore
from pipelines.landing import night_folders
from pipelines.landing.damage import SHELF_RECORD
from pipelines.landing.night_folders import DamagedFile
from pipelines.landing.snapshots import DECISION, Snapshot
from warehouse.contract.model import count_of
from warehouse.contract.states import ACCEPTED, HELD, PRUNED, REJECTED
from warehouse.storage.layout import Layout

LATEST = "LATEST"
JUDGED = (ACCEPTED, HELD, REJECTED)


class LatestPointer(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the object `LATEST`: the newest manifest, and the token of its writer."""

    snapshot_id: str = ""
    generation: int = 0
    manifest: str = ""
    token: str = ""

    @property
    def rank(self) -> tuple[str, int]:
        """A key for comparing pointers, which is larger for newer manifests."""
        return (self.snapshot_id, self.generation)


class NightRecord(msgspec.Struct, frozen=True):
    """The local record of a night: its state when the shelf and this home last agreed.

    `stamp` identifies the versions of the night's files in this home.
    """

    generation: int
    seal: str
    stamp: tuple[int, ...]
    has_bodies: bool
    # True if the night was pruned on the shelf, so that no files can be fetched.
    is_pruned: bool = False


class ShelfRecord(msgspec.Struct, frozen=True):
    """This home's record of a shelf.

    `is_probed` is True if the store has passed the test of its guarantees.
    """

    url: str = ""
    is_probed: bool = False
    nights: Mapping[str, NightRecord] = {}

    @property
    def shelved_nights(self) -> set[str]:
        """The IDs of the nights that were on the shelf when this home last synchronized them."""
        return {snapshot_id for snapshot_id, night in self.nights.items() if night.seal}


def parse_latest(content: bytes) -> LatestPointer:
    """Parse the content of the shelf's object `LATEST`.

    Return an empty pointer if the content is unreadable. The next writer then replaces it.
    """
    with contextlib.suppress(msgspec.MsgspecError):
        return msgspec.json.decode(content, type=LatestPointer)
    return LatestPointer()


def newest_manifests(store: ObjectStore, known: Iterable[str] = ()) -> dict[str, str]:
    """List the manifests on the shelf. Map each snapshot ID to its newest manifest's key.

    Raises `DamagedFile` if the store's list of manifests does not contain the manifest in `LATEST`.
    The list is then incomplete, and a missing night would look as if it had never existed. Raises
    `StoreFailed` if one of the `known` nights is missing, for example in the empty folder of a disk
    that is not mounted.
    """
    # Read `LATEST` before the list. If the list is complete, it contains the manifest in `LATEST`.
    latest = store.get(LATEST)
    keys = store.list(f"{FOLDER}/")
    latest_key = parse_latest(latest.content).manifest if latest else ""
    if latest_key and latest_key not in keys:
        raise DamagedFile(
            Path(FOLDER),
            f"{count_of(len(keys), 'manifest')} without {latest_key}",
            "that manifest",
            ADVICE,
        )
    newest: dict[str, tuple[int, str]] = {}
    for key in keys:
        snapshot_id, generation = generation_of(key)
        if snapshot_id and generation > newest.get(snapshot_id, (0, ""))[0]:
            newest[snapshot_id] = (generation, key)
    if lost := sorted(set(known) - newest.keys()):
        raise StoreFailed(
            store.address.url,
            f"list {lost[-1]}",
            f"{count_of(len(lost), 'night')} that this home found there earlier "
            f"{'is' if len(lost) == 1 else 'are'} missing. Check that the store is mounted and its "
            "address is correct. If those nights were deleted, remove shelf.json from this home to "
            "shelve all nights again",
        )
    return {snapshot_id: key for snapshot_id, (_, key) in sorted(newest.items())}


def read_night(store: ObjectStore, key: str) -> NightManifest:
    """Read a manifest from the shelf. Raises `DamagedFile` if the manifest was changed."""
    content = store.get(key)
    if content is None:
        raise StoreFailed(store.address.url, f"return {key}", "it was listed, but is missing")
    return decode(content.content, key)


def read_record(layout: Layout, url: str) -> ShelfRecord:
    """Read this home's record of a shelf.

    If the shelf's address has changed, return a new record. It contains only the nights whose
    bodies are not in this home.
    """
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
    """Save this home's record of the shelf, atomically."""
    night_folders.write(layout.home / SHELF_RECORD, msgspec.to_builtins(record))


def waiting_nights(layout: Layout, url: str, nights: Sequence[Snapshot]) -> list[Snapshot]:
    """Return the nights that must be shelved, according to the local record."""
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


def stamp(layout: Layout, snapshot: Snapshot) -> tuple[int, ...]:
    """Return the modification times and sizes of a night's decision file and lake manifest."""
    return _version(snapshot.folder / DECISION) + _version(layout.manifest(snapshot.snapshot_id))


def _is_to_be_shelved(layout: Layout, snapshot: Snapshot) -> bool:
    """Return whether a night belongs on the shelf.

    A night belongs there if it is judged and in the lake, or has a later decision than its pruning.
    """
    if snapshot.state in JUDGED:
        return layout.manifest(snapshot.snapshot_id).is_file()
    # A pruned night is shelved again only if it has later decisions.
    pruned, *later_decisions = reversed(snapshot.decisions) if snapshot.state == PRUNED else (None,)
    return pruned is not None and any(
        datetime.fromisoformat(later.at) > datetime.fromisoformat(pruned.at)
        for later in later_decisions
    )


def _version(path: Path) -> tuple[int, ...]:
    """Return a file's modification time and size, or an empty tuple if the file is missing."""
    with contextlib.suppress(OSError):
        status = path.stat()
        return status.st_mtime_ns, status.st_size
    return ()


def _read(layout: Layout) -> ShelfRecord:
    """Read this home's record, or return an empty record if the file is missing or damaged."""
    with contextlib.suppress(DamagedFile, msgspec.ValidationError):
        if (layout.home / SHELF_RECORD).is_file():
            return msgspec.convert(night_folders.read(layout.home / SHELF_RECORD), ShelfRecord)
    return ShelfRecord()
