"""Transfer of nights to and from the object store, and registration of their Iceberg tables."""

import contextlib
import importlib
import secrets
import sys
from collections.abc import Collection, Iterator
from typing import Any

from msgspec.structs import replace

from assets.console.invocation import program_version
from assets.console.terminal import progress_reporter
from assets.home.demo import is_demo
from assets.nightbook import INFO, WARNING, Nightbook
from assets.publishing import publish, repair
from pipelines.lake import placement
from pipelines.lake.iceberg.address import CatalogAddress, NoIceberg, NotRegistered
from pipelines.landing import snapshots
from pipelines.landing.night_folders import DamagedFile
from pipelines.landing.snapshots import Snapshot
from pipelines.maintenance.upgrade import is_behind
from pipelines.shelf import arrival, shelf_list
from pipelines.shelf.arrival import FetchResult, FollowedNight, fetch
from pipelines.shelf.object_store import (
    SETTING,
    StoreAddress,
    StoreFailed,
    StoreNotInstalled,
    UnsafeStoreError,
    open_store,
)
from pipelines.shelf.shelving import Shelver
from warehouse.contract.model import count_of
from warehouse.contract.states import ACCEPTED, REJECTED
from warehouse.query.formats import printable_lines
from warehouse.storage.layout import Layout

TOKEN_BYTES = 16
MERGED = "merged"


class NoShelf(Exception):
    """A command needs a shelf, but none is configured."""

    exit_code = 2

    def __init__(self, command: str) -> None:
        super().__init__(
            f"There is no shelf, because {SETTING} is not set or this home is a demo. Nothing was "
            f"done. Set {SETTING} to an object store that several machines can reach, such as "
            f"s3://bucket/book (see assets/OPERATING.md). Then run: nightbook {command}"
        )


class NotAllDone(Exception):
    """Some nights could not be shelved or fetched, but all other nights were transferred."""

    def __init__(self, problems: tuple[str, ...], done: int) -> None:
        listed = "\n".join(f"  {problem}" for problem in problems)
        many = count_of(len(problems), "night")
        super().__init__(
            f"Transferred {count_of(done, 'night')} between this home and the shelf. {many} could "
            f"not be transferred:\n{listed}"
        )


class NotYetShelved(Exception):
    """Some nights are not on the shelf yet, so they cannot be pruned."""

    def __init__(self, nights: list[Snapshot]) -> None:
        super().__init__(
            f"The shelf does not have {count_of(len(nights), 'night')} from this home yet (up to "
            f"{nights[-1].snapshot_id}), and pruned nights cannot be shelved later. Nothing was "
            "pruned. Shelve them first: nightbook shelve"
        )


def shelf_of(nightbook: Nightbook) -> StoreAddress | None:
    """Return the shelf's address, or None in a demo or if no shelf is configured."""
    is_invented = nightbook.is_demo or is_demo(nightbook.layout)
    return None if is_invented else nightbook.settings().shelf


def require_shelf(nightbook: Nightbook, command: str) -> StoreAddress:
    """Return the shelf's address. Raises `NoShelf` if no shelf is configured."""
    address = shelf_of(nightbook)
    if address is None:
        raise NoShelf(command)
    return address


def waiting_nights(nightbook: Nightbook, nights: list[Snapshot]) -> list[Snapshot]:
    """Return the judged nights that are missing from the shelf or out of date there."""
    address = shelf_of(nightbook)
    if address is None:
        return []
    return shelf_list.waiting_nights(nightbook.layout, address.url, nights)


def require_all_on_shelf(nightbook: Nightbook) -> None:
    """Raise `NotYetShelved` if judged nights are missing from the shelf or out of date there."""
    if waiting := waiting_nights(nightbook, snapshots.landed_snapshots(nightbook.layout)):
        raise NotYetShelved(waiting)


