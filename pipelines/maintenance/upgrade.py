"""Functions that rebuild nights that were built with older contracts."""

import contextlib
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from pipelines import night
from pipelines.flatten import flatten, venues
from pipelines.flatten.columns import VENUES
from pipelines.flatten.venues import CarriedInstruments
from pipelines.lake.lake_manifest import LakeManifests, sealed_ids
from pipelines.landing import night_folders, snapshots
from pipelines.landing.manifest import load_manifest
from pipelines.landing.night_folders import DamagedFile
from pipelines.landing.snapshots import Snapshot
from warehouse.contract.lake import LAKE, lake_contract
from warehouse.contract.states import PRUNED
from warehouse.progress import ProgressCallback, Tally, silent
from warehouse.storage.layout import Layout, make_directory, sync_directory

RECORD = "upgraded.json"
CONTRACT = "contract"
# A function that runs all steps after landing for one night. Its arguments are the lake's
# manifests, the landed folder and the current time.
Finish = Callable[[LakeManifests, Path, datetime], Snapshot]
COLUMN = "night"


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


def upgraded_from(layout: Layout) -> str | None:
    """Return the version and contract before the last upgrade, or None if there was none."""
    with contextlib.suppress(DamagedFile, KeyError):
        record = night_folders.read(layout.lake / RECORD)
        return f"{record['program_version']}, contract {record[CONTRACT]}"
    return None


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


class NightTask(msgspec.Struct, frozen=True):
    """A task for a worker that flattens one night.

    It contains the home, the landed folder, the staging folder and the required versions.
    """

    home: str
    folder: str
    staged_in: str
    program: str


class FlattenedNight(msgspec.Struct, frozen=True):
    """A worker's result: the folder with the staged files of a night, or a problem.

    `failed` and `empty` are the venues whose instruments are carried over from the previous night.
    """

    folder: str
    staged_in: str = ""
    failed: set[str] = set()
    empty: set[str] = set()
    problem: str = ""


def program() -> str:
    """Describe the versions that must be equal on all machines that flatten nights for a lake."""
    return f"nightbook with contract {lake_contract()} and pyarrow {pa.__version__}"


@contextlib.contextmanager
def night_tasks(layouts: Iterable[Layout]) -> Iterator[list[NightTask]]:
    """Yield tasks for all landed nights in these homes, and delete the tasks' files afterwards."""
    with contextlib.ExitStack() as stack:
        nights = []
        for layout in layouts:
            make_directory(layout.work)
            staged_in = Path(tempfile.mkdtemp(prefix="flattened-", dir=layout.work)).absolute()
            stack.callback(shutil.rmtree, staged_in, ignore_errors=True)
            nights += [
                NightTask(
                    str(layout.home.absolute()), str(folder.absolute()), str(staged_in), program()
                )
                for folder in night_folders.folders(layout)
                if snapshots.read(folder).state != PRUNED
            ]
        yield nights


def flatten_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run the tasks in each batch, and yield the results. Both are in a single column, as JSON."""
    for batch in batches:
        nights = (msgspec.json.decode(text, type=NightTask) for text in batch.column(0).to_pylist())
        answers = [msgspec.json.encode(flatten_task(landed)).decode() for landed in nights]
        yield pa.RecordBatch.from_pydict({COLUMN: pa.array(answers, pa.string())})


def flatten_task(landed: NightTask) -> FlattenedNight:
    """Flatten a landed night into a new folder, so that concurrent attempts cannot collide."""
    folder, worker = Path(landed.folder), f"The worker on {platform.node()}"
    if program() != landed.program:
        problem = (
            f"{worker} has {program()}, not {landed.program}: install the required versions there."
        )
        return FlattenedNight(landed.folder, problem=problem)
    if not (folder / night_folders.MANIFEST).is_file():
        problem = f"{worker} cannot see {folder}: mount the home on that machine, at the same path."
        return FlattenedNight(landed.folder, problem=problem)
    staged_in = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=landed.staged_in))
    layout = Layout(Path(landed.home), staged_in)
    flattened = FlattenedNight(landed.folder, str(staged_in))

    def note(failed: set[str], empty: set[str]) -> CarriedInstruments:
        flattened.failed.update(failed)
        flattened.empty.update(empty)
        return CarriedInstruments()

    try:
        manifest = load_manifest(folder)
        flatten.flatten_portfolios(layout, manifest)
        flatten.flatten_venues(layout, manifest, note)
    except DamagedFile as error:
        return FlattenedNight(landed.folder, problem=str(error))
    return flattened


def finish_flattened_nights(flattened: Mapping[str, FlattenedNight]) -> Finish:
    """Return a function that finishes the nights that workers have flattened.

    For all other nights, the function runs all steps after landing.
    """

    def finish(manifests: LakeManifests, folder: Path, now: datetime) -> Snapshot:
        flattened_night = flattened.get(str(folder.absolute()))
        if flattened_night is None:  # This night was landed after the tasks were created.
            return night.finish(manifests, folder, now)
        layout, manifest = manifests.layout, load_manifest(folder)
        source = Layout(layout.home, Path(flattened_night.staged_in))
        carried = venues.carry_from_last(
            layout, manifest, flattened_night.failed, flattened_night.empty
        )
        if carried.rows:
            # Remove the venues part before the night enters the lake. Then `judge` flattens the
            # venues again, now with the carried instruments.
            source.part(VENUES, folder.name).unlink()
            sync_directory(source.staging(folder.name))
        make_directory(layout.staging(folder.name).parent)
        source.staging(folder.name).rename(layout.staging(folder.name))
        sync_directory(layout.staging(folder.name).parent)
        return night.judge(manifests, manifest, now)

    return finish
