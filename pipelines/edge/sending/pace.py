"""The pace of the whole client: as fast as it can, until the service says that it is too much.

A wait that the service tells is no failure: nothing is sent before it is over, whoever got it.
Afterwards requests leave one by one, slower than they were refused, and a little faster with each
good answer: at a limit of 4 requests a second about a request in twenty is refused.
"""

import re
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pipelines.edge.sending.backoff import TOO_MANY, retry_after
from pipelines.edge.sending.clock import http_date, utc

# The part of the refused pace that is gone on with.
SLOWER = 0.7
# By what a good answer quickens the pace: far from the one that was refused, and near it.
FASTER, CAREFULLY = 1.05, 1.005
NEAR = 0.9
# Requests a second, at least: a service that refuses for ever is asked twice a minute.
SLOWEST = 1 / 30
# Requests a second that nobody reaches; from there on there is no pace to keep.
UNBOUND = 500.0
# Seconds after a refusal that tells no wait: doubled each time until one is answered.
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
_A_DAY = 86_400.0
_RESETS = ("ratelimit-reset", "x-ratelimit-reset", "x-rate-limit-reset")


@dataclass(frozen=True, slots=True)
class Ticket:
    """Leave to send after so many seconds, unless the service asks for patience meanwhile."""

    wait: float
    episode: int


class Pacer:
    """When the next request of a client may leave; shared by threads."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._rate: float | None = None
        self._refused_rate = 0.0
        self._not_before = self._next = float("-inf")
        self._answers: deque[float] = deque(maxlen=256)  # when the last good ones were in
        self._episode = self._sent = self._slowed_at = self._in_a_row = 0

    def ticket(self) -> Ticket:
        """Give a place in the row of requests."""
        with self._lock:
            now = self._monotonic()
            at = max(now, self._not_before)
            # Tickets are given out ahead: each takes the next place in the row, `1 / rate` after
            # the one before, so that waiting threads leave evenly and not all at once.
            if self._rate is not None:
                at = max(at, self._next)
                self._next = at + 1 / self._rate
            return Ticket(at - now, self._episode)

    def departure(self, ticket: Ticket) -> int | None:
        """Return the number of the request that leaves by a ticket; None where that is void."""
        # After a refusal all tickets are given out anew.
        with self._lock:
            if ticket.episode != self._episode:
                return None
            self._sent += 1
            return self._sent

    def note_success(self, number: int) -> None:
        """Note a good answer to the request of that number."""
        with self._lock:
            self._answers.append(self._monotonic())
            if number <= self._slowed_at:
                return
            self._in_a_row = 0
            if self._rate is not None:
                # Quick growth far from the rate that was refused, slow growth around it: the limit
                # is found again without running into it every few requests.
                is_near = NEAR * self._refused_rate <= self._rate <= self._refused_rate / NEAR
                self._rate *= CAREFULLY if is_near else FASTER
                self._rate = self._rate if self._rate < UNBOUND else None

    def wait_after(self, number: int, asked: float | None) -> float:
        """Return the seconds that must pass after a refusal of the request of that number."""
        # Whoever refuses again and again without an answer between is left alone for longer, also
        # where what it asks for is shorter.
        with self._lock:
            row = max(1, self._in_a_row + (number > self._slowed_at))
            own = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(row - 1, 10))
            return own if asked is None else max(asked, own if row > 1 else 0.0)

    def note_refusal(self, number: int, wait: float, *, too_fast: bool) -> bool:
        """Let all requests wait, and slow down where they were `too_fast`.

        Return whether this is news: the refusals of requests that were under way together tell of
        a pace that is given up already.
        """
        with self._lock:
            now = self._monotonic()
            self._not_before = self._next = max(self._not_before, now + wait)
            self._episode += 1
            # This one left before the pace was given up: its refusal is about the old pace, not the
            # new.
            if number <= self._slowed_at:
                return False
            self._slowed_at = self._sent
            self._in_a_row += 1
            if too_fast:
                # Without a pace so far, the refused one is what was answered during the last
                # second.
                lately = sum(now - moment <= 1.0 for moment in self._answers)
                self._refused_rate = self._rate or float(lately)
                self._rate = max(SLOWEST, SLOWER * (self._refused_rate or 1.0))
            return True


def told_wait(headers: Mapping[str, str], status: int, received: int) -> float | None:
    """Return the seconds that an answer asks to wait; None where it says nothing usable.

    They are in `Retry-After`, or where the rate was too high in the usual header that says when it
    is counted anew. `received` is our own time in milliseconds, for an answer without a date:
    dates of one answer are compared with each other, for our clock may be off.
    """
    dated = None if "age" in headers else http_date(headers.get("date", ""))
    now = dated or utc(received)
    wait = retry_after(headers.get("retry-after"), now)
    if wait is not None or status != TOO_MANY:
        return wait
    texts = [headers[name].strip() for name in _RESETS if name in headers]
    if not texts or not re.fullmatch(r"[0-9]{1,10}", texts[0]):
        return None
    seconds = float(texts[0])  # some count from now, some from 1970
    wait = seconds if seconds <= _A_DAY else seconds - now.timestamp()
    return wait if 0 <= wait <= _A_DAY else None
