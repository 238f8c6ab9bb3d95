"""What publishing needs of each night's manifests and decisions, so that years are not read.

None of these files changes once it is written, so a brief is taken when they were proved, and holds
as long as they are the same by inode, size and time. The file of briefs proves itself, and is made
again wherever it is not what was written: nothing is in it that those files do not say.
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

# Columns of a snapshot that the lake's manifest counts, by what it calls them.
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
_TICK = 2_000_000_000  # nanoseconds: the coarsest clock of a file system, FAT's


# Without cycles, so without garbage collection: of years of nights it took as long as reading them.
class Brief(msgspec.Struct, frozen=True, gc=False):
    """One night in brief, and the two files as they were: contract, moves, and columns of its row.

    `contract` is None where the lake has nothing of it.
    """

    files: tuple[int, ...]
    contract: str | None
    drops: dict[str, str]
    row: Row


class Decided(msgspec.Struct, frozen=True, gc=False):
    """What was decided on one night, and the file that says so as it was."""

    file: tuple[int, ...]
    decisions: tuple[Decision, ...]


class _DateFolder(msgspec.Struct, frozen=True, gc=False):
    """The ids of the snapshots of one date, and its folder as it was."""

    folder: tuple[int, ...]
    ids: tuple[str, ...]


class _Known(msgspec.Struct):
    """What is known of a home: by the ids of its nights, and by its dates."""

    briefs: dict[str, Brief] = {}
    decided: dict[str, Decided] = {}
    days: dict[str, _DateFolder] = {}


class Briefs:
    """The briefs of a home, for one command: each is taken again where a file is another one."""

    def __init__(self, layout: Layout, sealed: Callable[[str], Row]) -> None:
        self._layout, self._sealed = layout, sealed
        self._known = _read(layout.briefs)
        self._landed: dict[str, tuple[int, int, int]] = {}
        self._seen: set[str] = set()
        self._is_changed = False

    def of(self, snapshot: Snapshot) -> Brief:
        """Return that of a landed night; raises `Damaged` where a manifest is not as written."""
        name = snapshot.snapshot_id
        brief = self._known.briefs.get(name)
        if brief is None or name not in self._seen:
            landed = self._landed.get(name) or edition(f"{snapshot.place}/{MANIFEST}")
            files = (*landed, *edition(f"{self._layout.home}/lake/manifests/{name}.json"))
            if brief is None or brief.files != files:
                brief = self._known.briefs[name] = self._take(snapshot.folder, files)
                self._is_changed = True
            # Once a command: that of a night which has not been sealed yet is no answer for later.
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
        """Return the snapshots of a date: what comes into a folder or goes changes its time."""
        # Two changes within a tick of the clock leave the same time. A list is remembered only of a
        # folder that is older than that of the newest date: what comes after it has a later time.
        now = edition(folder)
        day = self._known.days.get(folder[-_DAY:])
        if day is None or day.folder != now:
            day = _DateFolder(now, tuple(night_folders.ids_in(folder)))
            if now[-1] + _TICK < newest[-1]:
                self._known.days[folder[-_DAY:]] = day
                self._is_changed = True
        return day.ids

    def _is_landed(self, snapshot_id: str, manifest: str) -> bool:
        self._landed[snapshot_id] = edition(manifest)
        return any(self._landed[snapshot_id])

    def _snapshot(self, snapshot_id: str, day: date, folder: str) -> Snapshot:
        file = edition(f"{folder}/{DECISION}")
        decided = self._known.decided.get(snapshot_id)
        if decided is None or decided.file != file:
            decided = Decided(file, snapshots.read(Path(folder)).decisions)
            self._known.decided[snapshot_id] = decided
            self._is_changed = True
        return Snapshot(snapshot_id, day, folder, decided.decisions)

    def _take(self, folder: Path, files: tuple[int, ...]) -> Brief:
        sealed = self._sealed(folder.name) if self._layout.manifest(folder.name).is_file() else None
        return Brief(
            files=files,
            contract=sealed.get("contract", "older than digests") if sealed else None,
            drops=sealed.get("facts", {}).get("drops", {}) if sealed else {},
            row=_row(load_manifest(folder), sealed or {}),
        )

    def keep(self) -> None:
        """Write the briefs for the next command, where one is new."""
        if self._is_changed:
            content = msgspec.json.encode(self._known)
            with written_aside(self._layout.briefs) as file:
                file.write(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
            self._is_changed = False


def _read(path: Path) -> _Known:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        digest, _, content = path.read_bytes().partition(b"\n")
        if hashlib.sha256(content).hexdigest().encode() == digest:
            return msgspec.json.decode(content, type=_Known)
    return _Known()


def _row(manifest: Manifest, sealed: Mapping[str, Any]) -> Row:
    """Return the columns of `ops.snapshots` that no decision changes; times as text."""
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
