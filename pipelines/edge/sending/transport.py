"""One connection for each request, bounded in time from the first packet to the last byte.

A connection is never used twice: httpx 0.28 gives bytes that follow a body to the next request on
the same connection, and an instrument does not say of which venue it is. Measured
on loopback, both ends together, a new connection costs 1.5 ms of CPU a request, with TLS 5 ms.
"""

import contextlib
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import httpcore
import httpx

from pipelines.edge.errors import OriginRefused, TooLarge
from pipelines.edge.origin import NO_ORIGIN, problem_of_origin
from pipelines.edge.response.decode import Limits

_HEAD = 1 << 20  # bytes on the wire that are not body
_READ = 1 << 18  # bytes taken off the socket at once
_RECORD = 1 << 14  # bytes that TLS gives at once, at most


def checked_origin(text: str) -> httpx.URL:
    """Return the address of the service; raise `OriginRefused` where it could leak the key."""
    problem = problem_of_origin(text)
    try:
        url = httpx.URL(text.strip())
        host = url.host  # some addresses are found broken only when this is asked for
    except (httpx.InvalidURL, ValueError, TypeError):
        problem = problem or NO_ORIGIN
    else:
        if problem is None and host:
            return url
    raise OriginRefused(problem or NO_ORIGIN)


@dataclass(slots=True)
class AttemptTimeout:
    """How long one attempt may still take, which grows with what it has brought."""

    limits: Limits
    ends: float | None
    monotonic: Callable[[], float]
    started: float
    received: int = 0

    # A timeout of the library is for one step, so a server that drips a byte every few seconds
    # would never meet it. Each step is given what is left of the attempt, and the attempt grows
    # only with the bytes that came: `pace` bytes buy a second.
    def seconds_for_step(self, step: float | None) -> float:
        """Return the seconds for the next step on the wire; raises `ReadTimeout` without any."""
        now = self.monotonic()
        limit = self.started + self.limits.attempt + self.received / self.limits.pace - now
        if self.ends is not None:
            limit = min(limit, self.ends - now)
        if limit <= 0:
            raise httpcore.ReadTimeout("the attempt took too long")
        return limit if step is None else min(limit, step)

    def count(self, size: int) -> None:
        """Note bytes that came; raises `TooLarge` above the limit on the wire."""
        self.received += size
        if self.received > self.limits.wire + _HEAD:
            raise TooLarge("the answer", self.limits.wire, "on the wire")


class Connections:
    """The connections under way: whoever stops ends them, and waits for no answer."""

    def __init__(self) -> None:
        self._streams: set[httpcore.NetworkStream] = set()
        self._is_closed = False
        self._lock = threading.Lock()

    def add(self, stream: httpcore.NetworkStream) -> None:
        """Know a connection until it is closed; after `close` it ends at once."""
        with self._lock:
            self._streams.add(stream)
            is_closed = self._is_closed
        if is_closed:
            _shut_down(stream)

    def discard(self, stream: httpcore.NetworkStream) -> None:
        """Forget a connection that is closed, or was handed over to TLS."""
        with self._lock:
            self._streams.discard(stream)

    def close(self) -> None:
        """End all of them, and those to come: who reads from one has an error at once."""
        with self._lock:
            self._is_closed = True
            streams = [*self._streams]
        for stream in streams:
            _shut_down(stream)


def _shut_down(stream: httpcore.NetworkStream) -> None:
    # Not closed: the thread that reads from it does that, and its number may be another's by then.
    with contextlib.suppress(OSError):
        stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)