def shelve(nightbook: Nightbook) -> tuple[str, ...]:
    """Upload new and changed nights to the shelf, and return their IDs.

    Decisions made on other machines are published in this home. Does nothing if there is no shelf.
    The caller must hold the writer's lock. Raises `StoreFailed`, `UnsafeStoreError`,
    `StoreNotInstalled`, and `NotAllDone` if some nights failed.
    """
    address = shelf_of(nightbook)
    if address is None:
        return ()
    shelver = shelver_of(nightbook, address)
    nights = snapshots.landed_snapshots(nightbook.layout)
    say = progress_reporter(nightbook, nightbook.tell, "shelving")
    with following(nightbook) as tell:
        result = shelver.shelve(nights, say, tell)
    if result.problems:
        raise NotAllDone(result.problems, len(result.shelved))
    return result.shelved


def shelver_of(nightbook: Nightbook, address: StoreAddress) -> Shelver:
    """Return the `Shelver` that writes to the shelf during this run."""
    return Shelver(
        layout=nightbook.layout,
        store=open_store(address),
        token=secrets.token_hex(TOKEN_BYTES),
        at=nightbook.now(),
        program_version=program_version(),
    )


def ask_shelf(nightbook: Nightbook) -> Exception | None:
    """Fetch and publish decisions from other machines before a person decides.

    Returns the error if the shelf cannot be reached. The person then sees only the decisions in
    this home, and all decisions are merged later. The caller must hold the writer's lock.
    """
    if (address := shelf_of(nightbook)) is None:
        return None
    nights = snapshots.landed_snapshots(nightbook.layout)
    try:
        with following(nightbook) as tell:
            arrival.follow_shelf(nightbook.layout, open_store(address), nights, tell)
    except (StoreFailed, StoreNotInstalled, DamagedFile) as error:
        return error
    return None


@contextlib.contextmanager
def following(nightbook: Nightbook) -> Iterator[arrival.OnFollowed]:
    """Yield a function that reports decisions from other machines, then publish the decisions."""
    followed: list[FollowedNight] = []

    def tell(night: FollowedNight) -> None:
        followed.append(night)
        message = night.message + _mark_withdrawn(nightbook.layout, night)
        if nightbook.tell is None:
            print(printable_lines(message), file=sys.stderr)
        else:
            level = WARNING if night.is_conflict else INFO
            name = night.after.snapshot_id
            nightbook.tell(message, event=MERGED, level=level, snapshot=name)

    try:
        yield tell
    except Exception:
        if followed:
            publish.publish_pending(nightbook)
        raise
    if followed:
        publish.publish_pending(nightbook)


def _mark_withdrawn(layout: Layout, night: FollowedNight) -> str:
    """Add a note to each file that shows a night rejected on another machine. Return a message."""
    decision = night.after.decision
    states = (night.before.state, night.after.state)
    if decision is None or states != (ACCEPTED, REJECTED):
        return ""
    files = publish.files_showing(layout, night.before)
    publish.mark(layout, night.after, replace(decision, withdrawn=files))
    return f" Wrote a note next to {count_of(len(files), 'file')} made from this night."


def shelve_after_deciding(nightbook: Nightbook, unreached: Exception | None = None) -> None:
    """Upload a new decision to the shelf. If the store is down, the next run uploads it.

    `unreached` is the error if the store could not be reached before the decision. In that case,
    the store is not contacted a second time.
    """
    try:
        if unreached is not None:
            raise unreached
        shelve(nightbook)
    except (StoreFailed, UnsafeStoreError, StoreNotInstalled, NotAllDone, DamagedFile) as error:
        print(
            printable_lines(
                f"The decision is stored in this home, but not on the shelf yet: {error}"
            ),
            file=sys.stderr,
        )


