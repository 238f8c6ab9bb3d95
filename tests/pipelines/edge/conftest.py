"""A server that sends scripted HTTP faults over real sockets, and clients that do not wait."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from pipelines.edge.client import EdgeClient
from pipelines.edge.response.body import Limits
from pipelines.edge.signing import Credentials

KEY = "canary-key-5f1c"
SECRET = "canary-secret-9a7e"


@dataclass(frozen=True, slots=True, repr=False)
class Request:
    """A client's request and the time when it was received."""

    target: str
    headers: dict[str, str]
    at: float


# The server sends bytes, sleeps for a number of seconds, and resets the connection at None. At the
# end of the script, it closes the connection.
Script = Callable[[int, Request], Iterable[bytes | float | None]]


@dataclass(repr=False)
class Server:
    """A server that sends one scripted response per connection. Requests are numbered from 1."""

    script: Script
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    inside: int = 0
    most_inside: int = 0

    def __post_init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._lock = threading.Lock()
        self.wrap: Callable[[socket.socket], socket.socket] = lambda plain: plain
        self.scheme = "http"
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def origin(self) -> str:
        """The server's scheme, host and port."""
        return f"{self.scheme}://127.0.0.1:{self._socket.getsockname()[1]}"

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, plain: socket.socket) -> None:
        with self._lock:
            self.connections += 1
        try:
            with self.wrap(plain) as connection:
                self._talk(connection)
        except OSError:
            plain.close()  # the client closed the connection, as some tests intend

    def _talk(self, connection: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                return
            data += piece
        request = _parsed(data)
        with self._lock:
            self.requests.append(request)
            number = len(self.requests)
            self.inside += 1
            self.most_inside = max(self.most_inside, self.inside)
        try:
            for step in self.script(number, request):
                _do(connection, step)
        finally:
            with self._lock:
                self.inside -= 1


def _parsed(data: bytes) -> Request:
    first, *lines = data.split(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    return Request(first.split(" ")[1], headers, time.time())


def _do(connection: socket.socket, step: bytes | float | None) -> None:
    if isinstance(step, bytes):
        connection.sendall(step)
    elif step is None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    else:
        time.sleep(step)


@pytest.fixture
def serve() -> Iterator[Callable[[Script], Server]]:
    """Yield a function that starts servers, which are closed after the test."""
    servers: list[Server] = []

    def start(script: Script) -> Server:
        servers.append(Server(script))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def connect() -> Iterator[Callable[..., EdgeClient]]:
    """Yield a function that makes clients with small size limits, which retry without waiting."""
    clients: list[EdgeClient] = []

    def make(origin: str = "http://127.0.0.1:1", **changes: Any) -> EdgeClient:
        small = Limits(wire=1 << 20, decoded=1 << 22)
        settings = {"sleep": lambda _: None, "rng": lambda: 0.5, "limits": small, **changes}
        credentials = settings.pop("credentials", Credentials(KEY, SECRET))
        clients.append(EdgeClient(origin, credentials, **settings))
        return clients[-1]

    yield make
    for client in clients:
        client.close()
