"""Thirty nights on a shelf, and what pyiceberg needs, which stands beside nightbook's own."""

import hashlib
import random
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipelines.landing import snapshots
from tests.support import environments, postgres
from tests.support.nights import STARTED, small, take
from tests.support.postgres import Postgres
from warehouse.contract.lake import LAKE
from warehouse.storage.layout import Layout

COUNT = 30


@dataclass(frozen=True, slots=True)
class Shelf:
    """A folder of nights as they would lie on a store: their files by table, and their sums."""

    root: Path
    nights: tuple[Any, ...]
    sums: dict[str, Decimal]


@pytest.fixture(scope="session")
def iceberg() -> Iterator[ModuleType]:
    """The module under test; without the packages of the extra its tests are skipped."""
    place = str(environments.packages("iceberg"))
    sys.path.append(place)
    from pipelines.lake.iceberg import registration  # noqa: PLC0415 - its packages are there now

    yield registration
    sys.path.remove(place)


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    """A PostgreSQL of its own."""
    with postgres.serving() as running:
        yield running


@pytest.fixture(scope="session")
def shelf(iceberg: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    """Thirty nights of amounts with eighteen decimals, the last date taken twice."""
    layout, root = Layout(tmp_path_factory.mktemp("home")), tmp_path_factory.mktemp("shelf")
    chance = random.Random(11)  # noqa: S311 - a test
    sums = {}
    for number in range(COUNT):
        amount = f"{chance.randrange(10**12)}.{chance.randrange(10**18):018}"
        started = STARTED + timedelta(days=min(number, COUNT - 2), minutes=number)
        sums[take(layout, small(amount), started).snapshot_id] = Decimal(amount)
    nights = [_shelve(iceberg, layout, root, night) for night in snapshots.landed_snapshots(layout)]
    return Shelf(root, tuple(nights), sums)


def _shelve(iceberg: ModuleType, layout: Layout, root: Path, night: snapshots.Snapshot) -> Any:
    manifest = layout.manifest(night.snapshot_id).read_bytes()
    files = {}
    for table in LAKE:
        path = layout.parquet(table.name, night.snapshot_date, night.snapshot_id)
        if not path.is_file():
            path = layout.staged_file(table.name, night.snapshot_id)
        if path.is_file() and pq.read_metadata(path).num_rows:
            place = root / table.name / f"{night.snapshot_id}-1.parquet"
            place.parent.mkdir(exist_ok=True)
            shutil.copy(path, place)
            files[table.name] = [place.as_uri()]
    return iceberg.ShelvedNight(
        snapshot_id=night.snapshot_id,
        snapshot_date=night.snapshot_date,
        state=night.state,
        since=None,
        manifest_sha256=hashlib.sha256(manifest).hexdigest(),
        files=files,
    )
