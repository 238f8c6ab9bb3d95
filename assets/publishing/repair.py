"""Repairs of a home after killed commands, lost files and upgrades.

Each repair can be interrupted and repeated. They run at these times:

- before a night is judged (`before_night`): lost decisions are restored, nights built by an older
  version are rebuilt, and landed nights that no run judged are judged;
- before a version is published without a new night (`before_publishing`): lost decisions are
  restored, and decided nights that are missing from the lake are rebuilt;
- before any version is published (`upgrade_lake`): nights built by an older version are rebuilt.

Files of killed runs are deleted by `pipelines.landing.lock.sweep` when a version is built.
"""

import sys

from assets.console.terminal import progress_reporter
from assets.nightbook import WARNING, EventCallback, Nightbook
from assets.publishing import lost_decisions
from assets.publishing.pending_decisions import unpublished_snapshots
from pipelines import night
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.landing import snapshots
from pipelines.maintenance.upgrade import is_behind, outdated_nights, rebuild_nights
from warehouse.contract.model import count_of


def before_night(nightbook: Nightbook, tell: EventCallback, *, but: str) -> None:
    """Judge landed nights that a dead run left behind, so that the next version includes them.

    `but` is the ID of the snapshot that the caller handles itself. An unreadable night is reported
    and remains a gap, so it cannot block other nights.
    """
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
        except Exception as error:  # noqa: BLE001 - tonight's run must continue in any case
            message = f"snapshot {folder.name} from a run that died could not be judged: {error}"
            tell(message, event="left over", level=WARNING, snapshot=folder.name)
        else:
            message = f"judged snapshot {folder.name} from a run that died: it is {judged.state}"
            tell(message, event=judged.state, snapshot=folder.name)


def before_publishing(nightbook: Nightbook) -> bool:
    """Rebuild nights that are missing from the lake after an interrupted rebuild.

    Returns whether the published warehouse lacks decisions. Call this before publishing without a
    new night, because nights missing from the lake would disappear from the warehouse.
    """
    layout = nightbook.layout
    manifests = LakeManifests(layout)
    if lost_decisions.restore_decisions(layout, manifests.nights):
        manifests = LakeManifests(layout)
    for folder in night.left_over(manifests):
        if snapshots.read(folder).decision is not None:
            night.finish(manifests, folder, nightbook.now())
    return bool(unpublished_snapshots(layout, manifests.nights))


def upgrade_lake(
    nightbook: Nightbook, tell: EventCallback | None, manifests: LakeManifests
) -> bool:
    """Rebuild judged nights that are missing from the lake or were built by an older nightbook.

    Returns True if any nights were rebuilt, in which case `manifests` is out of date. A damaged
    landed night is reported, and only its date will be missing from the warehouse.
    """
    nights = [lost for lost in outdated_nights(manifests) if lost.is_decided]
    older = [old for old in nights if old.contract is not None]
    if older and tell is not None:
        message = (
            f"the lake tables of {count_of(len(older), 'night')} were built by an older version "
            f"(contract {older[-1].contract}), so they are rebuilt from the landing folder"
        )
        tell(message, event="upgrading")
    say = progress_reporter(nightbook, tell, "upgrading")
    for error in rebuild_nights(nightbook.layout, nights, nightbook.now(), say):
        if tell is None:
            print(error, file=sys.stderr)
        else:
            tell(str(error), event="not made", level=WARNING)
    return bool(nights)
