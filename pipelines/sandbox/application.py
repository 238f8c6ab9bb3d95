"""The API as one ASGI application: every request answered with the envelope, whatever it is (2.9).

The order in which a request is judged: the prefix, the caller, the path, the method, the
parameters, and only then the resource.
"""

import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from email.utils import formatdate

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketClose

from pipelines.sandbox.authentication import Caller, Signed, authenticate
from pipelines.sandbox.choices import Choices
from pipelines.sandbox.declaration import PREFIX
from pipelines.sandbox.queries import Query, check_method, find, understand
from pipelines.sandbox.reading import arranged, formed, read
from pipelines.sandbox.refusals import Answer, RefusalError, encode, error_answer
from pipelines.sandbox.world import Calendar, Record

_LONGEST_BODY = 64 * 1024


@dataclass(frozen=True, slots=True)
class Service:
    """Everything that an answer depends on, beside the request."""

    world: Calendar
    keys: Mapping[str, Caller]
    clock: Callable[[], int]  # Unix time in milliseconds
    today: Callable[[], date]  # the day of the world that is served
    rng: random.Random
    choices: Choices
    recent: deque[int] = field(default_factory=deque)  # when the last requests came


def application(
    world: Calendar,
    keys: Mapping[str, Caller],
    clock: Callable[[], int],
    choices: Choices = Choices(),  # noqa: B008 - frozen, so one instance may be everybody's
    *,
    today: Callable[[], date] | None = None,
    rng: random.Random | None = None,
) -> Starlette:
    """The API over a world, for these callers.

    `clock` is Unix time in milliseconds; `today` the day of the world that is served, by default
    the UTC date of the clock; `rng` decides the order of lists and nothing else.
    """

    def utc_day() -> date:
        return datetime.fromtimestamp(clock() / 1000, UTC).date()

    order = rng or random.Random()  # noqa: S311 - shuffles lists, guards nothing
    service = Service(world, keys, clock, today or utc_day, order, choices)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await WebSocketClose()(scope, receive, send)
            return
        request = Request(scope, receive)
        given = await _body(request)
        reply = _response(answer(service, _signed(request, given), scope["query_string"]), service)
        await reply(scope, receive, send)

    async def broken(_request: Request, _error: Exception) -> Response:
        return _response(_server_error(choices), service)

    app = Starlette(exception_handlers={Exception: broken})
    # Starlette routes over decoded paths; ours may hold an encoded slash, so it routes nothing.
    app.router.default = serve
    return app


def answer(service: Service, request: Signed, query: bytes) -> Answer:
    """The answer to one request; a refusal is an answer too."""
    choices = service.choices
    try:
        body = _judged(service, request, query)
    except RefusalError as refusal:
        return error_answer(refusal, choices.meta)
    return Answer(200, body)


def _judged(service: Service, request: Signed, query: bytes) -> bytes:
    choices = service.choices
    base = choices.gateway + PREFIX
    if not request.path.startswith(f"{base}/".encode()):
        find(request.path, choices)
    caller = authenticate(_signed_part(request, choices), service.keys, service.clock(), choices)
    _check_rate(service)
    operation, raw_id = find(request.path, choices)
    check_method(request.method, choices)
    asked = understand(operation, raw_id, query, choices)
    return _envelope(service, asked, caller)


def _envelope(service: Service, asked: Query, caller: Caller) -> bytes:
    choices, resource = service.choices, asked.operation.resource
    records = read(asked, service.world.at(service.today()), caller, choices)
    records = formed(records, resource, choices)
    data: list[Record] = arranged(records, choices, service.rng)
    meta = dict(choices.meta)
    if not asked.operation.many:
        return encode({"data": data[0], "meta": meta})
    if choices.page_size is not None and len(data) > choices.page_size:
        meta["next"] = str(choices.page_size)
        data = data[: choices.page_size]
    return encode({"data": data, "meta": meta})


def _signed(request: Request, body: bytes) -> Signed:
    headers = [
        (name.decode("latin-1").lower(), value.decode("latin-1"))
        for name, value in request.headers.raw
    ]
    return Signed(request.method, request.scope["raw_path"], body, headers)


def _signed_part(request: Signed, choices: Choices) -> Signed:
    """The request as it is signed: a gateway's own prefix is not part of the path (5.2)."""
    if choices.gateway_is_signed or not choices.gateway:
        return request
    path = request.path[len(choices.gateway.encode()) :]
    return Signed(request.method, path, request.body, request.headers)


async def _body(request: Request) -> bytes:
    """The body, which is signed like everything else; cut where no honest caller goes (5.2)."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LONGEST_BODY:
            break
    return body


def _check_rate(service: Service) -> None:
    """Refuses what is more than the requests of a second, where there is such a limit (8)."""
    limit = service.choices.requests_per_second
    if limit is None:
        return
    now = service.clock()
    while service.recent and now - service.recent[0] >= 1000:  # noqa: PLR2004 - ms of a second
        service.recent.popleft()
    if len(service.recent) >= limit:
        error = (service.choices.rate_limit_code, f"More than {limit} requests in a second.")
        raise RefusalError(429, error, headers={"Retry-After": "1"})
    service.recent.append(now)


def _server_error(choices: Choices) -> Answer:
    message = "The server failed. Nothing is wrong with the request."
    refusal = RefusalError(choices.server_error_status, ("INTERNAL_SERVER_ERROR", message))
    return error_answer(refusal, choices.meta)


def _response(reply: Answer, service: Service) -> Response:
    headers = {
        "Content-Type": service.choices.content_type,
        # The server's own clock, so that a caller can measure how far off its clock is.
        "Date": formatdate(service.clock() / 1000, usegmt=True),
    }
    since = service.choices.deprecated_since
    if since is not None:
        headers |= {"Deprecation": since, "Sunset": since}
    return Response(reply.body, reply.status, headers | dict(reply.headers))
