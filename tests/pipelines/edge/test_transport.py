"""Tests of TLS: trusted and untrusted certificates, and lost connections."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipelines.edge.client import EdgeClient
from pipelines.edge.errors import ConnectionFailed
from pipelines.edge.requests import list_instruments, list_portfolios, list_venues
from pipelines.edge.response.body import Limits
from pipelines.edge.sending.transport import OneShotTransport

if TYPE_CHECKING:
    from tests.pipelines.edge.conftest import Script, Server

EMPTY = b'{"data":[],"meta":{}}'
OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(EMPTY), EMPTY)

# A key pair that was made for these tests, for 127.0.0.1 only. It protects nothing.
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBmjCCAUGgAwIBAgIUVfvQk3C7mglUd5x5KwMddH7+Tk8wCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMTAyNDYwNVoYDzIxMjYxMDI4
MDI0NjA1WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAQN3oL1ysUuw+TKXo5rl6l0YEVjpm+aMyvSAtEdtocH1ijMXm+PA46M
l6HmoifoRWdDISLo+mZZXbxOt2RjkF4Wo28wbTAdBgNVHQ4EFgQUreUAmd/w+eNz
1T8bY9M1fgDjG8owHwYDVR0jBBgwFoAUreUAmd/w+eNz1T8bY9M1fgDjG8owDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDRwAwRAIgBLzu+WUbrlhyC1Eyndb404BSR755rNVXUGZxh+nDbb8CID1Q
1hDSCW2ecfj5Gnq55ubZGdtgslgw6JgMsVmei4Ha
-----END CERTIFICATE-----
"""
PRIVATE_KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgjEjT1igHGRFY2nF4
UmqAw4IZyiTmLDF+21IO7N72EAOhRANCAAQN3oL1ysUuw+TKXo5rl6l0YEVjpm+a
MyvSAtEdtocH1ijMXm+PA46Ml6HmoifoRWdDISLo+mZZXbxOt2RjkF4W
-----END PRIVATE KEY-----
"""


def secured(server: "Server", tmp_path: Path) -> ssl.SSLContext:
    """Add TLS to a server, and return a context that trusts its certificate."""
    (tmp_path / "pair.pem").write_text(CERTIFICATE + PRIVATE_KEY)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pair.pem")
    server.wrap = lambda plain: context.wrap_socket(plain, server_side=True)
    server.scheme = "https"
    return ssl.create_default_context(cadata=CERTIFICATE)


def test_requests_work_over_tls(
    serve: "Callable[[Script], Server]", connect: Callable[..., EdgeClient], tmp_path: Path
) -> None:
    """Requests work over TLS as they do over plain sockets."""
    server = serve(lambda _n, _r: [OK])
    transport = OneShotTransport(tls=True)
    transport._ssl = secured(server, tmp_path)
    edge = connect(server.origin, transport=transport)
    assert edge.fetch(list_portfolios(integrations=True)).size == len(EMPTY)
    assert server.requests[0].target == "/edge/v1beta/portfolios?include=integrations"


def test_a_private_authority_is_trusted_by_its_file(
    serve: "Callable[[Script], Server]", connect: Callable[..., EdgeClient], tmp_path: Path
) -> None:
    """With the file of its authority, a server with a private certificate is trusted."""
    server = serve(lambda _n, _r: [OK])
    secured(server, tmp_path)
    file = tmp_path / "ca.pem"
    file.write_text(CERTIFICATE)
    edge = connect(server.origin, ca_file=file)
    assert edge.fetch(list_venues()).size == len(EMPTY)


@pytest.mark.parametrize("tls", [False, True])
def test_stopping_fetch_all_interrupts_hanging_requests(
    serve: "Callable[[Script], Server]",
    connect: Callable[..., EdgeClient],
    tmp_path: Path,
    *,
    tls: bool,
) -> None:
    """Stopping `fetch_all`, as Ctrl-C does, interrupts requests that could each last an hour."""
    all_sent, test_is_over = threading.Barrier(3), threading.Event()

    def script(number: int, _: object) -> Iterator[bytes]:
        if number == 1:
            yield OK
            return
        all_sent.wait()
        test_is_over.wait()

    server = serve(script)
    transport = OneShotTransport(tls=tls)
    if tls:
        transport._ssl = secured(server, tmp_path)
    hour = Limits(read=3600, attempt=3600)
    edge = connect(server.origin, transport=transport, limits=hour, concurrency=3)
    answers = edge.fetch_all([list_instruments(f"v{number}") for number in range(9)])
    next(answers)
    all_sent.wait()
    answers.close()  # type: ignore[attr-defined]  # a generator behind its interface
    test_is_over.set()
    assert len(server.requests) == 3


def test_an_untrusted_certificate_is_refused_at_once(
    serve: "Callable[[Script], Server]", connect: Callable[..., EdgeClient], tmp_path: Path
) -> None:
    """Fault 24: an untrusted certificate fails after one connection, without any request."""
    server = serve(lambda _n, _r: [OK])
    secured(server, tmp_path)
    with pytest.raises(ConnectionFailed, match=r"after 1 attempt .*(?i:certificate)"):
        connect(server.origin).fetch(list_venues())
    assert (server.connections, server.requests) == (1, [])


def test_certificates_from_the_environment_are_not_trusted(
    serve: "Callable[[Script], Server]",
    connect: Callable[..., EdgeClient],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`SSL_CERT_FILE` is ignored, so an environment variable cannot add a trusted server."""
    server = serve(lambda _n, _r: [OK])
    secured(server, tmp_path)
    (tmp_path / "trusted.pem").write_text(CERTIFICATE)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "trusted.pem"))
    with pytest.raises(ConnectionFailed, match=r"(?i:certificate)"):
        connect(server.origin).fetch(list_venues())
    assert server.requests == []


