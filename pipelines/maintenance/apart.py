"""A landed night flattened apart: on any machine that sees its home, without the nights before it.

Only carrying over asks the night before, so it is left out here and noted; what is flattened this
way holds where nothing is carried over (`finish_apart`).
"""

import contextlib
import platform
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

import msgspec
import pyarrow as pa

from pipelines import night
from pipelines.flatten import carry_over, flatten
from pipelines.flatten.carry_over import CarriedInstruments
from pipelines.flatten.part import VENUES
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.landing import night_folders, snapshots
from pipelines.landing.manifest import load_manifest
from pipelines.landing.sealed_json import Damaged
from pipelines.landing.snapshots import Snapshot
from pipelines.maintenance.upgrade import Finish
from warehouse.contract.lake_contract import lake_contract
from warehouse.contract.states import PRUNED
from warehouse.storage.layout import Layout, make_directory, sync_directory

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
        if carry_over.from_last(layout, manifest)(apart.failed, apart.empty).rows:
            # Its part goes before the night comes into the lake: judging flattens what has none.
            source.part(VENUES, folder.name).unlink()
            sync_directory(source.staging(folder.name))
        make_directory(layout.staging(folder.name).parent)
        source.staging(folder.name).rename(layout.staging(folder.name))
        sync_directory(layout.staging(folder.name).parent)
        return night.judge(manifests, manifest, now)

    return finish
