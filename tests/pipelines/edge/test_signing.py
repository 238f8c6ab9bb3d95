"""Tests of calls and signatures, which must be exact to the byte."""

import hashlib
import hmac
from urllib.parse import parse_qsl

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.edge.errors import InvalidId
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
from pipelines.edge.signing import payload, signature

PORTFOLIO = "00000000-0000-4000-8000-000000000001"

KNOWN = [
    (
        "10cbff08bcb72fe429109d0da0c395e36341dbfe1bd2a3524ee053523eefcb18"
        "d6282854f7da8bb7bf5bcb51f8dfb569"
    ),
    (
        "3077ca184b34ef8cd896783bcd9f6e531bf755aa3c54c2eef0fc70b651a7f191"
        "52ad238bd696f78bf700d0b9a098ded9"
    ),
    (
        "c328c53d6a8451302a8d1c0a60e2db50a224ee122a74c069fb3ad246270c1cba"
        "2430abc8c025ae0f3e73b0990a1e9672"
    ),
]
HOSTILE = [
    "a/b", "a//b", "/", "//evil.example", "a?b=1", "?", "a#b", "#", "a%2Fb", "%", "%zz", "100%",
    "a b", " ", "a+b", "a&b=c", "a;b", "a=b", "a:b", "http://evil.example/", "..a", "a..", "...",
    "../portfolios", "./a", "a\\b", "é", "é", "日本", "🦊", '"q"', "'q'", "<a>", "{a}|^`",
    "~a-b_c.d", "x" * 256,
]  # fmt: skip
UNSENDABLE = ["", ".", "..", "a\nb", "a\x00b", "\x7f", "a\x85b", "\ud800", "x" * 257]


@pytest.mark.parametrize(
    ("path", "timestamp", "expected"),
    [
        (
            "/edge/v1beta/portfolios",
            1700000000000,
            KNOWN[0],
        ),
        (
            "/edge/v1beta/venues/a%2Fb/instruments",
            1700000000000,
            KNOWN[1],
        ),
        (
            f"/edge/v1beta/portfolios/{PORTFOLIO}",
            1700000000001,
            KNOWN[2],
        ),
    ],
)
def test_the_reference_signatures_are_reproduced(path: str, timestamp: int, expected: str) -> None:
    """The three signatures that define our reading of section 5.2 are reproduced exactly."""
    assert signature("test-secret", payload("GET", path, "", timestamp)) == expected


def test_the_payload_has_no_separators() -> None:
    """Method, path, body and timestamp are concatenated without separators (5.2.1)."""
    assert payload("GET", "/p", "b", 17) == b"GET/pb17"


@given(st.text(), st.text())
def test_a_signature_is_96_lower_case_hex_digits(secret: str, path: str) -> None:
    """For any secret and path, the signature is 48 bytes in lower-case hex (5.2.7)."""
    if any(0xD800 <= ord(c) <= 0xDFFF for c in secret + path):
        return
    value = signature(secret, payload("GET", path, "", 1))
    assert len(value) == 96
    assert set(value) <= set("0123456789abcdef")


@pytest.mark.parametrize(
    ("call", "operation", "target", "single"),
    [
        (list_portfolios(), "list_portfolios", "/portfolios", False),
        (
            list_portfolios(["a", "b"], integrations=True),
            "list_portfolios",
            "/portfolios?id=a%2Cb&include=integrations",
            False,
        ),
        (get_portfolio("x"), "get_portfolio", "/portfolios/x", True),
        (
            get_portfolio("x", integrations=True),
            "get_portfolio",
            "/portfolios/x?include=integrations",
            True,
        ),
        (list_venues(), "list_venues", "/venues", False),
        (
            list_venues(["v w"], instruments=True),
            "list_venues",
            "/venues?id=v%20w&include=instruments",
            False,
        ),
        (get_venue("v"), "get_venue", "/venues/v", True),
        (
            get_venue("v", instruments=True),
            "get_venue",
            "/venues/v?include=instruments",
            True,
        ),
        (list_instruments("v"), "list_instruments", "/venues/v/instruments", False),
        (
            list_instruments("v/1", "future"),
            "list_instruments",
            "/venues/v%2F1/instruments?type=future",
            False,
        ),
    ],
)
def test_each_operation_builds_the_documented_request_line(
    call: Call, operation: str, target: str, *, single: bool
) -> None:
    """The five operations with all their parameters build the request lines of section 4."""
    assert (call.operation, call.target, call.single) == (operation, PREFIX + target, single)


