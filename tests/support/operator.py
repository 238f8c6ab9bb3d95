"""A receiver of alerts and heartbeats on loopback, and nights with problems to report."""

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from assets.monitoring.inspection import look
from assets.publishing import publish
from pipelines import night
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.landing import snapshots
from pipelines.pull import pull
from tests.support.operator_home import FIRST, SECOND, THIRD, Keeper, Sandbox, sandbox
from tests.support.shared import once
from warehouse.contract import states

DEAD = "json://127.0.0.1:9/canary-token"


@dataclass(slots=True)
class Receiver:
    """The received alerts as (title, message), the fetched paths, and the texts of heartbeats.

    It responds with `status`.
    """

    port: int = 0
    status: int = 200
    alerts: list[tuple[str, str]] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    beats: list[str] = field(default_factory=list)
    refuses_post: bool = False

    @property
    def channel(self) -> str:
        """The channel for alerts."""
        return f"json://127.0.0.1:{self.port}/token-5b1d"

    @property
    def titles(self) -> list[str]:
        """The titles of the alerts that arrived since this property was last read."""
        found = [title.removeprefix("nightbook: ") for title, _ in self.alerts]
        self.alerts.clear()
        self.kinds.clear()
        return found


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Start a receiver on a free port."""
    kept = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            if kept.refuses_post:
                self.send_error(405)
                return
            if self.headers["Content-Type"] == "text/plain":
                kept.fetched.append(self.path)
                kept.beats.append(raw.decode())
            elif kept.status == 200:
                content = json.loads(raw)
                kept.alerts.append((content["title"], content["message"]))
                kept.kinds.append(content["type"])
            self._answer()

        def do_GET(self) -> None:
            kept.fetched.append(self.path)
            self._answer()

        def _answer(self) -> None:
            self.send_response(kept.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - inherited name
            """Write no log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Start a receiver that has not received anything yet."""
    with receiving() as kept:
        yield kept


@pytest.fixture(scope="session")
def shown() -> Iterator[Sandbox]:
    """Start one sandbox for all tests of the operator."""
    with sandbox() as one:
        yield one


@pytest.fixture(scope="session")
def two(shown: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with two good nights. Tests copy it."""

    def make(folder: Path) -> None:
        shown.show()
        for day in (FIRST, SECOND):
            assert take(Keeper(folder / "home", shown), day) == states.ACCEPTED

    return once(tmp_path_factory, "operator", make) / "home"


@dataclass(frozen=True, slots=True)
class Watched:
    """A keeper whose home is checked for problems, and the log messages of these checks."""

    keeper: Keeper
    log: list[str]
    pristine: Path
    copies: Path

    def look(self) -> None:
        """Check the home and send alerts, as a sensor does."""
        look(self.keeper.nightbook, self.log.append)

    def night(self, day: date, *faults: str, skew_ms: int = 0) -> str:
        """Create a night with faults, check the home, and return the night's state."""
        self.keeper.sandbox.show(*faults, skew_ms=skew_ms)
        state = take(self.keeper, day)
        self.look()
        return state

    def third(self, *faults: str) -> str:
        """Create the third night with faults, as `night` does. Copy it if it was created before.

        If a test added or deleted files in its home before, the night is created in that home and
        not copied.
        """
        sandbox, home = self.keeper.sandbox, self.keeper.home
        if _files(home) != _files(self.pristine):
            return self.night(THIRD, *faults)
        sandbox.show(*faults)
        copy = self.copies / ",".join(("third", *faults))
        if not copy.exists():
            shutil.copytree(home, copy, symlinks=True)
            take(Keeper(copy, sandbox), THIRD)
        sandbox.clock.night(THIRD)
        shutil.rmtree(home)
        shutil.copytree(copy, home, symlinks=True)
        self.look()
        return snapshots.landed_snapshots(self.keeper.layout)[-1].state


def _files(home: Path) -> set[Path]:
    return {path.relative_to(home) for path in home.rglob("*")}


def take(keeper: Keeper, day: date, hour: int = 2) -> str:
    """Run a night over HTTP but without Dagster, which other tests cover. Return its state."""
    keeper.sandbox.clock.night(day, hour)
    book = keeper.nightbook
    manifest = pull.pull_snapshot(book.settings(api=True), book.now, "0", pause=book.pause)
    night.finish(
        LakeManifests(keeper.layout), keeper.layout.snapshot(day, manifest.snapshot_id), book.now()
    )
    publish.refresh(book)
    return snapshots.find(keeper.layout, manifest.snapshot_id).state


@pytest.fixture(scope="session")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the homes with a third night that tests copy."""
    return tmp_path_factory.mktemp("third")


@pytest.fixture
def watched(
    two: Path, shown: Sandbox, receiver: Receiver, tmp_path: Path, copies: Path
) -> Callable[..., Watched]:
    """Return a function that copies the two nights, with a dead channel before the receiver."""
    settings = {"NIGHTBOOK_HEARTBEAT": f"http://127.0.0.1:{receiver.port}/alive"}

    def make(*channels: str) -> Watched:
        home = tmp_path / "home"
        shutil.copytree(two, home, symlinks=True)
        shown.show()  # without the faults of the previous test
        more = settings | {"NIGHTBOOK_ALERTS": ",".join(channels or (DEAD, receiver.channel))}
        return Watched(Keeper(home, shown, more), [], two, copies)

    return make
