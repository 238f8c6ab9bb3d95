"""A proxy in front of the application, which simulates faults in the bytes on the wire.

It reads one request at a time, fetches the complete response from the application, and forwards it
either unchanged or with a fault, for example truncated, delayed or reset. The application receives
requests unchanged, so their signatures stay valid.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from starlette.types import ASGIApp

from pipelines.sandbox import server
from pipelines.sandbox.faults import Fault, FaultCounter
from pipelines.sandbox.server import RunningServer
from pipelines.sandbox.specification import PREFIX

_MAX_HEAD = 256 * 1024
_FOREVER = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class WireReply:
    """An HTTP response as bytes: status line, headers without Content-Length, and body."""

    status: bytes
    headers: tuple[bytes, ...]
    body: bytes

    def head(self, *more: bytes, length: int | None = None) -> bytes:
        """Return the status line and the headers. The default for `length` is the body's length."""
        size = len(self.body) if length is None else length
        lines = (self.status, *self.headers, b"Content-Length: %d" % size, *more)
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def chunked_head(self, *more: bytes) -> bytes:
        """Return the status line and the headers for a chunked body."""
        lines = (self.status, *self.headers, b"Transfer-Encoding: chunked", *more)
        return b"\r\n".join(lines) + b"\r\n\r\n"


Break = Callable[[asyncio.StreamWriter, WireReply, Fault], Awaitable[None]]


async def pass_on(request: "Request", upstream: tuple[str, int]) -> WireReply:
    """Send a request to the application and return the response."""
    reader, writer = await asyncio.open_connection(*upstream, limit=_MAX_HEAD)
    try:
        writer.write(request.head + request.body)
        answered = await reader.read()
    finally:
        writer.close()
    head, _, body = answered.partition(b"\r\n\r\n")
    status, *headers = head.split(b"\r\n")
    # Drop `Connection` and `Content-Length`, because the proxy closes connections itself and sets
    # the length, which may be wrong on purpose.
    lines = (line for line in headers if _name(line) not in {b"content-length", b"connection"})
    return WireReply(status, tuple(lines), body)


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request as bytes. It asks the application to close the connection afterwards."""

    path: str
    head: bytes
    body: bytes


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """Read the next request on a connection. Return None if there is no valid request."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        line, *headers = head[:-4].split(b"\r\n")
        length = sum(
            int(header.partition(b":")[2])
            for header in headers
            if _name(header) == b"content-length"
        )
        body = await reader.readexactly(length)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, ConnectionError):
        return None
    lines = [header for header in headers if _name(header) != b"connection"]
    raw = line.split(b" ")[1] if line.count(b" ") > 1 else b""
    path = raw.partition(b"?")[0].decode("latin-1").removeprefix(PREFIX)
    return Request(path, b"\r\n".join([line, *lines, b"Connection: close", b"", b""]), body)


def _name(header: bytes) -> bytes:
    return header.partition(b":")[0].strip().lower()


async def _send(writer: asyncio.StreamWriter, *parts: bytes) -> None:
    writer.write(b"".join(parts))
    await writer.drain()


def _sends(make: Callable[[WireReply], bytes]) -> Break:
    """Return a fault that sends changed bytes as the response and closes the connection."""

    async def act(writer: asyncio.StreamWriter, reply: WireReply, _fault: Fault) -> None:
        await _send(writer, make(reply))

    return act


