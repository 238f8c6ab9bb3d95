"""Exchange of nights and decisions with the shelf and the Iceberg catalog of this home."""

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from assets.console.invocation import program_version
from assets.console.terminal import progress_reporter
from assets.home.demo import is_demo
from assets.nightbook import INFO, WARNING, Nightbook
from assets.publishing import publish, repair
from pipelines.lake import placement
from pipelines.lakehouse import entrance
from pipelines.landing import snapshots
from pipelines.landing.night_folders import DamagedFile
from pipelines.landing.snapshots import Snapshot
from pipelines.maintenance.upgrade import is_behind
from warehouse.contract.model import count_of
from warehouse.contract.states import ACCEPTED, REJECTED
from warehouse.query.formats import printable_lines
from warehouse.storage.layout import Layout

if TYPE_CHECKING:
    from pipelines.lakehouse.entrance import FollowedNight, Lakehouse, OnFollowed, Transfer

MERGED = "merged"


class NoShelf(Exception):
    """A command needs a shelf, but none is configured."""

    exit_code = 2

    def __init__(self, command: str) -> None:
        super().__init__(
            f"There is no shelf, because {entrance.SHELF} is not set or this home is a demo. "
            f"Nothing was done. Set {entrance.SHELF} to an object store that several machines can "
            "reach, such as s3://bucket/book (see assets/OPERATING.md). Then run: nightbook "
            f"{command}"
        )


class NotYetShelved(Exception):
    """Some nights are not on the shelf yet, so they cannot be pruned."""

    def __init__(self, nights: list[Snapshot]) -> None:
        super().__init__(
            f"The shelf does not have {count_of(len(nights), 'night')} from this home yet (up to "
            f"{nights[-1].snapshot_id}), and pruned nights cannot be shelved later. Nothing was "
            "pruned. Shelve them first: nightbook shelve"
        )


def shelf_of(nightbook: Nightbook) -> "Lakehouse | None":
    """Return the home's shelf and catalog, or None in a demo or if no shelf is configured."""
    settings = nightbook.settings()
    if settings.shelf is None or nightbook.is_demo or is_demo(nightbook.layout):
        return None
    return entrance.Lakehouse(
        layout=nightbook.layout,
        shelf=settings.shelf,
        catalog=settings.catalog,
        at=nightbook.now(),
        program_version=program_version(),
    )


def require_shelf(nightbook: Nightbook, command: str) -> "Lakehouse":
    """Return the home's shelf and catalog. Raises `NoShelf` if no shelf is configured."""
    if (shelf := shelf_of(nightbook)) is None:
        raise NoShelf(command)
    return shelf


def waiting_nights(nightbook: Nightbook, nights: list[Snapshot]) -> list[Snapshot]:
    """Return the judged nights that are missing from the shelf or out of date there."""
    shelf = shelf_of(nightbook)
    return [] if shelf is None else shelf.waiting_nights(nights)


def require_all_on_shelf(nightbook: Nightbook) -> None:
    """Raise `NotYetShelved` if judged nights are missing from the shelf or out of date there."""
    if waiting := waiting_nights(nightbook, snapshots.landed_snapshots(nightbook.layout)):
        raise NotYetShelved(waiting)


def shelve(nightbook: Nightbook) -> tuple[str, ...]:
    """Upload new and changed nights to the shelf, and return their IDs.

    Decisions made on other machines are published in this home. Does nothing if there is no shelf.
    The caller must hold the writer's lock. Raises `LakehouseError`.
    """
    if (shelf := shelf_of(nightbook)) is None:
        return ()
    with following(nightbook) as tell:
        result = shelf.shelve(progress_reporter(nightbook, nightbook.tell, "shelving"), tell)
    result.require_complete()
    return result.nights


def register(nightbook: Nightbook) -> tuple[str, ...]:
    """Register shelved nights that are not in the catalog yet. Returns their IDs.

    Does nothing if there is no catalog. Raises `LakehouseError`.
    """
    if (shelf := shelf_of(nightbook)) is None:
        return ()
    return shelf.register(progress_reporter(nightbook, nightbook.tell, "registering"))


def ask_shelf(nightbook: Nightbook) -> Exception | None:
    """Fetch and publish decisions from other machines before a person decides.

    Returns the error if the shelf cannot be reached. The person then sees only the decisions in
    this home, and all decisions are merged later. The caller must hold the writer's lock.
    """
    if (shelf := shelf_of(nightbook)) is None:
        return None
    try:
        with following(nightbook) as tell:
            shelf.follow(tell)
    except (entrance.LakehouseError, DamagedFile) as error:
        return error
    return None


def share_decision(nightbook: Nightbook, unreached: Exception | None = None) -> None:
    """Upload a new decision to the shelf, and register it in the catalog.

    If the store or the catalog is down, the next run does this. `unreached` is the error if the
    store could not be reached before the decision. Then it is not contacted a second time.
    """
    if shelf_of(nightbook) is None:
        return
    for share, place in ((shelve, "on the shelf"), (register, "in the Iceberg catalog")):
        try:
            if unreached is not None and share is shelve:
                raise unreached
            share(nightbook)
        except (entrance.LakehouseError, DamagedFile) as error:
            problem = f"The decision is stored in this home, but not {place} yet: {error}"
            print(printable_lines(problem), file=sys.stderr)


def fetch_and_publish(nightbook: Nightbook, *, with_landing: bool) -> "tuple[Transfer, bool]":
    """Fetch missing nights from the shelf, and publish the home if anything has changed.

    Returns the fetched nights, and whether a version was published. The caller must hold the
    writer's lock. Raises `NoShelf` and `LakehouseError`.
    """
    layout, say = nightbook.layout, progress_reporter(nightbook, nightbook.tell, "fetching")
    shelf = require_shelf(nightbook, "publish")
    # If the lake has an older contract, fetch the bodies too, because the lake is rebuilt from
    # them.
    is_older = is_behind(layout)
    with following(nightbook) as tell:
        result = shelf.fetch(say, tell, with_landing=with_landing or is_older)
        placement.move_into_place(layout)
    is_pending = repair.before_publishing(nightbook)
    is_new = bool(result.nights) or is_older or is_pending or not layout.database.exists()
    is_published = is_new and result.on_shelf > 0
    if is_published:
        publish.refresh(nightbook)
    result.require_complete()
    return result, is_published


@contextlib.contextmanager
def following(nightbook: Nightbook) -> "Iterator[OnFollowed]":
    """Yield a function that reports decisions from other machines, then publish the decisions."""
    followed: list[FollowedNight] = []

    def tell(night: "FollowedNight") -> None:
        followed.append(night)
        message = night.message + _mark_withdrawn(nightbook.layout, night)
        if nightbook.tell is None:
            print(printable_lines(message), file=sys.stderr)
        else:
            level = WARNING if night.is_conflict else INFO
            nightbook.tell(message, event=MERGED, level=level, snapshot=night.after.snapshot_id)

    try:
        yield tell
    except Exception:
        if followed:
            publish.publish_pending(nightbook)
        raise
    if followed:
        publish.publish_pending(nightbook)


def _mark_withdrawn(layout: Layout, night: "FollowedNight") -> str:
    """Add a note to each file that shows a night rejected on another machine. Return a message."""
    decision = night.after.decision
    states = (night.before.state, night.after.state)
    if decision is None or states != (ACCEPTED, REJECTED):
        return ""
    files = publish.files_showing(layout, night.before)
    publish.mark(layout, night.after, replace(decision, withdrawn=files))
    return f" Wrote a note next to {count_of(len(files), 'file')} made from this night."
