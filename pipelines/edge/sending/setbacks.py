"""What comes after an attempt that brought no answer to use: a wait, or the end of the call."""

from collections.abc import Callable
from dataclasses import dataclass

from pipelines.edge.errors import (
    ClockRefused,
    EdgeError,
    Misread,
    ServerFailed,
    Unreachable,
)
from pipelines.edge.sending.backoff import (
    ATTEMPTS,
    LONGEST_WAIT,
    REFUSALS,
    TOO_MANY,
    Budget,
    CallProgress,
    Persistence,
    backoff,
    may_pass,
)
from pipelines.edge.sending.clock import Clock, Skew
from pipelines.edge.sending.limiter import Limiter
from pipelines.edge.sending.pace import Pacer


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something the operator may want to know; `kind` is `retry`, `pace`, `clock` or `breaker`.

    `attempt` counts from 1, `wait` is seconds until the next one (for `pace`: of any request),
    `skew_ms` is set for `clock`.
    """

    kind: str
    where: str
    attempt: int
    words: str
    wait: float = 0.0
    skew_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Setback:
    """An attempt that brought no answer to use, with what its headers say about the next one."""

    error: EdgeError
    number: int  # its place among the departures
    asked_wait: float | None = None  # seconds that the service asks to wait
    measured: Skew | None = None
    signed_with: int | None = None

    @property
    def is_too_fast(self) -> bool:
        """Whether the service says that it was asked too much."""
        return isinstance(self.error, ServerFailed) and self.error.status == TOO_MANY

    @property
    def is_of_service(self) -> bool:
        """Whether it is a failure of the service: one that tells to wait is up."""
        is_failure = isinstance(self.error, Unreachable | Misread | ServerFailed)
        return is_failure and not self.is_refused

    @property
    def is_refused(self) -> bool:
        """Whether the service is up and tells to wait, which is no failure."""
        has_told = isinstance(self.error, ServerFailed) and self.asked_wait is not None
        return has_told or self.is_too_fast


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequel:
    """Decides what follows on a setback, for all calls of a client."""

    gate: Limiter
    pacer: Pacer
    budget: Budget
    clock: Clock
    rng: Callable[[], float]
    tell: Callable[[Event], None]

    def wait(self, where: str, setback: Setback, tally: CallProgress) -> float | EdgeError:
        """Return seconds until the next attempt, or the error with which the call ends."""
        error = setback.error
        if isinstance(error, ClockRefused):
            return self._correct_clock(where, setback, tally)
        if setback.is_refused:
            return self._held_up(where, setback, tally)
        tally.count(error, self.gate.outages)
        ended = self._final_error(setback, tally)
        if ended is not None:
            return ended
        wait = backoff(tally.failures, self.rng())
        left = self.gate.seconds_until_deadline()
        if left is not None and wait >= left:
            return self.gate.deadline_error(where, error)
        message = str(error.anew(attempts=tally.attempt))
        self.tell(Event(kind="retry", where=where, attempt=tally.attempt, words=message, wait=wait))
        return wait

    def _final_error(self, setback: Setback, tally: CallProgress) -> EdgeError | None:
        """Return the error with which a failed call ends here; None where it goes on."""
        ended = setback.error.anew(attempts=tally.attempt)
        if not may_pass(setback.error):
            return ended
        if tally.persistence is Persistence.REQUIRED:
            return None
        if not tally.is_exhausted:
            if self.budget.take():
                return None
            return setback.error.anew(
                attempts=tally.attempt, note="The retries of this run are used up."
            )
        if tally.persistence is Persistence.BRIEF or self.gate.is_up_since(tally.sent):
            return ended
        # It may be this path alone that fails, or the service. That is decided inside the next
        # slot, where a probe is made if nothing else has been answered since.
        tally.doubted = tally.doubted or ended
        return None

    def _held_up(self, where: str, setback: Setback, tally: CallProgress) -> float | EdgeError:
        """No wait of its own, for all requests wait; or the error, where that is for too long."""
        asked = setback.asked_wait
        wait = self.pacer.wait_after(setback.number, asked)
        left = self.gate.seconds_until_deadline()
        note = "" if asked is None else f"It asks to wait {asked:.0f} seconds."
        tally.refusals += 1
        ended = setback.error.anew(attempts=tally.attempt, note=note)
        if left is not None and wait >= left:
            return self.gate.deadline_error(where, ended, wait)
        if left is None and (wait > LONGEST_WAIT or tally.refusals >= ATTEMPTS):
            return ended
        is_optional = tally.persistence is not Persistence.REQUIRED
        if is_optional and tally.refusals >= REFUSALS and self.gate.is_up_since(tally.sent):
            return ended
        if self.pacer.note_refusal(setback.number, wait, too_fast=setback.is_too_fast):
            self.tell(
                Event(kind="pace", where=where, attempt=tally.attempt, words=str(ended), wait=wait)
            )
        return 0.0

    def _correct_clock(
        self, where: str, setback: Setback, tally: CallProgress
    ) -> float | EdgeError:
        """No wait, where the clock was corrected since the refused request was signed (5.3)."""
        again, is_corrected = self.clock.correct(setback.measured, setback.signed_with)
        skew = self.clock.offset
        if is_corrected and skew is not None:
            message = (
                f"{where}: the timestamp was refused; the server's clock is {skew / 1000:+.1f} s "
                "from this machine's. Requests are signed with the server's time from now on; "
                "set this machine's clock."
            )
            attempt = tally.attempt
            self.tell(
                Event(kind="clock", where=where, attempt=attempt, words=message, skew_ms=skew)
            )
        if again:
            return 0.0
        return setback.error.anew(attempts=tally.attempt, note=_clock_note(setback))


def _clock_note(setback: Setback) -> str:
    if setback.signed_with is not None:
        return f"The clock had been corrected by {setback.signed_with / 1000:+.1f} s already."
    if setback.measured is None:
        return "The answer has no date of its own, so the clock could not be corrected."
    return f"The clock is {setback.measured.ahead / 1000:+.1f} s off, too much to be corrected."
