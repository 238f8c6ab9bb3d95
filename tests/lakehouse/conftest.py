"""Fixtures for the servers of `make lakehouse`. A missing server skips its tests with a reason.

Each server starts once per session.
"""

from collections.abc import Iterator

import pytest

from tests.support import object_stores
from tests.support.object_stores import ObjectStore
from tests.support.postgres import Postgres, serving


@pytest.fixture(scope="session")
def seaweedfs() -> Iterator[ObjectStore]:
    """Start an S3 store with an Iceberg REST catalog."""
    with object_stores.seaweedfs() as store:
        yield store


@pytest.fixture(scope="session")
def azurite() -> Iterator[ObjectStore]:
    """Start a store of Azure blobs."""
    with object_stores.azurite() as store:
        yield store


@pytest.fixture(scope="session")
def rclone() -> Iterator[ObjectStore]:
    """Start an S3 store that ignores all conditions."""
    with object_stores.rclone() as store:
        yield store


@pytest.fixture(scope="session", params=["seaweedfs", "azurite"])
def object_store(request: pytest.FixtureRequest) -> ObjectStore:
    """Return each store that respects conditions."""
    store: ObjectStore = request.getfixturevalue(request.param)
    return store


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Start a PostgreSQL server with one empty database."""
    with serving() as server:
        yield server
