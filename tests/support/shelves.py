"""Shelves for tests: one home shelves its nights in a store, and a second home fetches them."""

import itertools
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import obstore
from obstore.store import MemoryStore

from pipelines.lake import placement
from pipelines.lakehouse.addresses import StoreAddress
from pipelines.lakehouse.arrival import fetch
from pipelines.lakehouse.decisions import OnFollowed
from pipelines.lakehouse.object_store import ObjectStore
from pipelines.lakehouse.shelf_check import verify_shelf
from pipelines.lakehouse.shelving import Shelver
from pipelines.lakehouse.transfer import Transfer
from pipelines.landing import snapshots
from pipelines.landing.fingerprint import LIST
from warehouse.storage.layout import Layout

NOW = datetime(2026, 11, 22, tzinfo=UTC)


class Killed(BaseException):
    """An exception that ends a run in the middle, because our code does not catch it."""


@dataclass(slots=True)
class Calls:
    """A client of obstore that counts its calls, and can fail in several ways.

    At call number `at`, it ends the run `before` or after the store gets the call. Or it runs
    `meanwhile` before the store gets the call. The first `put` of a key that contains `forget` is
    sent twice, as if the response was lost and the library retried. With `ignores`, it drops the
    conditions of writes, as some stores do. While it `is_down`, every call fails.
    """

    at: int = 0
    before: bool = True
    forget: str = ""
    ignores: bool = False
    is_down: bool = False
    meanwhile: Callable[[], object] | None = None
    count: int = 0
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __getattr__(self, name: str) -> Any:
        verb = getattr(obstore, name)
        if name not in ("put", "get", "get_range", "list", "head", "delete"):
            return verb

        def ask(client: Any, *words: Any, **more: Any) -> Any:
            number = next(self._numbers)  # several files are uploaded at once
            self.count = max(self.count, number)
            if self.is_down:
                raise OSError("connection refused")
            if self.ignores:
                more.pop("mode", None)
            if number == self.at and self.meanwhile is not None:
                self.at = 0
                self.meanwhile()
            if number == self.at and self.before:
                raise Killed
            try:
                answer = verb(client, *words, **more)
            finally:  # even if the store refuses the call
                self._kill(number)
            if name == "put" and self.forget and self.forget in words[0]:
                self.forget = ""
                return verb(client, *words, **more)
            return answer

        return ask

    def _kill(self, number: int) -> None:
        """End the run if this is call number `at`."""
        if number == self.at:
            raise Killed


@dataclass(frozen=True, slots=True)
class MemoryShelf:
    """A store in memory that can be reached through different clients."""

    client: Any = field(default_factory=MemoryStore)

    def reached(self, library: Any = obstore) -> ObjectStore:
        """Return the store, which is reached through obstore or a client that wraps obstore."""
        return ObjectStore(StoreAddress("memory:///"), self.client, library)


def shelve(home: Path, store: ObjectStore, on_followed: OnFollowed = lambda _: None) -> Transfer:
    """Shelve the judged nights of a home, as one run does."""
    layout = Layout(home)
    shelver = Shelver(
        layout=layout, store=store, token=secrets.token_hex(), at=NOW, program_version="0"
    )
    return shelver.shelve(snapshots.landed_snapshots(layout), on_followed=on_followed)


def take(home: Path, store: ObjectStore, *, with_landing: bool = True) -> tuple[str, ...]:
    """Fetch the nights of a shelf into a home, as `nightbook publish` does at its start."""
    layout = Layout(home)
    result = fetch(layout, store, with_landing=with_landing)
    assert result.problems == ()
    placement.move_into_place(layout)
    return result.nights


def files(home: Path, snapshot_id: str = "") -> Mapping[str, bytes]:
    """Return the landing and lake files of all nights of a home, or of one night, by path.

    Each home has its own list of fingerprints, which it writes when it publishes.
    """
    return {
        path.relative_to(home).as_posix(): path.read_bytes()
        for room in ("landing", "lake")
        for path in sorted((home / room).rglob("*"))
        if path.is_file() and snapshot_id in path.as_posix() and path.name != LIST
    }


def require_whole_nights(home: Path, store: ObjectStore, scratch: Path) -> tuple[str, ...]:
    """Assert that a shelf contains only whole nights of a home. Return their snapshot IDs."""
    assert list(verify_shelf(store)) == []
    shutil.rmtree(scratch, ignore_errors=True)
    taken = take(scratch, store)
    for snapshot_id in taken:
        assert files(scratch, snapshot_id) == files(home, snapshot_id)
    return taken
