"""Tests of the typed client: five operations, one origin, nothing from the environment."""

import hashlib
import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from pipelines.edge.client import EdgeClient, now_ms
from pipelines.edge.errors import AccessDenied, InvalidOrigin, MalformedResponseError
from pipelines.edge.requests import get_venue, list_instruments, list_venues
from pipelines.edge.sending.exchange import ApiResponse
from pipelines.edge.sending.transport import parse_origin

if TYPE_CHECKING:
    from tests.pipelines.edge.conftest import Script, Server

SECRET = "canary-secret-9a7e"
STAMPS = {"createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z"}
PORTFOLIO = {"id": "p", "resource": "portfolio", "name": "P", "positions": [], **STAMPS}
VENUE = {
    "id": "v",
    "resource": "venue",
    "type": ["otc"],
    "displayName": "V",
    "tradingStatus": "trading",
    **STAMPS,
}
INSTRUMENT = {
    "id": "x",
    "resource": "instrument",
    "type": "spot",
    "displayName": "X",
    "feedId": "f",
    "venueSymbol": "s",
    "baseAsset": "BTC",
    "termAsset": "USD",
    **STAMPS,
}
EMPTY = b'{"data":[],"meta":{}}'
OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(EMPTY), EMPTY)

HOSTILE = [
    "a/b", "a//b", "/", "//evil.example", "a?b=1", "?", "a#b", "#", "a%2Fb", "%", "%zz", "100%",
    "a b", " ", "a+b", "a&b=c", "a;b", "a=b", "a:b", "http://evil.example/", "..a", "a..", "...",
    "../portfolios", "./a", "a\\b", "é", "日本", "🦊", '"q"', "'q'", "<a>", "{a}|^`", "~a-b_c.d",
    "*", "@",
]  # fmt: skip


def answering(data: object, seen: list[str] | None = None) -> httpx.MockTransport:
    """Return a transport that responds to every request with the same data."""

    def handler(request: httpx.Request) -> httpx.Response:
        if seen is not None:
            seen.append(request.url.raw_path.decode())
        return httpx.Response(200, json={"data": data, "meta": {}})

    return httpx.MockTransport(handler)


def test_each_operation_sends_its_path_and_returns_its_models(
    connect: Callable[..., EdgeClient],
) -> None:
    """Each operation requests its path with all parameters, and returns its models."""
    seen = list[str]()
    portfolios = connect(transport=answering([PORTFOLIO], seen))
    assert portfolios.portfolios(["p", "q"], integrations=True)[0].name == "P"
    portfolio = connect(transport=answering(PORTFOLIO, seen))
    assert portfolio.portfolio("p", integrations=True).created_at == STAMPS["createdAt"]
    venues = connect(transport=answering([VENUE], seen))
    assert venues.venues(["v"], instruments=True)[0].type == ["otc"]
    assert connect(transport=answering(VENUE, seen)).venue("v").display_name == "V"
    instruments = connect(transport=answering([INSTRUMENT], seen))
    assert instruments.instruments("v/1", "spot")[0].base_asset == "BTC"
    assert [target.removeprefix("/edge/v1beta") for target in seen] == [
        "/portfolios?id=p%2Cq&include=integrations",
        "/portfolios/p?include=integrations",
        "/venues?id=v&include=instruments",
        "/venues/v",
        "/venues/v%2F1/instruments?type=spot",
    ]


def test_a_record_with_a_different_id_is_refused(
    connect: Callable[..., EdgeClient],
) -> None:
    """A single record whose ID differs from the requested ID is refused."""
    with pytest.raises(MalformedResponseError, match="differs from the requested"):
        connect(transport=answering(VENUE)).venue("w")
    with pytest.raises(MalformedResponseError, match="differs from the requested"):
        connect(transport=answering(PORTFOLIO)).portfolio("P")


def test_a_uuid_may_be_requested_in_upper_case(connect: Callable[..., EdgeClient]) -> None:
    """A UUID in upper case is the same ID as in lower case (2.1)."""
    uuid = "7d3f1c1e-8f0a-4b64-9c3e-1a2b3c4d5e6f"
    client = connect(transport=answering({**PORTFOLIO, "id": uuid}))
    assert client.portfolio(uuid.upper()).id == uuid


