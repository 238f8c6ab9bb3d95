"""Tests of HTTP faults over real sockets, each with its exact outcome and number of requests.

The numbers refer to the list in `test_client_faults`. `first(n, fault)` sends the fault in the
first n responses, and `always` sends it in all of them.
"""

import gzip
import time
import zlib
from collections.abc import Callable, Iterable
from email.utils import formatdate
from typing import TYPE_CHECKING

import pytest

from pipelines.edge import errors
from pipelines.edge.client import EdgeClient
from pipelines.edge.requests import list_venues
from pipelines.edge.response.body import Limits
from pipelines.edge.response.envelope import raw_records

if TYPE_CHECKING:
    from tests.pipelines.edge.conftest import Request, Script, Server

VENUE = (
    b'{"id":"v","resource":"venue","type":["exchange"],"displayName":"V","tradingStatus":"trading",'
    b'"createdAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-01T00:00:00Z"}'
)
BODY = b'{"data":[' + VENUE + b'],"meta":{}}'
Step = bytes | float | None


def http(status: int = 200, body: bytes = BODY, *headers: str, length: int | None = None) -> bytes:
    """Return a response as bytes. `length` replaces the correct `Content-Length`."""
    size = len(body) if length is None else length
    lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {size}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def bare(body: bytes, *headers: str) -> bytes:
    """Return a response without a `Content-Length`."""
    return "\r\n".join(["HTTP/1.1 200 OK", *headers]).encode() + b"\r\n\r\n" + body


def refused(code: str, status: int = 400, *headers: str) -> bytes:
    """Return an error response (7)."""
    body = f'{{"errors":[{{"error":"{code}","message":"so"}}],"meta":{{}}}}'.encode()
    return http(status, body, *headers)


def packed(body: bytes, *headers: str) -> bytes:
    """Return a response that declares gzip, unless `headers` declare another encoding."""
    return http(200, body, *(headers or ("Content-Encoding: gzip",)))


def always(*fault: Step) -> "Script":
    """Return a script that sends the fault in every response."""
    return lambda _number, _request: fault


def first(count: int, *fault: Step) -> "Script":
    """Return a script that sends the fault in the first responses, and good responses later."""
    return lambda number, _request: fault if number <= count else [http()]


def drip(_number: int, _request: "Request") -> Iterable[Step]:
    """Send one byte at a time, each well within the read timeout."""
    for byte in http()[:40]:
        yield bytes([byte])
        yield 0.05


def drip_body(_number: int, _request: "Request") -> Iterable[Step]:
    """Send the headers at once, then the body one byte at a time."""
    head, body = http().split(b"\r\n\r\n")
    yield head + b"\r\n\r\n"
    for byte in body[:40]:
        yield bytes([byte])
        yield 0.05


def endless(_number: int, _request: "Request") -> Iterable[Step]:
    """Send a chunked body without an end, far above the size limit."""
    yield bare(b"", "Transfer-Encoding: chunked")
    for _ in range(10_000):
        yield b"4000\r\n" + b" " * 0x4000 + b"\r\n"


