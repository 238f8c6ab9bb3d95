"""The gate every attempt passes before it is signed: slots, dead key, deadline, breaker.

Whoever is inside may send at once, so that a signature never ages in a queue (5.3). What is checked
is checked inside the slot: a queue that has passed a check before an outage would all be sent.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from pipelines.edge.errors import (
    BreakerOpen,
    DeadlinePassed,
    EdgeError,
    KeyRefused,
    Stopped,
    problem_of,
)

# Consecutive failures that count as an outage.
TRIPS_AT = 8
# Single requests that are let through afterwards, each after a pause, before all is given up; where
# there is a deadline, that ends it and not their number.
PROBES = 2
# Seconds before the first probe; before each further one thrice as long, up to a minute.
PAUSE, LONGEST_PAUSE = 5.0, 60.0


@dataclass(frozen=True, slots=True)
class Slot:
    """Leave to send one request, with its number among all that were sent."""

    number: int
    is_probe: bool


class Limiter:
    """At most `concurrency` attempts at once; fewer while the service is unproved or failing."""

    # Until a first answer is good only one attempt is under way, so a wrong key is tried once.
    # While requests fail in a row, those under way and those failed are never more than `TRIPS_AT`
    # together, so a service that is down gets `TRIPS_AT + PROBES` requests in all, and until a
    # deadline one more each minute. A probe is a request of its own that worked on every other
    # night, not one of those that failed: a dead venue must not cost the others their night.

    def __init__(
        self, concurrency: int, deadline: float | None, monotonic: Callable[[], float]
    ) -> None:
        self._concurrency, self._deadline, self._monotonic = concurrency, deadline, monotonic
        self._changed = threading.Condition()
        self._inside = self._failures = self._probes = 0
        self._sent = self._seen_failing = self._good = 0
        # Probes that failed: what fails beside them is no fault of its own.
        self.outages = 0
        self._failing: set[str] = set()  # paths that failed since the last good answer
        self._waiting: list[str] = []  # paths for which a slot is waited for
        self._proved = False
        self._last: EdgeError | None = None
        self._failing_since: datetime | None = None  # the first failure since the last good answer
        self._dead: KeyRefused | None = None
        self.stopped = threading.Event()

    def seconds_until_deadline(self) -> float | None:
        """Return seconds until the deadline; None without one."""
        return None if self._deadline is None else self._deadline - self._monotonic()

    @contextmanager
    def slot(
        self, where: str, path: str, pause: Callable[[float, EdgeError | None], None]
    ) -> Iterator[Slot]:
        """Hold a slot: for the request itself, or for a probe before it.

        Raises `KeyRefused`, `DeadlinePassed`, `BreakerOpen` or `Stopped` where nothing may be
        sent. `pause` waits some seconds, or raises where there is no time for it.
        """
        with self._changed:
            self._wait(where, path)
            self._inside += 1
            self._sent += 1
            number = self._sent
            wait = self._probe()
        try:
            if wait:
                pause(wait, self._last)
            yield Slot(number, is_probe=wait > 0)
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def accept_key(self) -> None:
        """Note that the service accepts our key: from now on many at once."""
        with self._changed:
            self._proved = True
            self._changed.notify_all()

    def note_success(self, number: int, path: str) -> None:
        """Note that the service answered a request as a service that is up does."""
        # One that was sent before the last failure was seen proves nothing about now.
        with self._changed:
            self._good = max(self._good, number)
            # An answer that was under way when a later request failed says nothing of the outage.
            if number > self._seen_failing:
                self._failures = self._probes = 0
                self._failing_since = None
                self._failing.clear()
            self._failing.discard(path)
            self._changed.notify_all()

    def is_up_since(self, number: int) -> bool:
        """Return whether a request that was sent after the one of that number was answered well."""
        with self._changed:
            return self._good > number

    def is_down(self) -> None:
        """Note that a probe failed."""
        with self._changed:
            self.outages += 1

    def note_failure(self, error: EdgeError, path: str, at: datetime | None = None) -> bool:
        """Record a failure of the service at a time in UTC. Return True if it trips the breaker."""
        with self._changed:
            self._failing_since = self._failing_since or at
            self._failures += 1
            self._failing.add(path)
            self._seen_failing = self._sent
            self._last = error
            self._changed.notify_all()
            return self._failures == TRIPS_AT

    def kill(self, error: KeyRefused) -> None:
        """Note that the key is refused: nothing more is sent."""
        with self._changed:
            self._dead = self._dead or error
            self._changed.notify_all()

    def _wait(self, where: str, path: str) -> None:
        """Wait for room; while requests fail, whoever has not failed yet goes first."""
        self._waiting.append(path)
        try:
            self.require_open(where)
            while self._inside >= self._limit() or self._yields(path):
                self._changed.wait(self._patience())
                self.require_open(where)
        finally:
            self._waiting.remove(path)
            if self._failing:
                self._changed.notify_all()  # somebody may have let it go first

    def _yields(self, path: str) -> bool:
        return path in self._failing and not self._failing.issuperset(self._waiting)

    def _is_tripped(self) -> bool:
        return self._failures >= TRIPS_AT

    # How many may be under way: one until a first answer proves the key, one while the breaker is
    # open (a probe), and while requests fail no more than would trip it if all of them failed too.
    def _limit(self) -> int:
        if not self._proved or self._is_tripped():
            return 1
        room = TRIPS_AT - self._failures if self._failures else self._concurrency
        return min(self._concurrency, room)

    def _patience(self) -> float:
        left = self.seconds_until_deadline()
        return 1.0 if left is None else max(0.0, min(1.0, left))

    def _probe(self) -> float:
        """Count a probe, if this is one, and say how long it has to wait."""
        if not self._is_tripped():
            return 0.0
        # 5, 15, 45, then 60 seconds. The count starts anew with the first good answer.
        self._probes += 1
        return min(LONGEST_PAUSE, PAUSE * 3.0 ** min(self._probes - 1, 10))

    def require_open(self, where: str) -> None:
        """Raise what forbids to send any more, also after a wait inside a slot."""
        with self._changed:  # whoever holds it already may take it again
            if self._dead is not None:
                note = "It had refused the key before."
                raise self._dead.anew(where=where, attempts=0, note=note)
            if self.stopped.is_set():
                raise Stopped(where)
            left = self.seconds_until_deadline()
            if left is not None and left <= 0:
                raise self.deadline_error(where, self._last)
            gives_up = self._deadline is None and self._probes >= PROBES
            if self._is_tripped() and gives_up and not self._inside:
                raise BreakerOpen(where, self._failures, _message(self._last))

    def deadline_error(
        self, where: str, error: EdgeError | None, wait: float | None = None
    ) -> DeadlinePassed:
        """Return the error of a call for which no time is left, with the reason first.

        `error` is the last failure, and `wait` the seconds that the API asked us to wait.
        """
        left = self.seconds_until_deadline()
        cause = problem_of(error)
        if wait is not None and left is not None and left > 0:
            cause = (
                f"The API asks to wait {wait:.0f} seconds, and only {left:.0f} seconds are left "
                "for the pull"
            )
        elif cause and self._failing_since is not None:
            cause += f" since {self._failing_since:%H:%M} UTC"
        return DeadlinePassed(where, _message(error), cause)


def _message(error: EdgeError | None) -> str:
    return "" if error is None else str(error)
