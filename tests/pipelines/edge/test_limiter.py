"""Tests of the limiter: concurrency, and the few requests to a service that is down."""

import sys
import threading
import time
from collections import Counter as Counts
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import TYPE_CHECKING

import httpx
import pytest

from pipelines.edge.client import EdgeClient
from pipelines.edge.errors import (
    AuthenticationFailed,
    CircuitBreakerOpen,
    ClientClosed,
    ConnectionFailed,
    DeadlineExceeded,
    EdgeError,
    ServerError,
)
from pipelines.edge.requests import Call, list_instruments, list_venues
from pipelines.edge.sending.limiter import Limiter
from pipelines.edge.sending.retries import Event

if TYPE_CHECKING:
    from tests.pipelines.edge.conftest import Script, Server

Handler = Callable[[httpx.Request], httpx.Response]
CALLS = [list_instruments(f"v{number}") for number in range(40)]


def good() -> httpx.Response:
    """Return an empty success."""
    return httpx.Response(200, json={"data": [], "meta": {}})


def refused(code: str, status: int) -> httpx.Response:
    """Return an error response."""
    return httpx.Response(status, json={"errors": [{"error": code, "message": "m"}], "meta": {}})


class Counter:
    """A handler that counts all requests, and the largest number of simultaneous requests."""

    def __init__(self, answer: Callable[[int], httpx.Response], pause: float = 0.0) -> None:
        self.answer, self.pause = answer, pause
        self.lock = threading.Lock()
        self.count = self.inside = self.most = 0

    def __call__(self, _request: httpx.Request) -> httpx.Response:
        """Respond according to the number of the request."""
        with self.lock:
            self.count += 1
            number = self.count
            self.inside += 1
            self.most = max(self.most, self.inside)
        time.sleep(self.pause)
        with self.lock:
            self.inside -= 1
        return self.answer(number)


def kinds(edge: EdgeClient) -> list[str]:
    """Run 40 calls, and return the sorted class names of their results."""
    return sorted(type(outcome).__name__ for _, outcome in edge.fetch_all(CALLS))


@pytest.mark.parametrize("concurrency", [1, 3, 8])
def test_there_are_never_more_requests_than_slots(
    concurrency: int, connect: Callable[..., EdgeClient]
) -> None:
    """Requests use all slots but no more, and every call gets exactly one response."""
    service = Counter(lambda _: good(), pause=0.01)
    edge = connect(transport=httpx.MockTransport(service), concurrency=concurrency)
    seen = [call for call, _ in edge.fetch_all(CALLS)]
    assert service.most == concurrency
    assert sorted(seen, key=lambda call: call.path) == sorted(CALLS, key=lambda call: call.path)
    assert service.count == 40


def test_a_wrong_key_is_sent_once(connect: Callable[..., EdgeClient]) -> None:
    """If the API rejects the key, the client stops after one request, even with 40 calls."""
    service = Counter(lambda _: refused("AUTHENTICATION_FAILED", 401), pause=0.02)
    edge = connect(transport=httpx.MockTransport(service))
    assert kinds(edge) == ["AuthenticationFailed"] * 40
    assert service.count == 1
    with pytest.raises(AuthenticationFailed, match="had already rejected this key"):
        edge.fetch(list_venues())
    assert service.count == 1


def test_a_revoked_key_stops_waiting_calls(connect: Callable[..., EdgeClient]) -> None:
    """If the key is revoked during the run, only the requests in progress are refused as well."""
    service = Counter(
        lambda number: good() if number <= 10 else refused("AUTHENTICATION_FAILED", 401), 0.005
    )
    outcomes = kinds(connect(transport=httpx.MockTransport(service), concurrency=4))
    assert outcomes.count("ApiResponse") == 10
    assert outcomes.count("AuthenticationFailed") == 30
    assert service.count <= 14


