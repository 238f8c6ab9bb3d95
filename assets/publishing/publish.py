"""Publishing nights and decisions, and rebuilding the warehouse and the lake.

Before calling a function that writes, acquire the home's writer lock.
"""

import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from assets.console.invocation import program_version
from assets.console.terminal import progress_reporter
from assets.home.demo import with_demo_prices
from assets.nightbook import Nightbook
from assets.publishing import lost_decisions, repair
from assets.publishing.pending_decisions import unpublished_snapshots
from pipelines import night
from pipelines.lake import lessons, placement
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.lakehouse import entrance
from pipelines.landing import lock, snapshots
from pipelines.landing.fingerprint import extend_chain
from pipelines.landing.manifest import Manifest, load_manifest
from pipelines.landing.reasons import Reason, shape_of
from pipelines.landing.snapshots import Decision, Snapshot
from pipelines.maintenance import verify
from pipelines.maintenance.upgrade import (
    Finish,
    outdated_nights,
    rebuild_nights,
    upgraded_from,
)
from warehouse.contract import states
from warehouse.contract.reconciliation import RECONCILED
from warehouse.database import versions
from warehouse.database.ddl import schema_version
from warehouse.database.load import Book, Contents
from warehouse.database.new_version import NotPublished
from warehouse.database.publication import Published, publish_version
from warehouse.database.reference_files import ReferenceTables
from warehouse.query.pandas_blocker import leave_pandas_out
from warehouse.query.read import run as ask
from warehouse.reconcile.record.record import Record, records_of
from warehouse.reconcile.record.views import Rows, ops_rows
from warehouse.reconcile.terms import NotReconciled
from warehouse.reference.inbox import kept_rows, receive
from warehouse.storage.layout import NOTE, Layout, digest_of, sync_directory, write_bytes

if TYPE_CHECKING:
    from pipelines.lakehouse.entrance import FlattenedNight


@dataclass(frozen=True, slots=True)
class PublishedSnapshot:
    """A judged snapshot and the warehouse version that was published with it."""

    snapshot: Snapshot
    published: Published


def refresh(
    nightbook: Nightbook, *, fresh: bool = False, manifests: LakeManifests | None = None
) -> Published:
    """Publish the lake's nights as a new version of the warehouse.

    A book that fails its checks is held, and all other books are published. `fresh` reloads the
    whole history. Pass the lake's `manifests` if they have already been read.

    Raises:
        NotPublished: a check failed, and the failure cannot be attributed to a book.
        DamagedFile: nights of the published version are missing from the landing folder.
    """
    leave_pandas_out()
    layout, settings = nightbook.layout, nightbook.settings()
    reference = reference_tables(nightbook)
    manifests = manifests or LakeManifests(layout)
    if repair.upgrade_lake(nightbook, nightbook.tell, manifests):
        manifests = LakeManifests(layout)
    # If books fail the new version's checks, hold them and rebuild the version without them. Each
    # round holds at least one book, so the loop ends.
    while True:
        lake = placement.lake_contents(manifests)
        # Check the landing folder, which may be damaged or not mounted, so that no nights go
        # missing silently.
        verify.require_landing(layout, bodies=False)
        manifests.briefs.keep()
        books = tuple(Book(*book) for book in lake.books)
        now = nightbook.now()
        try:
            return publish_version(
                layout,
                Contents(
                    books=books,
                    nightly=lake.nightly,
                    snapshots=lake.snapshots,
                    digests=lake.digests,
                    reconciled=reconciliation_rows(layout),
                    upgraded_from=upgraded_from(layout),
                    fingerprint=extend_chain(layout, manifests.nights),
                    decided=lake.decided,
                    native_nights=settings.native_nights,
                    reference=reference,
                ),
                version=version_name(layout, now),
                built_at=now,
                program_version=program_version(),
                fresh=fresh,
                say=progress_reporter(nightbook, nightbook.tell, "publishing"),
                versions_gb=settings.versions_gb,
            )
        except NotPublished as refusal:
            _hold(layout, refusal, now)
            manifests = LakeManifests(layout)


def catch_up(nightbook: Nightbook) -> None:
    """Republish the warehouse if it was published with a different schema version."""
    layout = nightbook.layout
    if not layout.database.exists():
        return
    if ask(layout.database, "select schema_version from ops.build").rows != ((schema_version(),),):
        refresh(nightbook)


def reconciliation_rows(layout: Layout) -> Rows | None:
    """Return the stored reconciliations as rows for `ops`, or None if they cannot be read.

    An unreadable store is reported but must not stop the night.
    """
    try:
        found = [ops_rows(record) for record in records_of(layout.home)]
    except NotReconciled as error:
        print(error, file=sys.stderr)
        return None
    return {table.name: [row for rows in found for row in rows[table.name]] for table in RECONCILED}


