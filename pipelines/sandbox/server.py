"""The sandbox as a server: an ASGI application on a real socket."""

import asyncio
import ipaddress
import random
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from email.utils import formatdate

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose
from uvicorn.protocols.http.h11_impl import H11Protocol

from pipelines.sandbox import specification
from pipelines.sandbox.authentication import Caller, SignedParts
from pipelines.sandbox.faults.catalog import of_application, of_wire
from pipelines.sandbox.faults.wire import start_front
from pipelines.sandbox.faults.worlds import Fault
from pipelines.sandbox.options import Choices
from pipelines.sandbox.service import Service, answer, apply_faults, server_error
from pipelines.sandbox.specification import RefusalError, SandboxResponse, encode, error_answer
from pipelines.sandbox.world.world import Calendar

DEMO_KEY = "demo-key-of-nobody"
DEMO_SECRET = "demo-secret-that-guards-nothing"  # noqa: S105 - public, it guards an invented world
DEMO_KEYS: Mapping[str, Caller] = {DEMO_KEY: Caller(DEMO_SECRET)}

_BACKLOG = 512


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that is up: where it listens."""

    host: str
    port: int

    @property
    def origin(self) -> str:
        """The address to give to a client, without a path."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def unix_ms() -> int:
    """Return this machine's time in Unix milliseconds: a server's clock outside tests."""
    return time.time_ns() // 1_000_000


@contextmanager
def serve(
    app: ASGIApp, host: str = "127.0.0.1", port: int = 0, faults: Iterable[Fault] = ()
) -> Iterator[RunningServer]:
    """The application on a loopback socket, from a thread, until the block ends.

    Port 0 takes a free one. Of the faults, those of the wire are shown here; give the same ones
    to the application for the others. Raises ValueError for a host that is not loopback, and
    OSError where the port is taken.
    """
    broken = of_wire(faults)
    with _bind(host, port) as listener:
        served = RunningServer(*listener.getsockname()[:2])
        if not broken:
            listener.listen(_BACKLOG)
            with _uvicorn(app, listener):
                yield served
            return
        with _bind("127.0.0.1", 0) as inner:
            inner.listen(_BACKLOG)
            with _uvicorn(app, inner), _front(listener, inner.getsockname(), broken):
                yield served


def _bind(host: str, port: int) -> socket.socket:
    """Return a socket with an address, which does not listen yet."""
    address = "127.0.0.1" if host == "localhost" else host
    try:
        loopback = ipaddress.ip_address(address).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        message = (
            f"The sandbox was asked to listen on {host!r}, and only listens on this machine "
            "itself: it speaks plain http with public credentials. Use 127.0.0.1, ::1 or "
            "localhost. No socket was opened."
        )
        raise ValueError(message)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # Named as TCP, or asyncio leaves TCP_NODELAY off and every answer of a kept connection waits
    # 40 ms for an acknowledgement.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((address, port))
    except OSError:
        bound.close()
        raise
    return bound


@contextmanager
def _front(
    listener: socket.socket, upstream: tuple[str, int], faults: tuple[Fault, ...]
) -> Iterator[None]:
    """The front that breaks bytes, from a thread of its own, until the block ends."""
    up = threading.Event()
    tasks: list[asyncio.Task[None]] = []

    async def run() -> None:
        task = asyncio.current_task()
        tasks.extend([task] if task else [])
        server = await start_front(listener, upstream, faults, up)
        try:
            await asyncio.Event().wait()
        finally:
            # Not awaited: a connection that hangs on purpose would never be through.
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


class _EnvelopeProtocol(H11Protocol):
    """HTTP that refuses bytes which are no request in the envelope, not in bare text (7)."""

    def send_400_response(self, msg: str) -> None:
        body = error_answer(RefusalError(400, ("PARAMETER_INVALID", msg)), {}).body
        head = (
            "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()


@contextmanager
def _uvicorn(app: ASGIApp, listener: socket.socket) -> Iterator[None]:
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=_EnvelopeProtocol,  # h11 keeps the target as it came: the signature is over it (5.2)
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,  # the application sends its own, from the clock it is given
        timeout_graceful_shutdown=1,
        backlog=_BACKLOG,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listener]}, name="sandbox", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(timeout=10)


_LONGEST_BODY = 64 * 1024


def application(
    world: Calendar,
    keys: Mapping[str, Caller],
    clock: Callable[[], int],
    choices: Choices = Choices(),  # noqa: B008 - frozen, so one instance may be everybody's
    faults: Iterable[Fault] = (),
    *,
    today: Callable[[], date] | None = None,
    rng: random.Random | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Starlette:
    """Return the API over a world, for these callers.

    `clock` is Unix time in milliseconds; `today` the day of the world that is served, by default
    the UTC date of the clock; `rng` decides the order of lists and nothing else; `sleep` is how
    a slow answer waits. Faults of the wire are not shown here, but by the server's socket.
    """
    described = encode(specification.description(choices))
    service = Service(
        world=world,
        keys=keys,
        clock=clock,
        today=today or (lambda: datetime.fromtimestamp(clock() / 1000, UTC).date()),
        rng=rng or random.Random(),  # noqa: S311 - shuffles lists, guards nothing
        choices=choices,
        rehearsal=of_application(faults),
    )

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await WebSocketClose()(scope, receive, send)
            return
        if scope["raw_path"] == specification.PATH.encode() and scope["method"] == "GET":
            await _response(SandboxResponse(200, described), service)(scope, receive, send)
            return
        request = Request(scope, receive)
        body = await _body(request)
        met = apply_faults(service, scope["raw_path"])
        if met.trouble.delay:
            await sleep(met.trouble.delay)
        reply = _response(answer(met, _read_signature(request, body), scope["query_string"]), met)
        await reply(scope, receive, send)

    async def broken(_request: Request, _error: Exception) -> Response:
        return _response(server_error(choices), service)

    app = Starlette(exception_handlers={Exception: broken})
    # Starlette routes over decoded paths; ours may hold an encoded slash, so it routes nothing.
    app.router.default = serve
    return app


def _read_signature(request: Request, body: bytes) -> SignedParts:
    headers = [
        (name.decode("latin-1").lower(), value.decode("latin-1"))
        for name, value in request.headers.raw
    ]
    return SignedParts(request.method, request.scope["raw_path"], body, headers)


async def _body(request: Request) -> bytes:
    """Read the body, which is signed too (5.2), up to where no honest caller goes."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LONGEST_BODY:
            break
    return body


def _response(reply: SandboxResponse, service: Service) -> Response:
    headers = {
        "Content-Type": service.choices.content_type,
        # The server's own clock, so that a caller can measure how far off its clock is.
        "Date": formatdate(service.clock() / 1000, usegmt=True),
    }
    since = service.choices.deprecated_since
    if since is not None:
        headers |= {"Deprecation": since, "Sunset": since}
    headers |= dict(reply.headers)
    # An empty value is how a fault leaves a header out.
    sent = {name: value for name, value in headers.items() if value}
    return Response(reply.body, reply.status, sent)
