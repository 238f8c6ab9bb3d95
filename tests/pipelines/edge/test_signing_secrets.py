"""Tests of secrecy: no failure shows the key, the secret or a signature."""

import copy
import hashlib
import hmac
import io
import json
import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

import httpx
import pytest

from pipelines.edge.client import EdgeClient
from pipelines.edge.errors import EdgeError, InvalidCredential
from pipelines.edge.requests import list_venues
from pipelines.edge.response.body import Limits
from pipelines.edge.sending.retries import Event
from pipelines.edge.signing import Credentials

if TYPE_CHECKING:
    from tests.pipelines.edge.conftest import Request, Script, Server

KEY, SECRET = "canary-key-5f1c", "canary-secret-9a7e"
TELLING = 32  # characters; a longer prefix would reveal too much


def echo(status: int) -> "Script":
    """Return a script that echoes all request headers in its headers, codes and messages."""

    def script(_number: int, request: "Request") -> list[bytes]:
        sent = json.dumps(request.headers)
        body = json.dumps({"errors": [{"error": sent, "message": sent}], "meta": {}}).encode()
        head = (
            f"HTTP/1.1 {status} {sent}\r\nContent-Length: {len(body)}\r\n"
            f"Location: http://127.0.0.1:1/{sent}\r\nRetry-After: {sent}\r\nX-Echo: {sent}\r\n\r\n"
        )
        return [head.encode() + body]

    return script


