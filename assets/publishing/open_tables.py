"""The shelf's nights as Iceberg tables, where `NIGHTBOOK_CATALOG` names a catalog."""

import contextlib
import importlib
import sys
from collections.abc import Collection, Iterator
from typing import Any

from assets.console.progress import progress_reporter
from assets.nightbook import Nightbook
from assets.publishing.shelf import shelf_of
from pipelines.lake.iceberg.address import CatalogAddress
from pipelines.lake.iceberg.errors import NoIceberg, NotRegistered
from pipelines.shelf.address import StoreAddress
from pipelines.shelf.object_store import StoreFailed, open_store
from warehouse.contract.wording import count_of
from warehouse.query.printable import printable_lines

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
            expiry = importlib.import_module(f"{ROOM}.expiry")
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
