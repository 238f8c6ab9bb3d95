"""A proxy between a program and its object store, which causes a failure at a chosen request.

The proxy counts the requests. At the chosen request, it kills the program before the store gets the
request, after the store gets half of it or after the store handles it. Or it drops the response.
"""

import contextlib
import http.client
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import SplitResult, urlsplit

BEFORE, TORN, AFTER, LOST = "before", "torn", "after", "lost"
KILLS = (BEFORE, TORN, AFTER)
OWN = ("transfer-encoding", "content-length", "connection", "date", "server")


@dataclass(slots=True)
class Worst:
    """The failure, the request that fails, the process to kill, and the requests so far."""

    what: str = ""
    at: int = 0
    process: int = 0
    verb: str = ""
    seen: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def forget(self, what: str = "", at: int = 0, verb: str = "") -> None:
        """Choose a new failure, and restart the count."""
        self.what, self.at, self.verb = what, at, verb
        self.seen.clear()

    def due(self, verb: str, path: str) -> str:
        """Return the failure of a request, or "". If a verb is set, count only its requests."""
        with self._lock:
            if self.verb in ("", verb):
                self.seen.append(f"{verb} {path}")
                return self.what if len(self.seen) == self.at else ""
            return ""

    def kill(self) -> None:
        """Kill the process at once."""
        os.kill(self.process, signal.SIGKILL)


class _Handler(BaseHTTPRequestHandler):
    """A handler that passes a request on to the store, or causes the failure."""

    protocol_version = "HTTP/1.1"
    worst: ClassVar[Worst]
    target: ClassVar[SplitResult]

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        due = self.worst.due(self.command, self.path)
        if due == TORN:
            self._send_half(body)
        if due in (BEFORE, TORN):
            self.worst.kill()
            self.close_connection = True
            return
        host, port = str(self.target.hostname), self.target.port
        with contextlib.closing(http.client.HTTPConnection(host, port, timeout=60)) as store:
            store.request(self.command, self.path, body or None, dict(self.headers))
            answer = store.getresponse()
            content = answer.read()
        if due == AFTER:
            self.worst.kill()
        if due in (AFTER, LOST):
            self.close_connection = True
            return
        self._answer(answer, content)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _pass  # noqa: N815 - inherited names

    def _send_half(self, body: bytes) -> None:
        lines = [f"{self.command} {self.path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        head = "\r\n".join([*lines, "", ""]).encode()
        with socket.create_connection((str(self.target.hostname), self.target.port or 80)) as half:
            half.sendall(head + body[: len(body) // 2])

    def _answer(self, answer: http.client.HTTPResponse, content: bytes) -> None:
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in OWN:
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else None
        self.send_header("Content-Length", length or str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - inherited name
        """Write no log."""


@contextmanager
def proxied(endpoint: str) -> Iterator[tuple[str, Worst]]:
    """Start a proxy for a store. Yield its address, and the failure that it causes."""
    worst, target = Worst(), urlsplit(endpoint)
    handler = type("Handler", (_Handler,), {"worst": worst, "target": target})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}{target.path}", worst
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
