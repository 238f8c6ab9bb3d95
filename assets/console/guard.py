"""A guard in front of a server without a login: it refuses requests that other pages may send."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK_NAMES: Final = frozenset({"127.0.0.1", "::1", "localhost"})
FORBIDDEN = 403
POLICY_VIOLATION = 1008
LONGEST_NAME = 80
NO_FRAMES = ((b"x-frame-options", b"SAMEORIGIN"),)
"""A header that prevents other sites from embedding our pages, to avoid clickjacking."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The HTTP status and the message for a refused request."""

    status: int
    message: str


Check = Callable[[Scope, Headers], Refusal | None]


@dataclass(frozen=True, slots=True)
class Guard:
    """An ASGI application that checks each request before it reaches the wrapped application.

    `names` are additional host names under which a proxy with a login may reach this server. If
    `check` is set, it can refuse further HTTP requests. Each response gets the `headers`.
    """

    application: ASGIApp
    names: frozenset[str] = frozenset()
    check: Check | None = None
    headers: Sequence[tuple[bytes, bytes]] = NO_FRAMES

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request to the application, or refuse it with a message."""
        if scope["type"] not in ("http", "websocket"):
            await self.application(scope, receive, send)
            return
        refusal = refusal_of(scope, self.names)
        if refusal is None and self.check is not None and scope["type"] == "http":
            refusal = self.check(scope, Headers(scope=scope))
        if refusal is None:
            await self.application(scope, receive, self._with_headers(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        else:
            response = PlainTextResponse(f"{refusal.message}\n", refusal.status)
            await response(scope, receive, self._with_headers(send))

    def _with_headers(self, send: Send) -> Send:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *self.headers]}
            await send(message)

        return sending


def refusal_of(scope: Scope, names: Iterable[str] = ()) -> Refusal | None:
    """Check a request. Returns the refusal, or None if the request may be forwarded."""
    headers, known_names = Headers(scope=scope), frozenset(name.lower() for name in names)
    host = _server(headers)
    if host is None or host.hostname not in LOOPBACK_NAMES | known_names:
        name = headers.get("host", "")[:LONGEST_NAME]
        return Refusal(
            FORBIDDEN,
            f"This server does not accept the host name {name!r}, because a page from another "
            "server could send such a request. Nothing was done. Open http://127.0.0.1 with this "
            "server's port. If a proxy uses a different host name, restart this server with "
            "--host-name NAME.",
        )
    if _is_foreign(headers, host, known_names):
        return Refusal(
            FORBIDDEN,
            "A page from a different server sent this request, so nothing was done. Send it from "
            "this server's own page.",
        )
    return None


def _server(headers: Headers) -> SplitResult | None:
    hosts = headers.getlist("host")
    return _split(f"//{hosts[0]}") if len(hosts) == 1 else None


def _split(address: str) -> SplitResult | None:
    """Parse an address. Return None if it is invalid."""
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _is_foreign(headers: Headers, host: SplitResult, names: frozenset[str]) -> bool:
    """Return whether browser headers show that the request comes from another server's page."""
    # Allow navigation from any page, because alerts contain links to pages. Programs that are not
    # browsers send neither `Origin` nor `Sec-Fetch-Site`.
    for address in headers.getlist("origin"):
        origin = _split(address)
        if origin is None or not origin.hostname:
            return True
        # Allow all configured host names, because a proxy may change the `Host` header that the
        # browser sent.
        if origin.netloc.lower() != host.netloc.lower() and origin.hostname not in names:
            return True
    site = headers.get("sec-fetch-site", "none")
    is_link = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == (
        "navigate",
        "document",
    )
    return site not in ("same-origin", "none") and not is_link
