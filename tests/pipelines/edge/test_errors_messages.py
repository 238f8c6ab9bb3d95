"""Tests of the facts in the client's errors: network messages, limits and attempts."""

import gzip
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from pipelines.edge.client import EdgeClient
from pipelines.edge.errors import (
    ConnectionFailed,
    EdgeError,
    ErrorEntry,
    InvalidId,
    MalformedResponseError,
    ResourceNotFound,
    ResponseTooLarge,
    ServerError,
    SpoolFailed,
    UnexpectedRedirect,
)
from pipelines.edge.requests import list_instruments, list_portfolios, list_venues
from pipelines.edge.response.body import Body, Limits
from pipelines.edge.response.envelope import read_envelope
from pipelines.edge.sending.exchange import ApiResponse
from pipelines.edge.sending.transport import _HEADER_ALLOWANCE, AttemptTimeout

if TYPE_CHECKING:
    from tests.pipelines.edge.conftest import Script, Server

ONE = (ErrorEntry("RESOURCE_NOT_FOUND", "m"),)
Connect = Callable[..., EdgeClient]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: MalformedResponseError("garbage"), MalformedResponseError("garbage", "GET /a")),
        (
            lambda: ResponseTooLarge("it", 12, "on the wire"),
            ResponseTooLarge("GET /a", 12, "on the wire"),
        ),
        (lambda: SpoolFailed("it", "full"), SpoolFailed("GET /a", "full")),
        (lambda: InvalidId("an-id", "is bad"), InvalidId("an-id", "is bad")),
    ],
)
def test_copy_with_changes_only_the_request_line(
    make: Callable[[], MalformedResponseError | ResponseTooLarge | SpoolFailed | InvalidId],
    expected: EdgeError,
) -> None:
    """`copy_with` changes only the request line, and ignores it if the error has none."""
    found = make().copy_with(request_line="GET /a")
    assert (type(found), found.args) == (type(expected), expected.args)


@pytest.mark.parametrize(
    ("make", "args"),
    [
        (lambda: ConnectionFailed("GET /a", "r", is_permanent=True), ("GET /a", "r", 4)),
        (lambda: MalformedResponseError("f", "GET /a"), ("f", "GET /a", 4)),
        (lambda: ResourceNotFound("GET /a", 400, ONE), ("GET /a", 400, ONE, 4, "A note.")),
        (lambda: ServerError("GET /a", 503), ("GET /a", 503, (), 4, "A note.")),
    ],
)
def test_copy_with_adds_the_attempts_and_the_note(
    make: Callable[[], EdgeError], args: tuple[object, ...]
) -> None:
    """`copy_with` adds the attempts and the note, and keeps the error's class and other facts."""
    error = make()
    found = error.copy_with(attempts=4, note="A note.")
    assert (type(found), found.args) == (type(error), args)
    assert getattr(found, "is_permanent", None) is getattr(error, "is_permanent", None)
    assert ServerError("GET /a", 503).copy_with(attempts=2).args == ("GET /a", 503, (), 2, "")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (httpx.ConnectTimeout("too slow"), "connect timeout: too slow"),
        (httpx.ReadError("  reset\n by peer "), "read error: reset by peer"),
        (httpx.RemoteProtocolError("x" * 300), "remote protocol error: " + "x" * 200),
        (httpx.PoolTimeout(""), "pool timeout"),
    ],
)
def test_a_network_failure_shows_its_kind_and_message(
    error: Exception, words: str, connect: Connect
) -> None:
    """The reason contains the kind of the network failure and its message, on one short line."""

    def fail(_request: httpx.Request) -> httpx.Response:
        raise error

    edge = connect(transport=httpx.MockTransport(fail))
    with pytest.raises(ConnectionFailed) as failed:
        edge.fetch(list_venues())
    assert failed.value.reason == words


def test_the_error_about_an_invalid_record_counts_the_attempts(connect: Connect) -> None:
    """The error about an invalid record names the request and the number of attempts."""
    body = {"data": [{"id": 7}], "meta": {}}
    answers = [httpx.Response(503), httpx.Response(200, json=body)]
    edge = connect(transport=httpx.MockTransport(lambda _: answers.pop(0)))
    with pytest.raises(MalformedResponseError) as misread:
        edge.venues()
    assert (misread.value.attempts, misread.value.request_line) == (2, "GET /edge/v1beta/venues")


