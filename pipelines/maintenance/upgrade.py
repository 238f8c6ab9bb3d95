"""An older home: nights whose lake was made by another contract are made again, oldest first.

The landing zone is the truth, so nothing is converted. A night's manifest goes first: one that is
stopped half-way is a night without a manifest, which whoever publishes makes again. Pruned nights
have neither bodies nor tables, and nothing to be made of.
"""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pipelines import night
from pipelines.lake.lake_manifest import LakeManifests, sealed_ids
from pipelines.landing import sealed_json
from pipelines.landing.manifest import load_manifest
from pipelines.landing.sealed_json import Damaged
from pipelines.landing.snapshots import Snapshot
from warehouse.contract.lake import LAKE
from warehouse.contract.lake_contract import lake_contract
from warehouse.contract.states import PRUNED
from warehouse.progress import Say, Tally, silent
from warehouse.storage.layout import Layout, sync_directory

RECORD = "upgraded.json"
CONTRACT = "contract"
# Does everything after landing for the snapshot in a folder, at a time.
Finish = Callable[[LakeManifests, Path, datetime], Snapshot]


@dataclass(frozen=True, slots=True)
class Unmade:
    """A landed night of which the lake has nothing, or what another contract made of it.

    `contract` is that one, or None where the lake has nothing; `is_decided` says whether it was
    judged before.
    """

    folder: Path
    contract: str | None
    is_decided: bool


def is_behind(layout: Layout) -> bool:
    """Return whether the lake's newest night was made by another contract than today's."""
    # An upgrade goes from the oldest night to the newest, so one look is enough before a step.
    newest = max(sealed_ids(layout), default=None)
    with contextlib.suppress(Damaged):
        return newest is not None and (
            sealed_json.read(layout.manifest(newest)).get(CONTRACT) != lake_contract()
        )
    return False


def unmade(manifests: LakeManifests) -> list[Unmade]:
    """Return landed nights that the lake does not have by this contract, oldest first.

    Raises `Damaged` where a manifest of the lake is not as it was written.
    """
    current, sealed = lake_contract(), sealed_ids(manifests.layout)
    nights = []
    for snapshot in manifests.nights:
        is_sealed, is_decided = snapshot.snapshot_id in sealed, snapshot.decision is not None
        contract = manifests.briefs.of(snapshot).contract if is_sealed else None
        if (contract == current and is_decided) or snapshot.state == PRUNED:
            continue
        nights.append(Unmade(snapshot.folder, contract, is_decided))
    return nights


def make(
    layout: Layout,
    nights: list[Unmade],
    now: datetime,
    say: Say = silent,
    finish: Finish = night.finish,
) -> tuple[Damaged, ...]:
    """Make nights again, in order; returns the damage that kept some from being made."""
    manifests = LakeManifests(layout)  # of its own: what was read before is of the other contract
    done, damage = Tally(say, len(nights), "nights made"), list[Damaged]()
    for unmade_night in nights:
        try:
            _make(manifests, unmade_night, now, finish)
        except Damaged as error:
            damage.append(error)
        done.add(1)
    return tuple(damage)


def _make(manifests: LakeManifests, unmade_night: Unmade, now: datetime, finish: Finish) -> None:
    layout, folder = manifests.layout, unmade_night.folder
    if unmade_night.contract in (None, lake_contract()):
        finish(manifests, folder, now)
        return
    sealed = sealed_json.read(layout.manifest(folder.name))
    layout.manifest(folder.name).unlink()
    sync_directory(layout.manifests)
    finish(manifests, folder, now)
    _remove_surplus_tables(layout, sealed)
    _note(layout, unmade_night, now)


def upgraded_from(layout: Layout) -> str | None:
    """Return the version and contract that made the lake before; None where none did."""
    with contextlib.suppress(Damaged, KeyError):
        record = sealed_json.read(layout.lake / RECORD)
        return f"{record['program_version']}, contract {record[CONTRACT]}"
    return None


def _note(layout: Layout, unmade_night: Unmade, now: datetime) -> None:
    content = {
        CONTRACT: unmade_night.contract,
        "program_version": load_manifest(unmade_night.folder).program_version,
        "to": lake_contract(),
        "at": now.isoformat(),
    }
    sealed_json.write(layout.lake / RECORD, content)


def _remove_surplus_tables(layout: Layout, sealed: Mapping[str, Any]) -> None:
    """Take away what the older contract made and this one does not have."""
    declared = {table.name for table in LAKE}
    snapshot_id = str(sealed["snapshot_id"])
    day = datetime.fromisoformat(sealed["snapshot_date"]).date()
    for name in {*sealed["tables"], *sealed["nightly"]} - declared:
        layout.parquet(name, day, snapshot_id).unlink(missing_ok=True)
        layout.staged_file(name, snapshot_id).unlink(missing_ok=True)
