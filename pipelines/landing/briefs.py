"""A cache of each night's manifests and decisions, so that a publish does not read years of files.

Most of these files never change once they are written. An entry is created from verified files, and
is valid as long as their inode, size and time are unchanged. The cache file contains only data from
those files. It has a checksum, and is rebuilt if the checksum does not match.
"""

import contextlib
import hashlib
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import msgspec

from pipelines.landing import night_folders, snapshots
from pipelines.landing.manifest import Manifest, load_manifest
from pipelines.landing.night_folders import MANIFEST
from pipelines.landing.snapshots import DECISION, Decision, Snapshot
from warehouse.storage.layout import Layout, edition, written_aside

# The count columns in `ops.snapshots`, each with its name in the lake manifest.
IN_LAKE = {
    "portfolio_count": "portfolios",
    "account_count": "accounts",
    "balance_count": "balances",
    "venue_count": "venues",
    "instrument_count": "instruments",
    "reject_count": "rejects",
    "inexact_count": "inexact",
    "drift_count": "drift",
}
Row = dict[str, Any]
_DAY = len("YYYY-MM-DD")
# Two seconds in nanoseconds. FAT stores file times at this resolution, which is the coarsest.
_TICK = 2_000_000_000


# Exclude briefs from garbage collection, because they have no reference cycles. With years of
# nights, collecting them took as long as reading them.
class Brief(msgspec.Struct, frozen=True, gc=False):
    """A night's cached data: contract, drops, `ops.snapshots` row, and versions of both manifests.

    `contract` is None if the night is not in the lake.
    """

    files: tuple[int, ...]
    contract: str | None
    drops: dict[str, str]
    row: Row


class Decided(msgspec.Struct, frozen=True, gc=False):
    """The decisions on one night, and the version of the file that contains them."""

    file: tuple[int, ...]
    decisions: tuple[Decision, ...]


class _DateFolder(msgspec.Struct, frozen=True, gc=False):
    """A date's snapshot IDs, and the version of the date folder."""

    folder: tuple[int, ...]
    ids: tuple[str, ...]


class _Cache(msgspec.Struct):
    """A home's cache: briefs and decisions by snapshot ID, and date folders by date."""

    briefs: dict[str, Brief] = {}
    decided: dict[str, Decided] = {}
    days: dict[str, _DateFolder] = {}


class Briefs:
    """A home's briefs (cached night data). A brief is rebuilt if one of its files has changed."""

    def __init__(self, layout: Layout, sealed: Callable[[str], Row]) -> None:
        self._layout, self._sealed = layout, sealed
        self._cache = _read(layout.briefs)
        self._landed: dict[str, tuple[int, int, int]] = {}
        self._seen: set[str] = set()
        self._is_changed = False

    def of(self, snapshot: Snapshot) -> Brief:
        """Return a landed night's brief. Raises `DamagedFile` if a manifest was changed."""
        name = snapshot.snapshot_id
        brief = self._cache.briefs.get(name)
        if brief is None or name not in self._seen:
            landed = self._landed.get(name) or edition(f"{snapshot.place}/{MANIFEST}")
            files = (*landed, *edition(f"{self._layout.home}/lake/manifests/{name}.json"))
            if brief is None or brief.files != files:
                brief = self._cache.briefs[name] = self._build(snapshot.folder, files)
                self._is_changed = True
            # Check a night's files only once per command. If the night is not sealed yet, check
            # them every time, because it may be sealed in the meantime.
            if brief.contract is not None:
                self._seen.add(name)
        return brief

    def nights(self) -> list[Snapshot]:
        """Return all landed snapshots, oldest first, as `snapshots.landed_snapshots` does."""
        landing = str(self._layout.landing)
        days = night_folders.dates(self._layout)
        newest = edition(f"{landing}/{days[-1]}") if days else ()
        ids = sorted((each, day) for day in days for each in self._ids(f"{landing}/{day}", newest))
        return [
            self._snapshot(snapshot_id, day, f"{landing}/{day}/{snapshot_id}")
            for snapshot_id, day in ids
            if self._is_landed(snapshot_id, f"{landing}/{day}/{snapshot_id}/{MANIFEST}")
        ]

    def _ids(self, folder: str, newest: tuple[int, ...]) -> tuple[str, ...]:
        """Return the IDs of a date's snapshots.

        Adding or deleting a snapshot changes the date folder's modification time.
        """
        # Two changes within one clock tick get the same timestamp. So cache the list only if the
        # folder is older than the newest date's folder, because any later change then gets a later
        # timestamp.
        now = edition(folder)
        day = self._cache.days.get(folder[-_DAY:])
        if day is None or day.folder != now:
            day = _DateFolder(now, tuple(night_folders.ids_in(folder)))
            if now[-1] + _TICK < newest[-1]:
                self._cache.days[folder[-_DAY:]] = day
                self._is_changed = True
        return day.ids

    def _is_landed(self, snapshot_id: str, manifest: str) -> bool:
        """Return whether the snapshot has a manifest, and remember that file's version."""
        self._landed[snapshot_id] = edition(manifest)
        return any(self._landed[snapshot_id])

    def _snapshot(self, snapshot_id: str, day: date, folder: str) -> Snapshot:
        """Return a snapshot with its decisions, rereading them only if their file has changed."""
        file = edition(f"{folder}/{DECISION}")
        decided = self._cache.decided.get(snapshot_id)
        if decided is None or decided.file != file:
            decided = Decided(file, snapshots.read(Path(folder)).decisions)
            self._cache.decided[snapshot_id] = decided
            self._is_changed = True
        return Snapshot(snapshot_id, day, folder, decided.decisions)

    def _build(self, folder: Path, files: tuple[int, ...]) -> Brief:
        """Build a night's brief from its manifests."""
        sealed = self._sealed(folder.name) if self._layout.manifest(folder.name).is_file() else None
        return Brief(
            files=files,
            contract=sealed.get("contract", "older than digests") if sealed else None,
            drops=sealed.get("facts", {}).get("drops", {}) if sealed else {},
            row=_row(load_manifest(folder), sealed or {}),
        )

    def keep(self) -> None:
        """Save the cache for the next command if anything in it has changed."""
        if self._is_changed:
            content = msgspec.json.encode(self._cache)
            with written_aside(self._layout.briefs) as file:
                file.write(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
            self._is_changed = False


def _read(path: Path) -> _Cache:
    """Read the cache file.

    Return an empty cache if the file is missing or its checksum is wrong.
    """
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        digest, _, content = path.read_bytes().partition(b"\n")
        if hashlib.sha256(content).hexdigest().encode() == digest:
            return msgspec.json.decode(content, type=_Cache)
    return _Cache()


def _row(manifest: Manifest, sealed: Mapping[str, Any]) -> Row:
    """Return the `ops.snapshots` columns that decisions do not change. Timestamps are strings."""
    counts = {**sealed.get("facts", {}).get("counts", {}), **sealed.get("counts", {})}
    return {
        "started_at": manifest.started_at,
        "finished_at": manifest.finished_at,
        "request_count": len(manifest.answers),
        "failed_request_count": sum(1 for answer in manifest.answers if answer.error is not None),
        "byte_count": sum(answer.byte_count or 0 for answer in manifest.answers),
        **{column: counts.get(name) for column, name in IN_LAKE.items()},
        "clock_skew_ms": manifest.clock_skew_ms,
        "stillness": manifest.window.state,
        "moved": "; ".join(manifest.window.moved),
    }
