"""Tests of time limits on the wire and between attempts, and of memory and size limits."""

import contextlib
import json
import mmap
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpcore
import httpx
import pytest

from pipelines.edge.client import EdgeClient, now_ms
from pipelines.edge.errors import (
    AccessDenied,
    AuthenticationFailed,
    CircuitBreakerOpen,
    ClientClosed,
    ConnectionFailed,
    DeadlineExceeded,
    EdgeError,
    MalformedResponseError,
)
from pipelines.edge.requests import list_instruments, list_venues
from pipelines.edge.response import envelope as envelope_module
from pipelines.edge.response.body import Body, Limits
from pipelines.edge.response.envelope import raw_records, read_envelope
from pipelines.edge.sending.retries import Event
from pipelines.edge.sending.transport import (
    AttemptTimeout,
    OneShotTransport,
    OpenConnections,
    _TimedStream,
)

if TYPE_CHECKING:
    from tests.pipelines.edge.conftest import Script, Server

Connect = Callable[..., EdgeClient]


class Recorder(httpcore.NetworkStream):
    """A stream that records the timeout of each step."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, float | None]] = []

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return at most a hundred bytes."""
        self.steps.append(("read", timeout))
        return b"x" * min(100, max_bytes)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Record the bytes."""
        self.steps.append((f"write {buffer.decode()}", timeout))

    def start_tls(self, ssl_context: Any, server_hostname: Any = None, timeout: Any = None) -> Any:
        """Record the call, and return this stream."""
        self.steps.append((f"tls {ssl_context} {server_hostname}", timeout))
        return self


def test_no_network_step_outlasts_the_attempt() -> None:
    """Reading, writing and TLS get the attempt's remaining time, or a shorter step timeout."""
    now = [0.0]
    limits = Limits(attempt=30.0, pace=100)
    inner = Recorder()
    timeout = AttemptTimeout(limits, 40.0, lambda: now[0], 0.0)
    stream = _TimedStream(inner, timeout, OpenConnections())
    stream.write(b"a", 5.0)
    stream.write(b"b")
    secured: Any = stream.start_tls("context", "host")  # type: ignore[arg-type]  # only handed on
    now[0] = 28.0
    assert secured.read(100, 20.0) == b"x" * 100
    secured.write(b"c", 20.0)
    secured.read(1 << 20)
    now[0] = 33.0
    with pytest.raises(httpcore.ReadTimeout):
        secured.write(b"d", 20.0)
    assert inner.steps == [
        *(("write a", 5.0), ("write b", 30.0), ("tls context host", 30.0), ("read", 2.0)),
        *(("write c", 3.0), ("read", 3.0)),
    ]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.77"])
def test_a_connection_uses_the_requested_address(host: str) -> None:
    """A connection goes to the requested address and port, and sends the target unchanged."""
    timeout = AttemptTimeout(Limits(), None, time.monotonic, time.monotonic())
    with socket.create_server((host, 0)) as server, ThreadPoolExecutor(1) as pool:
        server.settimeout(5)
        place = f"{host}:{server.getsockname()[1]}"
        request = httpx.Request(
            "GET", f"http://{place}/a%2Fb?c=d", extensions={"attempt_timeout": timeout}
        )
        answer = pool.submit(OneShotTransport(tls=False).handle_request, request)
        connection, _ = server.accept()
        with connection:
            head = connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.1 204 None\r\nContent-Length: 0\r\n\r\n")
            response = answer.result()
        response.close()
    assert response.status_code == 204
    assert head.startswith(b"GET /a%2Fb?c=d HTTP/1.1\r\n")
    assert f"\r\nHost: {place}\r\n".encode() in head


def test_connecting_has_its_own_time_limit() -> None:
    """Connecting has its own time limit, well below the limit of the attempt."""
    with contextlib.ExitStack() as held, socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        for _ in range(4):  # now the queue of unaccepted connections is full
            waiting = held.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        timeout = AttemptTimeout(Limits(connect=0.1), None, time.monotonic, time.monotonic())
        url = f"http://127.0.0.1:{full.getsockname()[1]}/"
        with pytest.raises(httpcore.ConnectTimeout):
            OneShotTransport(tls=False).handle_request(
                httpx.Request("GET", url, extensions={"attempt_timeout": timeout})
            )
        assert time.monotonic() - timeout.started < 5