def test_an_invalid_record_is_reported_with_its_json_path(
    connect: Callable[..., EdgeClient],
) -> None:
    """The error about a record that contradicts the document names the JSON path."""
    broken = {**VENUE, "displayName": None}
    with pytest.raises(MalformedResponseError, match=r"displayName.*Nothing|displayName.*nothing"):
        connect(transport=answering([VENUE, broken])).venues()


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ('"name":"P"', "the key `name` occurs twice"),
        ('"free":"1"', "the key `free` occurs twice"),
        ('"more":1e999', "out of range"),
    ],
)
def test_an_ambiguous_record_is_refused(
    place: str, words: str, connect: Callable[..., EdgeClient]
) -> None:
    """A record with a duplicate key at any depth, or with a number out of range, is refused."""
    trading = {"trading": {"free": "1", "locked": "0"}}
    account = {"venueId": "v", "name": "main", "balance": trading}
    position = {"assetId": "BTC", "isCustomAsset": False, "accounts": [account]}
    plain = json.dumps({**PORTFOLIO, "positions": [position]}, separators=(",", ":"))
    odd = plain.replace(place, f"{place},{place}", 1)
    odd = odd if odd != plain else f"{plain[:-1]},{place}}}"

    def client(data: str) -> EdgeClient:
        body = f'{{"data":{data},"meta":{{}}}}'.encode()
        return connect(transport=httpx.MockTransport(lambda _: httpx.Response(200, content=body)))

    assert len(client(f"[{plain},{plain}]").portfolios()) == 2
    with pytest.raises(
        MalformedResponseError, match=f"record 1 of `data` is not strict JSON: .*{words}"
    ):
        client(f"[{plain},{odd}]").portfolios()
    with pytest.raises(MalformedResponseError, match=words):
        client(odd).portfolio("p")


@pytest.mark.parametrize(
    "origin",
    [
        "http://api.example.com",
        "http://127.0.0.1.example.com",
        "http://localhost.example.com",
        "http://10.0.0.1",
        "https://user:password@api.example.com",
        "https://api.example.com/prefix",
        "https://api.example.com/?a=b",
        "https://api.example.com?",
        "https://api.example.com#x",
        "ftp://api.example.com",
        "api.example.com",
        "https://",
        "",
        "https://[::1",
        "https://api.example.com:99999999",
        "https://api.example.com:65536",
        "https://xn--a",
        "http://xn--a",
        "http://128.0.0.1",
        "http://127.1",
        "http://[::2]",
    ],
)
def test_an_origin_that_could_leak_the_key_is_refused(
    origin: str, connect: Callable[..., EdgeClient]
) -> None:
    """Only https is accepted, or http on this machine, and only with scheme, host and port.

    The error does not repeat a password.
    """
    with pytest.raises(InvalidOrigin, match="Nothing was sent") as caught:
        connect(origin)
    assert "password" not in str(caught.value)


@pytest.mark.parametrize(
    "origin",
    [
        "https://api.example.com",
        "https://api.example.com:8443/",
        "https://api.example.com:65535",
        "https://api.example.com:1",
        "http://127.0.0.1:8000",
        "http://127.0.0.2:9",
        "http://127.9.9.9",
        "http://localhost",
        "http://LOCALHOST",
        "http://[::1]:8000",
        " https://api.example.com ",
    ],
)
def test_a_valid_origin_is_accepted(origin: str) -> None:
    """An origin with only scheme, host and port is accepted."""
    assert parse_origin(origin).host


@pytest.mark.parametrize("value", HOSTILE)
def test_a_hostile_id_is_signed_as_it_is_sent(
    value: str, serve: "Callable[[Script], Server]", connect: Callable[..., EdgeClient]
) -> None:
    """A hostile ID is sent as one path segment, and exactly that path is signed (5.2.3)."""
    server = serve(lambda _number, _request: [OK])
    edge = connect(server.origin)
    edge.fetch(list_instruments(value, "spot"))
    (request,) = server.requests
    path, query = request.target.split("?")
    assert (path, query) == (list_instruments(value).path, "type=spot")
    signed = f"GET{path}{request.headers['svc-api-timestamp']}".encode()
    expected = hmac.new(SECRET.encode(), signed, hashlib.sha384).hexdigest()
    assert request.headers["svc-api-signature"] == expected


