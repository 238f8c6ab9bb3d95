"""Tests of the clock and of signatures: no request is sent with an old timestamp."""

import threading
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import TYPE_CHECKING

import httpx
import pytest

from pipelines.edge.client import EdgeClient
from pipelines.edge.errors import ResourceNotFound, ServerError, TimestampRefused
from pipelines.edge.requests import list_instruments, list_venues
from pipelines.edge.sending.clock import Clock, Skew, measure_skew, parse_http_date
from pipelines.edge.sending.retries import Event

if TYPE_CHECKING:
    from tests.pipelines.edge.conftest import Script, Server

NOW = 1_800_000_000_000
WINDOW = 30_000
GOOD: dict[str, object] = {"data": [], "meta": {}}
HOUR = 3_600_000


class Service:
    """An API with its own clock, which refuses timestamps outside its window (5.3)."""

    def __init__(self, now: int = NOW, **headers: str) -> None:
        self.now, self.sent, self.headers = now, list[int](), headers
        self.date: str | None = formatdate(now / 1000, usegmt=True)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Record the timestamp of a request, and respond."""
        self.sent.append(int(request.headers["SVC-API-TIMESTAMP"]))
        headers = dict(self.headers) | ({"Date": self.date} if self.date else {})
        if abs(self.sent[-1] - self.now) <= WINDOW:
            return httpx.Response(200, json=GOOD, headers=headers)
        body = {"errors": [{"error": "TIMESTAMP_INVALID", "message": "old"}], "meta": {}}
        return httpx.Response(400, json=body, headers=headers)


def connected(
    connect: Callable[..., EdgeClient], service: Service, off: int, **more: object
) -> EdgeClient:
    """Return a client whose clock is off by `off` milliseconds."""
    transport = httpx.MockTransport(service)
    return connect(clock=lambda: NOW + off, transport=transport, **more)


@pytest.mark.parametrize("off", [-23 * HOUR, -3 * HOUR, -45_000, 45_000, 3 * HOUR, 23 * HOUR])
def test_correcting_a_clock_error_costs_one_request(
    off: int, connect: Callable[..., EdgeClient]
) -> None:
    """A clock error of 45 s to 23 h in either direction costs one request and is reported once."""
    service, events = Service(), list[Event]()
    edge = connected(connect, service, off, on_event=events.append)
    calls = [list_instruments(f"v{number}") for number in range(20)]
    replies = [reply for _, reply in edge.fetch_all(calls)]
    assert len(service.sent) == 21
    assert {getattr(reply, "skew_ms", None) for reply in replies} == {-off + 500}
    assert [(event.kind, event.skew_ms) for event in events] == [("clock", -off + 500)]
    assert f"{-off / 1000 + 0.5:+.1f} s" in events[0].message


@pytest.mark.parametrize("fraction", [0, 1, 499, 500, 999])
@pytest.mark.parametrize("trip", [0, 40, 900, 2_000])
def test_corrected_timestamps_are_slightly_behind_the_server(
    trip: int, fraction: int, connect: Callable[..., EdgeClient]
) -> None:
    """Corrected requests are signed 2 to 5 seconds behind the server, after any round trip.

    So a server that refuses all timestamps ahead of its own clock accepts the corrected requests.
    """
    off, passed = 3 * HOUR, [0]
    ages = list[int]()

    def answer(request: httpx.Request) -> httpx.Response:
        server = NOW + fraction + passed[0]
        age = server - int(request.headers["SVC-API-TIMESTAMP"])
        ages.append(age)
        headers = {"Date": formatdate(server // 1000, usegmt=True)}  # dated before the way back
        passed[0] += trip
        if 0 <= age <= WINDOW:
            return httpx.Response(200, json=GOOD, headers=headers)
        body = {"errors": [{"error": "TIMESTAMP_INVALID", "message": "ahead"}], "meta": {}}
        return httpx.Response(400, json=body, headers=headers)

    transport = httpx.MockTransport(answer)
    edge = connect(clock=lambda: NOW + fraction + passed[0] + off, transport=transport)
    for _ in range(3):
        edge.fetch(list_venues())
    assert len(ages) == 4
    assert all(2_000 <= age <= 5_001 for age in ages[1:]), ages


def test_the_skew_is_measured_anew_if_ntp_sets_the_clock(
    connect: Callable[..., EdgeClient],
) -> None:
    """If NTP sets the clock during the run, the client measures and corrects the skew once more."""
    service, off = Service(), [-20 * HOUR]
    transport = httpx.MockTransport(service)
    events = list[Event]()
    edge = connect(clock=lambda: NOW + off[0], transport=transport, on_event=events.append)
    edge.fetch(list_venues())
    off[0] = 0
    edge.fetch(list_venues())
    edge.fetch(list_venues())
    assert len(service.sent) == 5
    assert [event.kind for event in events] == ["clock", "clock"]


def test_a_clock_inside_the_window_is_not_corrected(connect: Callable[..., EdgeClient]) -> None:
    """The service accepts a clock that is 29 s off, so the clock is not corrected."""
    service = Service()
    assert connected(connect, service, -29_000).fetch(list_venues()).skew_ms is None
    assert len(service.sent) == 1


def test_a_clock_error_of_two_days_is_not_corrected(connect: Callable[..., EdgeClient]) -> None:
    """A clock error above 24 h is not corrected. The call fails after one request, and says why."""
    service = Service()
    with pytest.raises(
        TimestampRefused, match=r"\+172800\.5 s off, which is too much.*Set this machine's clock"
    ):
        connected(connect, service, -48 * HOUR).fetch(list_venues())
    assert len(service.sent) == 1


def test_a_call_fails_if_its_corrected_timestamp_is_refused(
    connect: Callable[..., EdgeClient],
) -> None:
    """If the corrected timestamp is refused too, the call fails, and the next call sends once."""
    service = Service(now=NOW)
    service.now = NOW + 5 * HOUR  # but its `Date` header stays at `NOW`
    edge = connected(connect, service, 0)
    with pytest.raises(TimestampRefused, match="corrected by"):
        edge.fetch(list_venues())
    assert len(service.sent) == 2
    with pytest.raises(TimestampRefused):
        edge.fetch(list_venues())
    assert len(service.sent) == 3


@pytest.mark.parametrize("shape", ["no date", "an age", "garbage"])
def test_an_unusable_date_does_not_correct_the_clock(
    shape: str, connect: Callable[..., EdgeClient]
) -> None:
    """A `Date` that is missing, invalid or from a cache (`Age`) does not correct the clock."""
    service = Service(NOW, **({"Age": "90000"} if shape == "an age" else {}))
    service.date = {"no date": None, "garbage": "soon"}.get(shape, service.date)
    with pytest.raises(TimestampRefused, match="no usable date"):
        connected(connect, service, -45_000).fetch(list_venues())
    assert len(service.sent) == 1


def test_the_skew_adds_half_a_second_and_half_the_round_trip() -> None:
    """The skew adds half a second, because `Date` has whole seconds, and half the round trip."""
    headers = {"date": formatdate(NOW / 1000, usegmt=True)}
    assert measure_skew(headers, NOW - 2000, NOW) == Skew(ahead=1500, uncertainty=1500)
    assert measure_skew({**headers, "age": "60"}, NOW, NOW) == Skew(ahead=60_500, uncertainty=1500)
    assert measure_skew({**headers, "age": "301"}, NOW, NOW) is None
    assert measure_skew(headers, NOW, NOW - 2000) == Skew(ahead=1500, uncertainty=500)
    assert measure_skew({}, NOW, NOW) is None


BEYOND = ["Fri, 31 Dec 9999 23:59:59 -0100", "Fri, 31 Dec 9999 23:00:00 -2359"]


@pytest.mark.parametrize(
    "text", ["", "soon", "Thu, 99 Foo 2026 99:99:99 GMT", "1800000000", *BEYOND]
)
def test_an_invalid_date_header_raises_no_error(text: str) -> None:
    """An invalid date in a header results in None and never raises an error."""
    assert parse_http_date(text) is None


@pytest.mark.parametrize("text", [*BEYOND, "Fri, 31 Dec 9999 23:59:59 GMT"])
@pytest.mark.parametrize("header", ["Date", "Retry-After"])
def test_a_date_in_the_year_9999_leads_to_the_usual_error(
    header: str, text: str, connect: Callable[..., EdgeClient]
) -> None:
    """A date at the end of the year 9999 leads to the usual API error, so no night is lost."""
    for status, error in [(503, ServerError), (404, ResourceNotFound)]:
        answer = httpx.Response(status, headers={header: text})
        edge = connect(transport=httpx.MockTransport(lambda _, answer=answer: answer))
        with pytest.raises(error):
            edge.fetch(list_venues())
        assert edge.check().status == status


def test_a_clock_is_corrected_once_for_all_threads() -> None:
    """If several threads are refused at once, one of them corrects the clock and all may retry."""
    clock, outcomes = Clock(lambda: NOW), list[tuple[bool, bool]]()
    threads = [
        threading.Thread(target=lambda: outcomes.append(clock.correct(Skew(60_000, 500), None)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [(True, False)] * 7 + [(True, True)]
    assert clock.correct(Skew(64_000, 500), 60_000) == (False, False)
    assert clock.offset == 60_000


def test_queued_calls_have_fresh_signatures(
    serve: "Callable[[Script], Server]", connect: Callable[..., EdgeClient]
) -> None:
    """With ten times more calls than slots, each signature is fresh when it arrives (5.3).

    All calls together need a second, and timestamps are much younger than that when they arrive.
    """
    body = b'{"data":[],"meta":{}}'
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    server = serve(lambda _number, _request: [0.1, answer])
    edge = connect(server.origin, concurrency=4)
    calls = [list_instruments(f"v{number}") for number in range(40)]
    assert all(not isinstance(reply, Exception) for _, reply in edge.fetch_all(calls))
    ages = [
        request.at - int(request.headers["svc-api-timestamp"]) / 1000 for request in server.requests
    ]
    assert len(ages) == 40
    # A busy machine may delay a few requests. If requests were signed before they queue, nine in
    # ten would be older than this.
    assert sorted(ages)[35] < 0.5
    # The server may still be closing a connection when the next request arrives.
    assert 4 <= server.most_inside < 8


def test_a_retry_gets_a_new_timestamp(connect: Callable[..., EdgeClient]) -> None:
    """After `Retry-After: 31`, which is longer than the window, the retry gets a new timestamp."""
    clock = [NOW]
    service = Service()

    def handler(request: httpx.Request) -> httpx.Response:
        service.now = clock[0]
        if not service.sent:
            service.sent.append(0)
            return httpx.Response(503, headers={"Retry-After": "31"})
        return service(request)

    def sleep(seconds: float) -> None:
        clock[0] += round(seconds * 1000)

    edge = connect(transport=httpx.MockTransport(handler), clock=lambda: clock[0], sleep=sleep)
    reply = edge.fetch(list_venues())
    assert (reply.attempts, reply.skew_ms) == (2, None)
    assert service.sent == [0, NOW + 31_000]


def test_check_measures_the_clock_error_with_one_request(
    connect: Callable[..., EdgeClient],
) -> None:
    """`check` measures the clock error with one request, even if the timestamp is refused."""
    for off, refused in [(-12_000, False), (-45_000, True)]:
        service = Service()
        check = connected(connect, service, off).check()
        assert (check.reached, check.skew_ms) == (True, -off + 500)
        assert isinstance(check.error, TimestampRefused) is refused
        assert len(service.sent) == 1
    check = connect("http://127.0.0.1:1").check()
    assert (check.reached, check.status, check.skew_ms) == (False, None, None)


def test_reply_times_use_the_corrected_clock(
    connect: Callable[..., EdgeClient],
) -> None:
    """`sent_at` and `received_at` are in UTC, by the clock that signed the request."""
    service = Service()
    reply = connected(connect, service, -2 * HOUR).fetch(list_venues())
    assert abs(reply.sent_at.timestamp() * 1000 - NOW) <= 500
    assert abs(reply.received_at.timestamp() * 1000 - NOW) <= 500
    assert reply.sent_at.utcoffset() == reply.received_at.utcoffset()
    assert time.gmtime(reply.sent_at.timestamp()).tm_year == 2027