def test_a_silent_server_counts_as_a_lost_connection(
    serve: "Callable[[Script], Server]", connect: Connect
) -> None:
    """If the server sends nothing or stops sending, reading ends long before the attempt does."""
    for sent in (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 25\r\n\r\n{"):
        server = serve(lambda _number, _request, sent=sent: [sent, 5.0])  # type: ignore[misc]  # bound now
        edge = connect(server.origin, limits=Limits(read=0.05))
        started = time.monotonic()
        with pytest.raises(ConnectionFailed, match="timeout") as lost:
            edge.fetch(list_venues())
        assert time.monotonic() - started < 4.5
        assert lost.value.attempts == 5


def failing(after: str = "") -> httpx.MockTransport:
    """Return a service that responds with 503 and, if given, a `Retry-After` header."""
    headers = {"Retry-After": after} if after else {}
    return httpx.MockTransport(lambda _: httpx.Response(503, headers=headers))


def test_a_wait_until_the_deadline_is_not_started(connect: Connect) -> None:
    """A wait that would last until the deadline is neither started nor reported."""
    slept, events = list[float](), list[Event]()
    edge = connect(
        transport=failing("30"),
        deadline=30.0,
        monotonic=lambda: 0.0,
        sleep=slept.append,
        on_event=events.append,
    )
    with pytest.raises(DeadlineExceeded) as passed:
        edge.fetch(list_venues())
    assert passed.value.request_line == "GET /edge/v1beta/venues"
    assert "503" in passed.value.last_failure
    assert (slept, events) == ([], [])


@pytest.mark.parametrize(("left", "probes"), [(5.0, 0), (5.5, 1)])
def test_a_probe_is_sent_only_if_enough_time_is_left(
    connect: Connect, left: float, probes: int
) -> None:
    """A probe is sent after five seconds, but only if more time than that is left."""
    asked = list[str]()

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(503)

    edge = connect(
        transport=httpx.MockTransport(answer),
        deadline=left,
        monotonic=lambda: 0.0,
        rng=lambda: 0.0,
        concurrency=1,
    )
    outcomes = [
        outcome for _, outcome in edge.fetch_all(list_instruments(f"v{n}") for n in range(20))
    ]
    assert len(asked) == 8 + probes
    unsent = [outcome for outcome in outcomes if isinstance(outcome, DeadlineExceeded)]
    assert unsent
    assert all(one.request_line.startswith("GET /edge/v1beta/venues/v") for one in unsent)
    assert all(isinstance(outcome, EdgeError) for outcome in outcomes)


def test_a_retry_event_names_the_failure(connect: Connect) -> None:
    """Each retry event names the request, the failure and the number of attempts."""
    events = list[Event]()
    with pytest.raises(EdgeError) as failed:
        connect(transport=failing(), on_event=events.append).fetch(list_venues())
    assert len(events) == 4
    for count, event in enumerate(events, 1):
        assert event.request_line == "GET /edge/v1beta/venues"
        often = f"{count} attempt{'s' if count > 1 else ''}"
        assert event.message == str(failed.value).replace("5 attempts", often)


@pytest.mark.parametrize("trouble", [BrokenPipeError(32, "Broken pipe"), ValueError("locked")])
def test_an_error_in_the_byte_callback_does_not_fail_the_call(
    trouble: Exception, connect: Connect
) -> None:
    """All pieces of a large body are reported, and errors in the callback do not fail the call."""
    body = json.dumps({"data": [{"id": "x" * 2_000_000}], "meta": {}}).encode()
    heard: list[int] = []

    def listen(size: int) -> None:
        heard.append(size)
        if sum(heard) > 1_000_000:
            raise trouble

    pieces = [body[at : at + 300_000] for at in range(0, len(body), 300_000)]
    transport = httpx.MockTransport(
        lambda _: httpx.Response(
            200, content=iter(pieces), headers={"content-length": str(len(body))}
        )
    )
    reply = connect(transport=transport, limits=Limits(), on_bytes=listen).fetch(list_venues())
    assert reply.attempts == 1
    reply.body.close()
    assert (len(heard), sum(heard)) == (len(pieces), reply.size)


def test_pages_are_released_while_a_body_is_scanned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pages are released repeatedly while a large body is scanned, and all records are correct."""
    given = list[object]()
    monkeypatch.setattr(envelope_module, "_MIN_WALKED", 1)
    monkeypatch.setattr(envelope_module, "_RELEASE_INTERVAL", 1 << 12)
    monkeypatch.setattr(envelope_module, "release_pages", given.append)
    records = [{"id": "x" * 500, "no": number} for number in range(100)]
    content = json.dumps({"data": records, "meta": {}}).encode()
    with mmap.mmap(-1, len(content)) as body:
        body[:] = content
        envelope = read_envelope(body, single=False)
        assert [json.loads(bytes(one)) for one in raw_records(envelope)] == records
        walked = given[1:]  # the check of the encoding released pages once, before the scan
        assert 8 <= len(walked) <= len(content) // (1 << 12)
        assert all(one is body for one in given)
        del envelope


@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="only Linux tells of its pages")
def test_release_pages_frees_the_memory_of_a_body(tmp_path: Path) -> None:
    """`release_pages` frees the memory of a body, and later reads load its pages from the file."""
    size = 24 << 20

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

    body = Body(tmp_path)
    for _ in range(size >> 20):
        body.write(b"x" * (1 << 20))
    view = memoryview(body.buffer())
    assert bytes(view[:: mmap.PAGESIZE]).count(b"x") == size // mmap.PAGESIZE
    read = resident()
    body.release_pages()
    assert read - resident() > size // 2
    assert bytes(view[:: mmap.PAGESIZE]).count(b"x") == size // mmap.PAGESIZE
    view.release()
    body.close()


def test_closing_the_client_ends_a_wait_at_once(connect: Connect) -> None:
    """Closing the client ends a long wait at once, and the error names the waiting call."""

    def close(_event: Event) -> None:
        threading.Timer(0.05, edge.close).start()

    edge: EdgeClient = connect(transport=failing("30"), sleep=None, on_event=close)
    started = time.monotonic()
    with pytest.raises(ClientClosed) as stopped:
        edge.fetch(list_venues())
    assert time.monotonic() - started < 5
    assert stopped.value.args == ("GET /edge/v1beta/venues",)


@pytest.mark.parametrize("ask", [EdgeClient.check, EdgeClient.venues])
def test_a_closed_client_raises_client_closed(
    connect: Connect, ask: Callable[[EdgeClient], object]
) -> None:
    """A closed client raises `ClientClosed`, not an httpx error, even if closed before sending."""
    closed = connect()
    closed.close()

    def close_before_signing() -> int:
        closing.close()
        return now_ms()

    closing: EdgeClient = connect(clock=close_before_signing)
    for edge in (closed, closing):
        with pytest.raises(ClientClosed) as stopped:
            ask(edge)
        assert stopped.value.args == ("GET /edge/v1beta/venues",)


def test_the_time_of_an_event_callback_counts(connect: Connect) -> None:
    """The time of an event callback counts, so a wait that no longer fits is not started.

    The error still contains the last failure.
    """
    now, slept = [0.0], list[float]()

    def slow(event: Event) -> None:
        now[0] += 10.0 if event.kind == "retry" else 0.0

    edge = connect(
        transport=failing(),
        deadline=10.0,
        monotonic=lambda: now[0],
        sleep=slept.append,
        on_event=slow,
    )
    with pytest.raises(DeadlineExceeded) as passed:
        edge.fetch(list_venues())
    assert (passed.value.request_line, slept) == ("GET /edge/v1beta/venues", [])
    assert "503" in passed.value.last_failure


def test_a_wait_until_a_date_ends_exactly_at_that_date(connect: Connect) -> None:
    """A wait until a date ends exactly at that date, by the clock that signs requests."""
    moment = 1_800_000_000_000  # 15 January 2027, 8:00
    slept = list[float]()
    answers = [
        httpx.Response(503, headers={"Retry-After": "Fri, 15 Jan 2027 08:00:40 GMT"}),
        httpx.Response(200, json={"data": [], "meta": {}}),
    ]
    transport = httpx.MockTransport(lambda _: answers.pop(0))
    edge = connect(
        transport=transport, clock=lambda: moment, sleep=slept.append, monotonic=lambda: 0.0
    )
    edge.fetch(list_venues())
    assert sum(slept) == 40.0


def test_a_large_error_body_with_status_200_is_malformed(connect: Connect) -> None:
    """An error body above a megabyte is not parsed, even with status 200, and is malformed."""
    for size, kind in ((1 << 10, AccessDenied), (2 << 20, MalformedResponseError)):
        body = {"errors": [{"error": "ACCESS_DENIED", "message": "x" * size}], "meta": {}}
        transport = httpx.MockTransport(lambda _, body=body: httpx.Response(200, json=body))
        with pytest.raises(kind):
            connect(transport=transport, limits=Limits()).fetch(list_venues())


def test_errors_name_the_request_that_was_not_sent(connect: Connect) -> None:
    """Every error about a request that was not sent names the request.

    The reasons are a closed client, a refused key, a service that is down, and a passed deadline.
    """
    denied = {"errors": [{"error": "AUTHENTICATION_FAILED", "message": "m"}], "meta": {}}
    wrong = httpx.MockTransport(lambda _: httpx.Response(401, json=denied))
    events, now = list[Event](), [0.0]
    closed, refused = connect(), connect(transport=wrong)
    closed.close()
    down = connect(transport=failing(), on_event=events.append)
    late = connect(
        transport=failing(),
        deadline=5.0,
        monotonic=lambda: now[0],
        sleep=lambda _: now.insert(0, 5.0),
    )
    for edge in (refused, down, down, late):
        with pytest.raises(EdgeError):
            edge.fetch(list_venues())
    for edge, kind in (
        *(
            (closed, ClientClosed),
            (refused, AuthenticationFailed),
            (down, CircuitBreakerOpen),
            (late, DeadlineExceeded),
        ),
    ):
        with pytest.raises(kind) as unsent:
            edge.fetch(list_instruments("b"))
        assert unsent.value.args[0] == "GET /edge/v1beta/venues/b/instruments"
        if edge in (down, late):
            assert "503" in unsent.value.args[-1]
        if edge is down:
            assert unsent.value.args[1] == 10
    [tripped] = [event for event in events if event.kind == "breaker"]
    assert (tripped.request_line, tripped.attempt) == ("GET /edge/v1beta/venues", 3)
    assert "503" in tripped.message
