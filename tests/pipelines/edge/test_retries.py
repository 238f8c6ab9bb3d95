"""Tests of error classes, which depend on the code and then the status, and of waits."""

import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.edge import errors
from pipelines.edge.client import EdgeClient
from pipelines.edge.errors import ErrorEntry
from pipelines.edge.requests import list_venues
from pipelines.edge.response.refusal import classify_error
from pipelines.edge.sending.clock import parse_retry_after
from pipelines.edge.sending.retries import Event, backoff

NOW = datetime(2026, 11, 20, 2, 15, tzinfo=UTC)
CODES = {
    "ACCESS_DENIED": errors.AccessDenied,
    "AUTHENTICATION_FAILED": errors.AuthenticationFailed,
    "INTERNAL_SERVER_ERROR": errors.ServerError,
    "METHOD_UNSUPPORTED": errors.InvalidRequestError,
    "PARAMETER_INVALID": errors.InvalidRequestError,
    "PARAMETER_UNSUPPORTED": errors.InvalidRequestError,
    "PARAMETER_VALUE_INVALID": errors.InvalidRequestError,
    "RESOURCE_NOT_FOUND": errors.ResourceNotFound,
    "TIMESTAMP_INVALID": errors.TimestampRefused,
}


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 405, 409, 429, 500, 503])
@pytest.mark.parametrize(("code", "kind"), CODES.items())
def test_the_error_code_decides_at_every_status(
    code: str, kind: type[errors.ApiResponseError], status: int
) -> None:
    """Each of the nine codes results in the same error class with every status (7)."""
    error = classify_error("GET /x", status, (ErrorEntry(code, "words"),))
    assert type(error) is kind
    assert (error.errors, error.status) == ((ErrorEntry(code, "words"),), status)
    assert code in str(error)
    assert "words" in str(error)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.UndocumentedError),
        (401, errors.AuthenticationFailed),
        (403, errors.UndocumentedError),
        (404, errors.ResourceNotFound),
        (408, errors.ServerError),
        (418, errors.UndocumentedError),
        (429, errors.ServerError),
        (500, errors.ServerError),
        (599, errors.ServerError),
    ],
)
@pytest.mark.parametrize("said", [None, (), (ErrorEntry("BRAND_NEW", ""),)])
def test_without_a_known_code_the_status_decides(
    status: int, kind: type[errors.ApiResponseError], said: tuple[ErrorEntry, ...] | None
) -> None:
    """If the error body is missing, empty or has a new code, the status decides."""
    assert type(classify_error("GET /x", status, said)) is kind


def test_the_most_severe_error_code_decides() -> None:
    """The most severe code decides: key, access, clock, request, not found, server, unknown.

    The other entries stay in the error.
    """
    order = [
        "AUTHENTICATION_FAILED",
        "ACCESS_DENIED",
        "TIMESTAMP_INVALID",
        "PARAMETER_INVALID",
        "RESOURCE_NOT_FOUND",
        "INTERNAL_SERVER_ERROR",
        "BRAND_NEW",
    ]
    for first in range(len(order)):
        entries = tuple(ErrorEntry(code, "m") for code in reversed(order[first:]))
        error = classify_error("GET /x", 400, entries)
        assert error.errors[0].code == order[first]
        assert len(error.errors) == len(entries)


@given(st.integers(1, 60), st.floats(0, 1, exclude_max=True))
def test_random_waits_double_up_to_one_minute(attempt: int, draw: float) -> None:
    """The random wait is at most half a second, doubled after each failure, up to one minute."""
    assert 0 <= backoff(attempt, draw) <= min(60.0, 0.5 * 2 ** (attempt - 1))
    assert backoff(attempt, 0.0) == 0.0


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("31", 31.0),
        (" 7 ", 7.0),
        ("86400", 86400.0),
        ("-1", None),
        ("1e9", None),
        ("1.5", None),
        ("٣", None),
        ("soon", None),
        ("", None),
        ("9" * 400, None),
        (format_datetime(NOW + timedelta(seconds=40), usegmt=True), 40.0),
        (format_datetime(NOW - timedelta(hours=1), usegmt=True), 0.0),
    ],
)
def test_retry_after_is_read_in_both_forms(header: str | None, seconds: float | None) -> None:
    """`Retry-After` is read as seconds or as an HTTP date, and any other value is ignored."""
    assert parse_retry_after(header, NOW) == seconds


