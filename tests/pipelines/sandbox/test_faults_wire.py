"""Tests of wire faults: the exact bytes that a client receives from the socket."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from pipelines.sandbox.options import Choices
from pipelines.sandbox.server import (
    DEMO_KEY,
    DEMO_KEYS,
    DEMO_SECRET,
    RunningServer,
    application,
    unix_ms,
)
from pipelines.sandbox.world.world import World
from tests.support.faults.catalog import parse
from tests.support.faults.wire import WIRE_FAULTS, serve

Sign = Callable[..., str]
PATH = "/edge/v1beta/portfolios"
BODY = b'{"data":[],"meta":{}}'
RESET = b"reset by the other side"
PATIENCE = 0.3


@contextmanager
def broken(*texts: str) -> Iterator[RunningServer]:
    """Serve an empty world with these faults."""
    faults = [parse(text) for text in texts]
    app = application(World(), DEMO_KEYS, unix_ms, Choices(), faults)
    with serve(app, faults=faults) as served:
        yield served


def request(signed: Sign, path: str = PATH) -> bytes:
    """Return a signed request as bytes."""
    at = str(time.time_ns() // 1_000_000)
    signature = signed(DEMO_SECRET, "GET", path, at)
    lines = [f"GET {path} HTTP/1.1", "Host: sandbox", f"SVC-API-KEY: {DEMO_KEY}"]
    lines += [f"SVC-API-TIMESTAMP: {at}", f"SVC-API-SIGNATURE: {signature}", "", ""]
    return "\r\n".join(lines).encode()


def receive(connection: socket.socket, *, most: int = 400_000) -> bytes:
    """Return all received bytes, with a mark if the connection was reset or is silent."""
    connection.settimeout(PATIENCE)
    came = b""
    try:
        while len(came) < most and (part := connection.recv(65_536)):
            came += part
    except ConnectionResetError:
        came += RESET
    except TimeoutError:
        came += b"<silence>"
    return came


def fetch(served: RunningServer, signed: Sign) -> bytes:
    """Send a request on a new connection, and return the received bytes."""
    with socket.create_connection((served.host, served.port), timeout=5) as connection:
        connection.sendall(request(signed))
        return receive(connection)


EXPECTED: dict[str, Callable[[bytes], bool]] = {
    "close": lambda came: came == b"",
    "reset": lambda came: came == RESET,
    "reset-mid-body": lambda came: came.endswith(RESET) and BODY not in came,
    "cut-status": lambda came: came == b"HTTP/1.1 2",
    "cut-headers": lambda came: came.startswith(b"HTTP/1.1 200") and b"\r\n\r\n" not in came,
    "cut-body": lambda came: b"Content-Length: 21\r\n" in came and came.endswith(BODY[:10]),
    "cut-to-valid": lambda came: b"ength" not in came and came.endswith(BODY),
    "chunks-cut": lambda came: came.endswith(b"\r\n\r\na\r\n" + BODY[:10] + b"\r\n"),
    "chunks-unfinished": lambda came: came.endswith(b"15\r\n" + BODY + b"\r\n"),
    "chunk-size-bad": lambda came: b"\r\n\r\nzz\r\n" in came,
    "chunks": lambda came: came.endswith(b"15\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "hang": lambda came: came == b"<silence>",
    "hang-mid-body": lambda came: came.endswith(BODY[:10] + b"<silence>"),
    "drip": lambda came: came.endswith(BODY),
    "endless": lambda came: len(came) >= 400_000 and b"Transfer-Encoding: chunked" in came,
    "close-after": lambda came: came.endswith(b"\r\n\r\n" + BODY) and b"Connection" not in came,
    "extra-bytes": lambda came: came.count(b"HTTP/1.1 200") == came.count(BODY) == 2,
    "status-bad": lambda came: came.startswith(b"HTTP/banana"),
    "headers-huge": lambda came: len(came) > 200_000 and came.endswith(BODY),
    "lengths-two": lambda came: came.count(b"Content-Length") == 2,
    "length-and-chunks": lambda came: b"Content-Length: 5" in came and b"chunked" in came,
    "length-short": lambda came: b"Content-Length: 11\r\n" in came and came.endswith(BODY),
    "early-hints": lambda came: came.startswith(b"HTTP/1.1 103") and came.endswith(BODY),
}


@pytest.mark.parametrize("name", sorted(WIRE_FAULTS))
def test_a_wire_fault_breaks_only_the_first_response(name: str, signed: Sign) -> None:
    """The first request gets the fault, and the second, on a new connection, a good response."""
    seconds = ",seconds=0.001" if name == "drip" else ""
    with broken(f"{name},count=1{seconds}") as served:
        came = fetch(served, signed)
        well = fetch(served, signed)
    assert EXPECTED[name](came), came[:400]
    assert well.startswith(b"HTTP/1.1 200 OK\r\n")
    assert well.endswith(b"Content-Length: 21\r\n\r\n" + BODY + b"<silence>")


def test_a_connection_stays_open_until_a_fault_matches(signed: Sign) -> None:
    """A connection stays open for several requests until a request matches the fault."""
    with (
        broken("close,path=/venues*") as served,
        socket.create_connection((served.host, served.port), timeout=5) as connection,
    ):
        for _ in range(2):
            connection.sendall(request(signed))
            assert receive(connection).count(BODY) == 1
        connection.sendall(request(signed, "/edge/v1beta/venues"))
        assert receive(connection) == b""


def test_wire_and_application_faults_can_be_combined(signed: Sign) -> None:
    """A wire fault also applies to a response that an application fault has changed."""
    with broken("html-200", "cut-body") as served:
        came = fetch(served, signed)
    assert b"<!doctype html>" in came
    assert b"</html>" not in came


def test_a_refused_port_opens_later(signed: Sign) -> None:
    """The port refuses connections for the given time, and then the server works."""
    with broken("refused,seconds=0.2") as served:
        with pytest.raises(ConnectionRefusedError):
            fetch(served, signed)
        time.sleep(0.4)
        assert BODY in fetch(served, signed)


def test_a_server_stops_despite_a_hanging_response(signed: Sign) -> None:
    """Leaving the `with` block does not wait for a response that never arrives."""
    with broken("hang") as served:
        connection = socket.create_connection((served.host, served.port), timeout=5)
        connection.sendall(request(signed))
        time.sleep(0.1)
        begun = time.monotonic()
    connection.close()
    assert time.monotonic() - begun < 3