def fetch_and_publish(nightbook: Nightbook, *, with_landing: bool) -> tuple[FetchResult, bool]:
    """Fetch missing nights from the shelf, and publish the home if anything has changed.

    Returns the fetched nights, and whether a version was published. The caller must hold the
    writer's lock. Raises `NoShelf`, `StoreFailed`, and `NotAllDone` if some nights failed.
    """
    layout, say = nightbook.layout, progress_reporter(nightbook, nightbook.tell, "fetching")
    store = open_store(require_shelf(nightbook, "publish"))
    # If the lake has an older contract, fetch the bodies too, because the lake is rebuilt from
    # them.
    is_older = is_behind(layout)
    with following(nightbook) as tell:
        result = fetch(layout, store, say, tell, with_landing=with_landing or is_older)
        placement.settle(layout)
    is_pending = repair.before_publishing(nightbook)
    is_new = bool(result.fetched) or is_older or is_pending or not layout.database.exists()
    is_published = is_new and result.on_shelf > 0
    if is_published:
        publish.refresh(nightbook)
    if result.problems:
        raise NotAllDone(result.problems, len(result.fetched))
    return result, is_published


ICEBERG = "pipelines.lake.iceberg"


def catalog_of(nightbook: Nightbook) -> tuple[CatalogAddress, StoreAddress] | None:
    """Return the addresses of catalog and shelf, or None unless both are configured."""
    shelf, catalog = shelf_of(nightbook), nightbook.settings().catalog
    return None if shelf is None or catalog is None else (catalog, shelf)


def register(nightbook: Nightbook) -> tuple[str, ...]:
    """Register shelved nights that are not in the catalog yet. Returns their IDs.

    Does nothing if there is no catalog. Raises `NoIceberg`, `NoCatalog`, `Conflict`,
    `ForeignTable` and `StoreFailed`.
    """
    if (addresses := catalog_of(nightbook)) is None:
        return ()
    address, shelf = addresses
    with _catalog(address, shelf) as catalog:
        registration = importlib.import_module(f"{ICEBERG}.registration")
        say = progress_reporter(nightbook, nightbook.tell, "registering")
        return tuple(registration.register(catalog, address.namespace, open_store(shelf), say))


def look(nightbook: Nightbook) -> str:
    """Open the catalog and count its tables. Raises the same errors as `register`."""
    addresses = catalog_of(nightbook)
    if addresses is None:
        return "it is not set"
    address, shelf = addresses
    with _catalog(address, shelf) as catalog:
        names = catalog.list_tables(address.namespace) if _has_namespace(catalog, address) else []
    tables = f"{count_of(len(names), 'table')} in {address.namespace}"
    contents = tables if names else "it has no tables yet, but the next night will create them"
    return f"{address.place} responds: {contents}"


def _has_namespace(catalog: Any, address: CatalogAddress) -> bool:
    return (address.namespace,) in catalog.list_namespaces()


def register_after_deciding(nightbook: Nightbook) -> None:
    """Register a decision in the catalog. If the catalog is down, the next run registers it."""
    try:
        register(nightbook)
    except (NotRegistered, StoreFailed) as error:
        print(
            printable_lines(
                f"The decision is stored in this home, but not in the Iceberg catalog yet: {error}"
            ),
            file=sys.stderr,
        )


def expire(nightbook: Nightbook, snapshot_ids: Collection[str]) -> None:
    """Remove nights from all catalog tables. Call this before deleting their files."""
    if (addresses := catalog_of(nightbook)) is not None:
        address, shelf = addresses
        with _catalog(address, shelf) as catalog:
            registration = importlib.import_module(f"{ICEBERG}.registration")
            registration.expire(catalog, address.namespace, snapshot_ids)


@contextlib.contextmanager
def _catalog(address: CatalogAddress, shelf: StoreAddress) -> Iterator[Any]:
    """Open the catalog. Its packages are imported only if a catalog is configured."""
    try:
        module = importlib.import_module(f"{ICEBERG}.catalog")
    except ModuleNotFoundError:
        raise NoIceberg from None
    options = (address.options, shelf.options)
    with (
        module.open_catalog(address.url, shelf, address.options) as catalog,
        module.named_failures(address.url, *options),
    ):
        yield catalog