def told(body: bytes, *headers: str) -> "Script":
    """Return a script with one fixed response."""
    head = "\r\n".join(["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *headers])
    return lambda _number, _request: [head.encode() + b"\r\n\r\n" + body]


def echo_keys(_number: int, request: "Request") -> list[bytes]:
    """Respond with an envelope whose unknown key is our API key."""
    body = json.dumps({request.headers["svc-api-key"]: 1, "meta": {}}).encode()
    return [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)]


def echo_encoding(header: str) -> "Script":
    """Return a script that echoes a request header as the content encoding."""
    head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Encoding: "
    return lambda _number, request: [f"{head}{request.headers[header]}\r\n\r\n{{}}".encode()]


FAULTS: dict[str, "Script"] = {
    **{str(status): echo(status) for status in (200, 204, 302, 400, 401, 403, 404, 429, 500)},
    "closed": lambda _number, _request: [],
    "reset": lambda _number, _request: [None],
    "silent": lambda _number, _request: [0.5],
    "no http": lambda _number, request: [json.dumps(request.headers).encode() + b"\r\n\r\n"],
    "echoed keys": echo_keys,
    "key as encoding": echo_encoding("svc-api-key"),
    "signature as encoding": echo_encoding("svc-api-signature"),
    "not JSON": told(b"<html>"),
    "no gzip": told(b"x", "Content-Encoding: gzip"),
    "too large": told(b" " * (2 << 20)),
}


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and all its causes."""
    step: BaseException | None = error
    while step is not None:
        yield step
        step = step.__cause__ or step.__context__


@pytest.mark.parametrize("script", FAULTS.values(), ids=FAULTS.keys())
def test_errors_and_logs_contain_no_secret(
    script: "Script",
    serve: "Callable[[Script], Server]",
    connect: Callable[..., EdgeClient],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """No error, event, DEBUG log or terminal output contains the key, the secret or a signature.

    The error is checked as `str`, `repr`, pickle and traceback with local variables.
    """
    caplog.set_level(logging.DEBUG)
    events = list[Event]()
    server = serve(script)
    limits = Limits(read=0.2, wire=1 << 20)
    edge = connect(server.origin, on_event=events.append, limits=limits)
    with pytest.raises(EdgeError) as caught:
        edge.fetch(list_venues())
    error = caught.value
    with_locals = traceback.TracebackException.from_exception(error, capture_locals=True)
    check = edge.check()
    everywhere = "\n".join(
        [
            *with_locals.format(),
            *(f"{one} {one!r} {vars(one)}" for one in chain(error)),
            repr(pickle.dumps(error)),
            repr(events),
            repr(edge),
            repr(check),
            caplog.text,
            *capfd.readouterr(),
        ]
    )
    assert server.requests
    signatures = [request.headers["svc-api-signature"] for request in server.requests]
    for canary in (KEY, SECRET, *signatures):
        assert canary[:TELLING].lower() not in everywhere.lower()
    assert not any(hasattr(one, "request") for one in chain(error))


def test_no_variable_in_a_traceback_is_an_httpx_object(connect: Callable[..., EdgeClient]) -> None:
    """No local variable in an error's traceback is an httpx object of the attempt."""

    def broken(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError("gone", request=request)

    with pytest.raises(EdgeError) as caught:
        connect(transport=httpx.MockTransport(broken)).fetch(list_venues())
    for frame, _ in traceback.walk_tb(caught.value.__traceback__):
        if "/edge/" in frame.f_code.co_filename and "test_" not in frame.f_code.co_filename:
            for value in frame.f_locals.values():
                assert not isinstance(value, httpx.Request | httpx.Response | httpx.HTTPError)
    assert caught.value.__context__ is None


def test_credentials_are_not_shown_copied_or_pickled() -> None:
    """Credentials hide their values in `repr`, and cannot be copied or pickled."""
    credentials = Credentials(KEY, SECRET)
    for text in (repr(credentials), str(credentials), f"{credentials}", repr([credentials])):
        assert KEY not in text
        assert SECRET not in text
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="plain text"):
            leak(credentials)
    with pytest.raises(TypeError):
        vars(credentials)
    with pytest.raises(TypeError):
        pickle.Pickler(io.BytesIO()).dump([credentials])


UNSEEN = ["", " ", "canary\n", "\tcanary", "canary\r\nX: y", "c\x00", "a\x7f", "canary\udcff"]


@pytest.mark.parametrize("value", [*UNSEEN, "a b", "ключ"])
def test_an_invalid_credential_is_refused_without_its_value(value: str) -> None:
    """The error about an invalid key or secret names the problem, but does not repeat the value."""
    wrong = {"key": (value, SECRET)} | ({"secret": (KEY, value)} if value in UNSEEN else {})
    for name, pair in wrong.items():
        with pytest.raises(InvalidCredential, match=f"the API {name} ") as caught:
            Credentials(*pair)
        assert "canary" not in str(caught.value) + repr(caught.value)


@pytest.mark.parametrize("secret", ["a b  c", "schlüssel € 秘密", 'it\'s "quoted" \\n'])
def test_a_secret_may_have_any_visible_characters(secret: str) -> None:
    """Any visible characters are valid in a secret, and its UTF-8 is the key of the HMAC (5.2.6).

    No header contains the secret, and `scrub` removes it from messages in every encoding.
    """
    credentials = Credentials(KEY, secret)
    headers = credentials.headers("GET", "/edge/v1beta/venues", 1700000000000)
    payload = b"GET/edge/v1beta/venues1700000000000"
    digest = hmac.new(secret.encode("utf-8"), payload, hashlib.sha384).hexdigest()
    assert headers["SVC-API-SIGNATURE"] == digest
    assert all(value.isascii() for value in headers.values())
    for shown in (secret, json.dumps(secret)[1:-1], quote(secret), quote(secret, safe="")):
        assert credentials.scrub(f"no {shown}!") == "no •••!"


def test_scrub_removes_keys_secrets_and_signatures() -> None:
    """`scrub` removes the key, the secret and anything that looks like a signature."""
    said = Credentials(KEY, SECRET).scrub(f"key {KEY} with {SECRET} and {'aF' * 48} is wrong")
    assert said == "key ••• with ••• and ••• is wrong"


@pytest.mark.parametrize("length", [16, 17, 40, 63, 64])
def test_scrub_removes_the_beginning_of_a_cut_key(length: int) -> None:
    """`scrub` also removes the beginning of a long key that was cut, but not the text after it."""
    key = "canary-long-key-" + "0123456789ab" * 4
    said = Credentials(key, SECRET).scrub(f"`{key[:length]}`, `{key[:length]}…{key}` and `canary`")
    assert said == "`•••`, `•••…•••` and `canary`"


def test_scrub_removes_an_encoded_key() -> None:
    """`scrub` also removes a key that is percent-encoded in an address or escaped in JSON."""
    key = 'canary+key/5f1c=="\\'
    shown = f"https://elsewhere.example/?key={quote(key, safe='')} {json.dumps(key)}"
    said = Credentials(key, SECRET).scrub(shown)
    assert said == 'https://elsewhere.example/?key=••• "•••"'


def test_hints_contain_no_secret(
    serve: "Callable[[Script], Server]", connect: Callable[..., EdgeClient]
) -> None:
    """Hints are stored in manifests and sent in alerts, so they contain no key and no secret."""

    def script(_number: int, request: "Request") -> list[bytes]:
        sent = request.headers
        meta = {"warnings": sent, f"{sent['svc-api-key']} next": SECRET}
        body = json.dumps({"data": [], "meta": meta}).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nWarning: {sent}\r\n\r\n"
        return [head.encode() + body]

    server = serve(script)
    reply = connect(server.origin).fetch(list_venues())
    reply.body.close()
    assert len(reply.truncation_hints) == 3
    signature = server.requests[0].headers["svc-api-signature"]
    for canary in (KEY, SECRET, signature):
        assert canary[:TELLING] not in repr(reply.truncation_hints)


def test_a_long_key_echoed_as_a_name_is_hidden(
    serve: "Callable[[Script], Server]", connect: Callable[..., EdgeClient]
) -> None:
    """A long key that is echoed as a name in an envelope is hidden, even if the name is cut."""
    key = "canary-long-key-" + "0123456789ab" * 4
    edge = connect(serve(echo_keys).origin, credentials=Credentials(key, SECRET))
    with pytest.raises(EdgeError, match="•••") as caught:
        edge.fetch(list_venues())
    assert key[:16] not in str(caught.value)
