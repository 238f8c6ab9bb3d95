"""A service and its caller in simulated time: hours pass in milliseconds, with the real client.

Time stops while a thread works, and then jumps to the next moment at which a thread wakes. So
limits, outages and deadlines interact as in real time, but no test waits.
"""

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

import httpx
from starlette.types import ASGIApp

from pipelines.edge.client import EdgeClient
from pipelines.sandbox.options import Choices
from pipelines.sandbox.server import DEMO_KEYS, application
from pipelines.sandbox.world.world import Calendar, LivingWorld
from tests.support.faults.catalog import parse

STILL = 0.0004  # real seconds without a step, after which all threads count as asleep
START = datetime(2026, 11, 20, 2, 15, tzinfo=UTC)


class Time:
    """The clock of one simulation. Time passes only while all threads sleep."""

    def __init__(self, start: datetime = START) -> None:
        self.start, self.seconds = start, 0.0
        self.at_work = self._steps = 0
        self._wakes: list[float] = []
        self._changed = threading.Condition()
        self._is_over = False

    def monotonic(self) -> float:
        """Return the seconds since the start."""
        return self.seconds

    def now(self) -> datetime:
        """Return the current time."""
        return self.start + timedelta(seconds=self.seconds)

    def unix_ms(self) -> int:
        """Return the current time as Unix milliseconds."""
        return round(self.now().timestamp() * 1000)

    def set(self, moment: datetime) -> None:
        """Set the time to this moment, without changing the monotonic clock."""
        self.start = moment - timedelta(seconds=self.seconds)

    def sleep(self, seconds: float) -> None:
        """Block until these seconds have passed."""
        with self._changed:
            wake = self.seconds + max(0.0, seconds)
            self._wakes.append(wake)
            self._steps += 1
            self._changed.wait_for(lambda: self.seconds >= wake or self._is_over)
            self._wakes.remove(wake)
            self._steps += 1

    @contextmanager
    def work(self) -> Iterator[None]:
        """Stop time until the end of the `with` block."""
        with self._changed:
            self.at_work += 1
        try:
            yield
        finally:
            with self._changed:
                self.at_work -= 1
                self._steps += 1

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the clock until the end of the `with` block."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify_all()
            thread.join()
            self._is_over = False

    def _run(self) -> None:
        seen = -1
        while not self._is_over:
            time.sleep(STILL)
            with self._changed:
                if self._steps == seen and self._wakes and not self.at_work:
                    self.seconds = max(self.seconds, min(self._wakes))
                    self._changed.notify_all()
                seen = self._steps


Reach = Callable[[httpx.Request], httpx.Response | None]


@dataclass
class Simulation:
    """A sandbox with simulated time. `reach` may respond or raise instead of the sandbox."""

    time: Time = field(default_factory=Time)
    world: Calendar = field(default_factory=LivingWorld)
    choices: Choices = field(default_factory=Choices)
    faults: tuple[str, ...] = ()
    reach: Reach = lambda _: None
    latency: float = 0.02
    asked: list[tuple[float, str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._app: ASGIApp = application(
            self.world,
            DEMO_KEYS,
            self.time.unix_ms,
            self.choices,
            [parse(text) for text in self.faults],
            rng=random.Random(5),
        )
        self._lock = threading.Lock()

    def connect(self, *arguments: Any, **settings: Any) -> EdgeClient:
        """Create a client that uses this service and its simulated time."""
        draws = random.Random(7)
        make = partial(
            EdgeClient,
            transport=httpx.MockTransport(self._answer),
            monotonic=self.time.monotonic,
            sleep=self.time.sleep,
            rng=draws.random,
        )
        return make(*arguments, **settings)

    def statuses(self, status: int) -> int:
        """Return the number of responses with a status. Status 0 means no response."""
        return sum(one == status for _, _, one in self.asked)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.time.sleep(self.latency)
        status = 0
        with self.time.work(), self._lock:
            try:
                response = self.reach(request) or asyncio.run(_driven(self._app, request))
                status = response.status_code
            finally:
                target = request.url.raw_path.decode().removeprefix("/edge/v1beta")
                self.asked.append((self.time.seconds, target, status))
            return response


async def _driven(app: ASGIApp, request: httpx.Request) -> httpx.Response:
    """Send one request through the application in memory, and return the response."""
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    path, _, query = request.url.raw_path.partition(b"?")
    scope = {
        "type": "http",
        "method": request.method,
        "path": path.decode(),
        "raw_path": path,
        "query_string": query,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
    }
    await app(scope, receive, send)
    content = b"".join(message.get("body", b"") for message in sent[1:])
    return httpx.Response(sent[0]["status"], headers=sent[0]["headers"], content=content)


def day_of(simulation: Simulation) -> date:
    """Return the current date of a simulation."""
    return simulation.time.now().date()
