"""Homes with a shelf in a folder, and Iceberg catalogs with the separate packages they need."""

import contextlib
import random
import sys
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from types import ModuleType
from typing import Any

import pytest

from pipelines.lake import placement
from pipelines.lakehouse.addresses import StoreAddress
from pipelines.lakehouse.object_store import ObjectStore, open_store
from pipelines.lakehouse.shelving import Shelver
from pipelines.landing import snapshots
from tests.support import environments, object_stores, postgres
from tests.support.nights import STARTED, small, take
from tests.support.postgres import Postgres
from tests.support.shipped_units import until
from warehouse.storage.layout import Layout

COUNT = 30


@dataclass(slots=True)
class Home:
    """A home whose nights are shelved, with the single amount of each night."""

    layout: Layout
    store: ObjectStore
    sums: dict[str, Decimal] = field(default_factory=dict)

    def take(self, amount: str, started: datetime = STARTED) -> str:
        """Create and shelve a night with one amount, and return its snapshot ID."""
        snapshot_id = take(self.layout, small(amount), started).snapshot_id
        self.sums[snapshot_id] = Decimal(amount)
        self.shelve()
        return snapshot_id

    def decide(self, snapshot_id: str, state: str) -> None:
        """Decide on a night by hand, and shelve the decision."""
        snapshots.decide_by_hand(
            self.layout, snapshot_id, state, by="Ada", at=datetime.now(tz=STARTED.tzinfo), why="so"
        )
        placement.move_into_place(self.layout)
        self.shelve()

    def shelve(self) -> None:
        """Copy everything to the shelf that is not there yet."""
        shelver = Shelver(
            layout=self.layout, store=self.store, token="t" * 32, at=STARTED, program_version="0"
        )
        assert shelver.shelve(snapshots.landed_snapshots(self.layout)).problems == ()


@pytest.fixture(scope="session")
def iceberg() -> Iterator[ModuleType]:
    """Yield the module under test. Skip its tests if the packages of the extra are missing."""
    place = str(environments.packages("iceberg"))
    sys.path.append(place)
    from pipelines.lakehouse import registration  # noqa: PLC0415 - its packages are there now

    yield registration
    sys.path.remove(place)


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    """Yield a separate PostgreSQL server."""
    with postgres.serving() as running:
        yield running


@pytest.fixture(scope="session")
def catalog(
    iceberg: ModuleType, server: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """Yield a catalog in PostgreSQL."""
    from pipelines.lakehouse.iceberg_catalog import open_catalog  # noqa: PLC0415 - see `iceberg`

    password = urllib.parse.quote(server.password)
    uri = f"postgresql://dagster:{password}@127.0.0.1:{server.port}/dagster"
    place = StoreAddress(tmp_path_factory.mktemp("metadata").as_uri())
    with open_catalog(uri, place) as opened:
        yield opened


@pytest.fixture(scope="session")
def rest_catalog(iceberg: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yield the REST catalog of SeaweedFS, which stores the metadata itself."""
    from pyiceberg import catalog as catalogs  # noqa: PLC0415 - see `iceberg`

    from pipelines.lakehouse.iceberg_catalog import open_catalog  # noqa: PLC0415 - see `iceberg`

    place = StoreAddress(tmp_path_factory.mktemp("unused").as_uri())
    with object_stores.seaweedfs() as store, pytest.MonkeyPatch.context() as patch:
        for name, value in {**store.variables, **store.rest_variables}.items():
            patch.setenv(name, value)
        patch.setattr(catalogs, "_ENV_CONFIG", catalogs.Config())
        with open_catalog(store.iceberg, place) as opened:
            until("SeaweedFS's tables", lambda: _has_tables(opened))
            yield opened


def _has_tables(catalog: Any) -> bool:
    """Return whether a catalog has the bucket for its tables.

    SeaweedFS creates the bucket some time after it starts to respond.
    """
    from pyiceberg.exceptions import (  # noqa: PLC0415 - see `iceberg`
        NoSuchNamespaceError,
        RESTError,
    )

    with contextlib.suppress(NoSuchNamespaceError, RESTError):
        catalog.list_namespaces()
        return True
    return False


@pytest.fixture(params=["catalog", "rest_catalog"])
def each_catalog(request: pytest.FixtureRequest) -> Any:
    """Return a catalog of each kind in turn."""
    return request.getfixturevalue(request.param)


def _home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    folder = tmp_path_factory.mktemp("home")
    address = StoreAddress((folder / "shelf").as_uri())
    return Home(Layout(folder / "data"), open_store(address))


@pytest.fixture
def home(iceberg: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Return a home without nights."""
    return _home(tmp_path_factory)


@pytest.fixture(scope="session")
def thirty(iceberg: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Return a home with thirty nights of 18-decimal amounts, two of them on the last date."""
    home = _home(tmp_path_factory)
    chance = random.Random(11)
    for number in range(COUNT):
        started = STARTED + timedelta(days=min(number, COUNT - 2), minutes=number)
        home.take(f"{chance.randrange(10**12)}.{chance.randrange(10**18):018}", started)
    return home
