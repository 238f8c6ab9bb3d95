"""Everything made again: the warehouse from the lake, or both from the landing zone.

On Spark the nights of any number of homes are flattened in one job. Until the last of them is
flattened no home is touched.
"""

import importlib
import shutil
from collections.abc import Sequence
from types import ModuleType

from assets.console.progress import progress_reporter
from assets.nightbook import Nightbook
from assets.publishing import lost_decisions
from assets.publishing.publish import refresh
from pipelines import night
from pipelines.lake import placement
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.landing import leftovers
from pipelines.maintenance import verify
from pipelines.maintenance.apart import finish_apart, landed_apart
from pipelines.maintenance.upgrade import Finish, make, unmade
from warehouse.database import versions
from warehouse.database.publish import Published
from warehouse.storage.layout import Layout, sync_directory

SPARK = "spark"


class SparkMissing(Exception):
    """Spark was asked for, and its package is not there."""

    exit_code = 2

    def __init__(self) -> None:
        super().__init__(
            "--engine spark needs the package pyspark, in the version of the cluster, and Java 17: "
            "pip install 'nightbook[spark]'. Nothing was changed."
        )


def rebuild(nightbook: Nightbook, *, from_landing: bool) -> Published:
    """Make lake (with `from_landing`) and warehouse again; decisions stay as they were made."""
    _check(nightbook, from_landing=from_landing)
    return _remake(nightbook, from_landing=from_landing)


def rebuild_on_spark(nightbooks: Sequence[Nightbook]) -> list[Published]:
    """Make lake and warehouse of each home again from its landing zone, flattened on Spark.

    Raises `SparkMissing`, `SparkFailed` and `NotFlattened`: then nothing was changed.
    """
    spark = _spark()
    for nightbook in nightbooks:
        _check(nightbook, from_landing=True)
    first, *_ = nightbooks  # whoever asked hears of all
    say = progress_reporter(first, first.tell, "flattening")
    with landed_apart([nightbook.layout for nightbook in nightbooks]) as nights:
        finish = finish_apart(spark.flatten_on_spark(nights, say))
        return [_remake(nightbook, from_landing=True, finish=finish) for nightbook in nightbooks]


def _spark() -> ModuleType:
    try:
        return importlib.import_module("pipelines.maintenance.spark")
    except ModuleNotFoundError as error:
        if error.name in ("pyspark", "py4j"):
            raise SparkMissing from None
        raise


def _check(nightbook: Nightbook, *, from_landing: bool) -> None:
    """See that everything can be made again, before anything is; raises `Damaged`."""
    layout = nightbook.layout
    leftovers.sweep(layout)
    lost_decisions.restore_decisions(layout)
    verify.require_landing(layout, bodies=from_landing)


def _remake(
    nightbook: Nightbook, *, from_landing: bool, finish: Finish = night.finish
) -> Published:
    # Older versions that are damaged go: what `verify` names is mended by this.
    layout = nightbook.layout
    if from_landing and layout.lake.exists():
        _forget_lake(layout)
    say = progress_reporter(nightbook, nightbook.tell, "rebuilding")
    nights = unmade(manifests := LakeManifests(layout))
    for error in make(layout, nights, nightbook.now(), say, finish):
        raise error
    placement.settle(layout)
    published = refresh(nightbook, fresh=True, manifests=None if nights else manifests)
    for version in verify.damaged_versions(layout):
        versions.remove(version)
    return published


def _forget_lake(layout: Layout) -> None:
    """Remove the lake, manifests first."""
    # A night without a manifest is made again by whatever runs next, so that a death on the way
    # leaves no night with a manifest and without its tables.
    if layout.manifests.exists():
        for manifest in layout.manifests.iterdir():
            manifest.unlink()
        sync_directory(layout.manifests)
    shutil.rmtree(layout.lake)