def reference_tables(nightbook: Nightbook) -> ReferenceTables | None:
    """Read new files in `reference/`. Return None if that fails, which must not stop the night."""
    root = nightbook.layout.home / "reference"
    settings = with_demo_prices(nightbook.layout, nightbook.settings())
    try:
        inbox = receive(root, nightbook.now())
    except Exception as error:  # noqa: BLE001 - whatever people drop there must not stop a night
        print(f"The files in {root} were not read: {error}", file=sys.stderr)
        return None
    return ReferenceTables(
        files=inbox.file_rows(),
        rejects=inbox.reject_rows(),
        paths={
            (file.table, file.sha256): kept_rows(root, file.table, file.sha256)
            for file in inbox.received
            if file.rows
        },
        sources=settings.price_sources,
        max_age_days=settings.price_max_age,
        currency=settings.currency,
        cross_rate=settings.cross_rate,
    )


def version_name(layout: Layout, now: datetime) -> str:
    """Return an unused version name: the UTC time, or the next free microsecond after it."""
    named = now.astimezone(UTC)
    while (layout.warehouse / "versions" / f"{named:%Y%m%dT%H%M%S%fZ}").exists():
        named += timedelta(microseconds=1)
    return f"{named:%Y%m%dT%H%M%S%fZ}"


def _hold(layout: Layout, refusal: NotPublished, now: datetime) -> None:
    """Hold the books that failed their checks. Raises `refusal` if none can be identified."""
    books = snapshots.books(snapshots.landed_snapshots(layout)).values()
    to_hold = [book for book in books if book.snapshot_id in refusal.snapshots]
    if not to_hold:
        raise refusal
    for snapshot in to_hold:
        snapshots.decide(
            snapshot,
            states.HELD,
            by=snapshots.GUARDS,
            at=now,
            reasons=refusal.problems,
            causes=tuple(
                Reason(f"check: {shape_of(problem)}", problem) for problem in refusal.problems
            ),
        )
    placement.move_into_place(layout)


def judge_and_publish(nightbook: Nightbook, manifest: Manifest) -> PublishedSnapshot:
    """Judge a staged snapshot, then publish. Even a held snapshot updates the `ops` tables."""
    layout = nightbook.layout
    manifests = LakeManifests(layout)
    if lost_decisions.restore_decisions(layout, manifests.nights):
        manifests = LakeManifests(layout)
    night.judge(manifests, manifest, nightbook.now())
    published = refresh(nightbook, manifests=manifests)
    return PublishedSnapshot(snapshots.find(layout, manifest.snapshot_id), published)


def publish_pending(nightbook: Nightbook) -> None:
    """Repair the lake, and publish decisions that a killed command stored but did not publish."""
    if repair.before_publishing(nightbook):
        placement.move_into_place(nightbook.layout)
        refresh(nightbook)


SPARK = "spark"


def rebuild(nightbook: Nightbook, *, from_landing: bool) -> Published:
    """Rebuild the warehouse and, with `from_landing`, the lake. Decisions do not change."""
    _require_rebuildable(nightbook, from_landing=from_landing)
    return _rebuild(nightbook, from_landing=from_landing)


def rebuild_on_spark(nightbook: Nightbook) -> Published:
    """Rebuild a home's lake and warehouse from its landing folder, flattening on Spark.

    Nothing has changed if this raises `LakehouseError`.
    """
    _require_rebuildable(nightbook, from_landing=True)
    say = progress_reporter(nightbook, nightbook.tell, "flattening")
    with entrance.flattened_on_spark(nightbook.layout, say) as flattened:
        return _rebuild(nightbook, from_landing=True, finish=_finish_for_workers(flattened))


def _finish_for_workers(flattened: "Mapping[str, FlattenedNight]") -> Finish:
    """Return a function that finishes nights, of which workers have flattened some."""

    def finish(manifests: LakeManifests, folder: Path, now: datetime) -> Snapshot:
        if entrance.stage_night(manifests.layout, folder, flattened):
            return night.judge(manifests, load_manifest(folder), now)
        return night.finish(manifests, folder, now)

    return finish


def _require_rebuildable(nightbook: Nightbook, *, from_landing: bool) -> None:
    """Check that all nights can be rebuilt, before any file is changed. Raises `DamagedFile`."""
    layout = nightbook.layout
    lock.sweep(layout)
    lost_decisions.restore_decisions(layout)
    verify.require_landing(layout, bodies=from_landing)


def _rebuild(
    nightbook: Nightbook, *, from_landing: bool, finish: Finish = night.finish
) -> Published:
    """Rebuild the warehouse and, with `from_landing`, the lake.

    Then delete damaged older versions, so that `nightbook verify` succeeds.
    """
    leave_pandas_out()
    layout = nightbook.layout
    if from_landing and layout.lake.exists():
        _remove_lake(layout)
    say = progress_reporter(nightbook, nightbook.tell, "rebuilding")
    nights = outdated_nights(manifests := LakeManifests(layout))
    for error in rebuild_nights(layout, nights, nightbook.now(), say, finish):
        raise error
    placement.move_into_place(layout)
    published = refresh(nightbook, fresh=True, manifests=None if nights else manifests)
    for version in versions.damaged_versions(layout):
        versions.remove(version)
    return published