def test_the_error_about_a_duplicate_key_hides_a_secret(connect: Connect) -> None:
    """The error about a duplicate key names the request, and hides a secret in the response."""
    content = b'{"data":[],"meta":{},"canary-secret-9a7e":1,"canary-secret-9a7e":2}'
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=content))
    with pytest.raises(MalformedResponseError) as misread:
        connect(transport=transport).fetch(list_venues())
    found, where, attempts = misread.value.args
    assert (where, attempts) == ("GET /edge/v1beta/venues", 2)
    assert found == "the envelope has the key `•••` twice"


@pytest.mark.parametrize(
    ("limits", "limit", "stage"),
    [
        (Limits(wire=999), 999, "on the wire"),
        (Limits(decoded=999), 999, "after decompression"),
    ],
)
def test_a_response_that_is_too_large_is_reported_with_its_limit(
    connect: Connect, limits: Limits, limit: int, stage: str
) -> None:
    """The error about a response that is too large names the request, the limit and the stage."""
    content = b'{"data":[],"meta":{"a":"' + b"x" * 1000 + b'"}}'
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=content))
    with pytest.raises(ResponseTooLarge) as refused:
        connect(transport=transport, limits=limits).fetch(list_venues())
    assert refused.value.args == ("GET /edge/v1beta/venues", limit, stage)


def test_status_201_is_malformed(connect: Connect) -> None:
    """Status 201 is malformed, and the error names the status, the request and the attempts."""
    transport = httpx.MockTransport(lambda _: httpx.Response(201, json={"data": [], "meta": {}}))
    with pytest.raises(MalformedResponseError) as misread:
        connect(transport=transport).fetch(list_venues())
    found, where, attempts = misread.value.args
    assert "201" in found
    assert (where, attempts) == ("GET /edge/v1beta/venues", 2)


def test_the_default_timestamp_is_in_whole_milliseconds(connect: Connect) -> None:
    """By default, the timestamp is this machine's Unix time in whole milliseconds (5.1)."""
    sent = list[str]()

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers["svc-api-timestamp"])
        return httpx.Response(200, json={"data": [], "meta": {}})

    before = time.time() * 1000
    connect(transport=httpx.MockTransport(answer)).fetch(list_venues())
    [stamp] = sent
    assert stamp.isdecimal()
    assert before - 1 <= int(stamp) <= time.time() * 1000


def test_a_call_is_sent_once_after_the_retry_budget_is_used(connect: Connect) -> None:
    """After the retry budget of the run is used up, each further call is sent only once."""

    def answer(request: httpx.Request) -> httpx.Response:
        is_good = request.url.path.endswith("/portfolios")
        return httpx.Response(200, json={"data": [], "meta": {}}) if is_good else down

    down = httpx.Response(503)
    edge = connect(transport=httpx.MockTransport(answer))
    outcomes = list[object]()
    for _ in range(14):
        edge.fetch(list_portfolios())  # a success closes the breaker and earns 0.1 retries
        with pytest.raises(ServerError) as failed:
            edge.fetch(list_venues())
        outcomes.append((failed.value.attempts, failed.value.note))
    used_up = "The retry budget of this run is used up."
    assert outcomes == [(5, "")] * 12 + [(4, used_up), (1, used_up)]


def test_the_repr_of_a_client_shows_only_its_origin(connect: Connect) -> None:
    """The `repr` of a client shows only its origin."""
    assert repr(connect("http://127.0.0.1:9")) == "EdgeClient('http://127.0.0.1:9')"


def test_expansions_are_requested_only_if_asked_for(connect: Connect) -> None:
    """A request has an `include` parameter only if the caller asks for the expansion."""
    asked = list[str]()

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.raw_path.decode())
        return httpx.Response(404, json={"errors": [], "meta": {}})

    edge = connect(transport=httpx.MockTransport(answer))
    calls: list[Callable[[], object]] = [
        edge.portfolios,
        lambda: edge.portfolio("p"),
        edge.venues,
        lambda: edge.venue("v"),
        lambda: edge.portfolios(integrations=True),
        lambda: edge.portfolio("p", integrations=True),
        lambda: edge.venues(instruments=True),
        lambda: edge.venue("v", instruments=True),
    ]
    for call in calls:
        with pytest.raises(EdgeError):
            call()
    paths = ["portfolios", "portfolios/p", "venues", "venues/v"]
    ends = ["?include=integrations"] * 2 + ["?include=instruments"] * 2
    assert asked == [f"/edge/v1beta/{path}" for path in paths] + [
        f"/edge/v1beta/{path}{end}" for path, end in zip(paths, ends, strict=True)
    ]


