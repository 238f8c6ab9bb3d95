"""The sandbox server: an ASGI application, and the sockets it listens on."""

import asyncio
import ipaddress
import random
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
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

from pipelines.sandbox.authentication import Caller, SignedParts
from pipelines.sandbox.faults import Fault, FaultCounter, Scene, delay_of
from pipelines.sandbox.options import Choices
from pipelines.sandbox.service import Service, answer, apply_faults, server_error
from pipelines.sandbox.specification import RefusalError, SandboxResponse, error_response
from pipelines.sandbox.world.world import Calendar

DEMO_KEY = "demo-key-of-nobody"
DEMO_SECRET = "demo-secret-that-guards-nothing"  # noqa: S105 - public, because the data is invented
DEMO_KEYS: Mapping[str, Caller] = {DEMO_KEY: Caller(DEMO_SECRET)}

_BACKLOG = 512

_MAX_BODY = 64 * 1024


@dataclass(frozen=True, slots=True)
class RunningServer:
    """The address of a running sandbox server."""

    host: str
    port: int

    @property
    def origin(self) -> str:
        """The base URL for clients, without a path."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


class _EnvelopeProtocol(H11Protocol):
    """An HTTP protocol that answers malformed requests with a JSON error envelope (§7)."""

    def send_400_response(self, msg: str) -> None:
        body = error_response(RefusalError(400, ("PARAMETER_INVALID", msg)), {}).body
        head = (
            "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()


def unix_ms() -> int:
    """Return this machine's Unix time in milliseconds. Tests use a different clock."""
    return time.time_ns() // 1_000_000


@contextmanager
def serve(app: ASGIApp, host: str = "127.0.0.1", port: int = 0) -> Iterator[RunningServer]:
    """Serve an ASGI application on a loopback address, in a thread, for the `with` block.

    Port 0 selects a free port. Raises ValueError if the host is not a loopback address, and OSError
    if the port is in use.
    """
    with _bind(host, port) as listener:
        listener.listen(_BACKLOG)
        with _uvicorn(app, listener):
            yield RunningServer(*listener.getsockname()[:2])


def application(
    world: Calendar,
    keys: Mapping[str, Caller],
    clock: Callable[[], int],
    choices: Choices = Choices(),  # noqa: B008 - immutable, so calls can share the instance
    faults: Iterable[Fault] = (),
    *,
    today: Callable[[], date] | None = None,
    rng: random.Random | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Starlette:
    """Return the ASGI application that serves a world to callers with these keys.

    `clock` returns Unix time in milliseconds. `today` returns the date for which to serve the
    world, by default the clock's UTC date. `rng` only determines the order of lists, and `sleep` is
    used for slow responses.
    """
    service = Service(
        scene=Scene(
            world=world,
            keys=keys,
            clock=clock,
            today=today or (lambda: datetime.fromtimestamp(clock() / 1000, UTC).date()),
        ),
        rng=rng or random.Random(),  # noqa: S311 - shuffles lists, guards nothing
        choices=choices,
        faults=FaultCounter(faults),
    )

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await WebSocketClose()(scope, receive, send)
            return
        request = Request(scope, receive)
        body = await _body(request)
        faulty = apply_faults(service, scope["raw_path"])
        if delay := delay_of(faulty.due):
            await sleep(delay)
        answered = answer(faulty, _signed_parts(request, body), scope["query_string"])
        await _response(answered, faulty)(scope, receive, send)

    async def handle_error(_request: Request, _error: Exception) -> Response:
        return _response(server_error(choices), service)

    app = Starlette(exception_handlers={Exception: handle_error})
    # Do not use Starlette's routes, because they match decoded paths, and an ID may contain an
    # encoded slash.
    app.router.default = serve
    return app


def _bind(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to a loopback address, but is not listening yet."""
    address = "127.0.0.1" if host == "localhost" else host
    try:
        loopback = ipaddress.ip_address(address).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        message = (
            f"The sandbox cannot listen on {host!r}. It accepts connections only from this "
            "machine, because it uses plain HTTP and public credentials. Use 127.0.0.1, ::1 or "
            "localhost. No socket was opened."
        )
        raise ValueError(message)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # Specify the protocol. Otherwise asyncio does not set TCP_NODELAY, and each response on a
    # persistent connection waits 40 ms for an acknowledgement.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((address, port))
    except OSError:
        bound.close()
        raise
    return bound


@contextmanager
def _uvicorn(app: ASGIApp, listener: socket.socket) -> Iterator[None]:
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=_EnvelopeProtocol,  # h11 preserves the path's bytes, which are signed (§5.2)
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,  # the application sends the date from its own clock
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


def _signed_parts(request: Request, body: bytes) -> SignedParts:
    headers = [
        (name.decode("latin-1").lower(), value.decode("latin-1"))
        for name, value in request.headers.raw
    ]
    return SignedParts(request.method, request.scope["raw_path"], body, headers)


async def _body(request: Request) -> bytes:
    """Read the request body, which is signed (§5.2). Stop if the body is too long to be valid."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_BODY:
            break
    return body


def _response(response: SandboxResponse, service: Service) -> Response:
    headers = {
        "Content-Type": service.choices.content_type,
        # Send the server's time, so that callers can measure the skew of their own clocks.
        "Date": formatdate(service.scene.clock() / 1000, usegmt=True),
    }
    since = service.choices.deprecated_since
    if since is not None:
        headers |= {"Deprecation": since, "Sunset": since}
    headers |= dict(response.headers)
    # A fault removes a header by setting it to an empty string.
    sent = {name: value for name, value in headers.items() if value}
    return Response(response.body, response.status, sent)
