"""When an attempt is repeated: what each outcome means for the call, the client and the clock."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from pipelines.edge.body import Body
from pipelines.edge.calls import Call, list_venues
from pipelines.edge.clock import measured_offset, utc
from pipelines.edge.envelope import Envelope, read_envelope, read_errors
from pipelines.edge.errors import (
    ApiError,
    ClockRefused,
    DeadlinePassed,
    EdgeError,
    KeyRefused,
    Misread,
    Refused,
    ServerFailed,
    Stopped,
    Unreachable,
)
from pipelines.edge.exchange import ERROR_BODY, Answer, Wire
from pipelines.edge.gate import Gate
from pipelines.edge.retry import (
    ATTEMPTS,
    LONGEST_WAIT,
    MISREADS,
    TOO_MANY,
    Budget,
    backoff,
    final,
    may_pass,
    refusal,
    retry_after,
)
from pipelines.edge.wholeness import Sign, signs

PROBE = list_venues()
"""The cheapest request that every night makes anyway (4.3)."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something the operator may want to know; `kind` is `retry`, `clock` or `breaker`.

    `attempt` counts from 1, `wait` is seconds until the next one, `skew_ms` is set for `clock`.
    """

    kind: str
    where: str
    attempt: int
    words: str
    wait: float = 0.0
    skew_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A checked success: the exact bytes and how they came.

    Times are UTC by the corrected clock. `skew_ms` is the correction in force when this was
    signed, in milliseconds the server is ahead of this machine; None while none was needed.
    `size` and `sha256` are of the body after content decoding, as kept in `body`. `signs` are what
    the answer says against its being whole.
    """

    call: Call
    status: int
    sent_at: datetime
    received_at: datetime
    attempts: int
    size: int
    sha256: str
    body: Body
    envelope: Envelope
    skew_ms: int | None
    signs: tuple[Sign, ...] = ()


@dataclass(slots=True)
class _Tally:
    """How far one call has come."""

    attempt: int = 0
    misreads: int = 0


@dataclass(frozen=True, slots=True)
class _Setback:
    """An attempt that brought no answer to use, with what its headers say about the next one."""

    error: EdgeError
    asked_wait: float | None = None
    measured: int | None = None
    signed_with: int | None = None


