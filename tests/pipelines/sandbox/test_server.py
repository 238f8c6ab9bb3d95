"""Tests of the sandbox on a socket: loopback addresses, raw paths, `Date` and error envelopes."""

import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from pipelines.sandbox.options import Choices
from pipelines.sandbox.server import (
    DEMO_KEY,
    DEMO_KEYS,
    DEMO_SECRET,
    RunningServer,
    application,
    serve,
    unix_ms,
)
from pipelines.sandbox.world.world import LivingWorld, World

Sign = Callable[..., str]


@pytest.fixture(scope="module")
def served() -> Iterator[RunningServer]:
    """Serve the default world on a free port."""
    with serve(application(LivingWorld(), DEMO_KEYS, unix_ms)) as server:
        yield server


def headers(signed: Sign, path: str) -> dict[str, str]:
    """Return the three headers for a path, signed now."""
    at = str(time.time_ns() // 1_000_000)
    signature = signed(DEMO_SECRET, "GET", path, at)
    return {"SVC-API-KEY": DEMO_KEY, "SVC-API-TIMESTAMP": at, "SVC-API-SIGNATURE": signature}


def test_a_standard_http_client_can_read_venues(served: RunningServer, signed: Sign) -> None:
    """A standard HTTP client can read venues, even if an ID contains a slash and a space."""
    with httpx.Client(base_url=served.origin, trust_env=False) as client:
        path = "/edge/v1beta/venues"
        assert len(client.get(path, headers=headers(signed, path)).json()["data"]) == 12
        path = "/edge/v1beta/venues/north%20sea%2Fotc%20desk/instruments"
        reply = client.get(path, headers=headers(signed, path), params={"type": "spot"})
        assert reply.status_code == 200
        assert {one["type"] for one in reply.json()["data"]} == {"spot"}
        assert len(reply.headers.get_list("date")) == 1
        assert "server" not in reply.headers
        refused = client.get(path)
        assert (refused.status_code, refused.json()["meta"]) == (400, {})


def test_persistent_connections_respond_without_delay(served: RunningServer) -> None:
    """Responses on a persistent connection do not wait 40 ms, as they would without TCP_NODELAY."""
    with httpx.Client(base_url=served.origin, trust_env=False) as client:
        took = [client.get("/edge/v1beta/venues").elapsed.total_seconds() for _ in range(15)]
    assert min(took[1:]) < 0.03  # the first response on a connection never waits


def test_a_repeated_key_header_is_refused(served: RunningServer, signed: Sign) -> None:
    """A request with two key headers is refused, even if they are equal (5.1)."""
    path = "/edge/v1beta/venues"
    pairs = [*headers(signed, path).items(), ("SVC-API-KEY", DEMO_KEY)]
    reply = httpx.get(served.origin + path, headers=pairs, trust_env=False)
    assert reply.json()["errors"][0]["error"] == "AUTHENTICATION_FAILED"


@pytest.mark.parametrize(
    "wire", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 70_000]
)
def test_bytes_that_are_not_http_get_an_error_envelope(wire: bytes, served: RunningServer) -> None:
    """Bytes that are not a valid request get an error envelope (section 7), not plain text."""
    with socket.create_connection((served.host, served.port), timeout=5) as connection:
        connection.sendall(wire)
        said = b""
        # If the server closes before it has read the whole request, the connection is reset after
        # the response.
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(1 << 16):
                said += piece
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert body.startswith(b'{"errors":[{"error":"PARAMETER_INVALID"')


@pytest.mark.parametrize("status", [500, 503])
def test_a_server_error_has_an_envelope_without_details(status: int, signed: Sign) -> None:
    """An exception gives INTERNAL_SERVER_ERROR with the chosen status, and without details."""

    class Broken:
        def at(self, _day: object, /) -> World:
            raise RuntimeError("a detail of the inside")

    choices = Choices(server_error_status=status)
    path = "/edge/v1beta/venues"
    with serve(application(Broken(), DEMO_KEYS, unix_ms, choices)) as broken:
        reply = httpx.get(broken.origin + path, headers=headers(signed, path), trust_env=False)
    assert reply.status_code == status
    assert reply.json()["errors"][0]["error"] == "INTERNAL_SERVER_ERROR"
    assert "inside" not in reply.text


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.test"])  # noqa: S104 - refused
def test_only_loopback_addresses_are_served(host: str) -> None:
    """An address that other machines could reach is refused."""
    with pytest.raises(ValueError, match="only from this machine"), serve(_nothing, host):
        pass


async def _nothing(_scope: object, _receive: object, _send: object) -> None:
    """Do nothing. This application is never called."""


def test_a_server_runs_until_it_is_interrupted() -> None:
    """A serving process responds to requests, and Ctrl-C ends it with exit code 0."""
    program = (
        # If a shell starts the tests in the background, they ignore Ctrl-C, and so would this
        # process.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from pipelines.sandbox import server\n"
        "from pipelines.sandbox.world import world\n"
        "app = server.application(world.LivingWorld(), server.DEMO_KEYS, server.unix_ms)\n"
        "try:\n"
        "    with server.serve(app) as served:\n"
        "        print(served.origin, flush=True)\n"
        "        signal.pause()\n"
        "except KeyboardInterrupt:\n"
        "    pass\n"
    )
    arguments = [sys.executable, "-c", program]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        origin = process.stdout.readline().strip()
        assert httpx.get(f"{origin}/edge/v1beta/venues", trust_env=False).status_code == 400
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 0


def test_a_closed_server_frees_its_port() -> None:
    """After the `with` block, the port refuses connections and is free for a new server."""
    app = application(LivingWorld(), DEMO_KEYS, unix_ms)
    with serve(app, "localhost") as first:
        port = first.port
        assert first.origin == f"http://127.0.0.1:{port}"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=1)
    with serve(app, port=port) as again:
        assert again.port == port
