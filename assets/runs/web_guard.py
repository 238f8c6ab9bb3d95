"""Before the Dagster UI, which has no login: what a page of somebody else asks of it is refused.

Dagster obeys a mutation whoever sends it and however: by GET, as a form, with a foreign `Host` or
`Origin`. So any page in the operator's browser could stop the schedule. Here a request must name
this server, come from a page of this server or from no page, and change things by JSON alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, parse_qs, urlsplit

from graphql import GraphQLError, OperationDefinitionNode, OperationType, parse
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK_NAMES: Final = frozenset({"127.0.0.1", "::1", "localhost"})
JSON: Final = "application/json"
FORBIDDEN, NOT_ALLOWED, NOT_JSON = 403, 405, 415
POLICY_VIOLATION = 1008
SHOWN = 80


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not passed on, and the status that says so."""

    status: int
    message: str


@dataclass(frozen=True, slots=True)
class Guard:
    """An ASGI application before another; `names` are further names of this server."""

    # A name matters where a proxy with a login stands before it.

    application: ASGIApp
    names: frozenset[str] = frozenset()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it in words."""
        if scope["type"] not in ("http", "websocket"):
            await self.application(scope, receive, send)
            return
        refusal = refusal_of(scope, self.names)
        if refusal is None:
            await self.application(scope, receive, _forbid_frames(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        else:
            answer = PlainTextResponse(f"{refusal.message}\n", refusal.status)
            await answer(scope, receive, _forbid_frames(send))


def refusal_of(scope: Scope, names: Iterable[str] = ()) -> Refusal | None:
    """Return why a request is refused; None where it is passed on."""
    headers, known_names = Headers(scope=scope), frozenset(name.lower() for name in names)
    host = _server(headers)
    if host is None or host.hostname not in LOOPBACK_NAMES | known_names:
        name = headers.get("host", "")[:SHOWN]
        return Refusal(
            FORBIDDEN,
            f"This server does not answer as {name!r}, so nothing was done: a page of somebody "
            "else could ask under such a name. Open it as http://127.0.0.1 with its port; a name "
            "that a proxy gives it is told by nightbook dev --host-name NAME.",
        )
    if _is_foreign(headers, host, known_names):
        return Refusal(
            FORBIDDEN,
            "This was asked by a page of another server, so nothing was done. Open the page of "
            "Dagster itself and ask there.",
        )
    return _unsafe(scope, headers) if scope["type"] == "http" else None


def _server(headers: Headers) -> SplitResult | None:
    hosts = headers.getlist("host")
    return _split(f"//{hosts[0]}") if len(hosts) == 1 else None


def _split(address: str) -> SplitResult | None:
    """Return an address in its parts; None where it is none."""
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _is_foreign(headers: Headers, host: SplitResult, names: frozenset[str]) -> bool:
    """Whether a browser says that another server's page asks."""
    # A browser that follows a link to a page may come from anywhere: alerts name runs. Programs
    # that are no browser say neither `Origin` nor `Sec-Fetch-Site`.
    for address in headers.getlist("origin"):
        origin = _split(address)
        if origin is None or not origin.hostname:
            return True
        # A proxy may ask by another `Host` than the browser did.
        if origin.netloc.lower() != host.netloc.lower() and origin.hostname not in names:
            return True
    site = headers.get("sec-fetch-site", "none")
    is_link = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == (
        "navigate",
        "document",
    )
    return site not in ("same-origin", "none") and not is_link


def _unsafe(scope: Scope, headers: Headers) -> Refusal | None:
    """Refuse changes that do not come as JSON: no form and no link of another page can."""
    if scope["method"] in ("GET", "HEAD", "OPTIONS"):
        if not any(_changes(query) for query in _queries(scope)):
            return None
        return Refusal(NOT_ALLOWED, "A mutation is sent by POST, as JSON; nothing was done.")
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == JSON and len(headers.getlist("content-type")) == 1:
        return None
    return Refusal(NOT_JSON, f"What changes something is sent as {JSON}; nothing was done.")


def _queries(scope: Scope) -> list[str]:
    return parse_qs(scope["query_string"].decode("latin-1")).get("query", [])


def _changes(query: str) -> bool:
    """Whether a GraphQL text is anything but a question; what cannot be read may be."""
    try:
        document = parse(query)
    except (GraphQLError, RecursionError):
        return True
    return any(
        part.operation is not OperationType.QUERY
        for part in document.definitions
        if isinstance(part, OperationDefinitionNode)
    )


def _forbid_frames(send: Send) -> Send:
    """Let no other page show ours in a frame, where a click could be led to a button of ours."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ()), (b"x-frame-options", b"SAMEORIGIN")]
            message = {**message, "headers": headers}
        await send(message)

    return sending
