"""A cache of data from each night's manifests and decisions.

With this cache, publishing does not have to read years of files. Most of these files never change
once they are written. An entry is created from verified files, and is valid as long as their inode,
size and time are unchanged. The cache file contains only data from those files. It has a checksum,
and is rebuilt if the checksum does not match.
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
from warehouse.storage.layout import Layout, edition, write_bytes

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


# The garbage collector skips briefs, because they have no reference cycles. With years of nights,
# scanning them took as long as reading them.
class Brief(msgspec.Struct, frozen=True, gc=False):
    """A night's cached data: contract, drops, `ops.snapshots` row, and both manifests' versions.

    `files` contains the inode, size and time of both manifests. `contract` is None if the night is
    not in the lake. `row` is the night's row in `ops.snapshots`.
    """

    files: tuple[int, ...]
    contract: str | None
    drops: dict[str, str]
    row: Row


class Decided(msgspec.Struct, frozen=True, gc=False):
    """The cached decisions on a night, and the version of the file from which they were read."""

    file: tuple[int, ...]
    decisions: tuple[Decision, ...]


class _Cache(msgspec.Struct):
    """The content of a home's cache file: briefs and decisions by snapshot ID."""

    briefs: dict[str, Brief] = {}
    decided: dict[str, Decided] = {}


class Briefs:
    """A home's briefs (cached night data). A brief is rebuilt if one of its files has changed."""

    def __init__(self, layout: Layout, sealed: Callable[[str], Row]) -> None:
        self._layout, self._sealed = layout, sealed
        self._cache = _read(layout.briefs)
        self._seen: set[str] = set()
        self._is_changed = False

    def of(self, snapshot: Snapshot) -> Brief:
        """Return a landed night's cached data. Raises `DamagedFile` if a manifest was changed."""
        name = snapshot.snapshot_id
        brief = self._cache.briefs.get(name)
        if brief is None or name not in self._seen:
            landed = edition(f"{snapshot.folder}/{MANIFEST}")
            files = (*landed, *edition(f"{self._layout.home}/lake/manifests/{name}.json"))
            # Earlier versions cached rows without some columns.
            if brief is None or brief.files != files or "origin" not in brief.row:
                brief = self._cache.briefs[name] = self._build(snapshot.folder, files)
                self._is_changed = True
            # Check once per command whether a night's files have changed. If the night is not
            # sealed yet, check every time, because it may be sealed in the meantime.
            if brief.contract is not None:
                self._seen.add(name)
        return brief

    def nights(self) -> list[Snapshot]:
        """Return all landed snapshots, oldest first, as `snapshots.landed_snapshots` does."""
        return [self._snapshot(folder) for folder in night_folders.folders(self._layout)]

    def _snapshot(self, folder: Path) -> Snapshot:
        """Return a snapshot with its decisions. Read the decision file only if it has changed."""
        file = edition(f"{folder}/{DECISION}")
        decided = self._cache.decided.get(folder.name)
        if decided is None or decided.file != file:
            decided = Decided(file, snapshots.read(folder).decisions)
            self._cache.decided[folder.name] = decided
            self._is_changed = True
        day = date.fromisoformat(folder.parent.name)
        return Snapshot(folder.name, day, folder, decided.decisions)

    def _build(self, folder: Path, files: tuple[int, ...]) -> Brief:
        """Read a night's manifests, and build its cached data from them."""
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
            digest = hashlib.sha256(content).hexdigest().encode()
            write_bytes(self._layout.briefs, digest + b"\n" + content)
            self._is_changed = False


def _read(path: Path) -> _Cache:
    """Read the cache file of a home.

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
        "origin": manifest.origin,
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
