"""Shelves for tests: nights put on a store by a home, and taken from it by another."""

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
from pipelines.landing import snapshots
from pipelines.maintenance.verify import verify_shelf
from pipelines.shelf.arrival import OnFollowed, fetch
from pipelines.shelf.object_store import ObjectStore, StoreAddress
from pipelines.shelf.shelving import Shelver, ShelvingResult
from warehouse.storage.layout import Layout

NOW = datetime(2026, 11, 22, tzinfo=UTC)


class Killed(BaseException):
    """What a test ends a run with, in the middle of it: nothing of ours catches it."""


@dataclass(slots=True)
class Calls:
    """A client of obstore that counts what it is asked, and can break off or lie.

    At call `at` it ends the run, `before` the store hears of it or after; or something else happens
    `meanwhile`, before the store hears of it. Of calls that `forget`
    names the answer is lost once, so that the library asks again. `ignores` conditions as some
    stores do. While it `is_down` nothing is reached.
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
            number = next(self._numbers)  # files go up several at a time
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
            finally:  # also where the answer is a refusal
                self._kill(number)
            if name == "put" and self.forget and self.forget in words[0]:
                self.forget = ""
                return verb(client, *words, **more)
            return answer

        return ask

    def _kill(self, number: int) -> None:
        """End the run at its call."""
        if number == self.at:
            raise Killed

    def _before(self, number: int) -> None:
        """Do what is to be done before the store hears of a call."""
        self.count = max(self.count, number)
        if number == self.at and self.meanwhile is not None:
            self.at = 0
            self.meanwhile()
        if self.before:
            self._kill(number)
        if self.is_down:
            raise OSError("connection refused")


@dataclass(frozen=True, slots=True)
class MemoryShelf:
    """A store in memory, to be reached in several ways."""

    client: Any = field(default_factory=MemoryStore)

    def reached(self, library: Any = obstore) -> ObjectStore:
        """The same store, by obstore itself or by what stands before it."""
        return ObjectStore(StoreAddress("memory:///"), self.client, library)


def shelve(
    home: Path, store: ObjectStore, on_followed: OnFollowed = lambda _: None
) -> ShelvingResult:
    """Shelve the judged nights of a home, as one run does."""
    layout = Layout(home)
    shelver = Shelver(
        layout=layout, store=store, token=secrets.token_hex(), at=NOW, program_version="0"
    )
    return shelver.shelve(snapshots.landed_snapshots(layout), on_followed=on_followed)


def take(home: Path, store: ObjectStore, *, with_landing: bool = True) -> tuple[str, ...]:
    """Bring the nights of a shelf into a home, as `nightbook publish` does before it publishes."""
    layout = Layout(home)
    result = fetch(layout, store, with_landing=with_landing)
    assert result.problems == ()
    placement.settle(layout)
    return result.fetched


def files(home: Path, snapshot_id: str = "") -> Mapping[str, bytes]:
    """Everything that is kept of all nights of a home, or of one, by its path."""
    return {
        path.relative_to(home).as_posix(): path.read_bytes()
        for room in ("landing", "lake")
        for path in sorted((home / room).rglob("*"))
        if path.is_file() and snapshot_id in path.as_posix()
    }


def require_whole_nights(home: Path, store: ObjectStore, scratch: Path) -> tuple[str, ...]:
    """See that what readers of a shelf see now are whole nights of a home; returns which."""
    assert list(verify_shelf(store)) == []
    shutil.rmtree(scratch, ignore_errors=True)
    taken = take(scratch, store)
    for snapshot_id in taken:
        assert files(scratch, snapshot_id) == files(home, snapshot_id)
    return taken