def test_a_service_that_is_down_gets_ten_requests(connect: Callable[..., EdgeClient]) -> None:
    """For 40 calls, a service that is down gets 8 requests in a row and then two probes."""
    slept, events = list[float](), list[Event]()
    service = Counter(lambda _: httpx.Response(503), pause=0.002)
    edge = connect(
        transport=httpx.MockTransport(service), sleep=slept.append, on_event=events.append
    )
    outcomes = kinds(edge)
    assert service.count == 10
    assert set(outcomes) <= {"CircuitBreakerOpen", "ServerError"}
    assert {5.0, 15.0} <= set(slept)  # the waits before the probes
    assert [event.kind for event in events].count("breaker") == 1
    with pytest.raises(CircuitBreakerOpen, match="Run again when it is back"):
        edge.fetch(list_venues())


def test_a_service_that_goes_down_gets_ten_more_requests(
    connect: Callable[..., EdgeClient],
) -> None:
    """A service that goes down during the run gets at most ten more requests, including probes."""
    service = Counter(lambda number: good() if number <= 12 else httpx.Response(500), pause=0.005)
    outcomes = kinds(connect(transport=httpx.MockTransport(service)))
    assert outcomes.count("ApiResponse") == 12
    assert service.count <= 22


def test_only_a_later_request_resets_the_failure_count() -> None:
    """Only a request that was sent after the last failure resets the count of failures."""
    gate = Limiter(8, None, time.monotonic)
    waited = list[float]()

    def send() -> int:
        with gate.slot("GET /x", "/x") as slot:
            if slot.probe_wait:
                waited.append(slot.probe_wait)
            return slot.number

    gate.accept_key()
    early = send()
    for _ in range(7):
        send()
        assert not gate.record_failure(ConnectionFailed("GET /x", "gone"), "/x")
    gate.record_service_up(early, "/y")
    assert gate.record_failure(ConnectionFailed("GET /x", "gone"), "/x")
    late = send()
    assert waited == [5.0]
    gate.record_service_up(late, "/x")
    send()
    assert waited == [5.0]


def test_a_path_that_failed_gets_a_slot_last() -> None:
    """A path that has failed gets a slot only if no other path is waiting for one."""
    gate, order = Limiter(1, None, time.monotonic), list[str]()

    def ask(path: str) -> None:
        with gate.slot("GET", path):
            order.append(path)

    gate.record_failure(ConnectionFailed("GET /bad", "gone"), "/bad")
    threads = [threading.Thread(target=ask, args=(path,)) for path in ("/bad", "/a", "/b")]
    with gate.slot("GET", "/first"):
        for waiting, thread in enumerate(threads, 1):
            thread.start()
            while len(gate._waiting_paths) < waiting:
                time.sleep(0.001)
    for thread in threads:
        thread.join(5)
    assert sorted(order[:2]) == ["/a", "/b"]
    assert order[2] == "/bad"


def test_a_short_outage_costs_no_call(connect: Callable[..., EdgeClient]) -> None:
    """Eight failures at once, for example while a load balancer restarts, do not end the night."""
    service = Counter(
        lambda number: httpx.Response(502) if 10 < number <= 19 else good(), pause=0.005
    )
    assert kinds(connect(transport=httpx.MockTransport(service))) == ["ApiResponse"] * 40
    assert service.count == 40 + 8 + 2  # calls, failures and probes


def test_refusals_do_not_count_as_an_outage(connect: Callable[..., EdgeClient]) -> None:
    """A service that refuses requests is up, so 40 calls without access are all sent."""
    service = Counter(lambda _: refused("ACCESS_DENIED", 400))
    assert kinds(connect(transport=httpx.MockTransport(service))) == ["AccessDenied"] * 40
    assert service.count == 40


def test_throttling_does_not_count_as_an_outage(connect: Callable[..., EdgeClient]) -> None:
    """A throttled service is up, so status 429 causes a wait but does not open the breaker."""
    service = Counter(lambda number: good() if number > 12 else httpx.Response(429))
    events = list[Event]()
    edge = connect(transport=httpx.MockTransport(service), on_event=events.append)
    outcomes = kinds(edge)
    assert outcomes.count("ApiResponse") >= 38  # two calls may have used all their five attempts
    assert {event.kind for event in events} == {"pace"}