def test_plain_http_instead_of_tls_is_refused_at_once(
    serve: "Callable[[Script], Server]", connect: Callable[..., EdgeClient]
) -> None:
    """Fault 25: plain HTTP instead of TLS fails without a retry, before the key is sent."""
    server = serve(lambda _n, _r: [OK])
    server.wrap = lambda plain: (plain.sendall(OK), plain)[1]  # type: ignore[func-returns-value]  # sends first
    server.scheme = "https"
    with pytest.raises(ConnectionFailed, match="after 1 attempt "):
        connect(server.origin).fetch(list_venues())
    assert server.connections == 1


def test_a_connection_lost_in_the_handshake_is_retried(
    serve: "Callable[[Script], Server]", connect: Callable[..., EdgeClient], tmp_path: Path
) -> None:
    """A connection that is lost during the TLS handshake is retried, not treated as a refusal."""
    server = serve(lambda _n, _r: [OK])
    transport = OneShotTransport(tls=True)
    transport._ssl = secured(server, tmp_path)
    whole, count = server.wrap, 0

    def flaky(plain: socket.socket) -> socket.socket:
        nonlocal count
        count += 1
        if count <= 2:
            plain.close()
            raise OSError("gone")
        return whole(plain)

    server.wrap = flaky
    assert connect(server.origin, transport=transport).fetch(list_venues()).attempts == 3


def test_a_large_body_is_complete_over_tls(
    serve: "Callable[[Script], Server]", connect: Callable[..., EdgeClient], tmp_path: Path
) -> None:
    """A large body is received completely over TLS."""
    records = ",".join(f'{{"id":"{number:040}"}}' for number in range(100_000))
    body = b'{"data":[%s],"meta":{}}' % records.encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    transport = OneShotTransport(tls=True)
    server = serve(lambda _n, _r: [head, body])
    transport._ssl = secured(server, tmp_path)
    reply = connect(server.origin, transport=transport, limits=Limits()).fetch(list_venues())
    assert bytes(reply.body.buffer()) == body
    reply.body.close()