@pytest.mark.parametrize("value", HOSTILE)
def test_a_hostile_id_is_sent_as_one_segment(value: str) -> None:
    """An ID is encoded once, stays a single path segment, and is not changed by httpx."""
    path = list_instruments(value).path
    sent = httpx.URL("https://api.example").copy_with(raw_path=path.encode()).raw_path.decode()
    assert sent == path
    assert path.count("/") == 5
    assert httpx.URL(f"https://api.example{path}").path == f"{PREFIX}/venues/{value}/instruments"


@pytest.mark.parametrize("value", UNSENDABLE)
def test_an_id_that_cannot_be_sent_unchanged_is_refused(value: str) -> None:
    """Every operation refuses an ID that cannot be sent unchanged, such as '..' or a line break."""
    for make in (get_portfolio, get_venue, list_instruments):
        with pytest.raises(InvalidId, match="Nothing was sent"):
            make(value)
    for listing in (list_portfolios, list_venues):
        with pytest.raises(InvalidId):
            listing([value])


def test_a_comma_is_refused_only_in_a_list_of_ids() -> None:
    """An ID with a comma is refused in a list, where it separates IDs, but not in a path."""
    with pytest.raises(InvalidId, match="comma"):
        list_venues(["a,b"])
    assert get_venue("a,b").path.endswith("/venues/a%2Cb")


@pytest.mark.parametrize(
    ("path", "operation", "wire", "single"),
    [
        ("/portfolios", "list_portfolios", "/portfolios", False),
        ("venues/a%2Fb/instruments", "list_instruments", "/venues/a%2Fb/instruments", False),
        (f"{PREFIX}/venues/x y", "get_venue", "/venues/x%20y", True),
        ("/portfolios/1", "get_portfolio", "/portfolios/1", True),
        ("/orders", "other", "/orders", False),
        ("/venues/a/b/instruments", "other", "/venues/a/b/instruments", False),
    ],
)
def test_a_typed_path_becomes_a_call(path: str, operation: str, wire: str, *, single: bool) -> None:
    """A typed path works with and without the prefix, and its IDs may already be encoded."""
    call = raw_call(path, [("k", "v")])
    assert call == Call(operation, PREFIX + wire, (("k", "v"),), single)


@pytest.mark.parametrize("path", ["/../v2/x", "/venues//x", "/venues?x=1", "/venues#x", "/a\nb"])
def test_a_typed_path_that_would_change_is_refused(path: str) -> None:
    """A typed path with `..`, an empty segment, a query, a fragment or a line break is refused."""
    with pytest.raises(InvalidId):
        raw_call(path)


@pytest.mark.parametrize("pair", [("id", "\udcff"), ("\ud800", "x"), ("a", "b\udfff")])
def test_a_typed_query_with_a_lone_surrogate_is_refused(pair: tuple[str, str]) -> None:
    """A typed query with half of a surrogate pair, the result of invalid UTF-8, is refused."""
    with pytest.raises(InvalidId, match="surrogate"):
        raw_call("/portfolios", [("include", "x"), pair])


def test_a_type_filter_with_a_lone_surrogate_is_refused() -> None:
    """The type filter of an instrument list is also checked for halves of surrogate pairs."""
    with pytest.raises(InvalidId, match="surrogate"):
        list_instruments("v", "\udcff")


@given(st.lists(st.tuples(st.text(), st.text()), min_size=1, max_size=3))
def test_a_typed_query_may_contain_any_valid_string(pairs: list[tuple[str, str]]) -> None:
    """A typed query may contain any valid string, including empty strings and line breaks."""
    query = raw_call("/venues", pairs).target.partition("?")[2]
    assert parse_qsl(query, keep_blank_values=True) == pairs


@given(st.text(min_size=1, max_size=64))
def test_every_valid_id_is_signed_as_it_is_sent(value: str) -> None:
    """For any valid ID, the signed path is the path that is sent, and it decodes to the ID."""
    try:
        call = get_venue(value)
    except InvalidId:
        return
    request = httpx.Request("GET", httpx.URL("https://h").copy_with(raw_path=call.path.encode()))
    assert request.url.raw_path.decode() == call.path
    assert httpx.URL(f"https://h{call.path}").path == f"{PREFIX}/venues/{value}"


def test_the_signature_is_a_plain_hmac() -> None:
    """The signature equals an independent HMAC-SHA-384, keyed with the secret only (5.2.6)."""
    expected = hmac.new(b"s", b"GET/x1", hashlib.sha384).hexdigest()
    assert signature("s", payload("GET", "/x", "", 1)) == expected
    assert signature("k", payload("GET", "/x", "", 1)) != expected
