"""When an attempt is repeated: what each outcome means for the call, the client and the clock."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from pipelines.edge.errors import (
    ApiError,
    EdgeError,
    KeyRefused,
    Misread,
    Refused,
    Stopped,
)
from pipelines.edge.requests import Call, list_venues
from pipelines.edge.response.body import Body
from pipelines.edge.response.envelope import Envelope, read_envelope, read_errors
from pipelines.edge.response.wholeness import Sign, signs
from pipelines.edge.sending.backoff import Budget, CallProgress, Persistence, refusal
from pipelines.edge.sending.clock import Skew, measured_skew, utc
from pipelines.edge.sending.exchange import ERROR_BODY, HttpAnswer, Sender
from pipelines.edge.sending.limiter import Limiter
from pipelines.edge.sending.pace import Pacer, told_wait
from pipelines.edge.sending.setbacks import Event, Sequel, Setback

__all__ = ["Attempts", "Event", "Reply"]

# The cheapest request that every night makes anyway (4.3).
PROBE = list_venues()
# Seconds; a longer pause before a probe is told, for until it is over nothing is to be seen.
TOLD_FROM = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A checked success: the exact bytes and how they came.

    Times are UTC by the corrected clock. `skew_ms` is the correction in force when this was
    signed, in milliseconds the server is ahead of this machine; None while none was needed.
    `size` and `sha256` are of the body after content decoding, as kept in `body`. `signs` are what
    the answer says against its being whole, `told_skew` what its Date says of this machine's clock,
    needed or not; lists of instruments are many and are not asked for that.
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
    told_skew: Skew | None = None


class Attempts:
    """Makes the attempts of calls, each in its slot, until one is good or none can be."""

    def __init__(
        self,
        wire: Sender,
        gate: Limiter,
        pacer: Pacer,
        budget: Budget,
        *,
        sleep: Callable[[float], object],
        rng: Callable[[], float],
        on_event: Callable[[Event], None] | None,
    ) -> None:
        self._wire, self._gate, self._pacer, self._budget = wire, gate, pacer, budget
        self._sleep, self._on_event = sleep, on_event
        self._sequel = Sequel(
            gate=gate, pacer=pacer, budget=budget, clock=wire.clock, rng=rng, tell=self._tell
        )

    def fetch(
        self,
        call: Call,
        rests: Callable[[bool], None] = lambda _: None,
        persistence: Persistence = Persistence.BRIEF,
    ) -> Reply:
        """Return the answer to a call, or raise the `EdgeError` that says why there is none.

        `rests` is told when the call begins to wait for its next attempt, and when that is over.
        """
        where = _where(call)
        tally = CallProgress(
            persistence=persistence
            if self._gate.seconds_until_deadline() is not None
            else Persistence.BRIEF,
            outages=self._gate.outages,
        )
        while True:
            outcome = self._in_slot(call, where, tally)
            if isinstance(outcome, Reply):
                return outcome
            if outcome is None:
                continue
            wait = self._sequel.wait(where, outcome, tally)
            if isinstance(wait, EdgeError):
                raise wait
            rests(True)
            try:
                self._pause(where, wait, outcome.error)
            finally:
                rests(False)

    def _in_slot(self, call: Call, where: str, tally: CallProgress) -> Reply | Setback | None:
        """Make an attempt, or a probe where one is due: None where it says to go on."""
        probing = partial(self._pause_before_probe, where, tally.attempt)
        with self._gate.slot(where, call.path, probing) as slot:
            if slot.is_probe:
                self._probe(slot.number)
                return None
            # All attempts of this call are used up. If anything was answered since its last one,
            # the service is up and the fault is the call's own; otherwise a probe finds out.
            if tally.doubted is not None and tally.outages == self._gate.outages:
                is_up = self._gate.is_up_since(tally.sent)
                probed = None if is_up else self._probe(slot.number)
                if probed is None:
                    raise tally.doubted
                return probed
            tally.doubted, tally.sent = None, slot.number
            tally.attempt += 1
            return self._attempt(call, where, tally.attempt, slot.number)

    def fault(self, call: Call, where: str, answer: HttpAnswer) -> EdgeError | None:
        """Return what is wrong with an answer, or None where it is a success."""
        verdict = self._judge(call, where, answer)
        return verdict if isinstance(verdict, EdgeError) else None

    def _attempt(self, call: Call, where: str, number: int, sent: int) -> Reply | Setback:
        """Make one attempt and let the gate know, while the slot is still held."""
        departure = self._depart(where)
        answer = self._wire.attempt(call, where, self._gate.accept_key)
        if isinstance(answer, EdgeError):
            if self._gate.stopped.is_set():  # we ended it: that is no failure of the service
                raise Stopped(where)
            self._note(Setback(answer, departure), call.path, where, number, sent)
            return Setback(answer, departure)
        verdict = self._judge(call, where, answer)
        answer.body.give_back()
        if not isinstance(verdict, EdgeError):
            self._gate.note_success(sent, call.path)
            self._pacer.note_success(departure)
            self._budget.earn()
            return _reply(call, answer, verdict, number, self._signs(call, answer, verdict))
        answer.body.close()
        setback = Setback(
            error=verdict,
            number=departure,
            asked_wait=told_wait(
                answer.headers, answer.status, answer.received + (answer.signed_with or 0)
            ),
            measured=_skew(answer),
            signed_with=answer.signed_with,
        )
        self._note(setback, call.path, where, number, sent)
        return setback

    def _depart(self, where: str) -> int:
        """Wait for the turn of a request, which is signed after that; its number."""
        while True:
            ticket = self._pacer.ticket()
            if ticket.wait > 0:
                self._pause(where, ticket.wait, None, asked=ticket.wait)
                self._gate.require_open(where)
            number = self._pacer.departure(ticket)
            if number is not None:
                return number

    def _probe(self, sent: int) -> Setback | None:
        """Return None where the service is up, else what the probe met."""
        outcome = self._attempt(PROBE, _where(PROBE), 1, sent)
        if isinstance(outcome, Reply):
            outcome.body.close()
            return None
        if outcome.is_of_service:
            self._gate.is_down()
        return outcome if outcome.is_of_service or outcome.is_refused else None

    def _pause_before_probe(
        self, where: str, attempt: int, seconds: float, last: EdgeError | None
    ) -> None:
        """Wait before a probe, and tell of the long waits."""
        if seconds > TOLD_FROM:
            self._tell(
                Event(
                    kind="breaker",
                    where=where,
                    attempt=attempt,
                    words="" if last is None else str(last),
                    wait=seconds,
                )
            )
        self._pause(where, seconds, last)

    def _judge(self, call: Call, where: str, answer: HttpAnswer) -> Envelope | EdgeError:
        """Return the envelope of a success, or what the answer means: code first, status second."""
        buffer = answer.body.buffer()
        if answer.status == 200:  # noqa: PLR2004 - the only success (4)
            try:
                is_ascii = answer.body.is_ascii
                return read_envelope(buffer, single=call.single, is_ascii=is_ascii)
            except Misread as error:
                defect = error.found
            errors = read_errors(buffer) if len(buffer) <= ERROR_BODY else None
            if not errors:
                return Misread(self._wire.credentials.scrub(defect), where)
        elif answer.status < 300:  # noqa: PLR2004 - 2xx
            return Misread(f"the status is {answer.status} where only 200 is a success", where)
        else:
            errors = read_errors(buffer)
        return refusal(where, answer.status, self._scrub(errors))

    def _scrub(self, errors: tuple[ApiError, ...] | None) -> tuple[ApiError, ...] | None:
        scrub = self._wire.credentials.scrub
        return errors and tuple(ApiError(scrub(e.code), scrub(e.message)) for e in errors)

    def _signs(self, call: Call, answer: HttpAnswer, envelope: Envelope) -> tuple[Sign, ...]:
        """Return what an answer says against its being whole, without what we sent in it."""
        scrub = self._wire.credentials.scrub
        noun = call.operation.partition("_")[2]
        return tuple(
            Sign(scrub(sign.place), sign.words, scrub(sign.example))
            for sign in signs(envelope, answer.headers, noun)
        )

    def _note(self, setback: Setback, path: str, where: str, number: int, sent: int) -> None:
        """Tell the gate whether the service is up, and the operator if it is not."""
        error = setback.error
        if isinstance(error, KeyRefused):
            self._gate.kill(error)
        elif setback.is_of_service:
            if self._gate.note_failure(error, path, utc(self._wire.clock.now())):
                self._tell(Event(kind="breaker", where=where, attempt=number, words=str(error)))
        elif isinstance(error, Refused) and not setback.is_refused:
            self._gate.note_success(sent, path)

    def _pause(
        self, where: str, seconds: float, last: EdgeError | None, asked: float | None = None
    ) -> None:
        """Wait; closing the client ends it."""
        left = self._gate.seconds_until_deadline()
        if left is not None and seconds >= left:
            raise self._gate.deadline_error(where, last, asked)
        if seconds > 0:
            self._sleep(seconds)
        if self._gate.stopped.is_set():
            raise Stopped(where)

    def _tell(self, event: Event) -> None:
        if self._on_event is not None:
            self._on_event(event)


def _where(call: Call) -> str:
    target = call.target
    return f"GET {target if len(target) <= 160 else target[:160] + '…'}"  # noqa: PLR2004 - what a line of a log holds


def _skew(answer: HttpAnswer) -> Skew | None:
    return measured_skew(answer.headers, answer.sent, answer.received)


def _reply(
    call: Call, answer: HttpAnswer, envelope: Envelope, attempts: int, against: tuple[Sign, ...]
) -> Reply:
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
        signs=against,
        told_skew=None if call.operation == "list_instruments" else _skew(answer),
    )