def chunked(*chunks: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    """Return a chunked response."""
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return bare(body + end, "Transfer-Encoding: chunked")


def bomb(size: int) -> bytes:
    """Return a gzip stream of `size` spaces with the highest compression."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(b" " * size) + packer.flush()


GZIP = gzip.compress(BODY)
TWO = gzip.compress(BODY[:9]) + gzip.compress(BODY[9:])
NESTED = gzip.compress(GZIP)
LATER = formatdate(time.time() + 5, usegmt=True)
HTML = b"<html>maintenance</html>"
ELSEWHERE = "Location: http://127.0.0.1:1/edge/v1beta/venues"
DEEP = b'{"data":' + b"[" * 200_000 + b"]" * 200_000 + b',"meta":{}}'
E = errors
SILENT, SILENT_ONCE = always(0.5), first(1, 1.0)
SILENT_IN_BODY_ONCE = first(1, http()[:-9], 1.0)
SMALL = Limits(wire=1 << 20, decoded=1 << 22)
IMPATIENT: dict["Script", Limits] = {
    SILENT: Limits(read=0.1),
    SILENT_ONCE: Limits(read=0.5),
    SILENT_IN_BODY_ONCE: Limits(read=0.5),
    drip: Limits(read=0.1, attempt=0.2),
    drip_body: Limits(read=0.1, attempt=0.2),
}

# Number and name, script, error (None if the client recovers with the right data), requests.
FAULTS: list[tuple[str, "Script", type[Exception] | None, int]] = [
    ("1 closed before any byte, twice", first(2), None, 3),
    ("2 closed before any byte, always", always(), E.ConnectionFailed, 5),
    ("3 reset, twice", first(2, None), None, 3),
    ("4 reset, always", always(None), E.ConnectionFailed, 5),
    ("6 closed in the status line", first(1, b"HTTP/1.1 20"), None, 2),
    ("7 closed in the headers", first(1, b"HTTP/1.1 200 OK\r\nContent-Le"), None, 2),
    ("8 closed in the body", first(1, http(length=9999)), None, 2),
    ("9 closed in the body, always", always(http(length=9999)), E.ConnectionFailed, 5),
    ("10 chunks without an end", first(1, chunked(BODY, end=b"")), None, 2),
    ("11 a bad chunk size", first(1, bare(b"zz\r\n", "Transfer-Encoding: chunked")), None, 2),
    ("12 no length, cut to valid JSON", always(bare(BODY)), E.MalformedResponseError, 2),
    ("13 silent before the answer", SILENT_ONCE, None, 2),
    ("14 silent in the body", SILENT_IN_BODY_ONCE, None, 2),
    ("15 silent, always", SILENT, E.ConnectionFailed, 5),
    ("16a dripping headers", drip, E.ConnectionFailed, 5),
    ("16b dripping body", drip_body, E.ConnectionFailed, 5),
    ("17 slow but honest", always(0.1, http()), None, 1),
    ("19 bytes after the length", always(http() + http(200, b'{"data":[],"meta":{}}')), None, 1),
    ("20 a malformed status line", first(1, b"HTTP/9 what\r\n\r\n"), None, 2),
    ("21 headers of 200 KB", always(http(200, BODY, "X: " + "x" * 200_000)), E.ConnectionFailed, 5),
    ("22 two lengths", always(http(200, BODY, "Content-Length: 7")), E.ConnectionFailed, 5),
    (
        "23 a length and chunks",
        always(chunked(BODY).replace(b"\r\n", b"\r\nContent-Length: 9\r\n", 1)),
        None,
        1,
    ),
    ("26 early hints", always(b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + http()), None, 1),
    ("27 500 html", first(2, http(500, HTML)), None, 3),
    ("28 502 html", first(2, http(502, HTML)), None, 3),
    ("29 503 html", first(2, http(503, HTML)), None, 3),
    ("30 504 html", first(2, http(504, HTML)), None, 3),
    ("31 503 always", always(http(503, HTML)), E.ServerError, 5),
    ("32 server error on 400", first(1, refused("INTERNAL_SERVER_ERROR")), None, 2),
    ("33 server error with 200", first(1, refused("INTERNAL_SERVER_ERROR", 200)), None, 2),
    ("34 429, two seconds", first(1, http(429, b"", "Retry-After: 2")), None, 2),
    ("35 429, a date", first(1, http(429, b"", f"Retry-After: {LATER}")), None, 2),
    ("36 429, a day", always(http(429, b"", "Retry-After: 86400")), E.ServerError, 1),
    ("37a 429, garbage", first(1, http(429, b"", "Retry-After: soon")), None, 2),
    ("37b 429, negative", first(1, http(429, b"", "Retry-After: -1")), None, 2),
    ("37c 429, 1e9", first(1, http(429, b"", "Retry-After: 1e9")), None, 2),
    ("38 408", first(1, http(408, b"")), None, 2),
    (
        "39 unsupported parameter",
        always(refused("PARAMETER_UNSUPPORTED")),
        E.InvalidRequestError,
        1,
    ),
    ("40 invalid value", always(refused("PARAMETER_VALUE_INVALID")), E.InvalidRequestError, 1),
    ("41 invalid parameter", always(refused("PARAMETER_INVALID")), E.InvalidRequestError, 1),
    ("42 wrong key", always(refused("AUTHENTICATION_FAILED", 401)), E.AuthenticationFailed, 1),
    ("42b wrong key without a body", always(http(401, HTML)), E.AuthenticationFailed, 1),
    ("43 no access, 401", always(refused("ACCESS_DENIED", 401)), E.AccessDenied, 1),
    ("44 no access, 400", always(refused("ACCESS_DENIED")), E.AccessDenied, 1),
    ("45 not found, 400", always(refused("RESOURCE_NOT_FOUND")), E.ResourceNotFound, 1),
    ("46 not found, 404", always(refused("RESOURCE_NOT_FOUND", 404)), E.ResourceNotFound, 1),
    ("46b not found, 404 html", always(http(404, HTML)), E.ResourceNotFound, 1),
    ("46c not found, 200", always(refused("RESOURCE_NOT_FOUND", 200)), E.ResourceNotFound, 1),
    ("47 method, 405", always(refused("METHOD_UNSUPPORTED", 405)), E.InvalidRequestError, 1),
    ("48 unknown code", always(refused("BRAND_NEW")), E.UndocumentedError, 1),
    ("48b unknown code on 503", first(1, refused("BRAND_NEW", 503)), None, 2),
    ("49 400 without an error body", always(http(400, HTML)), E.UndocumentedError, 1),
    ("50 no entries", always(http(400, b'{"errors":[],"meta":{}}')), E.UndocumentedError, 1),
    ("51 403 html", always(http(403, HTML)), E.UndocumentedError, 1),
    ("51b a torn 403", always(http(403, HTML, length=99)), E.UndocumentedError, 1),
    ("52 301", always(http(301, b"", ELSEWHERE)), E.UnexpectedRedirect, 1),
    ("53 302", always(http(302, b"", ELSEWHERE)), E.UnexpectedRedirect, 1),
    ("54 307", always(http(307, b"", ELSEWHERE)), E.UnexpectedRedirect, 1),
    ("55 308", always(http(308, b"", ELSEWHERE)), E.UnexpectedRedirect, 1),
    ("56 204", always(http(204, b"")), E.MalformedResponseError, 2),
    ("56b 206", always(http(206)), E.MalformedResponseError, 2),
    ("57 304", always(b"HTTP/1.1 304 Not Modified\r\n\r\n"), E.UnexpectedRedirect, 1),
    ("68 html once", first(1, http(200, HTML)), None, 2),
    ("69 html always", always(http(200, HTML)), E.MalformedResponseError, 2),
    ("70 empty once", first(1, http(200, b"")), None, 2),
    ("71 null", always(http(200, b"null")), E.MalformedResponseError, 2),
    ("72 a list", always(http(200, b"[]")), E.MalformedResponseError, 2),
    ("73 no meta", always(http(200, b'{"data":[]}')), E.MalformedResponseError, 2),
    ("74 NaN", always(http(200, b'{"data":[NaN],"meta":{}}')), E.MalformedResponseError, 2),
    ("75 1e999", always(http(200, b'{"data":[],"meta":{"a":1e999}}')), E.MalformedResponseError, 2),
    (
        "77 a key twice",
        always(http(200, b'{"data":[],"data":[],"meta":{}}')),
        E.MalformedResponseError,
        2,
    ),
    (
        "78 not UTF-8",
        always(http(200, b'{"data":["\xff"],"meta":{}}')),
        E.MalformedResponseError,
        2,
    ),
    (
        "79 half a pair",
        always(http(200, b'{"data":["\\ud83d"],"meta":{}}')),
        E.MalformedResponseError,
        2,
    ),
    ("81 BOM", always(http(200, b"\xef\xbb\xbf" + BODY)), E.MalformedResponseError, 2),
    ("82 UTF-16", always(http(200, BODY.decode().encode("utf-16"))), E.MalformedResponseError, 2),
    ("83 nested 200,000 deep", always(http(200, DEEP)), E.MalformedResponseError, 2),
    ("84 two documents", always(http(200, BODY + BODY)), E.MalformedResponseError, 2),
    ("85 gzip", always(packed(GZIP)), None, 1),
    ("85b gzip in two members", always(packed(TWO)), None, 1),
    ("86 gzip cut short once", first(1, packed(GZIP[:-20])), None, 2),
    ("87 gzip without its trailer", always(packed(GZIP[:-8])), E.MalformedResponseError, 2),
    (
        "88 gzip with a wrong checksum",
        always(packed(GZIP[:-8] + b"\0" * 8)),
        E.MalformedResponseError,
        2,
    ),
    ("89 gzip and garbage", always(packed(GZIP + b"garbage")), E.MalformedResponseError, 2),
    ("89b gzip of nothing", always(packed(b"")), E.MalformedResponseError, 2),
    ("90 a bomb", always(packed(bomb(64 << 20))), E.ResponseTooLarge, 1),
    (
        "91 gzip in gzip",
        always(packed(NESTED, "Content-Encoding: gzip, gzip")),
        E.MalformedResponseError,
        2,
    ),
    ("92 br", always(packed(BODY, "Content-Encoding: br")), E.MalformedResponseError, 2),
    ("93 endless", endless, E.ResponseTooLarge, 1),
    ("94 called text", always(http(200, BODY, "Content-Type: text/plain")), None, 1),
    ("95 a cookie", first(1, http(503, b"", "Set-Cookie: a=b; Path=/")), None, 2),
]  # fmt: skip


@pytest.mark.parametrize(
    ("script", "error", "count"),
    [fault[1:] for fault in FAULTS],
    ids=[fault[0].replace(" ", "-") for fault in FAULTS],
)
def test_each_fault_ends_in_the_expected_result(
    script: "Script",
    error: type[Exception] | None,
    count: int,
    serve: "Callable[[Script], Server]",
    connect: Callable[..., EdgeClient],
) -> None:
    """Each fault ends in the right data or the right error, after the exact number of requests."""
    server = serve(script)
    edge = connect(server.origin, limits=IMPATIENT.get(script, SMALL))
    if error is None:
        reply = edge.fetch(list_venues())
        assert [bytes(element) for element in raw_records(reply.envelope)] == [VENUE]
        assert reply.attempts == count
    else:
        with pytest.raises(error) as caught:
            edge.fetch(list_venues())
        assert type(caught.value) is error
    assert len(server.requests) == count
    assert all("cookie" not in request.headers for request in server.requests)


def test_a_closed_port_is_tried_five_times(connect: Callable[..., EdgeClient]) -> None:
    """Fault 5: if the port is closed, the error says so and names the setting of the address."""
    with pytest.raises(
        errors.ConnectionFailed, match=r"after 5 attempts.*refused.*NIGHTBOOK_API_URL"
    ):
        connect("http://127.0.0.1:1").fetch(list_venues())


def test_every_request_uses_a_new_connection(
    serve: "Callable[[Script], Server]", connect: Callable[..., EdgeClient]
) -> None:
    """Faults 18 and 19: bytes after a body are never read as the response to another call."""
    late = http(200, b'{"data":[],"meta":{}}')
    server = serve(lambda _number, _request: [http() + late, 0.02, late])
    edge = connect(server.origin)
    for _ in range(5):
        assert [venue.id for venue in edge.venues()] == ["v"]
    assert server.connections == 5
