"""`nightbook serve`: read-only pages over the published book, on this machine."""

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import FrameType
from typing import Any, TypeVar

import click
import uvicorn
from click import option
from starlette.datastructures import Headers
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from assets.commands.sandbox import HOST_NAMES, LOOPBACK, PORT, require_free
from assets.commands.trace import trace_figures
from assets.console.command import HomeCommand
from assets.console.errors import is_ours
from assets.console.guard import Guard
from assets.console.invocation import program_version
from assets.home.demo import is_demo
from assets.monitoring.staleness import staleness_note
from assets.nightbook import Nightbook
from pipelines.landing.snapshots import newest
from warehouse.pages.answer import Answer, Context, answer, problem
from warehouse.pages.render import POLICY
from warehouse.pages.request import Refused, parse
from warehouse.pages.version import Versions

Result = TypeVar("Result")
WORKERS = 4  # prepare at most this many responses at the same time
LONGEST_HEAD = 256 * 1024  # an address may contain several encoded names of 10,000 characters
READING = ("GET", "HEAD")
NOT_ALLOWED, FAILED, NO_BOOK = 405, 500, 503
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"cache-control", b"no-cache"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)


class Pages:
    """The ASGI application of the pages. It answers requests in a few threads."""

    def __init__(self, nightbook: Nightbook) -> None:
        layout = nightbook.layout
        self._versions = Versions(layout)
        self._pool = ThreadPoolExecutor(WORKERS, "pages")
        self._is_closed = False
        self._context = Context(
            program=program_version(),
            is_demo=is_demo(layout),
            note=partial(_note, nightbook),
            trace=partial(trace_figures, nightbook),
        )

        # Open the book and read the start page, so that the first reader does not wait for that.
        self._answer({"method": "GET", "path": "/", "query_string": b"", "headers": []})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        found = await self._run(self._answer, scope)
        headers = dict(found.headers)
        if scope["method"] == "HEAD":
            response = Response(None, found.status, headers)
        else:
            response = StreamingResponse(self._chunks(found.body), found.status, headers)
        await response(scope, receive, send)

    def interrupt(self) -> None:
        """Stop all running queries, and start no others. Signal handlers may call this method."""
        self._is_closed = True
        self._versions.interrupt()

    def close(self) -> None:
        """Stop all running queries, and forget the requests that wait."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self.interrupt()

    def _answer(self, scope: Scope) -> Answer:
        if self._is_closed:
            return self._problem(NO_BOOK, "The pages have stopped.")
        if scope["method"] not in READING:
            refused = self._problem(NOT_ALLOWED, "These pages can only be read. Nothing was done.")
            return Answer(refused.status, {**refused.headers, "allow": "GET, HEAD"}, refused.body)
        tag = Headers(scope=scope).get("if-none-match", "")
        try:
            request = parse(scope["path"], scope["query_string"].decode("latin-1"))
            return answer(self._versions, request, self._context, tag)
        except Refused as error:
            return self._problem(error.status, str(error))
        except FileNotFoundError as error:
            return self._problem(NO_BOOK, str(error))
        except Exception as error:  # noqa: BLE001 - one failed response must not end the server
            self._log(error)
            message = f"{error}" if is_ours(error) else f"An unexpected error: {error}"
            return self._problem(FAILED, f"{message}. Nothing was changed. Run nightbook doctor.")

    def _problem(self, status: int, message: str) -> Answer:
        return problem(status, message, self._context.program)

    async def _chunks(self, body: Iterator[bytes]) -> AsyncIterator[bytes]:
        try:
            while (chunk := await self._run(next, body, None)) is not None:
                yield chunk
        except Exception as error:
            self._log(error)
            raise  # The connection is closed, so the reader learns that the file is not whole.

    def _log(self, error: Exception) -> None:
        if not self._is_closed:
            print(f"A response failed. {type(error).__name__}: {error}", file=sys.stderr)

    async def _run(self, function: Callable[..., Result], *values: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *values)


def _note(nightbook: Nightbook) -> str:
    """Return why the newest book is not from tonight, or an empty string."""
    if newest(nightbook.layout) is None:
        return "This home has no landed nights, so it is not known whether this book is the newest."
    return staleness_note(nightbook)


class Server(uvicorn.Server):
    """A server that stops all running queries as soon as a signal arrives."""

    def __init__(self, config: uvicorn.Config, pages: Pages) -> None:
        super().__init__(config)
        self._pages = pages

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop the queries and the server."""
        self._pages.interrupt()
        super().handle_exit(sig, frame)


def application(nightbook: Nightbook, names: tuple[str, ...] = ()) -> tuple[Guard, Pages]:
    """Return the guarded application, and the pages that it protects."""
    pages = Pages(nightbook)
    return Guard(pages, frozenset(names), headers=HEADERS), pages


@click.command(cls=HomeCommand)
@option("--port", **PORT, default=3001, show_default=True, help="Port of the pages")
@HOST_NAMES
def serve_command(nightbook: Nightbook, *, port: int, host_names: tuple[str, ...]) -> int:
    """Show the published book in a browser on this machine.

    The pages only read. Each table is also a CSV and a JSON file for spreadsheets and programs.
    """
    require_free(port, "serve")
    guarded, pages = application(nightbook, host_names)
    with socket.create_server((LOOPBACK, port)) as listener:
        config = uvicorn.Config(
            guarded,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",  # failures are logged here, without tracebacks
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=LONGEST_HEAD,
        )
        address = f"http://{LOOPBACK}:{listener.getsockname()[1]}"
        print(f"The book of {nightbook.layout.home}: {address}   (Ctrl-C stops it)")
        print(
            "The pages have no login and show the whole book, so do not make this port accessible "
            "to other people."
        )
        sys.stdout.flush()
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with contextlib.suppress(KeyboardInterrupt):
            Server(config, pages).run(sockets=[listener])
        pages.close()
    print("\nThe pages have stopped.")
    return 0
