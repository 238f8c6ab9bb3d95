"""Rebuild nights of older schemas, apart from the published ones."""

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
from pipelines.flatten import flatten, listings
from pipelines.flatten.columns import VENUES
from pipelines.flatten.listings import CarriedInstruments
from pipelines.lake.lake_manifest import LakeManifests, sealed_ids
from pipelines.landing import night_folders, snapshots
from pipelines.landing.manifest import load_manifest
from pipelines.landing.night_folders import Damaged
from pipelines.landing.snapshots import Snapshot
from warehouse.contract.lake import LAKE, lake_contract
from warehouse.contract.states import PRUNED
from warehouse.progress import Say, Tally, silent
from warehouse.storage.layout import Layout, make_directory, sync_directory

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
            night_folders.read(layout.manifest(newest)).get(CONTRACT) != lake_contract()
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
    sealed = night_folders.read(layout.manifest(folder.name))
    layout.manifest(folder.name).unlink()
    sync_directory(layout.manifests)
    finish(manifests, folder, now)
    _remove_surplus_tables(layout, sealed)
    _note(layout, unmade_night, now)


def upgraded_from(layout: Layout) -> str | None:
    """Return the version and contract that made the lake before; None where none did."""
    with contextlib.suppress(Damaged, KeyError):
        record = night_folders.read(layout.lake / RECORD)
        return f"{record['program_version']}, contract {record[CONTRACT]}"
    return None


def _note(layout: Layout, unmade_night: Unmade, now: datetime) -> None:
    content = {
        CONTRACT: unmade_night.contract,
        "program_version": load_manifest(unmade_night.folder).program_version,
        "to": lake_contract(),
        "at": now.isoformat(),
    }
    night_folders.write(layout.lake / RECORD, content)


def _remove_surplus_tables(layout: Layout, sealed: Mapping[str, Any]) -> None:
    """Take away what the older contract made and this one does not have."""
    declared = {table.name for table in LAKE}
    snapshot_id = str(sealed["snapshot_id"])
    day = datetime.fromisoformat(sealed["snapshot_date"]).date()
    for name in {*sealed["tables"], *sealed["nightly"]} - declared:
        layout.parquet(name, day, snapshot_id).unlink(missing_ok=True)
        layout.staged_file(name, snapshot_id).unlink(missing_ok=True)


COLUMN = "night"


class NightTask(msgspec.Struct, frozen=True):
    """What a worker is told: a landed folder of a home, where to stage it, and by which program."""

    home: str
    folder: str
    staged_in: str
    program: str


class FlattenedNight(msgspec.Struct, frozen=True):
    """What a worker says: where the night of a folder is staged, or what is the matter.

    `failed` and `empty` are the venues whose instruments of the night before would be carried over.
    """

    folder: str
    staged_in: str = ""
    failed: set[str] = set()
    empty: set[str] = set()
    problem: str = ""


def program() -> str:
    """Return what must be the same wherever the nights of one lake are flattened."""
    return f"nightbook of contract {lake_contract()} with pyarrow {pa.__version__}"


@contextlib.contextmanager
def landed_apart(layouts: Iterable[Layout]) -> Iterator[list[NightTask]]:
    """Yield every landed night of some homes, to be staged where nothing is left afterwards."""
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
    """Flatten the nights of some batches, as JSON in their one column; answer in the same way."""
    for batch in batches:
        nights = (msgspec.json.decode(text, type=NightTask) for text in batch.column(0).to_pylist())
        answers = [msgspec.json.encode(flatten_apart(landed)).decode() for landed in nights]
        yield pa.RecordBatch.from_pydict({COLUMN: pa.array(answers, pa.string())})


def flatten_apart(landed: NightTask) -> FlattenedNight:
    """Flatten a landed night into a folder that no other attempt at it writes to."""
    folder, here = Path(landed.folder), f"The worker on {platform.node()}"
    if program() != landed.program:
        problem = f"{here} has {program()}, and this is {landed.program}: install the same there."
        return FlattenedNight(landed.folder, problem=problem)
    if not (folder / night_folders.MANIFEST).is_file():
        problem = f"{here} does not see {folder}: mount the home there under the same path."
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
    except Damaged as error:
        return FlattenedNight(landed.folder, problem=str(error))
    return flattened


def finish_apart(flattened: Mapping[str, FlattenedNight]) -> Finish:
    """Return what does the rest for nights by their folders; one that is not there is flattened."""

    def finish(manifests: LakeManifests, folder: Path, now: datetime) -> Snapshot:
        apart = flattened.get(str(folder.absolute()))
        if apart is None:  # landed since
            return night.finish(manifests, folder, now)
        layout, manifest = manifests.layout, load_manifest(folder)
        source = Layout(layout.home, Path(apart.staged_in))
        if listings.carry_from_last(layout, manifest, apart.failed, apart.empty).rows:
            # Its part goes before the night comes into the lake: judging flattens what has none.
            source.part(VENUES, folder.name).unlink()
            sync_directory(source.staging(folder.name))
        make_directory(layout.staging(folder.name).parent)
        source.staging(folder.name).rename(layout.staging(folder.name))
        sync_directory(layout.staging(folder.name).parent)
        return night.judge(manifests, manifest, now)

    return finish