def test_retries_are_limited_to_fifty_plus_a_tenth(connect: Callable[..., EdgeClient]) -> None:
    """If every second request fails, retries end after 50 plus one for every ten successes."""
    service = Counter(lambda number: good() if number % 2 else httpx.Response(503))
    edge = connect(transport=httpx.MockTransport(service), concurrency=1)
    calls = [list_instruments(f"v{number}") for number in range(200)]
    failed = [error for _, error in edge.fetch_all(calls) if isinstance(error, EdgeError)]
    assert failed
    assert all(isinstance(error, ServerError) for error in failed)
    assert "retry budget of this run is used up" in str(failed[0])
    assert service.count - len(calls) == 50 + (len(calls) - len(failed)) // 10


def test_a_wait_beyond_the_deadline_fails_at_once(connect: Callable[..., EdgeClient]) -> None:
    """If a wait would last until the deadline, the call fails at once, with the last failure."""
    service = Counter(lambda _: httpx.Response(503, headers={"Retry-After": "50"}))
    slept = list[float]()
    edge = connect(transport=httpx.MockTransport(service), deadline=30.0, sleep=slept.append)
    with pytest.raises(DeadlineExceeded, match=r"NIGHTBOOK_DEADLINE.*503"):
        edge.fetch(list_venues())
    assert (service.count, slept) == (1, [])


def test_nothing_is_sent_after_the_deadline(connect: Callable[..., EdgeClient]) -> None:
    """After the deadline, every call fails without being sent."""
    now = [0.0]
    service = Counter(lambda _: good())
    edge = connect(transport=httpx.MockTransport(service), deadline=10.0, monotonic=lambda: now[0])
    edge.fetch(list_venues())
    now[0] = 10.0
    with pytest.raises(DeadlineExceeded):
        edge.fetch(list_venues())
    assert service.count == 1


def test_calls_to_a_hanging_service_end_at_the_deadline(
    serve: "Callable[[Script], Server]", connect: Callable[..., EdgeClient]
) -> None:
    """If the service hangs, all calls end at the deadline, however many there are."""
    server = serve(lambda _number, _request: [2.0])
    started = time.monotonic()
    outcomes = kinds(connect(server.origin, deadline=0.6))
    assert time.monotonic() - started < 1.9
    assert set(outcomes) <= {"DeadlineExceeded", "ConnectionFailed", "CircuitBreakerOpen"}
    assert outcomes.count("DeadlineExceeded") >= 30


def test_closing_the_client_wakes_waiting_calls(connect: Callable[..., EdgeClient]) -> None:
    """Closing the client wakes waiting calls, which fail with `ClientClosed` and send no more."""
    service = Counter(lambda _: httpx.Response(503))
    edge: EdgeClient = connect(transport=httpx.MockTransport(service), sleep=lambda _: edge.close())
    with pytest.raises(ClientClosed, match="closed"):
        edge.fetch(list_venues())
    assert service.count == 1


