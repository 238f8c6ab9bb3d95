"""From the lake to the warehouse that people open: judged nights in, one new version out.

No Dagster here: the nightly job, `accept`, `reject` and `rebuild` all publish this way.
"""

import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from assets.console.progress import progress_reporter
from assets.console.version import program_version
from assets.nightbook import WARNING, Nightbook, Tell
from assets.publishing import lost_decisions
from pipelines import night
from pipelines.lake import placement
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.landing import snapshots
from pipelines.landing.manifest import Manifest
from pipelines.landing.reasons import Reason, shape_of
from pipelines.landing.snapshots import Snapshot
from pipelines.maintenance.upgrade import is_behind, make, unmade, upgraded_from
from warehouse.contract import states
from warehouse.database.ddl import schema_version
from warehouse.database.load import Book, Contents
from warehouse.database.publish import Published, publish
from warehouse.database.verification import NotPublished
from warehouse.query.read import run as ask
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.record.views import Rows, ops_rows
from warehouse.reconcile.terms import NotReconciled
from warehouse.storage.layout import Layout


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
    nights = [lost for lost in unmade(manifests) if lost.is_decided]
    older = [old for old in nights if old.contract is not None]
    if older and tell is not None:
        message = (
            f"an older nightbook made the lake of {len(older)} night{'s' * (len(older) > 1)} "
            f"(contract {older[-1].contract}): made again from the landing zone"
        )
        tell(message, event="upgrading")
    say = progress_reporter(nightbook, tell, "upgrading")
    for error in make(nightbook.layout, nights, nightbook.now(), say):
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
