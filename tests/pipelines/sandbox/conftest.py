"""Fixtures of the sandbox's tests: a caller, which is written only from the specification.

It calls the application in memory and without an HTTP library, so that a test controls every byte
of the path.
"""

import asyncio
import hashlib
import hmac
import json
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from starlette.types import ASGIApp

from pipelines.sandbox.authentication import Caller
from pipelines.sandbox.options import Choices
from pipelines.sandbox.server import application
from pipelines.sandbox.world.world import LivingWorld

NOW = 1_795_000_000_000
DAY = date(2026, 11, 21)
SOME = frozenset(record["id"] for record in LivingWorld().at(DAY).portfolios[:2])
KEYS = {
    "all": Caller("secret-of-all"),
    "some": Caller("secret-of-some", SOME),
    "none": Caller("secret-of-none", frozenset()),
    "venues-only": Caller("secret-of-venues-only", resources=frozenset({"venues"})),
}


@dataclass(frozen=True, slots=True)
class Reply:
    """A response of the application."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The parsed JSON body."""
        return json.loads(self.body)

    @property
    def refusal(self) -> tuple[int, str]:
        """The status and the error code of an error envelope with one error."""
        [error] = self.json["errors"]
        return self.status, error["error"]


def sign(secret: str, method: str, path: str, timestamp: str, body: bytes = b"") -> str:
    """Compute the signature of 5.2, independently of the sandbox's code."""
    text = method.encode() + path.encode() + body + timestamp.encode()
    return hmac.new(secret.encode(), text, hashlib.sha384).hexdigest()


def call(
    path: str,
    query: str = "",
    *,
    app: ASGIApp | None = None,
    key: str = "all",
    method: str = "GET",
    prefix: str = "/edge/v1beta",
    timestamp: object = NOW,
    signature: str | None = None,
    body: bytes = b"",
    drop: str = "",
    **choices: Any,
) -> Reply:
    """Send a signed request. `drop` is a header to omit, and `choices` are fields of `Choices`."""
    target, at = prefix + path, str(timestamp)
    secret = KEYS[key].secret if key in KEYS else "unknown"
    headers = {
        "SVC-API-KEY": key,
        "SVC-API-TIMESTAMP": at,
        "SVC-API-SIGNATURE": signature or sign(secret, method, target, at, body),
    }
    headers.pop(drop, None)
    app = app or application(
        LivingWorld(), KEYS, lambda: NOW, Choices(**choices), today=lambda: DAY
    )
    return asyncio.run(drive(app, target, query, method=method, headers=headers, body=body))


async def drive(
    app: ASGIApp, target: str, query: str, *, method: str, headers: dict[str, str], body: bytes
) -> Reply:
    """Send a request through an ASGI application, and return the response."""
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": target,
        "raw_path": target.encode(),
        "query_string": query.encode(),
        "headers": [(k.lower().encode(), v.encode("latin-1")) for k, v in headers.items()],
    }
    await app(scope, receive, send)
    got = [(k.decode(), v.decode("latin-1")) for k, v in sent[0]["headers"]]
    content = b"".join(message.get("body", b"") for message in sent[1:])
    return Reply(sent[0]["status"], dict(got), content)


@pytest.fixture(scope="session")
def ask() -> Callable[..., Reply]:
    """Return the function that sends a signed request to the application in memory."""
    return call


@pytest.fixture(scope="session")
def signed() -> Callable[..., str]:
    """Return the function that computes signatures."""
    return sign


@pytest.fixture(scope="session")
def now() -> int:
    """Return the time of the application's clock, in Unix milliseconds."""
    return NOW


@pytest.fixture(scope="session")
def some() -> frozenset[str]:
    """Return the IDs of the portfolios that the caller `some` may access."""
    return SOME
