"""Nights that are flattened on Spark: the tasks, the workers' code, and the move into the home.

There is one task per night. This module does not import Spark, because that package is optional.
"""

import contextlib
import importlib
import platform
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
import pyarrow as pa

from pipelines.flatten import carry_over, flatten
from pipelines.flatten.carry_over import CarriedInstruments
from pipelines.flatten.parts import VENUES
from pipelines.lakehouse.errors import LakehouseError, NotInstalled
from pipelines.landing import night_folders, snapshots
from pipelines.landing.manifest import load_manifest
from pipelines.landing.night_folders import DamagedFile
from warehouse.contract.lake import lake_contract
from warehouse.contract.states import PRUNED
from warehouse.progress import ProgressCallback
from warehouse.storage.layout import Layout, make_directory, sync_directory

COLUMN = "night"


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


class NotFlattened(LakehouseError):
    """Some nights are damaged, or a worker has a different version or cannot read the home."""


@contextlib.contextmanager
def flattened_on_spark(
    layout: Layout, say: ProgressCallback
) -> Iterator[Mapping[str, FlattenedNight]]:
    """Flatten all landed nights of a home on Spark. Yield the results by landed folder.

    Afterwards, the staged files that were not moved are deleted. Raises `NotInstalled`,
    `SparkFailed`, and `NotFlattened` with every night that has a problem.
    """
    try:
        spark = importlib.import_module("pipelines.lakehouse.spark")
    except ModuleNotFoundError as error:
        if error.name not in ("pyspark", "py4j"):
            raise
        problem = "--engine spark needs Java 17, and the same version of pyspark as the cluster"
        raise NotInstalled(problem, "nightbook[spark]") from None
    with night_tasks(layout) as tasks:
        flattened = spark.run_tasks(tasks, say)
        if problems := dict.fromkeys(night.problem for night in flattened if night.problem):
            raise NotFlattened(f"{' '.join(problems)} Nothing was changed.")
        yield {night.folder: night for night in flattened}


@contextlib.contextmanager
def night_tasks(layout: Layout) -> Iterator[list[NightTask]]:
    """Yield a task for each landed night of a home, and delete the tasks' files afterwards."""
    make_directory(layout.work)
    home = layout.home.absolute()
    with tempfile.TemporaryDirectory(
        prefix="flattened-", dir=layout.work.absolute(), ignore_cleanup_errors=True
    ) as staged_in:
        yield [
            NightTask(str(home), str(folder.absolute()), staged_in, program())
            for folder in night_folders.folders(layout)
            if snapshots.read(folder).state != PRUNED
        ]


def program() -> str:
    """Describe the versions that must be equal on all machines that flatten nights for a lake."""
    return f"nightbook with contract {lake_contract()} and pyarrow {pa.__version__}"


def flatten_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run the tasks in each batch, and yield the results. Both are in a single column, as JSON."""
    for batch in batches:
        nights = (msgspec.json.decode(text, type=NightTask) for text in batch.column(0).to_pylist())
        answers = [msgspec.json.encode(flatten_task(landed)).decode() for landed in nights]
        yield pa.RecordBatch.from_pydict({COLUMN: pa.array(answers, pa.string())})


def flatten_task(landed: NightTask) -> FlattenedNight:
    """Flatten a landed night into a new folder, so that concurrent attempts cannot collide."""
    folder, worker = Path(landed.folder), f"The worker on {platform.node()}"
    problem = ""
    if program() != landed.program:
        problem = (
            f"{worker} has {program()}, not {landed.program}: install the required versions there."
        )
    elif not (folder / night_folders.MANIFEST).is_file():
        problem = f"{worker} cannot see {folder}: mount the home on that machine, at the same path."
    if problem:
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


def stage_night(layout: Layout, folder: Path, flattened: Mapping[str, FlattenedNight]) -> bool:
    """Move the files that a worker made from a landed night into the home's staging folder.

    Return False if no worker flattened the night, because it was landed after the tasks were
    created.
    """
    night = flattened.get(str(folder.absolute()))
    if night is None:
        return False
    source, manifest = Layout(layout.home, Path(night.staged_in)), load_manifest(folder)
    if carry_over.carry_from_last(layout, manifest, night.failed, night.empty).rows:
        # Remove the venues part before the night enters the lake. Then the next step flattens the
        # venues again, now with the carried instruments.
        source.part(VENUES, folder.name).unlink()
        sync_directory(source.staging(folder.name))
    make_directory(layout.staging(folder.name).parent)
    source.staging(folder.name).rename(layout.staging(folder.name))
    sync_directory(layout.staging(folder.name).parent)
    return True
