"""Tests of the basic facts of errors, calls, messages and limits, exact to the character."""

import pickle
import time
from collections.abc import Callable
from datetime import UTC, datetime

import httpx
import pytest

from pipelines.edge.client import EdgeClient
from pipelines.edge.errors import (
    AccessDenied,
    ApiResponseError,
    AuthenticationFailed,
    CircuitBreakerOpen,
    ClientClosed,
    ConnectionFailed,
    DeadlineExceeded,
    EdgeError,
    ErrorEntry,
    InvalidCredential,
    InvalidId,
    InvalidOrigin,
    MalformedResponseError,
    ResourceNotFound,
    ResponseTooLarge,
    SpoolFailed,
    TimestampRefused,
    UnexpectedRedirect,
    quote_text,
)
from pipelines.edge.requests import (
    PREFIX,
    Call,
    get_portfolio,
    get_venue,
    list_instruments,
    list_portfolios,
    list_venues,
    raw_call,
)
from pipelines.edge.response.refusal import classify_error
from pipelines.edge.response.wholeness import shorten
from pipelines.edge.sending.clock import MAX_CORRECTION, Clock, Skew, parse_http_date
from pipelines.edge.sending.limiter import Limiter
from pipelines.edge.sending.retries import Event
from pipelines.edge.sending.transport import _port

NOW = 1_800_000_000_000
TWO = (ErrorEntry("ACCESS_DENIED", "m1"), ErrorEntry("NEW", "m2"))


@pytest.mark.parametrize(
    ("make", "facts"),
    [
        (
            lambda: ConnectionFailed("GET /a", "refused", 3),
            {"request_line": "GET /a", "reason": "refused"},
        ),
        (
            lambda: ApiResponseError(
                request_line="GET /a", status=400, errors=TWO, attempts=3, note="A note."
            ),
            {"status": 400, "errors": TWO},
        ),
        (
            lambda: MalformedResponseError("garbage", "GET /a", 3),
            {"defect": "garbage", "request_line": "GET /a"},
        ),
        (
            lambda: ResponseTooLarge("GET /a", 1234, "on the wire"),
            {"limit": 1234, "stage": "on the wire"},
        ),
        (
            lambda: UnexpectedRedirect("GET /a", 302, "http://b"),
            {"request_line": "GET /a", "status": 302, "target": "http://b"},
        ),
        (
            lambda: DeadlineExceeded("GET /a", "a 503"),
            {"request_line": "GET /a", "last_failure": "a 503"},
        ),
        (
            lambda: CircuitBreakerOpen("GET /a", 8, "a 503"),
            {"failures": 8, "last_failure": "a 503"},
        ),
        (lambda: ClientClosed("GET /a"), {"request_line": "GET /a"}),
        (lambda: SpoolFailed("GET /a", "full"), {"request_line": "GET /a", "reason": "full"}),
        (lambda: InvalidId("an-id", "is bad"), {"value": "an-id", "reason": "is bad"}),
        (lambda: InvalidCredential("secret", "is bad"), {"name": "secret", "reason": "is bad"}),
        (lambda: InvalidOrigin("is bad"), {"reason": "is bad"}),
    ],
)
def test_an_error_keeps_and_shows_its_facts(
    make: Callable[[], EdgeError], facts: dict[str, object]
) -> None:
    """Facts are an error's arguments and attributes, occur in its message, and survive pickling."""
    error = make()
    assert set(facts.values()) <= {*error.args}
    for name, fact in facts.items():
        assert getattr(error, name) == fact
        said = ", ".join(e.code for e in fact) if isinstance(fact, tuple) else str(fact)
        digits = f"{fact:,}" if isinstance(fact, int) else said
        assert all(word in str(error) for word in digits.split(", "))
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(again) is type(error)
    assert (again.args, str(again)) == (error.args, str(error))
    assert "attempts" not in vars(error) or "after 3 attempts" in str(error)


def test_an_error_without_more_facts_has_defaults() -> None:
    """By default, an error has one attempt, no note and no last failure."""
    assert ConnectionFailed("w", "r").args == ("w", "r", 1)
    assert ConnectionFailed("w", "r").is_permanent is False
    assert ApiResponseError("w", 400).args == ("w", 400, (), 1, "")
    assert MalformedResponseError("f").args == ("f", "the body", 1)
    assert DeadlineExceeded("w").args == ("w", "", "")
    assert CircuitBreakerOpen("w", 8).args == ("w", 8, "")
    assert "The last failure" not in str(DeadlineExceeded("w")) + str(CircuitBreakerOpen("w", 8))