class Attempts:
    """Makes the attempts of calls, each in its slot, until one is good or none can be."""

    def __init__(
        self,
        wire: Wire,
        gate: Gate,
        budget: Budget,
        *,
        sleep: Callable[[float], None],
        rng: Callable[[], float],
        on_event: Callable[[Event], None] | None,
    ) -> None:
        self._wire, self._gate, self._budget = wire, gate, budget
        self._sleep, self._rng, self._on_event = sleep, rng, on_event

    def fetch(self, call: Call, rests: Callable[[bool], None] = lambda _: None) -> Reply:
        """The answer to a call.

        `rests` is told when the call begins to wait for its next attempt, and when that is over.

        Raises:
            EdgeError: there is none, and why.
        """
        where = _where(call)
        tally = _Tally()
        pause = partial(self._pause, where)
        while True:
            with self._gate.slot(where, call.path, pause) as slot:
                if slot.is_probe:
                    self._probe(slot.number)
                    continue
                tally.attempt += 1
                outcome = self._attempt(call, where, tally.attempt, slot.number)
            if isinstance(outcome, Reply):
                return outcome
            wait = self._wait(where, outcome, tally)
            if isinstance(wait, EdgeError):
                raise wait
            rests(True)
            try:
                self._pause(where, wait, str(outcome.error))
            finally:
                rests(False)

    def fault(self, call: Call, where: str, answer: Answer) -> EdgeError | None:
        """What is wrong with an answer, or None where it is a success."""
        verdict = self._judge(call, where, answer)
        return verdict if isinstance(verdict, EdgeError) else None

    def _attempt(self, call: Call, where: str, number: int, sent: int) -> Reply | _Setback:
        """Make one attempt and let the gate know, while the slot is still held."""
        answer = self._wire.attempt(call, where, self._gate.proved)
        if isinstance(answer, EdgeError):
            self._note(answer, call.path, where, number, sent)
            return _Setback(answer)
        verdict = self._judge(call, where, answer)
        answer.body.give_back()
        if not isinstance(verdict, EdgeError):
            self._gate.worked(sent, call.path)
            self._budget.earn()
            return _reply(call, answer, verdict, number)
        self._note(verdict, call.path, where, number, sent)
        answer.body.close()
        received = utc(answer.received + (answer.signed_with or 0))
        return _Setback(
            verdict,
            retry_after(answer.headers.get("retry-after"), received),
            measured_offset(answer.headers, answer.sent, answer.received),
            answer.signed_with,
        )

    def _probe(self, sent: int) -> None:
        """See whether the service is up at all: what fails may be to blame by itself."""
        outcome = self._attempt(PROBE, _where(PROBE), 1, sent)
        if isinstance(outcome, Reply):
            outcome.body.close()

    def _judge(self, call: Call, where: str, answer: Answer) -> Envelope | EdgeError:
        """The envelope of a success, or what the answer means: code first, status second."""
        buffer = answer.body.buffer()
        if answer.status == 200:  # noqa: PLR2004 - the only success (4)
            try:
                is_ascii = answer.body.is_ascii
                return read_envelope(buffer, single=call.single, is_ascii=is_ascii)
            except Misread as error:
                found = error.found
            errors = read_errors(buffer) if len(buffer) <= ERROR_BODY else None
            if not errors:
                return Misread(self._wire.credentials.scrub(found), where)
        elif answer.status < 300:  # noqa: PLR2004 - 2xx
            return Misread(f"the status is {answer.status} where only 200 is a success", where)
        else:
            errors = read_errors(buffer)
        return refusal(where, answer.status, self._scrubbed(errors))

    def _scrubbed(self, errors: tuple[ApiError, ...] | None) -> tuple[ApiError, ...] | None:
        scrub = self._wire.credentials.scrub
        return errors and tuple(ApiError(scrub(e.code), scrub(e.message)) for e in errors)

    def _note(self, error: EdgeError, path: str, where: str, number: int, sent: int) -> None:
        """Tell the gate whether the service is up, and the operator if it is not."""
        if isinstance(error, KeyRefused):
            self._gate.kill(error)
        elif isinstance(error, Unreachable | Misread | ServerFailed):
            throttled = isinstance(error, ServerFailed) and error.status == TOO_MANY
            if not throttled and self._gate.failed(error, path):
                self._tell(Event("breaker", where, number, str(error)))
        elif isinstance(error, Refused):
            self._gate.worked(sent, path)

    def _wait(self, where: str, setback: _Setback, tally: _Tally) -> float | EdgeError:
        """Seconds until the next attempt, or the error with which the call ends."""
        error = setback.error
        if isinstance(error, ClockRefused):
            return self._corrected(where, setback, tally)
        if isinstance(error, Misread):
            tally.misreads += 1
        if not may_pass(error) or tally.attempt >= ATTEMPTS or tally.misreads >= MISREADS:
            return final(error, tally.attempt)
        if setback.asked_wait is not None and setback.asked_wait > LONGEST_WAIT:
            return final(error, tally.attempt, f"It asks to wait {setback.asked_wait:.0f} seconds.")
        if not self._budget.take():
            return final(error, tally.attempt, "The retries of this run are used up.")
        wait = max(setback.asked_wait or 0.0, backoff(tally.attempt, self._rng()))
        left = self._gate.left()
        if left is not None and wait >= left:
            return DeadlinePassed(where, str(error))
        words = str(final(error, tally.attempt))
        self._tell(Event("retry", where, tally.attempt, words, wait))
        return wait

    def _corrected(self, where: str, setback: _Setback, tally: _Tally) -> float | EdgeError:
        """No wait, where the clock was corrected since the refused request was signed (5.3)."""
        again, made = self._wire.clock.correct(setback.measured, setback.signed_with)
        skew = self._wire.clock.offset
        if made and skew is not None:
            words = (
                f"{where}: the timestamp was refused; the server's clock is {skew / 1000:+.1f} s "
                "from this machine's. Requests are signed with the server's time from now on; "
                "set this machine's clock."
            )
            self._tell(Event("clock", where, tally.attempt, words, 0.0, skew))
        if again:
            return 0.0
        return final(setback.error, tally.attempt, _clock_note(setback))

    def _pause(self, where: str, seconds: float, last: str) -> None:
        """Wait, in steps of a second at most, so that closing the client ends it."""
        left = self._gate.left()
        if left is not None and seconds >= left:
            raise DeadlinePassed(where, last)
        while seconds > 0:
            if self._gate.stopped.is_set():
                raise Stopped(where)
            self._sleep(min(seconds, 1.0))
            seconds -= 1.0

    def _tell(self, event: Event) -> None:
        if self._on_event is not None:
            self._on_event(event)


def _where(call: Call) -> str:
    target = call.target
    return f"GET {target if len(target) <= 160 else target[:160] + '…'}"  # noqa: PLR2004 - a line


def _reply(call: Call, answer: Answer, envelope: Envelope, attempts: int) -> Reply:
    offset = answer.signed_with or 0
    return Reply(
        call=call,
        status=answer.status,
        sent_at=utc(answer.sent + offset),
        received_at=utc(answer.received + offset),
        attempts=attempts,
        size=answer.body.size,
        sha256=answer.body.sha256,
        body=answer.body,
        envelope=envelope,
        skew_ms=answer.signed_with,
        signs=signs(envelope, answer.headers, call.operation.partition("_")[2]),
    )


def _clock_note(setback: _Setback) -> str:
    if setback.signed_with is not None:
        return f"The clock had been corrected by {setback.signed_with / 1000:+.1f} s already."
    if setback.measured is None:
        return "The answer has no date of its own, so the clock could not be corrected."
    return f"The clock is {setback.measured / 1000:+.1f} s off, too much to be corrected."
