"""The exchange of nights with the object store, and their open tables."""

import contextlib
import importlib
import secrets
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from assets.console.invocation import program_version
from assets.console.terminal import progress_reporter
from assets.home.demo import is_demo
from assets.nightbook import INFO, WARNING, Nightbook
from assets.publishing import publish
from assets.publishing import publish as withdrawal
from pipelines.lake import placement
from pipelines.lake.iceberg.address import CatalogAddress, NoIceberg, NotRegistered
from pipelines.landing import snapshots
from pipelines.landing.night_folders import Damaged
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
from warehouse.database.publish import Published
from warehouse.query.printable import printable_lines
from warehouse.storage.layout import Layout

TOKEN_BYTES = 16
MERGED = "merged"


class NoShelf(Exception):
    """No shelf is set, and a command is about one."""

    exit_code = 2

    def __init__(self, command: str) -> None:
        super().__init__(
            f"{SETTING} is not set (and invented nights are never shelved), so there is no shelf, "
            "and nothing was done. Set it to an object store that several machines reach, such as "
            f"s3://bucket/book (assets/OPERATING.md), then: nightbook {command}"
        )


class NotAllDone(Exception):
    """Some nights could not be shelved or fetched; the others were."""

    def __init__(self, problems: tuple[str, ...], done: int) -> None:
        listed = "\n".join(f"  {problem}" for problem in problems)
        many = count_of(len(problems), "night")
        super().__init__(
            f"Between this home and the shelf, {many} could not be settled; "
            f"{count_of(done, 'night')} could:\n{listed}"
        )


class NotYetShelved(Exception):
    """Nights are not on the shelf, and what is to be done would keep them from it."""

    def __init__(self, nights: list[Snapshot]) -> None:
        super().__init__(
            f"{count_of(len(nights), 'night')} of this home (to {nights[-1].snapshot_id}) are not "
            "on the shelf yet, and of what is pruned nothing can be shelved any more. Nothing was "
            "pruned. Shelve them first: nightbook shelve"
        )


def shelf_of(nightbook: Nightbook) -> StoreAddress | None:
    """Return where nights are shelved; None where they are not, and for invented ones."""
    is_invented = nightbook.is_demo or is_demo(nightbook.layout)
    return None if is_invented else nightbook.settings().shelf


def require_shelf(nightbook: Nightbook, command: str) -> StoreAddress:
    """Return where nights are shelved; raises `NoShelf`."""
    address = shelf_of(nightbook)
    if address is None:
        raise NoShelf(command)
    return address


def waiting_nights(nightbook: Nightbook, nights: list[Snapshot]) -> list[Snapshot]:
    """Return the judged nights that are not on the shelf as they are here."""
    address = shelf_of(nightbook)
    if address is None:
        return []
    return shelf_list.waiting_nights(nightbook.layout, address.url, nights)


def require_all_on_shelf(nightbook: Nightbook) -> None:
    """Raise `NotYetShelved` where judged nights are not on the shelf as they are here."""
    if waiting := waiting_nights(nightbook, snapshots.landed_snapshots(nightbook.layout)):
        raise NotYetShelved(waiting)


