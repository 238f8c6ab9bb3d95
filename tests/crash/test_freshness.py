"""Tests of the 30-second window of signatures: long queues, long waits and wrong clocks."""

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from pipelines.edge.client import EdgeClient
from pipelines.edge.errors import EdgeError
from pipelines.edge.requests import list_instruments, list_venues
from pipelines.edge.sending.exchange import ApiResponse
from pipelines.edge.sending.retries import Event
from pipelines.edge.signing import Credentials
from pipelines.sandbox.authentication import Caller
from pipelines.sandbox.options import Choices
from pipelines.sandbox.server import application, unix_ms
from pipelines.sandbox.world.world import LivingWorld
from tests.support.faults.catalog import parse
from tests.support.faults.wire import serve

KEY, SECRET = "canary-key-0d77", "canary-secret-c3b1"
SLOTS, TIMES = 4, 10
WINDOW = 30_000
SECOND, HOUR = 1000, 3_600_000
OFFSETS = [side * off for side in (-1, 1) for off in (45 * SECOND, 3 * HOUR, 23 * HOUR)]
Record = Callable[[str, object], None]


@dataclass(slots=True)
class Slow:
    """A sandbox whose requests are counted."""

    app: ASGIApp
    origin: str = ""
    requests: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    count: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count and handle one request."""
        if scope["type"] == "http":
            self.count = next(self.requests)
        await self.app(scope, receive, send)


@contextmanager
def slow(*faults: str, window_ms: int = WINDOW, ahead_ms: int = 0) -> Iterator[Slow]:
    """Serve the API over a socket, with its own clock and a window for signatures."""
    chosen = tuple(parse(text) for text in faults)
    app = application(
        LivingWorld(),
        {KEY: Caller(SECRET)},
        lambda: unix_ms() + ahead_ms,
        Choices(window_ms=window_ms, future_window_ms=window_ms),
        faults=chosen,
    )
    served = Slow(app)
    with serve(served, faults=chosen) as listening:
        served.origin = listening.origin
        yield served


@contextmanager
def client(served: Slow, events: list[Event] | None = None) -> Iterator[EdgeClient]:
    """Create a client with this machine's clock, whose waits are real."""
    heard: list[Event] = [] if events is None else events
    credentials = Credentials(KEY, SECRET)
    with EdgeClient(
        served.origin, credentials, concurrency=SLOTS, clock=unix_ms, on_event=heard.append
    ) as edge:
        yield edge


def venues(edge: EdgeClient) -> list[str]:
    """Return the IDs of the world's venues."""
    return [str(one["id"]) for one in json.loads(bytes(edge.fetch(list_venues()).envelope.data))]


@pytest.mark.torture
@pytest.mark.parametrize(
    ("window_ms", "seconds"),
    [(4000, 0.7), (WINDOW, 5.0)],
    ids=["a short window", "the real window"],
)
def test_signatures_do_not_expire_in_a_long_queue(
    window_ms: int, seconds: float, record_property: Record
) -> None:
    """Calls that queue for longer than a signature is valid all succeed at the first attempt.

    There are ten times as many calls as slots.
    """
    assert TIMES * seconds * 1000 > 1.5 * window_ms
    with slow(f"slow,seconds={seconds}", window_ms=window_ms) as served, client(served) as edge:
        known = itertools.cycle(venues(edge))
        calls = [list_instruments(next(known)) for _ in range(SLOTS * TIMES)]
        answers = [answer for _, answer in edge.fetch_all(calls)]
    refused = [one for one in answers if isinstance(one, EdgeError)]
    assert refused == []
    assert {one.attempts for one in answers if isinstance(one, ApiResponse)} == {1}
    assert served.count == 1 + SLOTS * TIMES
    counts = {"requests": served.count, "TIMESTAMP_INVALID": len(refused)}
    record_property("torture", [f"signatures, window of {window_ms / 1000:g} s", counts])


@pytest.mark.parametrize(
    ("window_ms", "seconds"),
    [(1000, 2), pytest.param(WINDOW, 31, marks=pytest.mark.torture)],
    ids=["a short window", "the real window"],
)
def test_a_retry_after_a_long_wait_has_a_fresh_signature(window_ms: int, seconds: int) -> None:
    """The attempt after a `Retry-After` that is longer than the window has a fresh signature."""
    fault = f"503-retry-after,seconds={seconds},count=1"
    with slow(fault, window_ms=window_ms) as served, client(served) as edge:
        reply = edge.fetch(list_venues())
    assert (reply.attempts, reply.skew_ms, served.count) == (2, None, 2)


@pytest.mark.parametrize("ahead_ms", OFFSETS)
def test_a_wrong_clock_costs_one_request_and_is_reported(
    ahead_ms: int, record_property: Record
) -> None:
    """A clock that is 45 s to 23 h fast or slow costs one extra request, and is reported once."""
    events: list[Event] = []
    with slow(ahead_ms=ahead_ms) as served, client(served, events) as edge:
        calls = [list_instruments(venue) for venue in venues(edge)]
        answers = [answer for _, answer in edge.fetch_all(calls)]
    assert all(isinstance(answer, ApiResponse) for answer in answers)
    assert served.count == 1 + 1 + len(calls)
    (event,) = (one for one in events if one.kind == "clock")
    assert event.skew_ms == pytest.approx(ahead_ms, abs=1500)
    record_property("torture", ["clocks that are off", {"clocks": 1, "requests more": 1}])
