"""Tests of the servers of this suite: two stores respect conditions, and one ignores them."""

import time

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import from_url

from tests.support.object_stores import ObjectStore
from tests.support.postgres import Postgres

pytestmark = pytest.mark.lakehouse


def _bucket(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> obstore.store.ObjectStore:
    for name, value in store.variables.items():
        monkeypatch.setenv(name, value)
    return from_url(store.root, client_options={"allow_http": True})


def test_a_good_store_enforces_conditions(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store rejects a second create and a swap with a stale tag, and accepts the right tag."""
    bucket, key = _bucket(object_store, monkeypatch), f"servers/{time.time_ns()}"
    first = obstore.put(bucket, key, b"1", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(bucket, key, b"2", mode="create")
    obstore.put(bucket, key, b"3", mode={"e_tag": first["e_tag"]})
    with pytest.raises(PreconditionError):
        obstore.put(bucket, key, b"4", mode={"e_tag": first["e_tag"]})
    assert bytes(obstore.get(bucket, key).bytes()) == b"3"


def test_the_bad_store_accepts_a_second_create(
    rclone: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a store that ignores conditions, a second create silently replaces the first commit."""
    bucket = _bucket(rclone, monkeypatch)
    for content in (b"1", b"2"):
        obstore.put(bucket, "servers/commit", content, mode="create")
    assert bytes(obstore.get(bucket, "servers/commit").bytes()) == b"2"


def test_the_postgresql_server_is_running(postgres: Postgres) -> None:
    """The PostgreSQL server of the catalog is running."""
    assert postgres.port
