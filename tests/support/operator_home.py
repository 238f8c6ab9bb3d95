"""A keeper for tests: the command line in this process, with a sandbox on a socket.

`amounts_of` calculates the amounts of a world a second time, only from the sandbox's records.
"""

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
from starlette.types import Receive, Scope, Send

from assets.cli import main
from assets.home.daemon_state import DaemonState, write_daemon_state
from assets.nightbook import Nightbook
from pipelines.sandbox.server import DEMO_KEYS as CALLERS
from pipelines.sandbox.server import application, serve
from pipelines.sandbox.world.world import Calendar, LivingWorld
from tests.support import clocks
from tests.support.created_home import created_home
from tests.support.faults.catalog import parse
from warehouse.contract.book import BOOK
from warehouse.storage.layout import Layout

KEY, SECRET = "canary-key-7d1f0c", "canary-secret-51c2e9aa"
FIRST, SECOND, THIRD, FOURTH = (date(2026, 3, day) for day in (3, 4, 5, 6))
WORLD = LivingWorld()
STOPPED = "Stopped. Unfinished work was discarded. Run the command again.\n"


class Clock:
    """A clock that only tests change. The sandbox and the keeper share it."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 3, 3, 2, 15, tzinfo=UTC)

    def __call__(self) -> datetime:
        """Return the current time."""
        return self.moment

    def night(self, day: date, hour: int = 2, minute: int = 15) -> None:
        """Set the clock to a time of a day."""
        self.moment = datetime(day.year, day.month, day.day, hour, minute, tzinfo=UTC)


class Sandbox:
    """The API on a socket, whose faults a test may change between two requests."""

    def __init__(self, clock: Clock) -> None:
        self.origin, self.clock = "", clock
        self.show()

    def show(self, *faults: str, world: Calendar = WORLD, skew_ms: int = 0) -> None:
        """Serve this world with these faults from now on, with a clock that is `skew_ms` ahead."""
        chosen = tuple(parse(text) for text in faults)
        keys = {KEY: type(next(iter(CALLERS.values())))(SECRET)}
        self._app = application(
            world, keys, lambda: int(self.clock().timestamp() * 1000) + skew_ms, faults=chosen
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request with the current world and faults."""
        await self._app(scope, receive, send)


@contextmanager
def sandbox() -> Iterator[Sandbox]:
    """Start a sandbox on a free port."""
    shown = Sandbox(Clock())
    with serve(shown) as served:
        shown.origin = served.origin
        yield shown


@dataclass(frozen=True, slots=True)
class Said:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str
    raw: bytes


@dataclass(frozen=True, slots=True)
class Keeper:
    """The command line of one home. `more` contains further settings.

    A run creates the home first, as a person would, unless `is_created_first` is false.
    """

    home: Path
    sandbox: Sandbox
    more: dict[str, str] = field(default_factory=dict)
    is_created_first: bool = True

    @property
    def layout(self) -> Layout:
        """The paths of the home."""
        return Layout(self.home)

    @property
    def variables(self) -> dict[str, str]:
        """The settings of the home as environment variables."""
        return {
            "NIGHTBOOK_API_URL": self.sandbox.origin,
            "NIGHTBOOK_API_KEY": KEY,
            "NIGHTBOOK_API_SECRET": SECRET,
            "NIGHTBOOK_HOME": str(self.home),
            **self.more,
        }

    @property
    def nightbook(self) -> Nightbook:
        """The settings and the clock, for code that is not a command."""
        return Nightbook(
            lambda: self.variables,
            self.sandbox.clock,
            pause=lambda _: None,
            connect=clocks.connect,
        )

    def __call__(self, *words: str) -> Said:
        """Run one command, and return its exit code and output."""
        if self.is_created_first and "run" in words[:1]:
            created_home(self.home)
        streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
        kept = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = streams
        try:
            code = main(words, self.nightbook)
        except SystemExit as stop:
            code = int(stop.code or 0)
        finally:
            sys.stdout, sys.stderr = kept
        raw = []
        for stream in streams:
            stream.flush()
            stream.buffer.seek(0)
            raw.append(stream.buffer.read())
        said = Said(code, raw[0].decode(), raw[1].decode(), raw[0])
        if said.err.endswith(STOPPED):
            raise KeyboardInterrupt(said)  # Ctrl-C must end all tests, not only this command
        return said

    def report(self, off: Sequence[str] = ()) -> None:
        """Write the report of a daemon that runs now. `off` names what somebody turned off."""
        state = DaemonState(reported_at=self.sandbox.clock(), on=dict.fromkeys(off, False))
        write_daemon_state(self.layout, state)

    def run(self, day: date, *words: str, hour: int = 2) -> Said:
        """Run the night of a day."""
        self.sandbox.clock.night(day, hour)
        return self("run", *words)

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a query on the published warehouse, and return its rows."""
        with self._open() as connection:
            connection.execute("set TimeZone = 'UTC'")
            return connection.execute(sql).fetchall()

    def _open(self) -> duckdb.DuckDBPyConnection:
        """Open the published warehouse. While it is open, a second connection costs nothing."""
        return duckdb.connect(str(self.layout.database), read_only=True)

    def history(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return every row of every table of the book."""
        with self._open():
            return {t.name: self.ask(f"from history.{t.name} order by all") for t in BOOK}

    def everything(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return every row of every table, except `build`, which contains the build time."""
        with self._open():
            listed = self.ask(
                "select schema_name || '.' || table_name from duckdb_tables() "
                "where not internal and table_name <> 'build' order by all"
            )
            return {name: self.ask(f"from {name} order by all") for (name,) in listed}


def amounts_of(day: date, world: Calendar = WORLD) -> list[tuple[str, ...]]:
    """Return a day's amounts as portfolio, asset, venue, account, bucket, state and text."""
    return sorted(
        (
            str(portfolio["id"]),
            str(position["assetId"]),
            str(account["venueId"]),
            str(account["name"]),
            bucket,
            state,
            text,
        )
        for portfolio in world.at(day).portfolios
        for position in portfolio["positions"]
        for account in position["accounts"]
        for bucket, states in account["balance"].items()
        for state, text in states.items()
    )
