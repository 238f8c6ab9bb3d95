"""The retry policy: send a request, and decide what to do after a failed attempt.

If the server asks the client to wait, all calls slow down, and this does not count as a failure
(§8). A refused timestamp corrects the clock (§5.3). Every other transient failure is retried with
backoff.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass

from pipelines.edge.errors import (
    ApiResponseError,
    AuthenticationFailed,
    ClientClosed,
    ConnectionFailed,
    EdgeError,
    MalformedResponseError,
    ServerError,
    TimestampRefused,
)
from pipelines.edge.requests import Call, list_venues
from pipelines.edge.response.refusal import TOO_MANY_REQUESTS, is_transient
from pipelines.edge.sending.clock import Skew, to_utc
from pipelines.edge.sending.exchange import ApiResponse, Sender
from pipelines.edge.sending.limiter import Limiter

MAX_ATTEMPTS = 5
# Two attempts show whether a malformed response was damaged on the way or is always malformed.
MAX_MALFORMED = 2
# The number of times that an optional call may be throttled while other calls succeed.
MAX_THROTTLES = 30
# Without a deadline, a call fails if the server asks to wait for more seconds than this.
MAX_REQUESTED_WAIT = 60.0
# A backoff is random, up to a bound that doubles with each failure in a row. These are the first
# bound and the largest bound, in seconds.
FIRST_BACKOFF, MAX_BACKOFF = 0.5, 60.0
# If the wait before a probe is longer than this many seconds, report it, because nothing else
# happens in the meantime.
REPORTED_WAIT = 15.0
# Probes use this request, because it is cheap and every night sends it anyway (§4.3).
PROBE = list_venues()
MAX_TARGET = 160  # maximum number of characters of a path and query that are shown in messages


class RetryMode(enum.Enum):
    """A limit on how often a call is retried. Without a deadline, `BRIEF` is always used."""

    BRIEF = "brief"  # only a few attempts, because a person is waiting
    OPTIONAL = "optional"  # a few attempts while the service is up, but any number while it is down
    REQUIRED = "required"  # retry until the deadline, because the night fails without this response


@dataclass(frozen=True, slots=True)
class Event:
    """An event that is reported to the operator, such as a retry or an outage.

    `kind` is `retry`, `pace`, `clock` or `breaker`. `attempt` counts from 1. `wait` is the number
    of seconds until the next attempt (`retry`), the next request of any call (`pace`) or the next
    probe (`breaker`). `skew_ms` is set for `clock`.
    """

    kind: str
    request_line: str
    attempt: int
    message: str
    wait: float = 0.0
    skew_ms: int | None = None


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """An attempt without a usable response.

    `request_number` is the number from `Limiter.wait_to_send`. `requested_wait` is the wait that
    the response asks for, in seconds. `signed_with` is the clock correction with which the request
    was signed, in milliseconds.
    """

    error: EdgeError
    request_number: int
    requested_wait: float | None = None
    skew: Skew | None = None
    signed_with: int | None = None

    @property
    def is_rate_limited(self) -> bool:
        """True if the server refused the request because of a rate limit (status 429)."""
        return isinstance(self.error, ServerError) and self.error.status == TOO_MANY_REQUESTS

    @property
    def is_throttled(self) -> bool:
        """True if the server is up and asks the client to wait, which is not a failure."""
        asks_to_wait = isinstance(self.error, ServerError) and self.requested_wait is not None
        return asks_to_wait or self.is_rate_limited

    @property
    def is_service_failure(self) -> bool:
        """True if the service failed, rather than throttling or refusing the request."""
        is_failure = isinstance(self.error, ConnectionFailed | MalformedResponseError | ServerError)
        return is_failure and not self.is_throttled


@dataclass(slots=True)
class _CallState:
    """A call's progress: its attempts, failures and last error. Used by a single thread.

    `failures` and `malformed` count failures in a row while the service is up. They restart from 0
    if any call's probe has failed in the meantime (`failed_probes` has changed), because failures
    during an outage are not this call's fault. `last_slot` is the last attempt's slot number.
    """

    call: Call
    mode: RetryMode = RetryMode.BRIEF
    failed_probes: int = 0
    attempts: int = 0
    failures: int = 0
    malformed: int = 0
    throttles: int = 0
    last_slot: int = 0
    # The call fails with this error, unless a probe shows that the whole service is down.
    final_error: EdgeError | None = None

    @property
    def request_line(self) -> str:
        """The request line for error messages and events, truncated to fit on a log line."""
        target = self.call.target
        return f"GET {target[:MAX_TARGET]}{'…' if len(target) > MAX_TARGET else ''}"

    @property
    def is_exhausted(self) -> bool:
        """True if the call has failed too often to be retried while the service is up."""
        return self.failures >= MAX_ATTEMPTS or self.malformed >= MAX_MALFORMED

    def count(self, error: EdgeError, failed_probes: int) -> None:
        """Count a failed attempt. `failed_probes` is the limiter's current count."""
        if failed_probes != self.failed_probes:
            self.failures = self.malformed = 0
            self.failed_probes, self.final_error = failed_probes, None
        self.failures += 1
        self.malformed += isinstance(error, MalformedResponseError)