def test_a_request_has_exactly_nine_headers(
    serve: "Callable[[Script], Server]", connect: Callable[..., EdgeClient]
) -> None:
    """A request has nine headers, which reveal nothing about this machine."""
    server = serve(lambda _number, _request: [OK])
    connect(server.origin, clock=lambda: 1_800_000_000_123).fetch(list_venues())
    headers = server.requests[0].headers
    assert headers.pop("svc-api-signature")
    assert headers.pop("host") == server.origin.removeprefix("http://")
    assert headers == {
        "accept": "application/json",
        "accept-encoding": "gzip",
        "cache-control": "no-cache, no-store",
        "connection": "close",
        "user-agent": "nightbook",
        "svc-api-key": "canary-key-5f1c",
        "svc-api-timestamp": "1800000000123",
    }


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"])
def test_proxies_in_the_environment_are_ignored(
    name: str,
    serve: "Callable[[Script], Server]",
    connect: Callable[..., EdgeClient],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A proxy would see the key of a plain request, so proxies in the environment are ignored."""
    proxy, server = serve(lambda _n, _r: [OK]), serve(lambda _n, _r: [OK])
    monkeypatch.setenv(name, proxy.origin)
    connect(server.origin).fetch(list_venues())
    assert (len(proxy.requests), len(server.requests)) == (0, 1)


def test_passwords_from_netrc_are_not_sent(
    serve: "Callable[[Script], Server]",
    connect: Callable[..., EdgeClient],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Passwords from `.netrc` are not sent."""
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login a password b\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    server = serve(lambda _n, _r: [OK])
    connect(server.origin).fetch(list_venues())
    assert "authorization" not in server.requests[0].headers


def test_cookies_are_neither_stored_nor_sent(
    serve: "Callable[[Script], Server]", connect: Callable[..., EdgeClient]
) -> None:
    """Cookies are neither stored nor sent, within a call and between calls."""
    cookie = OK.replace(b"\r\n", b"\r\nSet-Cookie: sid=1; Path=/\r\n", 1)
    server = serve(lambda _n, _r: [cookie])
    edge = connect(server.origin)
    for _ in range(3):
        edge.fetch(list_venues())
    assert all("cookie" not in request.headers for request in server.requests)


def test_every_call_has_exactly_one_result(connect: Callable[..., EdgeClient]) -> None:
    """Each call gets exactly one result, which is either its response or its error."""

    def handler(request: httpx.Request) -> httpx.Response:
        if "/no" in request.url.path:
            body = {"errors": [{"error": "ACCESS_DENIED", "message": "m"}], "meta": {}}
            return httpx.Response(400, json=body)
        return httpx.Response(200, json={"data": {"id": request.url.path[-2:]}, "meta": {}})

    calls = [get_venue(f"{'no' if number % 3 == 0 else 'ok'}{number:02}") for number in range(30)]
    outcomes = dict(connect(transport=httpx.MockTransport(handler)).fetch_all(calls))
    assert set(outcomes) == set(calls)
    for call, outcome in outcomes.items():
        if isinstance(outcome, ApiResponse):
            assert bytes(outcome.envelope.data) == b'{"id":"' + call.path[-2:].encode() + b'"}'
            assert (outcome.call, outcome.attempts) == (call, 1)
        else:
            assert isinstance(outcome, AccessDenied)
    assert sum(isinstance(outcome, AccessDenied) for outcome in outcomes.values()) == 10


def test_an_empty_list_of_calls_returns_no_results(connect: Callable[..., EdgeClient]) -> None:
    """An empty list of calls returns no results and sends nothing."""
    seen = list[str]()
    assert list(connect(transport=answering([], seen)).fetch_all([])) == []
    assert seen == []


def test_the_default_clock_returns_unix_milliseconds() -> None:
    """The default clock returns Unix milliseconds."""
    assert 1_700_000_000_000 < now_ms() < 10_000_000_000_000
