"""Publish a night, decide about it, and rebuild published nights."""

import importlib
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType

from assets.console.invocation import program_version
from assets.console.terminal import progress_reporter
from assets.nightbook import WARNING, Nightbook, Tell
from assets.publishing import lost_decisions
from pipelines import night
from pipelines.lake import lessons, placement
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.landing import lock, snapshots
from pipelines.landing.manifest import Manifest
from pipelines.landing.reasons import Reason, shape_of
from pipelines.landing.snapshots import Decision, Snapshot
from pipelines.maintenance import verify
from pipelines.maintenance.upgrade import (
    Finish,
    finish_flattened_nights,
    is_behind,
    night_tasks,
    outdated_nights,
    rebuild_nights,
    upgraded_from,
)
from warehouse.contract import states
from warehouse.database import versions
from warehouse.database.ddl import schema_version
from warehouse.database.load import Book, Contents
from warehouse.database.new_version import NotPublished
from warehouse.database.publish import Published, publish
from warehouse.query.read import run as ask
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.record.views import Rows, ops_rows
from warehouse.reconcile.terms import NotReconciled
from warehouse.storage.layout import Layout, digest_of, sync_directory, written_aside


@dataclass(frozen=True, slots=True)
class PublishedSnapshot:
    """A judged snapshot, and the version of the warehouse that was published after it."""

    snapshot: Snapshot
    published: Published