class RetryingSender:
    """A sender that retries calls, with a new slot for each attempt. Thread-safe.

    `rng` draws from [0, 1) for the jitter. `on_event` receives retries, slowdowns, clock
    corrections and outages, in any thread.
    """

    def __init__(
        self,
        sender: Sender,
        limiter: Limiter,
        *,
        rng: Callable[[], float],
        on_event: Callable[[Event], None] | None,
    ) -> None:
        self._sender, self._limiter, self._rng, self._on_event = sender, limiter, rng, on_event

    def fetch(
        self,
        call: Call,
        on_waiting: Callable[[bool], None] = lambda _: None,
        mode: RetryMode = RetryMode.BRIEF,
    ) -> ApiResponse:
        """Send a request, retrying as often as `mode` allows, and return the checked response.

        Raises the `EdgeError` of the last attempt, or the error that ended the retries
        (`AuthenticationFailed`, `DeadlineExceeded`, `CircuitBreakerOpen` or `ClientClosed`).
        `on_waiting` receives True when the call starts waiting for its next attempt, and False when
        the wait ends.
        """
        if self._limiter.seconds_until_deadline() is None:
            mode = RetryMode.BRIEF
        state = _CallState(call, mode, self._limiter.failed_probes)
        while True:
            result = self._attempt_or_probe(state)
            if isinstance(result, ApiResponse):
                return result
            if result is None:  # None means that only a probe was sent, not the request itself.
                continue
            wait = self._wait_before_retry(state, result)
            on_waiting(True)
            try:
                self._limiter.pause(state.request_line, wait, result.error)
            finally:
                on_waiting(False)

    # Methods that hold a slot

    def _attempt_or_probe(self, state: _CallState) -> ApiResponse | FailedAttempt | None:
        """Send the request once. If the circuit breaker is open, send a probe and return None."""
        with self._limiter.slot(state.request_line, state.call.path) as slot:
            if slot.probe_wait:
                if slot.probe_wait > REPORTED_WAIT:
                    message = "" if slot.last_failure is None else str(slot.last_failure)
                    self._report("breaker", state, message, wait=slot.probe_wait)
                self._limiter.pause(state.request_line, slot.probe_wait, slot.last_failure)
                self._probe(slot.number)
                return None
            # The call has no attempts left. If anything has succeeded since its last attempt, the
            # service is up and the call itself is at fault. Otherwise a probe decides.
            final_error = state.final_error
            if final_error is not None and state.failed_probes == self._limiter.failed_probes:
                is_up = self._limiter.is_up_since(state.last_slot)
                failed_probe = None if is_up else self._probe(slot.number)
                if failed_probe is None:
                    raise final_error
                return failed_probe
            state.final_error, state.last_slot = None, slot.number
            state.attempts += 1
            return self._attempt(state, slot.number)

    def _probe(self, slot_number: int) -> FailedAttempt | None:
        """Send a probe. Return None if the service is up, otherwise the failed attempt."""
        result = self._attempt(_CallState(PROBE, attempts=1), slot_number)
        if isinstance(result, ApiResponse):
            result.body.close()
            return None
        if result.is_service_failure:
            self._limiter.record_failed_probe()
        return result if result.is_service_failure or result.is_throttled else None

    def _attempt(self, state: _CallState, slot_number: int) -> ApiResponse | FailedAttempt:
        """Send the request once, and report the result to the limiter while the slot is held."""
        call, request_line, limiter = state.call, state.request_line, self._limiter
        request_number = limiter.wait_to_send(request_line)
        response = self._sender.send(call, request_line, limiter.accept_key)
        if isinstance(response, EdgeError):
            if limiter.closed.is_set():  # The attempt failed because the client was closed.
                raise ClientClosed(request_line)
            failed = FailedAttempt(response, request_number)
        else:
            result = self._sender.check(call, request_line, response)
            response.body.release_pages()
            if not isinstance(result, EdgeError):
                limiter.record_success(slot_number, call.path, request_number)
                return self._sender.success(call, response, result, state.attempts)
            response.body.close()
            wait, skew = response.requested_wait, response.skew
            failed = FailedAttempt(result, request_number, wait, skew, response.signed_with)
        self._record_failure(failed, state, slot_number)
        return failed

    def _record_failure(self, failed: FailedAttempt, state: _CallState, slot_number: int) -> None:
        """Update the limiter after a failed attempt. Report an outage if the breaker opens."""
        error, path = failed.error, state.call.path
        if isinstance(error, AuthenticationFailed):
            self._limiter.refuse_key(error)
        elif failed.is_service_failure:
            failed_at = to_utc(self._sender.clock.corrected_time())
            if self._limiter.record_failure(error, path, failed_at):
                self._report("breaker", state, str(error))
        elif isinstance(error, ApiResponseError) and not failed.is_throttled:
            self._limiter.record_service_up(slot_number, path)

    # Decisions after a failed attempt

    def _wait_before_retry(self, state: _CallState, failed: FailedAttempt) -> float:
        """Return how many seconds to wait before the next attempt, or raise the call's error."""
        if isinstance(failed.error, TimestampRefused):
            return self._correct_clock(state, failed)
        if failed.is_throttled:
            return self._throttle(state, failed)
        state.count(failed.error, self._limiter.failed_probes)
        self._require_retry(state, failed)
        wait = backoff(state.failures, self._rng())
        remaining = self._limiter.seconds_until_deadline()
        if remaining is not None and wait >= remaining:
            raise self._limiter.deadline_error(state.request_line, failed.error)
        message = str(failed.error.copy_with(attempts=state.attempts))
        self._report("retry", state, message, wait=wait)
        return wait

    def _require_retry(self, state: _CallState, failed: FailedAttempt) -> None:
        """Raise the error of a failed attempt if the request must not be sent again."""
        final = failed.error.copy_with(attempts=state.attempts)
        if not is_transient(failed.error):
            raise final
        if state.mode is RetryMode.REQUIRED:
            return
        if not state.is_exhausted:
            if not self._limiter.take_retry():
                raise final.copy_with(note="The retry budget of this run is used up.")
            return
        if state.mode is RetryMode.BRIEF or self._limiter.is_up_since(state.last_slot):
            raise final
        # Either only this path or the whole service is failing. To find out, the next slot sends a
        # probe, unless another request succeeds first.
        state.final_error = final

    def _throttle(self, state: _CallState, failed: FailedAttempt) -> float:
        """Make the limiter delay all calls. Return 0, because this call needs no extra wait.

        Raises the call's error if the wait is too long, or if the call was throttled too often
        while other calls succeeded.
        """
        requested = failed.requested_wait
        wait = self._limiter.throttle_wait(failed.request_number, requested)
        remaining = self._limiter.seconds_until_deadline()
        note = (
            "" if requested is None else f"The server asked the client to wait {requested:.0f} s."
        )
        final = failed.error.copy_with(attempts=state.attempts, note=note)
        state.throttles += 1
        if remaining is None:
            if wait > MAX_REQUESTED_WAIT or state.throttles >= MAX_ATTEMPTS:
                raise final
        elif wait >= remaining:
            raise self._limiter.deadline_error(state.request_line, final, wait)
        if (
            state.mode is not RetryMode.REQUIRED
            and state.throttles >= MAX_THROTTLES
            and self._limiter.is_up_since(state.last_slot)
        ):
            raise final
        if self._limiter.throttle(
            failed.request_number, wait, is_rate_limited=failed.is_rate_limited
        ):
            self._report("pace", state, str(final), wait=wait)
        return 0.0

    def _correct_clock(self, state: _CallState, failed: FailedAttempt) -> float:
        """Correct the clock, and return 0 so that the request is retried at once (§5.3).

        Raises the call's error if correcting the clock cannot help.
        """
        clock = self._sender.clock
        correction = clock.correct(failed.skew, failed.signed_with)
        skew = clock.offset
        if correction.is_new and skew is not None:
            message = (
                f"{state.request_line}: the API rejected the timestamp, because the server's clock "
                f"differs from this machine's by {skew / 1000:+.1f} s. Requests are now signed "
                "with the server's time. Set this machine's clock."
            )
            self._report("clock", state, message, skew_ms=skew)
        if correction.can_retry:
            return 0.0
        raise failed.error.copy_with(attempts=state.attempts, note=_clock_note(failed))

    def _report(
        self,
        kind: str,
        state: _CallState,
        message: str,
        *,
        wait: float = 0.0,
        skew_ms: int | None = None,
    ) -> None:
        if self._on_event is not None:
            request_line, attempt = state.request_line, state.attempts
            self._on_event(Event(kind, request_line, attempt, message, wait, skew_ms))


def backoff(failures: int, draw: float) -> float:
    """Return a random wait in seconds, which depends on the number of failures in a row.

    `draw` is from [0, 1). The wait has full jitter: it is between 0 and a bound that doubles from
    0.5 to 60 seconds, so that callers that failed together do not retry together.
    """
    # Ten doublings are enough to reach the maximum, and the limit prevents an overflow.
    doublings = min(failures - 1, 10)
    return draw * min(MAX_BACKOFF, FIRST_BACKOFF * 2.0**doublings)


def _clock_note(failed: FailedAttempt) -> str:
    if failed.signed_with is not None:
        return f"The clock was already corrected by {failed.signed_with / 1000:+.1f} s."
    if failed.skew is None:
        return "The response has no usable date, so the clock could not be corrected."
    return f"The clock is {failed.skew.ahead / 1000:+.1f} s off, which is too much to correct."
