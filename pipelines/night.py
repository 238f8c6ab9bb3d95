"""The steps that follow landing, as plain functions: stage and judge.

Dagster calls them one by one, and `nightbook rebuild` calls them for every landed snapshot. Each
step can be killed at any time and then repeated. `pipelines.pull.pull` lands a night, and only that
module loads the API client.
"""

import contextlib
from collections.abc import Iterator
from datetime import date, datetime
from functools import partial
from pathlib import Path

from pipelines.flatten import carry_over, flatten
from pipelines.flatten.parts import PORTFOLIOS, VENUES, Part, read_parts
from pipelines.lake import lake_manifest, placement
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.landing import snapshots
from pipelines.landing.manifest import Manifest, load_manifest
from pipelines.landing.night_folders import DamagedFile
from pipelines.landing.snapshots import Snapshot
from pipelines.settings import Settings
from warehouse.contract import states
from warehouse.contract.book import BOOK
from warehouse.progress import ProgressCallback, silent
from warehouse.storage.layout import Layout, digest_of

# Read only this many of the newest manifests, because they include the current run's snapshot.
NEWEST = 8


class NeverLanded(Exception):
    """This date has no landed night, and the API returns only current data."""

    exit_code = 2

    def __init__(self, day: date, today: date, landed: list[date]) -> None:
        known = "no night has been landed"
        if landed:
            known = f"the landed nights range from {landed[0]} to {landed[-1]}"
        problem = "was never pulled, or was rejected or pruned"
        if day >= today:
            problem = "is in the future" if day > today else "has not been pulled yet"
        super().__init__(
            f"{day} {problem}: the API returns only the current holdings, and today is {today} "
            f"({known}). Nothing was read or written. To pull tonight's book, run without a date. "
            "A night that was never pulled remains a gap (see ops.gaps)."
        )


def business_date(settings: Settings, now: datetime) -> date:
    """Return the business date for a snapshot taken now, in `NIGHTBOOK_TIMEZONE`."""
    return now.astimezone(settings.timezone).date()


def landed_on(layout: Layout, day: date) -> Manifest | None:
    """Return the manifest of the date's newest snapshot that was neither rejected nor pruned."""
    candidates = [
        snapshot
        for snapshot in snapshots.landed_snapshots(layout)
        if snapshot.snapshot_date == day and snapshot.state not in snapshots.GONE
    ]
    return load_manifest(candidates[-1].folder) if candidates else None


def taken_on(layout: Layout, day: date) -> Manifest | None:
    """Return the newest manifest that has this date on this machine's or the server's clock.

    Rejected and pruned snapshots are ignored.
    """
    # If this machine's clock was wrong, the snapshot is stored under the server's date.
    for snapshot in reversed(snapshots.landed_snapshots(layout)[-NEWEST:]):
        if snapshot.state in snapshots.GONE:
            continue
        # Ignore damage to other nights, because it must not block this night.
        with contextlib.suppress(DamagedFile):
            manifest = load_manifest(snapshot.folder)
            if day in (manifest.machine_date, manifest.snapshot_date):
                return manifest
    return None


def landed_for(settings: Settings, now: datetime, day: date) -> Manifest:
    """Return the manifest of a date's landed snapshot. Raises `NeverLanded`."""
    layout = Layout(settings.home)
    is_today = day == business_date(settings, now)
    manifest = (taken_on(layout, day) if is_today else None) or landed_on(layout, day)
    if manifest is None:
        dates = sorted({snapshot.snapshot_date for snapshot in snapshots.landed_snapshots(layout)})
        raise NeverLanded(day, business_date(settings, now), dates)
    return manifest


def stage_portfolios(layout: Layout, manifest: Manifest, say: ProgressCallback = silent) -> Part:
    """Flatten a landed snapshot's portfolios into staged Parquet files."""
    return flatten.flatten_portfolios(layout, manifest, say)


def stage_venues(layout: Layout, manifest: Manifest, say: ProgressCallback = silent) -> Part:
    """Flatten venues and instruments. Venues without a list keep their last known instruments."""
    carry = partial(carry_over.carry_from_last, layout, manifest)
    return flatten.flatten_venues(layout, manifest, carry, say)


def judge(manifests: LakeManifests, manifest: Manifest, now: datetime) -> Snapshot:
    """Seal a staged snapshot, let the guards judge it, and update the lake's folders."""
    # If an earlier run has judged the snapshot, only move its files into place. Dagster retries
    # this step, and a retry must not flatten again. Earlier steps may have staged only some of the
    # tables, so stage the missing tables now.
    layout = manifests.layout
    if _is_on_its_way(layout, manifest):
        placement.move_into_place(layout, manifests.nights)
        return snapshots.find(layout, manifest.snapshot_id)
    _stage_missing(layout, manifest)
    lake_manifest.seal(manifests, manifest, read_parts(layout, manifest.snapshot_id))
    snapshot = placement.decide_by_guards(manifests, manifest, at=now)
    placement.move_into_place(layout, manifests.nights)
    return snapshot


def _is_on_its_way(layout: Layout, manifest: Manifest) -> bool:
    """Return whether an earlier run has begun to move a judged snapshot's files out of staging."""
    snapshot_id = manifest.snapshot_id
    if not layout.manifest(snapshot_id).is_file():
        return False
    if snapshots.find(layout, snapshot_id).decision is None:
        return False
    staged = [name for name in _tables() if layout.staged_file(name, snapshot_id).is_file()]
    if len(staged) == len(BOOK):
        return False
    # Read the manifest from its file, because a manifest in memory may be older than the staged
    # files.
    written = lake_manifest.read_manifest(layout, snapshot_id)["tables"]
    return all(
        digest_of(layout.staged_file(name, snapshot_id)) == written[name]["sha256"]
        for name in staged
    )


def _tables(part: str | None = None) -> Iterator[str]:
    """Yield the names of the tables in a part (portfolios or venues), or in both parts."""
    for table in BOOK:
        if part is None or (table.resource == "portfolios") == (part == "portfolios"):
            yield table.name


def _stage_missing(layout: Layout, manifest: Manifest) -> None:
    for part, stage in zip((PORTFOLIOS, VENUES), (stage_portfolios, stage_venues), strict=True):
        files = [layout.staged_file(name, manifest.snapshot_id) for name in _tables(part)]
        if not all(path.is_file() for path in (*files, layout.part(part, manifest.snapshot_id))):
            stage(layout, manifest)


def finish(manifests: LakeManifests, folder: Path, now: datetime) -> Snapshot:
    """Run all steps after landing (stage, seal and judge) for one snapshot."""
    manifest = load_manifest(folder)
    stage_portfolios(manifests.layout, manifest)
    stage_venues(manifests.layout, manifest)
    return judge(manifests, manifest, now)


def left_over(manifests: LakeManifests) -> list[Path]:
    """Return the folders of landed snapshots that still need to be sealed or judged."""
    sealed = lake_manifest.sealed_ids(manifests.layout)
    return [
        snapshot.folder
        for snapshot in manifests.nights
        if snapshot.state != states.PRUNED
        and (snapshot.snapshot_id not in sealed or snapshot.decision is None)
    ]