@pytest.mark.parametrize(
    ("text", "length", "words"),
    [
        ("abc", 3, "'abc'"),
        ("abcd", 3, "'abc…'"),
        ("a\nb\x1b[2J\u202e", 20, r"'a\nb\x1b[2J\u202e'"),
        ("ünï", 20, "'ünï'"),
        ("x" * 201, 200, f"'{'x' * 200}…'"),
    ],
)
def test_external_text_is_quoted_on_one_line(text: str, length: int, words: str) -> None:
    """External text is quoted on one line, cut at the exact length, without control characters."""
    assert quote_text(text, length) == words


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (list_portfolios, ("list_portfolios", "/portfolios", "", False)),
        (
            lambda: list_portfolios(["a", "b"], integrations=True),
            ("list_portfolios", "/portfolios", "?id=a%2Cb&include=integrations", False),
        ),
        (lambda: get_portfolio("a/b"), ("get_portfolio", "/portfolios/a%2Fb", "", True)),
        (
            lambda: get_portfolio("a", integrations=True),
            ("get_portfolio", "/portfolios/a", "?include=integrations", True),
        ),
        (list_venues, ("list_venues", "/venues", "", False)),
        (
            lambda: list_venues(instruments=True),
            ("list_venues", "/venues", "?include=instruments", False),
        ),
        (lambda: get_venue("aXb"), ("get_venue", "/venues/aXb", "", True)),
        (
            lambda: get_venue("a", instruments=True),
            ("get_venue", "/venues/a", "?include=instruments", True),
        ),
        (lambda: list_instruments("v"), ("list_instruments", "/venues/v/instruments", "", False)),
        (
            lambda: list_instruments("v", "spot"),
            ("list_instruments", "/venues/v/instruments", "?type=spot", False),
        ),
        (
            lambda: raw_call("/venues/v", [("a", "b c")]),
            ("get_venue", "/venues/v", "?a=b%20c", True),
        ),
        (lambda: raw_call("XX/y"), ("other", "/XX/y", "", False)),
    ],
)
def test_each_call_matches_section_4(
    make: Callable[[], Call], expected: tuple[str, str, str, bool]
) -> None:
    """Each call has the operation, path, query and kind of response that section 4 describes."""
    call = make()
    operation, path, query, single = expected
    assert (call.operation, call.path, call.single) == (operation, PREFIX + path, single)
    assert call.target == PREFIX + path + query


@pytest.mark.parametrize("value", ["\x9f", "\x7f", "\x1f", chr(0xD800), chr(0xDFFF)])
def test_the_ends_of_refused_character_ranges_are_refused(value: str) -> None:
    """Control characters and surrogates are refused, up to the first and last of each range."""
    with pytest.raises(InvalidId) as refused:
        get_venue(f"a{value}")
    assert refused.value.value == f"a{value}"


@pytest.mark.parametrize("value", ["\xa0", " ", "~", "\ud7ff", "\ue000", "x" * 256])
def test_characters_next_to_a_refused_range_are_sent(value: str) -> None:
    """Characters just outside the refused ranges, and IDs of up to 256 characters, are sent."""
    assert get_venue(value).path.startswith(f"{PREFIX}/venues/")


def test_the_error_about_a_typed_path_quotes_it() -> None:
    """The error about a typed path with a query quotes the path."""
    with pytest.raises(InvalidId, match="'/venues\\?a=b' contains"):
        raw_call("/venues?a=b")


@pytest.mark.parametrize(
    ("status", "errors", "kind"),
    [
        (400, TWO, AccessDenied),
        (401, (), AuthenticationFailed),
        (404, None, ResourceNotFound),
        (400, (ErrorEntry("X", "m"), ErrorEntry("TIMESTAMP_INVALID", "m")), TimestampRefused),
    ],
)
def test_an_error_keeps_its_request_attempts_and_note(
    status: int, errors: tuple[ErrorEntry, ...] | None, kind: type[ApiResponseError]
) -> None:
    """An error keeps its request, status, attempts and note, and its deciding entry comes first."""
    found = classify_error("GET /a", status, errors).copy_with(attempts=4, note="A note.")
    assert type(found) is kind
    assert (found.request_line, found.status, found.attempts, found.note) == (
        *("GET /a", status, 4, "A note."),
    )
    assert set(found.errors) == set(errors or ())
    plain = classify_error("GET /a", status, errors)
    assert (plain.attempts, plain.note) == (1, "")
    if errors and kind is TimestampRefused:
        assert found.errors[0].code == "TIMESTAMP_INVALID"


