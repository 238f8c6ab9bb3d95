"""What publishing needs of each night's manifests and decisions, so that years are not read.

None of these files changes once it is written, so a brief is taken when they were proved, and holds
as long as they are the same by inode, size and time. The file of briefs proves itself, and is made
again wherever it is not what was written: nothing is in it that those files do not say.
"""

import contextlib
import hashlib
from collections.abc import Callable, Mapping
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


class Brief(msgspec.Struct, frozen=True):
    """One night in brief, and the two files as they were: contract, moves, and columns of its row.

    `contract` is None where the lake has nothing of it.
    """

    files: tuple[int, ...]
    contract: str | None
    drops: dict[str, str]
    row: Row


class Decided(msgspec.Struct, frozen=True):
    """What was decided on one night, and the file that says so as it was."""

    file: tuple[int, ...]
    decisions: tuple[Decision, ...]


class _Known(msgspec.Struct):
    """What is known of a home, by the ids of its nights."""

    briefs: dict[str, Brief] = {}
    decided: dict[str, Decided] = {}


class Briefs:
    """The briefs of a home, for one command: each is taken again where a file is another one."""

    def __init__(self, layout: Layout, sealed: Callable[[str], Row]) -> None:
        self._layout, self._sealed = layout, sealed
        self._known = _read(layout.briefs)
        self._seen: set[str] = set()
        self._is_changed = False

    def of(self, folder: Path) -> Brief:
        """Return that of a landed night; raises `Damaged` where a manifest is not as written."""
        name = folder.name
        known = self._known.briefs.get(name)
        if known is None or name not in self._seen:
            files = (
                *edition(f"{folder}/{MANIFEST}"),
                *edition(f"{self._layout.home}/lake/manifests/{name}.json"),
            )
            if known is None or known.files != files:
                known = self._known.briefs[name] = self._take(folder, files)
                self._is_changed = True
            # Once a command: that of a night which has not been sealed yet is no answer for later.
            if known.contract is not None:
                self._seen.add(name)
        return known

    def nights(self) -> list[Snapshot]:
        """Return all landed snapshots, oldest first, as `snapshots.landed_snapshots` does."""
        return [self._snapshot(folder) for folder in night_folders.folders(self._layout)]

    def _snapshot(self, folder: Path) -> Snapshot:
        file, name = edition(f"{folder}/{DECISION}"), folder.name
        known = self._known.decided.get(name)
        if known is None or known.file != file:
            known = Decided(file, snapshots.read(folder).decisions)
            self._known.decided[name] = known
            self._is_changed = True
        return Snapshot(name, night_folders.date_of(folder), folder, known.decisions)

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
    told = {**sealed.get("facts", {}).get("counts", {}), **sealed.get("counts", {})}
    return {
        "started_at": manifest.started_at,
        "finished_at": manifest.finished_at,
        "request_count": len(manifest.answers),
        "failed_request_count": sum(1 for answer in manifest.answers if answer.error is not None),
        "byte_count": sum(answer.byte_count or 0 for answer in manifest.answers),
        **{column: told.get(name) for column, name in IN_LAKE.items()},
        "clock_skew_ms": manifest.clock_skew_ms,
        "stillness": manifest.window.state,
        "moved": "; ".join(manifest.window.moved),
    }