def test_no_more_calls_are_sent_if_reading_stops_early(
    connect: Callable[..., EdgeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the caller stops reading early, the other calls are not sent, and all threads end."""
    closed = threading.Event()

    def answer(number: int) -> httpx.Response:
        # All requests except the first are in progress until the client is closed.
        assert number == 1 or closed.wait(30)
        return good()

    service = Counter(answer)
    edge = connect(transport=httpx.MockTransport(service), concurrency=8)
    close = edge.close

    def close_and_tell() -> None:
        close()
        closed.set()

    monkeypatch.setattr(edge, "close", close_and_tell)
    answers = edge.fetch_all(CALLS)
    next(answers)
    answers.close()  # type: ignore[attr-defined]  # a generator behind its interface
    assert service.count <= 8
    assert [thread for thread in threading.enumerate() if thread.name.startswith("edge")] == []
    with pytest.raises(ClientClosed):
        edge.fetch(list_venues())


def test_ctrl_c_while_a_call_starts_closes_the_client(
    connect: Callable[..., EdgeClient],
) -> None:
    """If Ctrl-C interrupts the start of a call, the client is closed, so nothing is retried."""
    service = Counter(lambda _: httpx.Response(503), pause=0.01)
    edge = connect(transport=httpx.MockTransport(service))

    def stop(frame: FrameType, event: str, _: object) -> None:
        if event == "return" and frame.f_code is ThreadPoolExecutor.submit.__code__:
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(stop)
    with pytest.raises(KeyboardInterrupt):
        next(edge.fetch_all(CALLS))
    assert service.count <= 1


def test_calls_are_read_only_as_slots_become_free(connect: Callable[..., EdgeClient]) -> None:
    """Calls are read from the list only as slots become free, so that bodies do not pile up."""
    service = Counter(lambda _: good())
    edge = connect(transport=httpx.MockTransport(service), concurrency=2)
    taken = 0

    def calls() -> Iterator[Call]:
        nonlocal taken
        for call in CALLS:
            taken += 1
            yield call

    for done, _ in enumerate(edge.fetch_all(calls()), 1):
        assert taken - done <= 2
    assert taken == 40


def test_failed_connections_count_as_failures(connect: Callable[..., EdgeClient]) -> None:
    """Failed connections count as failures of the service, too."""

    def broken(_request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no route")

    edge = connect(transport=httpx.MockTransport(broken))
    with pytest.raises(ConnectionFailed, match="no route"):
        edge.fetch(list_venues())
    assert set(kinds(edge)) <= {"ConnectionFailed", "CircuitBreakerOpen"}


class Venues:
    """A service on which the given venues are dead and all others respond."""

    def __init__(self, *dead: str) -> None:
        self.dead = dead
        self.asked: Counts[str] = Counts()
        self.lock = threading.Lock()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Respond with 503 for a dead venue."""
        path = request.url.path
        with self.lock:
            self.asked[path] += 1
        dead = any(f"/venues/{one}/" in path for one in self.dead)
        return httpx.Response(503) if dead else good()


def typed(venues: int) -> list[Call]:
    """Return the calls for both lists of each venue, one venue after the other, as in a pull."""
    return [
        list_instruments(f"v{number}", kind)
        for number in range(venues)
        for kind in ("spot", "future")
    ]


@pytest.mark.parametrize("concurrency", [1, 2, 8])
@pytest.mark.parametrize("dead", [("v0",), ("v5", "v6", "v7"), ("v37", "v38", "v39")])
def test_failing_venues_do_not_affect_other_venues(
    concurrency: int, dead: tuple[str, ...], connect: Callable[..., EdgeClient]
) -> None:
    """If a few of 40 venues fail permanently, all others are read, and later calls succeed, too."""
    service = Venues(*dead)
    edge = connect(
        transport=httpx.MockTransport(service),
        concurrency=concurrency,
        sleep=lambda seconds: time.sleep(seconds / 50),
    )
    lost = {
        call.path.split("/")[4]
        for call, outcome in edge.fetch_all(typed(40))
        if isinstance(outcome, EdgeError)
    }
    assert lost == set(dead)
    assert edge.fetch(list_instruments("v1")).status == 200
    assert max(service.asked[f"/edge/v1beta/venues/{one}/instruments"] for one in dead) <= 10


@pytest.mark.parametrize("concurrency", [1, 2, 8, 16])
@pytest.mark.parametrize("good_ones", [0, 1, 12, 77])
def test_an_outage_at_any_time_gets_few_more_requests(
    concurrency: int, good_ones: int, connect: Callable[..., EdgeClient]
) -> None:
    """A service that goes down at any time gets at most ten more requests, at any concurrency.

    With more than eight slots, it may get as many more requests as there are slots, plus two.
    """

    def answer(number: int) -> httpx.Response:
        return good() if number <= good_ones else httpx.Response(503)

    service = Counter(answer, pause=0.001)
    edge = connect(transport=httpx.MockTransport(service), concurrency=concurrency)
    outcomes = [outcome for _, outcome in edge.fetch_all(typed(40))]
    assert sum(isinstance(one, EdgeError) for one in outcomes) >= 80 - good_ones
    with pytest.raises(CircuitBreakerOpen):
        edge.fetch(list_venues())
    assert service.count - good_ones <= max(8, concurrency) + 2