def _remove_lake(layout: Layout) -> None:
    """Remove the lake, starting with the manifests."""
    # Remove the manifests first. If a crash left a manifest without its tables, the next command
    # would not rebuild the night, because it rebuilds only nights without a manifest.
    if layout.manifests.exists():
        for manifest in layout.manifests.iterdir():
            manifest.unlink()
        sync_directory(layout.manifests)
    shutil.rmtree(layout.lake)


def files_showing(layout: Layout, snapshot: Snapshot) -> tuple[str, ...]:
    """Return the files made from a night: its exports, reports and reconciliation files.

    The paths are sorted, and relative to the home.
    """
    return tuple(
        path.relative_to(layout.home).as_posix() for path in sorted(_files(layout, snapshot))
    )


def _files(layout: Layout, snapshot: Snapshot) -> Iterator[Path]:
    day = snapshot.snapshot_date.isoformat()
    for path in layout.exports.glob(f"*{day}*"):
        if _is_since(path, snapshot):
            yield path
    for path in layout.reports.glob("*.html"):
        if _is_since(path, snapshot) and (day in path.name or path.stem == "latest"):
            yield path
    yield from (
        path
        for record in records_of(layout.home)
        if _is_reconciled(record, snapshot)
        for path in (record.out / day).glob("*")
        if path.is_file() and not path.name.endswith(NOTE)
    )


def _is_since(path: Path, snapshot: Snapshot) -> bool:
    """Return whether a file was written after a night was accepted.

    An older file shows a different book.
    """
    if snapshot.decision is None or not path.is_file() or path.name.endswith(NOTE):
        return False
    return path.stat().st_mtime >= datetime.fromisoformat(snapshot.decision.at).timestamp()


def _is_reconciled(record: Record, snapshot: Snapshot) -> bool:
    try:
        result = record.result(snapshot.snapshot_date)
    except NotReconciled:
        # If the reconciliation cannot be read, write the note, because an unnecessary note is
        # better than a missing note.
        return True
    return result is not None and result.snapshot_id == snapshot.snapshot_id


def files_without_note(layout: Layout, snapshot: Snapshot) -> tuple[str, ...]:
    """Return the files that were withdrawn by a night's decision and still lack a note.

    A file that was written after the decision shows a different book, so it needs no note.
    """
    if snapshot.decision is None:
        return ()
    decided = (snapshot.folder / snapshots.DECISION).stat().st_mtime_ns
    paths = {name: layout.home / name for name in snapshot.decision.withdrawn}
    return tuple(
        name
        for name, path in paths.items()
        if path.is_file()
        and path.stat().st_mtime_ns <= decided
        and not path.with_name(f"{path.name}{NOTE}").is_file()
    )


def mark(layout: Layout, snapshot: Snapshot, decision: Decision) -> None:
    """Write a note next to each file that was withdrawn by a decision."""
    for name in decision.withdrawn:
        path = layout.home / name
        if not path.is_file():
            continue
        note = (
            f"{path.name} shows snapshot {snapshot.snapshot_id}, which is no longer a book. It was "
            f"rejected at {decision.at} by {decision.by} ({'; '.join(decision.reasons)}).\n"
            f"This note is about the file with SHA-256 {digest_of(path)}, not about a newer file "
            "with the same name.\n"
        )
        write_bytes(path.with_name(f"{path.name}{NOTE}"), note.encode(errors="backslashreplace"))


def decide(nightbook: Nightbook, snapshot_id: str, state: str, *, by: str, why: str) -> Snapshot:
    """Store and publish a decision. When rejecting an accepted night, mark files that show it."""
    layout, now = nightbook.layout, nightbook.now()
    publish_pending(nightbook)
    before = snapshots.find(layout, snapshot_id)
    is_taken_back = before.state == states.ACCEPTED
    snapshot = snapshots.decide_by_hand(
        layout,
        snapshot_id,
        state,
        by=by,
        at=now,
        why=why,
        withdrawn=files_showing(layout, before) if is_taken_back else (),
    )
    lessons.let_through(layout, at=now)
    if is_taken_back and snapshot.decision is not None:
        mark(layout, snapshot, snapshot.decision)
    placement.move_into_place(layout)
    refresh(nightbook)
    return snapshots.find(layout, snapshot_id)


def is_unfinished(layout: Layout, snapshot: Snapshot) -> bool:
    """Return whether a command was killed between storing a decision and publishing it."""
    return snapshot.decision is not None and (
        snapshot.snapshot_id in unpublished_snapshots(layout)
        or bool(files_without_note(layout, snapshot))
    )


def finish(nightbook: Nightbook, snapshot: Snapshot) -> None:
    """Complete the work of a command that was killed after it stored a decision."""
    if snapshot.decision is not None:
        files = files_without_note(nightbook.layout, snapshot)
        mark(nightbook.layout, snapshot, replace(snapshot.decision, withdrawn=files))
    publish_pending(nightbook)