class _Stream(httpcore.NetworkStream):
    """A network stream whose every step ends with the attempt, or with the client."""

    def __init__(
        self,
        inner: httpcore.NetworkStream,
        patience: AttemptTimeout,
        connections: Connections,
        *,
        is_tls: bool = False,
    ) -> None:
        self._inner, self._patience, self._is_tls = inner, patience, is_tls
        self._connections = connections
        connections.add(inner)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        # httpcore asks for 64 KiB; each read costs it and h11 as much as copying a quarter of that.
        left = self._patience.seconds_for_step(timeout)
        size = _RECORD if self._is_tls else max(max_bytes, _READ)
        data = self._inner.read(size, left)
        if self._is_tls and data:
            data = self._with_more(data, timeout)
        self._patience.count(len(data))
        return data

    def _with_more(self, data: bytes, timeout: float | None) -> bytes:
        """Return the bytes, and those of the records that are there already."""
        # What fails here fails again at the next read: the bytes at hand may be all that was
        # needed.
        records, size = [data], len(data)
        with contextlib.suppress(httpcore.ReadError, httpcore.ReadTimeout):
            while size < _READ and self._inner.get_extra_info("is_readable"):
                record = self._inner.read(_RECORD, self._patience.seconds_for_step(timeout))
                if not record:
                    break
                records.append(record)
                size += len(record)
        return b"".join(records)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, self._patience.seconds_for_step(timeout))

    def close(self) -> None:
        self._connections.discard(self._inner)
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        left = self._patience.seconds_for_step(timeout)
        secured = self._inner.start_tls(ssl_context, server_hostname, left)
        self._connections.discard(self._inner)
        return _Stream(secured, self._patience, self._connections, is_tls=True)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Backend(httpcore.NetworkBackend):
    """Opens streams that end with the attempt."""

    def __init__(self, patience: AttemptTimeout, connections: Connections) -> None:
        self._patience, self._connections = patience, connections
        self._inner = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        left = self._patience.seconds_for_step(timeout)
        stream = self._inner.connect_tcp(host, port, left, local_address, socket_options)
        return _Stream(stream, self._patience, self._connections)


class _BodyStream(httpx.SyncByteStream):
    """The raw body of an answer; closing it closes the connection."""

    def __init__(self, stream: Iterable[bytes], connection: httpcore.HTTPConnection) -> None:
        self._stream, self._connection = stream, connection

    def __iter__(self) -> Iterator[bytes]:
        yield from self._stream

    def close(self) -> None:
        self._connection.close()


class OneShot(httpx.BaseTransport):
    """Sends each request over a connection of its own, without proxy, pool or HTTP/2."""

    def __init__(self, *, tls: bool) -> None:
        # httpcore logs every header it receives (DEBUG), httpx every reason phrase (INFO): a server
        # that echoes what it was sent would have the key written there.
        logging.getLogger("httpcore").setLevel(logging.INFO)
        logging.getLogger("httpx").setLevel(logging.WARNING)
        self._ssl = httpx.create_ssl_context(trust_env=False) if tls else None
        self._connections = Connections()

    def close(self) -> None:
        """End all requests under way: none is waited for."""
        self._connections.close()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request whose extensions hold its `patience`; raises as httpcore does."""
        patience: AttemptTimeout = request.extensions["patience"]
        connection = httpcore.HTTPConnection(
            httpcore.Origin(
                request.url.raw_scheme, request.url.raw_host, request.url.port or _port(request.url)
            ),
            ssl_context=self._ssl,
            network_backend=_Backend(patience, self._connections),
        )
        try:
            response = connection.handle_request(_for_wire(request))
        except BaseException:
            connection.close()
            raise
        stream = response.stream
        assert isinstance(stream, Iterable)  # noqa: S101 - httpcore's sync connections give sync streams
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_BodyStream(stream, connection),
            extensions=response.extensions,
        )


def _for_wire(request: httpx.Request) -> httpcore.Request:
    limits: Limits = request.extensions["patience"].limits
    times = {"connect": limits.connect, "read": limits.read, "write": limits.read}
    return httpcore.Request(
        method=request.method,
        url=httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        ),
        headers=request.headers.raw,
        extensions={"timeout": times},
    )


def _port(url: httpx.URL) -> int:
    return 443 if url.scheme == "https" else 80
