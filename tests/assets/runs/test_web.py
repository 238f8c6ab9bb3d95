"""Tests of the guard of Dagster's UI, which has no login: it refuses requests of other pages."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from assets.commands.install import UNITS
from assets.runs.instance import make_instance
from assets.runs.web import guard
from pipelines.sandbox.server import serve
from tests.support.shipped_units import environment, free_port, started, until
from warehouse.storage.layout import Layout

STOP = 'mutation { stopRunningSchedule(scheduleOriginId: "o") { __typename } }'
JSON = {"content-type": "application/json"}
PROXY = "books.example.com"
# Requests that a malicious page may send: the expected status, the method and the headers. A header
# `Host: {address}` is sent unless it is replaced here.
REFUSED = {
    "a name that was bound to this machine a second ago": (403, "GET", {"host": "evil.example"}),
    "such a name with our port": (403, "GET", {"host": "evil.example:{port}"}),
    "a name that begins as ours": (403, "GET", {"host": "127.0.0.1.evil.example"}),
    "a name with a user before it": (403, "GET", {"host": "127.0.0.1@evil.example"}),
    "no name": (403, "GET", {"host": ""}),
    "another page": (403, "POST", JSON | {"origin": "http://evil.example"}),
    "a page of another port": (403, "POST", JSON | {"origin": "http://127.0.0.1:1"}),
    "a page without an address": (403, "POST", JSON | {"origin": "null"}),
    "a picture of another page": (403, "GET", {"sec-fetch-site": "cross-site"}),
    "a frame of another page": (
        403,
        "GET",
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
    ),
    "a page of a neighbour's name": (403, "POST", JSON | {"sec-fetch-site": "same-site"}),
    "a mutation by GET": (405, "GET", {}),
    "a form": (415, "POST", {"content-type": "application/x-www-form-urlencoded"}),
    "a form of text": (415, "POST", {"content-type": "text/plain; application/json"}),
    "GraphQL as such": (415, "POST", {"content-type": "application/graphql"}),
    "nothing said of what it is": (415, "POST", {}),
}
PASSED = {
    "a page of ours": {"origin": "http://127.0.0.1:{port}", "sec-fetch-site": "same-origin"},
    "a program": {},
    "by the other name": {"host": "localhost:{port}", "origin": "http://localhost:{port}"},
    "in JSON of a charset": {"content-type": "application/json; charset=utf-8"},
}
LINK = {
    "sec-fetch-site": "cross-site",
    "sec-fetch-mode": "navigate",
    "sec-fetch-dest": "document",
}


async def obedient(scope: Scope, receive: Receive, send: Send) -> None:
    """Accept every request, as Dagster does."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        return
    await JSONResponse({"done": True})(scope, receive, send)


@contextmanager
def guarded(*names: str) -> Iterator[str]:
    """Serve the guard in front of the obedient application, and yield the address."""
    with serve(guard(obedient, names)) as served:
        yield served.origin


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Serve a guard without additional host names, and yield its address."""
    with guarded() as origin:
        yield origin


def asked(address: str, method: str, headers: dict[str, str], query: str = STOP) -> httpx.Response:
    """Send a GraphQL request and return the response. Only JSON requests have a body."""
    port = address.rpartition(":")[2]
    given = {name: value.format(port=port) for name, value in headers.items()}
    is_json = given.get("content-type", "").startswith("application/json")
    with httpx.Client(trust_env=False) as client:
        return client.request(
            method,
            f"{address}/graphql",
            params=None if is_json else {"query": query},
            headers=given,
            content=b'{"query": "%s"}' % query.replace('"', '\\"').encode() if is_json else None,
        )


@pytest.mark.parametrize("trick", REFUSED)
def test_requests_from_a_different_site_are_refused(address: str, trick: str) -> None:
    """A request that a different site's page may send is refused, and the response says so."""
    status, method, headers = REFUSED[trick]
    answer = asked(address, method, headers)
    assert answer.status_code == status
    assert "nothing was done" in answer.text.lower()


@pytest.mark.parametrize("way", PASSED)
def test_requests_from_the_ui_and_programs_are_accepted(address: str, way: str) -> None:
    """Requests from the UI's own page and from programs such as curl are accepted."""
    assert asked(address, "POST", JSON | PASSED[way]).status_code == 200


def test_links_open_pages_and_get_requests_change_no_data(address: str) -> None:
    """A link in an alert or mail opens the page, and GET requests may query but not change data."""
    with httpx.Client(trust_env=False) as client:
        page = client.get(f"{address}/runs/1", headers=LINK)
    assert page.status_code == 200
    assert page.headers["x-frame-options"] == "SAMEORIGIN"
    assert asked(address, "GET", {}, "{ version }").status_code == 200
    assert asked(address, "GET", {}, "subscription { x }").status_code == 405
    assert asked(address, "GET", {}, "{" * 5000).status_code == 405


def test_host_name_accepts_only_the_name_of_a_proxy() -> None:
    """With `--host-name`, a proxy's name is accepted, including over https, but no other name."""
    with guarded(PROXY) as address:
        for host in (PROXY, "127.0.0.1:3000"):
            headers = JSON | {"host": host, "origin": f"https://{PROXY}"}
            assert asked(address, "POST", headers).status_code == 200
        headers = JSON | {"host": PROXY, "origin": "https://evil.example"}
        assert asked(address, "POST", headers).status_code == 403


def test_the_shipped_ui_refuses_malicious_requests(tmp_path: Path) -> None:
    """The shipped unit's web process serves its own page and refuses all malicious requests."""
    home, log, port = tmp_path / "home", tmp_path / "web.log", str(free_port())
    make_instance(Layout(home))
    address = f"http://127.0.0.1:{port}"
    variables = environment(home, "http://127.0.0.1:9", {})
    with started(UNITS[1], home, variables, log, port):
        until("the UI is up", lambda: is_up(int(port)), log)
        for status, method, headers in REFUSED.values():
            assert asked(address, method, headers).status_code == status
        page = JSON | {"origin": address, "sec-fetch-site": "same-origin"}
        answer = asked(address, "POST", page, "{ version }")
        assert answer.json()["data"]["version"]
        assert upgraded(int(port), address).startswith("HTTP/1.1 101 ")
        assert upgraded(int(port), "http://evil.example").startswith("HTTP/1.1 403 ")


def is_up(port: int) -> bool:
    """Return whether a server listens on a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def upgraded(port: int, origin: str) -> str:
    """Return the first line of the response to a WebSocket request from a page of an origin."""
    head = (
        f"GET /graphql HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: {origin}\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: graphql-ws\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(head.encode())
        return connection.recv(200).decode("latin-1").partition("\r\n")[0]
