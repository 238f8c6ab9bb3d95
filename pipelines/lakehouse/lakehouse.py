"""A home's lakehouse: the object store and, if there is one, the Iceberg catalog."""

import contextlib
import importlib
import secrets
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipelines.lakehouse import CATALOG, arrival, shelf_list
from pipelines.lakehouse.addresses import CatalogAddress, StoreAddress
from pipelines.lakehouse.decisions import OnFollowed, behind, follow
from pipelines.lakehouse.errors import NotInstalled
from pipelines.lakehouse.night_manifest import UNUSABLE
from pipelines.lakehouse.object_store import open_store, probe
from pipelines.lakehouse.shelf_check import verify_shelf
from pipelines.lakehouse.shelf_list import newest_manifests, read_night, read_record
from pipelines.lakehouse.shelf_prune import ShelfPruneResult, prune_shelf
from pipelines.lakehouse.shelving import Shelver
from pipelines.lakehouse.transfer import Transfer
from pipelines.landing import snapshots
from pipelines.landing.damage import Damage
from pipelines.landing.snapshots import Snapshot
from warehouse.contract.model import count_of
from warehouse.progress import ProgressCallback
from warehouse.storage.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Lakehouse:
    """The object store and the Iceberg catalog of a home, as one run uses them.

    Methods that contact them raise `LakehouseError`, or `DamagedFile` if the shelf's list of nights
    is incomplete. Whoever changes the home must hold its writer's lock.
    """

    layout: Layout
    shelf: StoreAddress
    catalog: CatalogAddress | None
    at: datetime
    program_version: str

    @property
    def url(self) -> str:
        """The shelf's address."""
        return self.shelf.url

    def waiting_nights(self, nights: Sequence[Snapshot]) -> list[Snapshot]:
        """Return the judged nights that are missing from the shelf or out of date there."""
        return shelf_list.waiting_nights(self.layout, self.url, nights)

    def shelve(self, say: ProgressCallback, on_followed: OnFollowed) -> Transfer:
        """Upload new and changed nights to the shelf, and merge decisions from other machines."""
        return self._shelver().shelve(snapshots.landed_snapshots(self.layout), say, on_followed)

    def fetch(
        self, say: ProgressCallback, on_followed: OnFollowed, *, with_landing: bool
    ) -> Transfer:
        """Load new nights and decisions from the shelf. The caller must judge and publish them."""
        store = open_store(self.shelf)
        return arrival.fetch(self.layout, store, say, on_followed, with_landing=with_landing)

    def follow(self, on_followed: OnFollowed) -> None:
        """Merge the shelf's decisions into the nights of this home, without changing the shelf.

        Unreadable nights are skipped here, and `nightbook shelve` reports them.
        """
        store, record = open_store(self.shelf), read_record(self.layout, self.url)
        newest = newest_manifests(store, record.shelved_nights)
        for snapshot in behind(snapshots.landed_snapshots(self.layout), newest, record):
            with contextlib.suppress(*UNUSABLE):
                follow(snapshot, read_night(store, newest[snapshot.snapshot_id]), on_followed)

    def verify(self) -> Iterator[Damage]:
        """Check all objects on the shelf. Yield damage for each missing or changed object."""
        return verify_shelf(open_store(self.shelf))

    def count_nights(self, *, is_reader: bool) -> int:
        """Count the nights on the shelf and, unless the home only reads it, test the store."""
        store, record = open_store(self.shelf), read_record(self.layout, self.url)
        count = len(newest_manifests(store, record.shelved_nights))
        if not is_reader:
            probe(store, secrets.token_hex())
        return count

    def prune(self, would_go: Collection[str], *, dry_run: bool) -> ShelfPruneResult:
        """Delete pruned nights from the shelf, after removing them from the Iceberg tables."""
        return prune_shelf(self._shelver(), self._expire, would_go, dry_run=dry_run)

    def register(self, say: ProgressCallback) -> tuple[str, ...]:
        """Register shelved nights that are not in the catalog yet. Return their IDs."""
        if self.catalog is None:
            return ()
        store = open_store(self.shelf)
        with self._open_catalog(self.catalog) as (registration, catalog):
            return tuple(registration.register(catalog, self.catalog.namespace, store, say))

    def describe_catalog(self) -> str:
        """Open the catalog, count its tables, and describe the result."""
        if self.catalog is None:
            return "it is not set"
        namespace = self.catalog.namespace
        with self._open_catalog(self.catalog) as (_, catalog):
            names = catalog.list_tables(namespace) if catalog.namespace_exists(namespace) else []
        tables = f"{count_of(len(names), 'table')} in {namespace}"
        contents = tables if names else "it has no tables yet, but the next night will create them"
        return f"{self.catalog.place} responds: {contents}"

    def _expire(self, snapshot_ids: Collection[str]) -> None:
        """Remove nights from all Iceberg tables. Call this before deleting their files."""
        if self.catalog is not None:
            with self._open_catalog(self.catalog) as (registration, catalog):
                registration.expire(catalog, self.catalog.namespace, snapshot_ids)

    def _shelver(self) -> Shelver:
        return Shelver(
            layout=self.layout,
            store=open_store(self.shelf),
            token=secrets.token_hex(),
            at=self.at,
            program_version=self.program_version,
        )

    @contextlib.contextmanager
    def _open_catalog(self, address: CatalogAddress) -> Iterator[tuple[Any, Any]]:
        """Open the catalog. Yield it together with the module that registers nights in it."""
        # Import the catalog's packages only if there is a catalog, because they may be missing.
        try:
            catalogs = importlib.import_module("pipelines.lakehouse.iceberg_catalog")
            registration = importlib.import_module("pipelines.lakehouse.registration")
        except ModuleNotFoundError:
            problem = f"{CATALOG} is set, but the packages that register tables are not installed"
            raise NotInstalled(problem, "nightbook[lakehouse]") from None
        with catalogs.open_catalog(address.url, self.shelf, address.options) as catalog:
            yield registration, catalog
