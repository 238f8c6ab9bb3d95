"""The servers of `make lakehouse`, each started once; what is missing skips its tests in words."""

from collections.abc import Iterator

import pytest

from tests.support import object_stores
from tests.support.object_stores import ObjectStore
from tests.support.postgres import Postgres, serving


@pytest.fixture(scope="session")
def seaweedfs() -> Iterator[ObjectStore]:
    """S3, with an Iceberg REST catalog."""
    with object_stores.seaweedfs() as store:
        yield store


@pytest.fixture(scope="session")
def azurite() -> Iterator[ObjectStore]:
    """Azure blobs."""
    with object_stores.azurite() as store:
        yield store


@pytest.fixture(scope="session")
def rclone() -> Iterator[ObjectStore]:
    """S3 that ignores every condition."""
    with object_stores.rclone() as store:
        yield store


@pytest.fixture(scope="session", params=["seaweedfs", "azurite"])
def object_store(request: pytest.FixtureRequest) -> ObjectStore:
    """Each store that keeps its word."""
    store: ObjectStore = request.getfixturevalue(request.param)
    return store


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL with one empty database."""
    with serving() as server:
        yield server
