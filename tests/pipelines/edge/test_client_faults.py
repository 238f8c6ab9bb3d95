"""Tests of the HTTP faults that need a clock or a queue, and of the complete list of 95 faults.

Most faults are in the table of `test_exchange`. The faults that need a clock or a queue are here,
also over real sockets. `ELSEWHERE` lists the tests of the faults that need TLS or a closed port.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import pytest

from pipelines.edge.client import EdgeClient
from pipelines.edge.errors import EdgeError, MalformedResponseError, TimestampRefused
from pipelines.edge.requests import list_instruments, list_venues
from pipelines.edge.response.envelope import raw_records
from pipelines.edge.sending.retries import Event
from tests.pipelines.edge import test_exchange, test_transport
from tests.pipelines.edge.test_exchange import FAULTS, VENUE, always, http, refused

if TYPE_CHECKING:
    from tests.pipelines.edge.conftest import Request, Script, Server

HOUR = 3_600_000
REFUSED = "TIMESTAMP_INVALID"
PAIR = VENUE.replace(b'"V"', b'"\\ud83e\\udd8a"')
LONG = b'{"data":[],"meta":{"a":' + b"9" * 5000 + b"}}"


def checked(window: int = 30_000) -> "Script":
    """Return a script that refuses timestamps outside the window and sends its own `Date`."""

    def script(_number: int, request: "Request") -> Iterable[bytes]:
        age = abs(int(request.headers["svc-api-timestamp"]) - request.at * 1000)
        date = f"Date: {formatdate(request.at, usegmt=True)}"
        return [http(200, test_exchange.BODY, date) if age <= window else refused_at(date)]

    return script


def refused_at(*headers: str) -> bytes:
    """Return the error response for a refused timestamp."""
    return refused(REFUSED, 400, *headers)


def now_date() -> str:
    """Return a `Date` header with the current time."""
    return f"Date: {formatdate(time.time(), usegmt=True)}"


def busy_twice(number: int, request: "Request") -> Iterable[bytes]:
    """Respond with 503 twice, then check timestamps with a window of one second."""
    return [http(503, b"")] if number <= 2 else checked(1000)(number, request)  # type: ignore[return-value]  # a script of bytes alone


@dataclass(frozen=True, slots=True)
class Timed:
    """A fault: the error of the client's clock (milliseconds), the server's script, the outcome."""

    number: int
    what: str
    off: int
    script: "Script"
    error: type[EdgeError] | None
    requests: int
    settings: dict[str, Any] = field(default_factory=dict)


TIMED = [
    Timed(58, "the clock is 45 s behind", -45_000, checked(), None, 2),
    Timed(59, "the clock is 45 s ahead", 45_000, checked(), None, 2),
    Timed(60, "the clock is 3 h behind", -3 * HOUR, checked(), None, 2),
    Timed(61, "the clock is 29 s behind", -29_000, checked(), None, 1),
    Timed(62, "the clock is 2 days behind", -48 * HOUR, checked(), TimestampRefused, 1),
    Timed(63, "refused whatever is sent", 0, always(refused_at(now_date())), TimestampRefused, 2),
    Timed(64, "refused without a date", 0, always(refused_at()), TimestampRefused, 1),
    Timed(
        65, "a date of a cache", 0, always(refused_at(now_date(), "Age: 900")), TimestampRefused, 1
    ),
    Timed(
        67,
        "waits longer than the window",
        0,
        busy_twice,
        None,
        3,
        {"sleep": lambda _: time.sleep(1.2)},
    ),
    Timed(76, "an integer of 5,000 digits", 0, always(http(200, LONG)), MalformedResponseError, 2),
]
ELSEWHERE = {
    5: test_exchange.test_a_closed_port_is_tried_five_times,
    18: test_exchange.test_every_request_uses_a_new_connection,
    24: test_transport.test_an_untrusted_certificate_is_refused_at_once,
    25: test_transport.test_plain_http_instead_of_tls_is_refused_at_once,
}


@pytest.mark.parametrize("fault", TIMED, ids=lambda fault: f"{fault.number}-{fault.what}")
def test_each_timed_fault_ends_in_the_expected_result(
    fault: Timed, serve: "Callable[[Script], Server]", connect: Callable[..., EdgeClient]
) -> None:
    """A timed fault ends in the right data or error, after the exact number of requests.

    If the client corrects its clock and succeeds, it reports one `clock` event.
    """
    server, events = serve(fault.script), list[Event]()
    edge = connect(
        server.origin,
        clock=lambda: time.time_ns() // 1_000_000 + fault.off,
        on_event=events.append,
        **fault.settings,
    )
    if fault.error is None:
        reply = edge.fetch(list_venues())
        assert [bytes(element) for element in raw_records(reply.envelope)] == [VENUE]
        skewed = fault.requests == 2
        assert [event.kind for event in events].count("clock") == skewed
        assert (reply.skew_ms is not None) is skewed
    else:
        with pytest.raises(fault.error):
            edge.fetch(list_venues())
    assert len(server.requests) == fault.requests


def test_calls_that_waited_in_a_queue_have_fresh_timestamps(
    serve: "Callable[[Script], Server]", connect: Callable[..., EdgeClient]
) -> None:
    """Fault 66: 12 calls of 0.3 s in two slots need 12 requests, although they wait in a queue.

    The server accepts timestamps for one second, so each request is signed just before it is sent.
    """

    def slow(number: int, request: "Request") -> Iterable[Any]:
        answer = list(checked(1000)(number, request))
        return [0.3, *answer]

    server = serve(slow)
    edge = connect(
        server.origin, concurrency=2, clock=lambda: time.time_ns() // 1_000_000, sleep=time.sleep
    )
    calls = [list_instruments(f"v{number}") for number in range(12)]
    outcomes = [outcome for _, outcome in edge.fetch_all(calls)]
    assert not [one for one in outcomes if isinstance(one, EdgeError)]
    assert len(server.requests) == 12


def test_a_valid_surrogate_pair_is_decoded(
    serve: "Callable[[Script], Server]", connect: Callable[..., EdgeClient]
) -> None:
    """Fault 80: a valid pair of surrogate escapes is decoded to its character."""
    server = serve(always(http(200, b'{"data":[' + PAIR + b'],"meta":{}}')))
    [venue] = connect(server.origin).venues()
    assert venue.display_name == "\N{FOX FACE}"
    assert len(server.requests) == 1


def test_all_95_faults_are_tested() -> None:
    """Each number from 1 to 95 is in a table or has its own test."""
    rows = {int("".join(filter(str.isdigit, name.split()[0]))) for name, *_ in FAULTS}
    timed = {fault.number for fault in TIMED} | {66, 80}
    assert rows | timed | set(ELSEWHERE) == set(range(1, 96))
    assert not rows & timed
    assert all(callable(test) for test in ELSEWHERE.values())
