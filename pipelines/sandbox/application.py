"""The API as one ASGI application: in memory for tests, on a socket for people.

Here is what HTTP needs: the raw path, the body, the headers. What is answered, the service says.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from email.utils import formatdate

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketClose

from pipelines.sandbox import openapi
from pipelines.sandbox.authentication import Caller, SignedParts
from pipelines.sandbox.errors import SandboxResponse, encode
from pipelines.sandbox.faults.catalog import of_application
from pipelines.sandbox.faults.scope import Fault
from pipelines.sandbox.options import Choices
from pipelines.sandbox.service import Service, answer, apply_faults, server_error
from pipelines.sandbox.world.world import Calendar

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
    described = encode(openapi.description(choices))
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
        if scope["raw_path"] == openapi.PATH.encode() and scope["method"] == "GET":
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