@pytest.mark.parametrize(
    "text",
    [
        "Fri, 20 Nov 2026 02:15:00 GMT",
        "Fri, 20 Nov 2026 02:15:00 -0000",
        "Fri, 20 Nov 2026 03:15:00 +0100",
        "Thu, 19 Nov 2026 21:15:00 -0500",
    ],
)
def test_a_date_in_any_time_zone_is_converted_to_utc(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A date in any time zone is converted to UTC, whatever the time zone of this machine."""
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        _assert_is_a_quarter_past_two(text)
    time.tzset()


def _assert_is_a_quarter_past_two(text: str) -> None:
    moment = parse_http_date(text)
    assert moment == datetime(2026, 11, 20, 2, 15, tzinfo=UTC)
    assert moment.tzinfo is UTC


def test_a_clock_error_is_corrected_up_to_a_day() -> None:
    """A clock error of exactly a day is corrected, but one more millisecond is not."""
    clock = Clock(lambda: NOW)
    assert (clock.offset, clock.machine_time()) == (None, NOW)
    assert clock.correct(Skew(MAX_CORRECTION + 1, 500), None) == (False, False)
    assert clock.correct(Skew(-MAX_CORRECTION, 500), None) == (True, True)
    assert clock.offset == -MAX_CORRECTION


def test_a_clock_correction_is_reported_once_with_its_request(
    connect: Callable[..., EdgeClient],
) -> None:
    """The clock event names the request, attempt and skew, and the retry follows without a wait."""
    slept, events = list[float](), list[Event]()
    body = {"errors": [{"error": "TIMESTAMP_INVALID", "message": "old"}], "meta": {}}
    answers = [
        httpx.Response(400, json=body, headers={"Date": "Fri, 15 Jan 2027 09:00:00 GMT"}),
        httpx.Response(200, json={"data": [], "meta": {}}),
    ]
    transport = httpx.MockTransport(lambda _: answers.pop(0))
    edge = connect(
        transport=transport, clock=lambda: NOW, sleep=slept.append, on_event=events.append
    )
    reply = edge.fetch(list_venues())
    [event] = events
    assert (event.kind, event.request_line, event.attempt, event.wait) == (
        *("clock", f"GET {PREFIX}/venues", 1, 0.0),
    )
    assert event.skew_ms == reply.skew_ms == 3_600_500
    assert (reply.attempts, slept) == (2, [])


def test_an_error_after_a_correction_counts_both_attempts(
    connect: Callable[..., EdgeClient],
) -> None:
    """If a timestamp is refused twice, the call ends after two attempts and one clock event."""
    events = list[Event]()
    body = {"errors": [{"error": "TIMESTAMP_INVALID", "message": "old"}], "meta": {}}
    date = {"Date": "Fri, 15 Jan 2027 09:00:00 GMT"}
    transport = httpx.MockTransport(lambda _: httpx.Response(400, json=body, headers=date))
    with pytest.raises(TimestampRefused) as refused:
        connect(transport=transport, clock=lambda: NOW, on_event=events.append).fetch(list_venues())
    assert refused.value.attempts == 2
    assert len(events) == 1


def test_waiting_calls_recheck_the_limits_every_second() -> None:
    """Waiting calls recheck the limits at least every second, but never sleep past the deadline."""
    now = [0.0]
    gate = Limiter(2, 10.0, lambda: now[0])
    assert gate._recheck_interval() == 1.0
    now[0] = 9.75
    assert gate._recheck_interval() == 0.25
    now[0] = 11.0
    assert gate._recheck_interval() == 0.0
    assert Limiter(2, None, lambda: 0.0)._recheck_interval() == 1.0


@pytest.mark.parametrize(("address", "port"), [("https://a", 443), ("http://a", 80)])
def test_an_address_without_a_port_uses_the_default_port(address: str, port: int) -> None:
    """The default ports are 443 for https and 80 for http."""
    assert _port(httpx.URL(address)) == port


@pytest.mark.parametrize(("size", "example"), [(118, f'"{"x" * 118}"'), (119, f'"{"x" * 119}…')])
def test_only_a_long_example_is_cut(size: int, example: str) -> None:
    """An example of up to 120 characters, including quotes, is complete. A longer one is cut."""
    assert shorten("x" * size) == example