def test_the_waits_between_attempts_grow(connect: Callable[..., EdgeClient]) -> None:
    """With a random draw of 0.5, the waits are 0.25, 0.5, 1 and 2 s, and each is reported."""
    slept, events = list[float](), list[Event]()
    transport = httpx.MockTransport(lambda _: httpx.Response(500))
    edge = connect(transport=transport, sleep=slept.append, on_event=events.append)
    with pytest.raises(errors.ServerError, match="after 5 attempts"):
        edge.fetch(list_venues())
    assert slept == [0.25, 0.5, 1.0, 2.0]
    assert [(event.kind, event.attempt, event.wait) for event in events] == [
        ("retry", 1, 0.25),
        ("retry", 2, 0.5),
        ("retry", 3, 1.0),
        ("retry", 4, 2.0),
    ]


@pytest.mark.parametrize(("asked", "requests"), [("60", 2), ("61", 1)])
def test_the_client_waits_at_most_a_minute(
    asked: str, requests: int, connect: Callable[..., EdgeClient]
) -> None:
    """Without a deadline, the client waits up to 60 s if asked to. Above that, the call fails."""
    count, slept = 0, list[float]()

    def handler(_request: httpx.Request) -> httpx.Response:
        nonlocal count
        count += 1
        if count > 1:
            return httpx.Response(200, json={"data": [], "meta": {}})
        return httpx.Response(429, headers={"Retry-After": asked})

    transport = httpx.MockTransport(handler)
    edge = connect(transport=transport, sleep=slept.append, monotonic=lambda: 0.0)
    if requests == 1:
        with pytest.raises(errors.ServerError, match="asked the client to wait 61 s"):
            edge.fetch(list_venues())
    else:
        assert edge.fetch(list_venues()).attempts == 2
        assert sum(slept) == 60.0
    assert count == requests


EVERY = [
    errors.ConnectionFailed("GET /x", "refused", 5, is_permanent=True),
    *(
        classify_error("GET /x", 400, (ErrorEntry(code, "m"),)).copy_with(note="A note.")
        for code in CODES
    ),
    errors.UndocumentedError("GET /x", 418),
    errors.MalformedResponseError("not JSON", "GET /x", 2),
    errors.ResponseTooLarge("GET /x", 1 << 20, "on the wire"),
    errors.UnexpectedRedirect("GET /x", 302, "https://elsewhere.example"),
    errors.DeadlineExceeded("GET /x", "time-out"),
    errors.CircuitBreakerOpen("GET /x", 8, "503"),
    errors.ClientClosed("GET /x"),
    errors.SpoolFailed("GET /x", "No space left on device"),
    errors.InvalidId("..", "is a path"),
    errors.InvalidCredential("secret", "is empty"),
    errors.InvalidOrigin("has a path"),
]


@pytest.mark.parametrize("error", EVERY, ids=lambda error: type(error).__name__)
def test_an_error_message_is_one_paragraph(error: errors.EdgeError) -> None:
    """Each message is one paragraph that says what was not done, and each error can be pickled."""
    words = str(error)
    assert isinstance(error, errors.EdgeError)
    assert "\n" not in words
    assert words.endswith((".", error.args[-1]))
    assert any(negation in words for negation in ("othing", "ot sent", "not followed"))
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (type(again), str(again)) == (type(error), words)


def test_a_message_from_the_api_cannot_control_the_terminal() -> None:
    """A message from the API cannot control the terminal, break the line or fill the screen."""
    message = "\x1b[2J\nall \u202egood\x07" + "x" * 10_000
    words = str(classify_error("GET /x", 400, (ErrorEntry("ACCESS_DENIED", message),)))
    assert words.isprintable()
    assert len(words) < 600
