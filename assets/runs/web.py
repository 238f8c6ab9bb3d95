"""Dagster's web process, with a guard that checks every request."""

import contextlib
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final
from urllib.parse import SplitResult, parse_qs, urlsplit

import click
import dagster as dg
import uvicorn
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget
from dagster._utils.log import configure_loggers
from dagster_webserver.app import create_app_from_workspace_process_context
from graphql import GraphQLError, OperationDefinitionNode, OperationType, parse
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK_NAMES: Final = frozenset({"127.0.0.1", "::1", "localhost"})
JSON: Final = "application/json"
FORBIDDEN, NOT_ALLOWED, NOT_JSON = 403, 405, 415
POLICY_VIOLATION = 1008
LONGEST_NAME = 80


@dataclass(frozen=True, slots=True)
class Refusal:
    """The HTTP status and the message for a refused request."""

    status: int
    message: str


@dataclass(frozen=True, slots=True)
class Guard:
    """An ASGI application that checks each request before it reaches the wrapped application.

    `names` are additional host names under which a proxy with a login may reach this server.
    """

    application: ASGIApp
    names: frozenset[str] = frozenset()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request to the application, or refuse it with a message."""
        if scope["type"] not in ("http", "websocket"):
            await self.application(scope, receive, send)
            return
        refusal = refusal_of(scope, self.names)
        if refusal is None:
            await self.application(scope, receive, _forbid_frames(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        else:
            response = PlainTextResponse(f"{refusal.message}\n", refusal.status)
            await response(scope, receive, _forbid_frames(send))


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
            "server's port. If a proxy uses a different host name, run nightbook dev "
            "--host-name NAME.",
        )
    if _is_foreign(headers, host, known_names):
        return Refusal(
            FORBIDDEN,
            "A page from a different server sent this request, so nothing was done. Send it from "
            "Dagster's own page.",
        )
    return _check_change(scope, headers) if scope["type"] == "http" else None


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
    # Allow navigation from any page, because alerts contain links to runs. Programs that are not
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


def _check_change(scope: Scope, headers: Headers) -> Refusal | None:
    """Return a refusal for changes that are not sent as JSON, because forms cannot send JSON."""
    if scope["method"] in ("GET", "HEAD", "OPTIONS"):
        queries = parse_qs(scope["query_string"].decode("latin-1")).get("query", [])
        if not any(map(_changes, queries)):
            return None
        return Refusal(NOT_ALLOWED, "Nothing was done. Send mutations as JSON in a POST request.")
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == JSON and len(headers.getlist("content-type")) == 1:
        return None
    return Refusal(NOT_JSON, f"Nothing was done. Send changes as {JSON}.")


def _changes(query: str) -> bool:
    """Return whether a GraphQL document contains a mutation or subscription, or is invalid."""
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
    """Add a header that prevents other sites from embedding our pages, to avoid clickjacking."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ()), (b"x-frame-options", b"SAMEORIGIN")]
            message = {**message, "headers": headers}
        await send(message)

    return sending


# This module uses private modules of Dagster, because Dagster's own command cannot add a guard.


MODULE = "assets.definitions"
LOOPBACK = "127.0.0.1"
PORT = 3000
# The defaults of Dagster's own command: milliseconds, seconds, and number of connections.
STATEMENT_TIMEOUT, POOL_RECYCLE, POOL_OVERFLOW = 15_000, 3600, 20
SHUTDOWN_TIMEOUT = 5  # seconds that open requests have to finish


@click.command(help=__doc__)
@click.option("--host", default=LOOPBACK, help="Address to listen on.")
@click.option("--port", type=int, default=PORT)
@click.option("--host-name", "host_names", multiple=True, metavar="NAME")
@click.option("--log-format", default="colored", type=click.Choice(["colored", "json"]))
@click.option("-d", "--working-directory", required=True)
def main(
    host: str, port: int, host_names: tuple[str, ...], log_format: str, working_directory: str
) -> None:
    """Serve until Ctrl-C or SIGTERM. Then also stop all processes that this server started."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    configure_loggers(formatter=log_format, log_level="INFO")
    # Dagster stores the schedule's state under the module name, so that name must not change.
    target = ModuleTarget(MODULE, None, working_directory, MODULE)
    with (
        contextlib.suppress(KeyboardInterrupt),
        dg.DagsterInstance.get() as instance,
    ):
        instance.optimize_for_webserver(STATEMENT_TIMEOUT, POOL_RECYCLE, POOL_OVERFLOW)
        with WorkspaceProcessContext(
            instance,
            version=version("dagster-webserver"),
            read_only=False,
            workspace_load_target=target,
        ) as workspace:
            uvicorn.run(
                Guard(create_app_from_workspace_process_context(workspace), frozenset(host_names)),
                host=host,
                port=port,
                log_level="warning",
                timeout_graceful_shutdown=SHUTDOWN_TIMEOUT,
            )


if __name__ == "__main__":
    main()
