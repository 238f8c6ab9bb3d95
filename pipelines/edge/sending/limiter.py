"""Limits that all of a client's calls share: slots, pace, circuit breaker, retries, deadline.

An attempt gets a slot first and is signed afterwards, so a signature never ages in a queue (§5.3).
All limits are checked while the slot is held. If calls were checked before they queue, a whole
queue could pass the checks just before an outage, and all its requests would still be sent.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from pipelines.edge.errors import (
    AuthenticationFailed,
    CircuitBreakerOpen,
    ClientClosed,
    DeadlineExceeded,
    EdgeError,
    describe_problem,
)

# The circuit breaker opens after this many failures in a row.
BREAKER_THRESHOLD = 8
# The client gives up after this many probes. If it has a deadline, it sends probes until the
# deadline instead.
MAX_PROBES = 2
# Seconds before the first probe. Each further wait is three times as long as the previous wait, up
# to a minute.
FIRST_PROBE_WAIT, MAX_PROBE_WAIT = 5.0, 60.0

# The retry budget: 50 retries for the whole client, plus one for every 10 successes. In a test with
# 500 failing calls, 5 attempts per call sent 2,500 requests. A shared budget of 50 retries reduced
# the number to 550. Checking the circuit breaker in each slot reduced the number to 8.
RETRY_BUDGET, RETRIES_PER_SUCCESS = 50.0, 0.1

# When the server throttles us, multiply the rate (requests per second) by this factor.
SLOWDOWN = 0.7
# Each success raises the rate by 5 %, but only by 0.5 % near the rate at which the server last
# throttled us (within 10 %). If the server allows 4 requests per second, it then throttles about 1
# request in 20.
SPEEDUP, CAREFUL_SPEEDUP, NEAR = 1.05, 1.005, 0.9
# The lowest rate, in requests per second (two requests per minute).
MIN_RATE = 1 / 30
# At this many requests per second or more, requests are sent without any delay.
UNLIMITED_RATE = 500.0
# Seconds to wait if the server throttles us without specifying a wait. The wait doubles each time
# until a request succeeds.
FIRST_THROTTLE_WAIT, MAX_THROTTLE_WAIT = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class Slot:
    """Permission to send one request.

    `number` counts the slots of the client. If `probe_wait` is not 0, the circuit breaker is open,
    so the holder waits that many seconds, then sends a probe instead of its own request.
    """

    number: int
    probe_wait: float
    last_failure: EdgeError | None


class Limiter:
    """The limits that decide when a client's requests may be sent. Thread-safe.

    `deadline` is a time of the `monotonic` clock in seconds, or None. No requests are sent after
    `closed` is set. `sleep` waits for a number of seconds. Setting `closed` interrupts the default
    `sleep`.
    """

    # Until the API has accepted the key, only one request is in progress at a time, so that a wrong
    # key is sent only once. After a failure, a request may start only if the failures in a row plus
    # the requests in progress then do not exceed `BREAKER_THRESHOLD`. So a service that is down
    # from the start receives `BREAKER_THRESHOLD + MAX_PROBES` requests, and one more per minute if
    # there is a deadline. A probe requests the list of venues instead of repeating a failed
    # request. So if only one venue is down, the probe succeeds, and we can still read the other
    # venues.

    def __init__(
        self,
        concurrency: int,
        deadline: float | None,
        monotonic: Callable[[], float],
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self._concurrency, self._deadline, self._monotonic = concurrency, deadline, monotonic
        self.closed = threading.Event()
        self._sleep = sleep or self.closed.wait
        self._changed = threading.Condition()  # protects all fields below
        self._key_error: AuthenticationFailed | None = None
        self._is_key_accepted = False
        self._waiting_paths: list[str] = []
        self._slots_in_use = self._slots_taken = 0
        self._retries_left = RETRY_BUDGET
        # Fields of the circuit breaker. Slots are numbered, so that we can tell whether a request
        # was sent before or after a failure.
        self._failures = self._probes = 0
        self.failed_probes = 0  # number of failed probes since the start
        # Request paths that have failed since the last success.
        self._failing_paths: set[str] = set()
        self._last_failure: EdgeError | None = None
        # Time (UTC) of the first failure since the last success.
        self._failing_since: datetime | None = None
        self._slots_at_failure = self._latest_good_slot = 0
        # The state of the request rate. Requests are numbered in the order in which they are sent.
        # Responses to requests sent before the last slowdown say nothing about the new rate, so we
        # ignore them.
        self._rate: float | None = None
        self._throttled_rate = 0.0
        self._paused_until = self._next_send_time = float("-inf")
        self._success_times: deque[float] = deque(maxlen=256)
        self._sent = self._sent_at_slowdown = 0
        self._throttles = self._throttles_in_a_row = 0

    def seconds_until_deadline(self) -> float | None:
        """Return the seconds until the deadline, or None if there is no deadline."""
        return None if self._deadline is None else self._deadline - self._monotonic()

    def pause(
        self,
        request_line: str,
        seconds: float,
        last_failure: EdgeError | None,
        requested: float | None = None,
    ) -> None:
        """Wait for a number of seconds, unless the deadline would pass in the meantime.

        `requested` is the wait that the API asked for, in seconds. It is used only in the error
        message. Raises `DeadlineExceeded` at once if the wait would last until the deadline. Raises
        `ClientClosed` if the client is closed in the meantime.
        """
        remaining = self.seconds_until_deadline()
        if remaining is not None and seconds >= remaining:
            raise self.deadline_error(request_line, last_failure, requested)
        if seconds > 0:
            self._sleep(seconds)
        if self.closed.is_set():
            raise ClientClosed(request_line)

    def require_open(self, request_line: str) -> None:
        """Raise an error if no more requests may be sent.

        Raises `AuthenticationFailed`, `ClientClosed`, `DeadlineExceeded` or `CircuitBreakerOpen`.
        """
        with self._changed:
            if self._key_error is not None:
                note = "The API had already rejected this key."
                raise self._key_error.copy_with(request_line=request_line, attempts=0, note=note)
            if self.closed.is_set():
                raise ClientClosed(request_line)
            remaining = self.seconds_until_deadline()
            if remaining is not None and remaining <= 0:
                raise self.deadline_error(request_line, self._last_failure)
            gives_up = self._deadline is None and self._probes >= MAX_PROBES
            if self._is_breaker_open() and gives_up and not self._slots_in_use:
                raise CircuitBreakerOpen(request_line, self._failures, _message(self._last_failure))

    def deadline_error(
        self, request_line: str, last_failure: EdgeError | None, requested: float | None = None
    ) -> DeadlineExceeded:
        """Build the error for a call that cannot finish before the deadline, including the cause.

        `requested` is the wait that the API asked for, in seconds.
        """
        remaining = self.seconds_until_deadline()
        cause = describe_problem(last_failure)
        if requested is not None and remaining is not None and remaining > 0:
            cause = (
                f"The API asks the client to wait {requested:.0f} seconds, but the pull must "
                f"finish within {remaining:.0f} seconds"
            )
        elif cause and self._failing_since is not None:
            cause += f" since {self._failing_since:%H:%M} UTC"
        return DeadlineExceeded(request_line, _message(last_failure), cause)

    # Slots

    @contextmanager
    def slot(self, request_line: str, path: str) -> Iterator[Slot]:
        """Wait for a slot, and occupy it until the `with` block ends.

        Raises the errors of `require_open`.
        """
        with self._changed:
            self._wait_for_slot(request_line, path)
            self._slots_in_use += 1
            self._slots_taken += 1
            slot = Slot(self._slots_taken, self._next_probe_wait(), self._last_failure)
        try:
            yield slot
        finally:
            with self._changed:
                self._slots_in_use -= 1
                self._changed.notify_all()

    def _wait_for_slot(self, request_line: str, path: str) -> None:
        self._waiting_paths.append(path)
        try:
            self.require_open(request_line)
            while self._slots_in_use >= self._slot_limit() or self._must_yield(path):
                self._changed.wait(self._recheck_interval())
                self.require_open(request_line)
        finally:
            self._waiting_paths.remove(path)
            if self._failing_paths:
                # Requests for failing paths may have been waiting for this request, so wake them.
                self._changed.notify_all()

    def _slot_limit(self) -> int:
        if not self._is_key_accepted or self._is_breaker_open():
            return 1
        if not self._failures:
            return self._concurrency
        return min(self._concurrency, BREAKER_THRESHOLD - self._failures)

    def _must_yield(self, path: str) -> bool:
        """Return whether a request must wait for requests with other paths.

        A request for a path that has failed must wait while requests for other paths are waiting.
        """
        return path in self._failing_paths and not self._failing_paths.issuperset(
            self._waiting_paths
        )

    def _recheck_interval(self) -> float:
        remaining = self.seconds_until_deadline()
        return 1.0 if remaining is None else max(0.0, min(1.0, remaining))

    # Circuit breaker

    def _is_breaker_open(self) -> bool:
        return self._failures >= BREAKER_THRESHOLD

    def _next_probe_wait(self) -> float:
        """Count a new probe. Return the seconds to wait before it, or 0 if no probe is needed."""
        if not self._is_breaker_open():
            return 0.0
        self._probes += 1
        return min(MAX_PROBE_WAIT, FIRST_PROBE_WAIT * 3.0 ** min(self._probes - 1, 10))

    def accept_key(self) -> None:
        """Record that the API accepts the key, so requests may run concurrently from now on."""
        with self._changed:
            self._is_key_accepted = True
            self._changed.notify_all()

    def refuse_key(self, error: AuthenticationFailed) -> None:
        """Record that the API refused the key (§5.3), so no more requests are sent."""
        with self._changed:
            self._key_error = self._key_error or error
            self._changed.notify_all()

    def record_service_up(self, slot_number: int, path: str) -> None:
        """Record that the service has responded, possibly with an error, so it is up."""
        with self._changed:
            self._latest_good_slot = max(self._latest_good_slot, slot_number)
            # The response to a request sent before the last failure does not show that the service
            # has recovered.
            if slot_number > self._slots_at_failure:
                self._failures = self._probes = 0
                self._failing_since = None
                self._failing_paths.clear()
            self._failing_paths.discard(path)
            self._changed.notify_all()

    def record_failure(
        self, error: EdgeError, path: str, failed_at: datetime | None = None
    ) -> bool:
        """Record a service failure. Return whether it opened the circuit breaker.

        `failed_at` is in UTC, by the corrected clock.
        """
        with self._changed:
            self._failing_since = self._failing_since or failed_at
            self._failures += 1
            self._failing_paths.add(path)
            self._slots_at_failure = self._slots_taken
            self._last_failure = error
            self._changed.notify_all()
            return self._failures == BREAKER_THRESHOLD

    def record_failed_probe(self) -> None:
        """Count a failed probe, which means that the service is down."""
        with self._changed:
            self.failed_probes += 1

    def is_up_since(self, slot_number: int) -> bool:
        """Return whether a request with a higher slot number has shown that the service is up."""
        with self._changed:
            return self._latest_good_slot > slot_number

    # Retry budget and send rate

    def take_retry(self) -> bool:
        """Use one retry from the budget. Return False if the budget is empty."""
        with self._changed:
            if self._retries_left < 1:
                return False
            self._retries_left -= 1
            return True

    def wait_to_send(self, request_line: str) -> int:
        """Wait until the rate limit allows another request. Return the new request's number.

        Raises the errors of `pause` and `require_open`.
        """
        while True:
            with self._changed:
                now = self._monotonic()
                send_time = max(now, self._paused_until)
                # Each request reserves its own send time, `1 / rate` seconds after the previous
                # one, so that waiting threads send at even intervals instead of all at once.
                if self._rate is not None:
                    send_time = max(send_time, self._next_send_time)
                    self._next_send_time = send_time + 1 / self._rate
                throttles = self._throttles
            if send_time > now:
                wait = send_time - now
                self.pause(request_line, wait, None, requested=wait)
                self.require_open(request_line)
            with self._changed:
                # If the server has throttled another request in the meantime, reserve a new send
                # time.
                if throttles == self._throttles:
                    self._sent += 1
                    return self._sent

    def record_success(self, slot_number: int, path: str, request_number: int) -> None:
        """Record a successful request. This increases the retry budget and the request rate."""
        with self._changed:
            self.record_service_up(slot_number, path)
            self._retries_left += RETRIES_PER_SUCCESS
            self._success_times.append(self._monotonic())
            if request_number <= self._sent_at_slowdown:
                return
            self._throttles_in_a_row = 0
            if self._rate is not None:
                # Near the rate at which the server throttled us, speed up slowly, so that we
                # approach the limit without being throttled every few seconds.
                is_near = NEAR * self._throttled_rate <= self._rate <= self._throttled_rate / NEAR
                rate = self._rate * (CAREFUL_SPEEDUP if is_near else SPEEDUP)
                self._rate = rate if rate < UNLIMITED_RATE else None

    def throttle_wait(self, request_number: int, requested: float | None) -> float:
        """Return how many seconds the client must wait after a throttled request.

        `requested` is the wait in the response. If the server throttles several times without a
        success in between, the wait doubles each time, even if the server asks for less.
        """
        with self._changed:
            in_a_row = self._throttles_in_a_row + (request_number > self._sent_at_slowdown)
            doublings = min(max(1, in_a_row) - 1, 10)
            own_wait = min(MAX_THROTTLE_WAIT, FIRST_THROTTLE_WAIT * 2.0**doublings)
            if requested is None:
                return own_wait
            return max(requested, own_wait) if doublings else requested

    def throttle(self, request_number: int, wait: float, *, is_rate_limited: bool) -> bool:
        """Make all calls wait `wait` seconds. If `is_rate_limited`, also lower the rate (§8).

        Returns False if the request was sent before the last slowdown. The rate then stays
        unchanged, because the request was throttled at the old rate.
        """
        with self._changed:
            now = self._monotonic()
            self._paused_until = self._next_send_time = max(self._paused_until, now + wait)
            self._throttles += 1
            if request_number <= self._sent_at_slowdown:
                return False
            self._sent_at_slowdown = self._sent
            self._throttles_in_a_row += 1
            if is_rate_limited:
                # If there is no rate yet, use the number of successes in the last second as the
                # throttled rate.
                last_second = sum(now - time <= 1.0 for time in self._success_times)
                self._throttled_rate = self._rate or float(last_second)
                self._rate = max(MIN_RATE, SLOWDOWN * (self._throttled_rate or 1.0))
            return True


def _message(error: EdgeError | None) -> str:
    return "" if error is None else str(error)