def shelve(nightbook: Nightbook) -> tuple[str, ...]:
    """Let this home and the shelf agree; returns the nights that went up, none without a shelf.

    What other machines decided is published here. The caller is the writer. Raises `StoreFailed`,
    `UnsafeStoreError`, `StoreNotInstalled`, and `NotAllDone` where some nights were left out.
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
    """Return who writes on the shelf for this run."""
    return Shelver(
        layout=nightbook.layout,
        store=open_store(address),
        token=secrets.token_hex(TOKEN_BYTES),
        at=nightbook.now(),
        program_version=program_version(),
    )


def ask_shelf(nightbook: Nightbook) -> Exception | None:
    """Complete the decisions of this home from the shelf, before a person decides; publish them.

    Returns the reason if the shelf cannot be asked. Then the person decides on what is known here,
    and the decisions are merged later. The caller is the writer.
    """
    if (address := shelf_of(nightbook)) is None:
        return None
    nights = snapshots.landed_snapshots(nightbook.layout)
    try:
        with following(nightbook) as tell:
            arrival.follow_shelf(nightbook.layout, open_store(address), nights, tell)
    except (StoreFailed, StoreNotInstalled, Damaged) as error:
        return error
    return None


@contextlib.contextmanager
def following(nightbook: Nightbook) -> Iterator[arrival.OnFollowed]:
    """Yield a function that reports decisions of other machines, and publish them at the end."""
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
            publish.restore_lake(nightbook)
        raise
    if followed:
        publish.restore_lake(nightbook)


def _mark_withdrawn(layout: Layout, night: FollowedNight) -> str:
    """Mark what this machine made of a night that another one took back; says how many files."""
    decision = night.after.decision
    states = (night.before.state, night.after.state)
    if decision is None or states != (ACCEPTED, REJECTED):
        return ""
    files = withdrawal.made_of(layout, night.before)
    withdrawal.mark(layout, night.after, replace(decision, withdrawn=files))
    return f" {count_of(len(files), 'file')} made of it here, each marked by a note beside it."


def shelve_after_deciding(nightbook: Nightbook, unreached: Exception | None = None) -> None:
    """Shelve what was decided; a store that is down costs no decision, and the next run shelves.

    A store that was `unreached` when it was asked before deciding is not asked again.
    """
    try:
        if unreached is not None:
            raise unreached
        shelve(nightbook)
    except (StoreFailed, UnsafeStoreError, StoreNotInstalled, NotAllDone, Damaged) as error:
        print(printable_lines(f"Decided here, and not shelved yet: {error}"), file=sys.stderr)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedNights:
    """What came from the shelf, and the version that was published of it; None where none was."""

    result: FetchResult
    published: Published | None


def fetch_and_publish(nightbook: Nightbook, *, with_landing: bool) -> FetchedNights:
    """Bring this home up to the shelf and publish it; the caller is the writer.

    Raises `NoShelf`, `StoreFailed`, and `NotAllDone` where some nights did not come.
    """
    layout, say = nightbook.layout, progress_reporter(nightbook, nightbook.tell, "fetching")
    store = open_store(require_shelf(nightbook, "publish"))
    # A lake of an older contract is made again of the bodies.
    is_older = is_behind(layout)
    with following(nightbook) as tell:
        result = fetch(layout, store, say, tell, with_landing=with_landing or is_older)
        placement.settle(layout)
    is_untold = publish.restore_lake(nightbook, and_publish=False)
    is_new = bool(result.fetched) or is_older or is_untold or not layout.database.exists()
    published = publish.refresh(nightbook) if is_new and result.on_shelf else None
    if result.problems:
        raise NotAllDone(result.problems, len(result.fetched))
    return FetchedNights(result=result, published=published)


ROOM = "pipelines.lake.iceberg"


def catalog_of(nightbook: Nightbook) -> tuple[CatalogAddress, StoreAddress] | None:
    """Return where tables are registered, and the shelf they lie on; None where they are not."""
    shelf, catalog = shelf_of(nightbook), nightbook.settings().catalog
    return None if shelf is None or catalog is None else (catalog, shelf)


def register(nightbook: Nightbook) -> tuple[str, ...]:
    """Register the shelf's nights that the catalog lacks; returns them, none without a catalog.

    Raises `NoIceberg`, `NoCatalog`, `Conflict`, `ForeignTable` and `StoreFailed`.
    """
    if (places := catalog_of(nightbook)) is None:
        return ()
    address, shelf = places
    with _catalog(address, shelf) as catalog:
        registration = importlib.import_module(f"{ROOM}.registration")
        say = progress_reporter(nightbook, nightbook.tell, "registering")
        return tuple(registration.register(catalog, address.namespace, open_store(shelf), say))


def look(nightbook: Nightbook) -> str:
    """Open the catalog and say what is in it; raises as `register` does."""
    places = catalog_of(nightbook)
    if places is None:
        return "it is not set"
    address, shelf = places
    with _catalog(address, shelf) as catalog:
        names = catalog.list_tables(address.namespace) if _has_namespace(catalog, address) else []
    tables = f"{count_of(len(names), 'table')} in {address.namespace}"
    return (
        f"{address.place} answers; {tables if names else 'no table yet: the next night makes them'}"
    )


def _has_namespace(catalog: Any, address: CatalogAddress) -> bool:
    return (address.namespace,) in catalog.list_namespaces()


def register_after_deciding(nightbook: Nightbook) -> None:
    """Register what was decided; a catalog that is down costs no decision, the next run does it."""
    try:
        register(nightbook)
    except (NotRegistered, StoreFailed) as error:
        print(printable_lines(f"Decided here, and not registered yet: {error}"), file=sys.stderr)


def expire(nightbook: Nightbook, snapshot_ids: Collection[str]) -> None:
    """Let no table point at these nights any more, before their files go from the shelf."""
    if (places := catalog_of(nightbook)) is not None:
        address, shelf = places
        with _catalog(address, shelf) as catalog:
            expiry = importlib.import_module(f"{ROOM}.registration")
            expiry.expire(catalog, address.namespace, snapshot_ids)


@contextlib.contextmanager
def _catalog(address: CatalogAddress, shelf: StoreAddress) -> Iterator[Any]:
    """Open the catalog; its packages are loaded only where one is set."""
    try:
        module = importlib.import_module(f"{ROOM}.catalog")
    except ModuleNotFoundError:
        raise NoIceberg from None
    options = (address.options, shelf.options)
    with (
        module.open_catalog(address.url, shelf, address.options) as catalog,
        module.named_failures(address.url, *options),
    ):
        yield catalog