@pytest.mark.parametrize(
    ("members", "names"),
    [
        ({}, "nothing"),
        ({"x" * 41: 1}, f"`{'x' * 40}`"),
        (dict.fromkeys("abcdef", 1), "`a`, `b`, `c`, `d`, `e`"),
    ],
)
def test_the_error_about_missing_data_lists_a_few_names(
    members: dict[str, int], names: str
) -> None:
    """The error about an envelope without `data` lists at most five names of 40 characters each."""
    with pytest.raises(MalformedResponseError) as misread:
        read_envelope(json.dumps(members).encode(), single=False)
    assert misread.value.defect == f"the envelope has no `data`, only {names}"


def test_check_reports_the_status_and_the_error(connect: Connect) -> None:
    """`check` reports if the service was reached, the status, and an error with the request."""
    unreached = connect("http://127.0.0.1:1").check()
    assert isinstance(unreached.error, ConnectionFailed)
    assert unreached.error.request_line == "GET /edge/v1beta/venues"
    body = {"errors": [{"error": "ACCESS_DENIED", "message": "m"}], "meta": {}}
    transport = httpx.MockTransport(lambda _: httpx.Response(400, json=body))
    refused = connect(transport=transport).check()
    assert (refused.reached, refused.status) == (True, 400)
    assert "GET /edge/v1beta/venues" in str(refused.error)
    good = httpx.MockTransport(lambda _: httpx.Response(200, json={"data": [], "meta": {}}))
    assert connect(transport=good).check().error is None


def test_the_default_size_limits_are_2_gib(tmp_path: Path) -> None:
    """The default limits are 2 GiB before and after decompression. An empty body needs no file."""
    assert (Limits().wire, Limits().decoded) == (2 << 30, 2 << 30)
    body = Body(tmp_path)
    assert (body.size, list(tmp_path.iterdir())) == (0, [])
    body.close()


def test_received_bytes_are_counted_exactly() -> None:
    """Received bytes are counted exactly: the limit itself is allowed, but not one byte more."""
    limits = Limits(wire=1000, pace=100, attempt=30.0)
    timeout = AttemptTimeout(limits, None, lambda: 5.0, 0.0)
    timeout.count(1000)
    timeout.count(_HEADER_ALLOWANCE)
    assert timeout.received == 1000 + _HEADER_ALLOWANCE
    assert timeout.seconds_for_step(None) == 25.0 + (1000 + _HEADER_ALLOWANCE) / 100
    assert timeout.seconds_for_step(1.0) == 1.0
    with pytest.raises(ResponseTooLarge) as refused:
        timeout.count(1)
    assert refused.value.limit == 1000


@pytest.mark.parametrize("status", [300, 301, 303, 305, 399])
@pytest.mark.parametrize(("headers", "target"), [({}, "nowhere"), ({"Location": "/b"}, "/b")])
def test_no_redirect_is_followed(
    connect: Connect, status: int, headers: dict[str, str], target: str
) -> None:
    """A redirect is not followed, whatever its status, and the error contains its target."""
    asked = list[str]()

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return httpx.Response(status, headers=headers)

    with pytest.raises(UnexpectedRedirect) as refused:
        connect("http://127.0.0.1:9", transport=httpx.MockTransport(answer)).fetch(list_venues())
    assert refused.value.args == ("GET /edge/v1beta/venues", status, target)
    assert asked == ["http://127.0.0.1:9/edge/v1beta/venues"]


def test_a_large_error_body_is_not_parsed(
    serve: "Callable[[Script], Server]", connect: Connect
) -> None:
    """An error body above one megabyte is not parsed, even if compressed, so its status decides."""
    entry = {"error": "AUTHENTICATION_FAILED", "message": "x" * (2 << 20)}
    packed = gzip.compress(json.dumps({"errors": [entry], "meta": {}}).encode())
    head = b"HTTP/1.1 404 Gone\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(
        packed
    )
    server = serve(lambda _number, _request: [head + packed])
    with pytest.raises(ResourceNotFound) as refused:
        connect(server.origin, limits=Limits()).fetch(list_venues())
    assert refused.value.errors == ()


def test_a_waiting_call_frees_its_slot(connect: Connect) -> None:
    """With one slot, the second call is sent while the first call waits for its next attempt."""
    served, seen = threading.Event(), list[bool]()
    first = [httpx.Response(503)]

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/a/instruments"):
            return first.pop() if first else httpx.Response(200, json={"data": [], "meta": {}})
        served.set()
        return httpx.Response(200, json={"data": [], "meta": {}})

    def sleep(_seconds: float) -> None:
        seen.append(served.wait(5))

    edge = connect(transport=httpx.MockTransport(answer), concurrency=1, sleep=sleep)
    outcomes = [outcome for _, outcome in edge.fetch_all(map(list_instruments, "ab"))]
    assert [type(one) for one in outcomes] == [ApiResponse, ApiResponse]
    assert seen == [True]
