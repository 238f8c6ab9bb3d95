"""Functions that rebuild nights that were built with older contracts."""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pipelines import night
from pipelines.lake.lake_manifest import LakeManifests, sealed_ids
from pipelines.landing import night_folders
from pipelines.landing.manifest import load_manifest
from pipelines.landing.night_folders import DamagedFile
from pipelines.landing.snapshots import Snapshot
from warehouse.contract.lake import LAKE, lake_contract
from warehouse.contract.states import PRUNED
from warehouse.progress import ProgressCallback, Tally, silent
from warehouse.storage.layout import Layout, sync_directory

RECORD = "upgraded.json"
CONTRACT = "contract"
# A function that runs all steps after landing for one night. Its arguments are the lake's
# manifests, the landed folder and the current time.
Finish = Callable[[LakeManifests, Path, datetime], Snapshot]


@dataclass(frozen=True, slots=True)
class OutdatedNight:
    """A landed night that must be rebuilt or judged.

    The night is not in the lake, was built with a different contract, or has no decision.
    `contract` is the night's contract in the lake, or None if the lake does not have the night.
    `is_decided` is True if the night already has a decision.
    """

    folder: Path
    contract: str | None
    is_decided: bool


def is_behind(layout: Layout) -> bool:
    """Return whether the lake's newest night was built with a different contract."""
    # An upgrade rebuilds nights from oldest to newest, so checking the newest night is enough.
    newest = max(sealed_ids(layout), default=None)
    with contextlib.suppress(DamagedFile):
        return newest is not None and (
            night_folders.read(layout.manifest(newest)).get(CONTRACT) != lake_contract()
        )
    return False


def outdated_nights(manifests: LakeManifests) -> list[OutdatedNight]:
    """Return the landed nights that must be built with this contract or judged, oldest first.

    Raises `DamagedFile` if a lake manifest was changed.
    """
    current, sealed = lake_contract(), sealed_ids(manifests.layout)
    nights = []
    for snapshot in manifests.nights:
        is_sealed, is_decided = snapshot.snapshot_id in sealed, snapshot.decision is not None
        contract = manifests.briefs.of(snapshot).contract if is_sealed else None
        if (contract == current and is_decided) or snapshot.state == PRUNED:
            continue
        nights.append(OutdatedNight(snapshot.folder, contract, is_decided))
    return nights


def rebuild_nights(
    layout: Layout,
    nights: list[OutdatedNight],
    now: datetime,
    say: ProgressCallback = silent,
    finish: Finish = night.finish,
) -> tuple[DamagedFile, ...]:
    """Rebuild nights in order. Return an error for each night that is too damaged to rebuild."""
    # Use a new cache, because cached manifests belong to the older contract.
    manifests = LakeManifests(layout)
    done, damage = Tally(say, len(nights), "nights made"), list[DamagedFile]()
    for outdated in nights:
        try:
            _rebuild_night(manifests, outdated, now, finish)
        except DamagedFile as error:
            damage.append(error)
        done.add(1)
    return tuple(damage)


def upgraded_from(layout: Layout) -> str | None:
    """Return the version and contract before the last upgrade, or None if there was none."""
    with contextlib.suppress(DamagedFile, KeyError):
        record = night_folders.read(layout.lake / RECORD)
        return f"{record['program_version']}, contract {record[CONTRACT]}"
    return None


def _rebuild_night(
    manifests: LakeManifests, outdated: OutdatedNight, now: datetime, finish: Finish
) -> None:
    """Rebuild one night, and record the upgrade if it had a different contract."""
    layout, folder = manifests.layout, outdated.folder
    if outdated.contract in (None, lake_contract()):
        finish(manifests, folder, now)
        return
    sealed = night_folders.read(layout.manifest(folder.name))
    layout.manifest(folder.name).unlink()
    sync_directory(layout.manifests)
    finish(manifests, folder, now)
    _remove_surplus_tables(layout, sealed)
    _record_upgrade(layout, outdated, now)


def _record_upgrade(layout: Layout, outdated: OutdatedNight, now: datetime) -> None:
    """Record a night's contract before its upgrade, and the version that landed the night."""
    content = {
        CONTRACT: outdated.contract,
        "program_version": load_manifest(outdated.folder).program_version,
        "to": lake_contract(),
        "at": now.isoformat(),
    }
    night_folders.write(layout.lake / RECORD, content)


def _remove_surplus_tables(layout: Layout, sealed: Mapping[str, Any]) -> None:
    """Delete a night's files for tables that the current contract no longer has."""
    declared = {table.name for table in LAKE}
    snapshot_id = str(sealed["snapshot_id"])
    day = datetime.fromisoformat(sealed["snapshot_date"]).date()
    for name in {*sealed["tables"], *sealed["nightly"]} - declared:
        layout.parquet(name, day, snapshot_id).unlink(missing_ok=True)
        layout.staged_file(name, snapshot_id).unlink(missing_ok=True)