def refresh(
    nightbook: Nightbook, *, fresh: bool = False, manifests: LakeManifests | None = None
) -> Published:
    """Publish what the lake holds; a book that fails its checks is held, and the others appear."""
    # The caller is the writer. With `fresh` the whole history is loaded again; `manifests` are the
    # manifests that were read already.
    layout, settings = nightbook.layout, nightbook.settings()
    manifests = manifests or LakeManifests(layout)
    if upgrade_lake(nightbook, nightbook.tell, manifests):
        manifests = LakeManifests(layout)
    # A book that fails the checks of the new version is held, and the version is built again
    # without it. Each round holds one book at least, so that there are no more rounds than books.
    while True:
        lake = placement.lake_contents(manifests)
        manifests.briefs.keep()
        books = tuple(Book(*book) for book in lake.books)
        now = nightbook.now()
        try:
            return publish(
                layout,
                Contents(
                    books=books,
                    nightly=lake.nightly,
                    snapshots=lake.snapshots,
                    digests=lake.digests,
                    reconciled=reconciliation_rows(layout),
                    upgraded_from=upgraded_from(layout),
                    decided=lake.decided,
                    native_nights=settings.native_nights,
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


def upgrade_lake(nightbook: Nightbook, tell: Tell | None, manifests: LakeManifests) -> bool:
    """Make again the judged nights that the lake lost or an older nightbook made; whether any."""
    # `manifests` are those before; the caller is the writer. A landed night that is not whole is
    # reported: that date is not in the warehouse, and the others are.
    nights = [lost for lost in outdated_nights(manifests) if lost.is_decided]
    older = [old for old in nights if old.contract is not None]
    if older and tell is not None:
        message = (
            f"an older nightbook made the lake of {len(older)} night{'s' * (len(older) > 1)} "
            f"(contract {older[-1].contract}): made again from the landing zone"
        )
        tell(message, event="upgrading")
    say = progress_reporter(nightbook, tell, "upgrading")
    for error in rebuild_nights(nightbook.layout, nights, nightbook.now(), say):
        if tell is None:
            print(error, file=sys.stderr)
        else:
            tell(str(error), event="not made", level=WARNING)
    return bool(nights)


def reconciliation_rows(layout: Layout) -> Rows | None:
    """Return what the reconciliation keeps; one that cannot be read costs no night."""
    try:
        return ops_rows(Record(layout.home / "reconcile"))
    except NotReconciled as error:
        print(error, file=sys.stderr)
        return None


def version_name(layout: Layout, now: datetime) -> str:
    """Return a name that no version has: on a clock that stands, the next microsecond."""
    moment = now.astimezone(UTC)
    while (layout.warehouse / "versions" / f"{moment:%Y%m%dT%H%M%S%fZ}").exists():
        moment += timedelta(microseconds=1)
    return f"{moment:%Y%m%dT%H%M%S%fZ}"


def _hold(layout: Layout, refusal: NotPublished, now: datetime) -> None:
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
    placement.settle(layout)


def judge_and_publish(nightbook: Nightbook, manifest: Manifest) -> PublishedSnapshot:
    """Judge a staged snapshot and publish, held or accepted: `ops` is brought up to date always."""
    layout = nightbook.layout
    manifests = LakeManifests(layout)
    if lost_decisions.restore_decisions(layout, manifests.nights):
        manifests = LakeManifests(layout)
    night.judge(manifests, manifest, nightbook.now())
    published = refresh(nightbook, manifests=manifests)
    return PublishedSnapshot(snapshots.find(layout, manifest.snapshot_id), published)


def recover(nightbook: Nightbook, tell: Tell, *, but: str) -> None:
    """Judge the landed nights that a dead run left, so that the next publish has them too."""
    # `but` is the snapshot that the run itself goes on with. A left-over that cannot be read is
    # told and stays a gap: it must not cost another night.
    layout = nightbook.layout
    manifests = LakeManifests(layout)
    for message in lost_decisions.restore_decisions(layout, manifests.nights):
        tell(message, event="restored")
        manifests = LakeManifests(layout)
    if is_behind(layout):
        upgrade_lake(nightbook, tell, manifests)
        manifests = LakeManifests(layout)
    for folder in night.left_over(manifests):
        if folder.name == but:
            continue
        try:
            judged = night.finish(manifests, folder, nightbook.now())
        except Exception as error:  # noqa: BLE001 - whatever is the matter with it, tonight goes on
            message = f"left over from a run that died, not made: snapshot {folder.name}: {error}"
            tell(message, event="left over", level=WARNING, snapshot=folder.name)
        else:
            message = f"left over from a run that died: snapshot {folder.name} is {judged.state}"
            tell(message, event=judged.state, snapshot=folder.name)


def catch_up(nightbook: Nightbook) -> None:
    """Publish again where another version of nightbook made the warehouse that people see."""
    if is_of_another_schema(nightbook.layout, schema_version()):
        refresh(nightbook)


def is_of_another_schema(layout: Layout, schema: str) -> bool:
    """Return whether there is a warehouse that people see, and it is of another schema."""
    if not layout.database.exists():
        return False
    return ask(layout.database, "select schema_version from ops.build").rows != ((schema,),)


def restore_lake(nightbook: Nightbook, *, and_publish: bool = True) -> bool:
    """Make again what the lake has lost to a rebuild that died, and publish what was decided."""
    # Whoever publishes without running a night does this first: what the lake does not hold would
    # vanish from the warehouse. Says whether something is still to be published.
    layout = nightbook.layout
    manifests = LakeManifests(layout)
    if lost_decisions.restore_decisions(layout, manifests.nights):
        manifests = LakeManifests(layout)
    for folder in night.left_over(manifests):
        if snapshots.read(folder).decision is not None:
            night.finish(manifests, folder, nightbook.now())
    is_untold = bool(lost_decisions.unpublished_snapshots(layout, manifests.nights))
    if is_untold and and_publish:
        placement.settle(layout)
        refresh(nightbook)
        return False
    return is_untold


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
    with night_tasks([nightbook.layout for nightbook in nightbooks]) as nights:
        finish = finish_flattened_nights(spark.flatten_on_spark(nights, say))
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
    lock.sweep(layout)
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
    nights = outdated_nights(manifests := LakeManifests(layout))
    for error in rebuild_nights(layout, nights, nightbook.now(), say, finish):
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


NOTE = ".rejected.txt"


def made_of(layout: Layout, snapshot: Snapshot) -> tuple[str, ...]:
    """Return the files that show a night: exports and workbooks of its date, later reports."""
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
    if _is_reconciled(layout, snapshot):
        for path in (layout.home / "reconcile" / "out" / day).glob("*"):
            if path.is_file() and not path.name.endswith(NOTE):
                yield path


def _is_since(path: Path, snapshot: Snapshot) -> bool:
    """Whether a file was made after the night was accepted; an older one is of another book."""
    if snapshot.decision is None or not path.is_file() or path.name.endswith(NOTE):
        return False
    accepted = datetime.fromisoformat(snapshot.decision.at)
    return path.stat().st_mtime >= accepted.timestamp()


def _is_reconciled(layout: Layout, snapshot: Snapshot) -> bool:
    try:
        result = Record(layout.home / "reconcile").result(snapshot.snapshot_date)
    except NotReconciled:
        return True  # it cannot be read: better a note too many
    return result is not None and result.snapshot_id == snapshot.snapshot_id


def is_without_note(layout: Layout, decision: Decision) -> bool:
    """Whether a file that a decision withdrew has no note beside it."""
    return any(
        (layout.home / name).is_file() and not (layout.home / f"{name}{NOTE}").is_file()
        for name in decision.withdrawn
    )


def mark(layout: Layout, snapshot: Snapshot, decision: Decision) -> None:
    """Put a note beside each file that a decision withdrew."""
    for name in decision.withdrawn:
        path = layout.home / name
        if not path.is_file():
            continue
        note = (
            f"{path.name} was made of snapshot {snapshot.snapshot_id}, which is no book any more: "
            f"it was rejected at {decision.at} by {decision.by} ({'; '.join(decision.reasons)}).\n"
            f"Meant is the file of SHA-256 {digest_of(path)}; a newer one of that name is not.\n"
        )
        with written_aside(path.with_name(f"{path.name}{NOTE}")) as file:
            file.write(note.encode(errors="backslashreplace"))


def decide(nightbook: Nightbook, snapshot_id: str, state: str, *, by: str, why: str) -> Snapshot:
    """Decide, publish, and mark what was made of a night that is taken back."""
    # The caller is the writer.
    layout, now = nightbook.layout, nightbook.now()
    restore_lake(nightbook)
    before = snapshots.find(layout, snapshot_id)
    is_taken_back = before.state == states.ACCEPTED
    snapshot = snapshots.decide_by_hand(
        layout,
        snapshot_id,
        state,
        by=by,
        at=now,
        why=why,
        withdrawn=made_of(layout, before) if is_taken_back else (),
    )
    lessons.let_through(layout, at=now)
    if is_taken_back and snapshot.decision is not None:
        mark(layout, snapshot, snapshot.decision)
    placement.settle(layout)
    refresh(nightbook)
    return snapshots.find(layout, snapshot_id)


def is_unfinished(layout: Layout, snapshot: Snapshot) -> bool:
    """Return whether a command died after deciding, before all saw it."""
    return snapshot.decision is not None and (
        snapshot.snapshot_id in lost_decisions.unpublished_snapshots(layout)
        or is_without_note(layout, snapshot.decision)
    )


def finish(nightbook: Nightbook, snapshot: Snapshot) -> None:
    """Publish what a command left that died after deciding; the caller is the writer."""
    if snapshot.decision is not None:
        mark(nightbook.layout, snapshot, snapshot.decision)
    restore_lake(nightbook)
