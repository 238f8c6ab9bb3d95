"""What this home knows of the shelf, in `shelf.json`: which nights are on it as they are here.

It can be made again from the shelf. It also says which nights came from there without their bodies,
so that nobody looks for those on this machine.
"""

import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from pipelines.landing import sealed_json
from pipelines.landing.sealed_json import Damaged
from pipelines.landing.snapshots import DECISION, Snapshot
from warehouse.contract.states import ACCEPTED, HELD, PRUNED, REJECTED
from warehouse.storage.layout import Layout

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
    sealed_json.write(layout.home / RECORD, msgspec.to_builtins(record))


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
            return msgspec.convert(sealed_json.read(layout.home / RECORD), ShelfRecord)
    return ShelfRecord()