def _half(body: bytes) -> bytes:
    return body[: max(len(body) // 2, 1)]


def _chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


async def _reset(writer: asyncio.StreamWriter, reply: WireReply, fault: Fault) -> None:
    if fault.name == "reset-mid-body":
        await _send(writer, reply.head(), _half(reply.body))
        await asyncio.sleep(0.05)
    # With a linger time of zero, closing the socket resets the connection.
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


async def _hang(writer: asyncio.StreamWriter, reply: WireReply, fault: Fault) -> None:
    if fault.name == "hang-mid-body":
        await _send(writer, reply.head(), _half(reply.body))
    await asyncio.sleep(fault.seconds_or(_FOREVER))


async def _drip(writer: asyncio.StreamWriter, reply: WireReply, fault: Fault) -> None:
    await _send(writer, reply.head())
    for position in range(len(reply.body)):
        await _send(writer, reply.body[position : position + 1])
        await asyncio.sleep(fault.seconds_or(0.05))


async def _endless(writer: asyncio.StreamWriter, reply: WireReply, _fault: Fault) -> None:
    await _send(writer, reply.chunked_head(), _chunk(b'{"data":['))
    while not writer.is_closing():
        await _send(writer, _chunk(b'"more",' * 8192))


_AFTER = b'HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\n{"data":[],"meta":{}}'
_HINT = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"
_HUGE = b"X-Padding: " + b"x" * 200_000

WIRE_FAULTS: Mapping[str, tuple[str, Break]] = {
    "close": ("the connection closes before the first byte", _sends(lambda _: b"")),
    "reset": ("the connection is reset before the first byte", _reset),
    "reset-mid-body": ("the connection is reset in the middle of the body", _reset),
    "cut-status": ("the connection closes during the status line", _sends(lambda _: b"HTTP/1.1 2")),
    "cut-headers": ("the connection closes during the headers", _sends(lambda r: _half(r.head()))),
    "cut-body": (
        "the connection closes in the middle of the body",
        _sends(lambda r: r.head() + _half(r.body)),
    ),
    "cut-to-valid": (
        "there is no Content-Length, and the connection closes at a point where the JSON is valid",
        _sends(lambda r: r.status + b'\r\nConnection: close\r\n\r\n{"data":[],"meta":{}}'),
    ),
    "chunks-cut": (
        "a chunked body that is cut off partway through",
        _sends(lambda r: r.chunked_head() + _chunk(_half(r.body))),
    ),
    "chunks-unfinished": (
        "a complete chunked body without the final chunk",
        _sends(lambda r: r.chunked_head() + _chunk(r.body)),
    ),
    "chunk-size-bad": (
        "a chunk whose size is not a number",
        _sends(lambda r: r.chunked_head() + b"zz\r\n" + r.body),
    ),
    "chunks": (
        "a chunked body (valid)",
        _sends(lambda r: r.chunked_head(b"Connection: close") + _chunk(r.body) + b"0\r\n\r\n"),
    ),
    "hang": ("there is no response, either forever or for `seconds`", _hang),
    "hang-mid-body": ("half the body arrives, and then nothing", _hang),
    "drip": ("the body arrives one byte at a time, every 0.05 s (or every `seconds`)", _drip),
    "endless": ("the body never ends", _endless),
    "close-after": (
        "a good response, then the connection closes unannounced",
        _sends(lambda r: r.head() + r.body),
    ),
    "extra-bytes": (
        "a second response follows the first one",
        _sends(lambda r: r.head() + r.body + _AFTER),
    ),
    "status-bad": (
        "the status line is not valid HTTP",
        _sends(lambda r: b"HTTP/banana OK\r\n\r\n" + r.body),
    ),
    "headers-huge": ("200 KB of headers", _sends(lambda r: r.head(_HUGE) + r.body)),
    "lengths-two": (
        "two different Content-Length headers",
        _sends(lambda r: r.head(b"Content-Length: 5") + r.body),
    ),
    "length-and-chunks": (
        "both a Content-Length and chunks",
        _sends(lambda r: r.chunked_head(b"Content-Length: 5") + _chunk(r.body) + b"0\r\n\r\n"),
    ),
    "length-short": (
        "a Content-Length smaller than the body",
        _sends(lambda r: r.head(length=max(len(r.body) - 10, 0)) + r.body),
    ),
    "early-hints": (
        "103 Early Hints before the response (valid)",
        _sends(lambda r: _HINT + r.head(b"Connection: close") + r.body),
    ),
}
# A fault that refuses connections. Its socket is bound, but does not listen.
REFUSED = "refused"


async def start_front(
    listener: socket.socket, upstream: tuple[str, int], faults: Sequence[Fault], up: threading.Event
) -> asyncio.Server:
    """Start a proxy on a bound socket, in front of the application at `upstream`.

    The proxy listens immediately, or after the fault `refused` has ended. `up` is set when the
    proxy listens or starts to refuse connections.
    """
    counter = FaultCounter(fault for fault in faults if fault.name in WIRE_FAULTS)

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Ignore connection errors and cancellation, because a caller may disconnect at any time,
        # and the server may stop in the middle of a fault.
        with suppress(ConnectionError, asyncio.CancelledError):
            while (request := await read_request(reader)) is not None:
                due = next(iter(counter.due(request.path)), None)
                reply = await pass_on(request, upstream)
                if due is not None:
                    await WIRE_FAULTS[due.name][1](writer, reply, due)
                    break
                await _send(writer, reply.head(), reply.body)
        writer.close()

    for fault in faults:
        if fault.name == REFUSED:
            up.set()
            await asyncio.sleep(fault.seconds_or(_FOREVER))
    server = await asyncio.start_server(converse, sock=listener, limit=_MAX_HEAD)
    up.set()
    return server


@contextmanager
def serve(app: ASGIApp, faults: Iterable[Fault] = ()) -> Iterator[RunningServer]:
    """Serve an application on a free port, with the wire faults among these faults.

    Pass the same faults to the application too, which simulates all other faults.
    """
    broken = tuple(fault for fault in faults if fault.name in {*WIRE_FAULTS, REFUSED})
    with server.serve(app) as inner:
        if not broken:
            yield inner
            return
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
            listener.bind((inner.host, 0))
            with _front(listener, (inner.host, inner.port), broken):
                yield RunningServer(*listener.getsockname()[:2])


@contextmanager
def _front(
    listener: socket.socket, upstream: tuple[str, int], faults: tuple[Fault, ...]
) -> Iterator[None]:
    """Run the proxy that simulates wire faults, in a separate thread, for the `with` block."""
    up = threading.Event()
    tasks: list[asyncio.Task[None]] = []

    async def run() -> None:
        task = asyncio.current_task()
        tasks.extend([task] if task else [])
        server = await start_front(listener, upstream, faults, up)
        try:
            await asyncio.Event().wait()
        finally:
            # Do not wait for the server, because a fault may keep a connection open forever.
            server.close()

    def in_thread() -> None:
        with suppress(asyncio.CancelledError):
            asyncio.run(run())

    thread = threading.Thread(target=in_thread, name="sandbox-front", daemon=True)
    thread.start()
    up.wait(timeout=10)
    try:
        yield
    finally:
        for task in tasks:
            task.get_loop().call_soon_threadsafe(task.cancel)
        thread.join(timeout=10)
