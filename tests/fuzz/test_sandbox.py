"""A fuzzer that reads the sandbox's OpenAPI document and sends signed requests to the sandbox."""

import hashlib
import hmac
import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipelines.sandbox.authentication import Caller
from pipelines.sandbox.options import Choices
from pipelines.sandbox.server import application, serve, unix_ms
from pipelines.sandbox.world.world import LivingWorld
from tests.support import environments
from tests.support.openapi import description

KEY, SECRET = "fuzzing-key", "fuzzing-secret"
FULL = LivingWorld().at(date(2026, 11, 21))
# Without the two largest portfolios, so that the fuzzer can read many more responses.
WORLD = replace(FULL, portfolios=FULL.portfolios[2:])
PORTFOLIOS, VENUES = b"/edge/v1beta/portfolios", b"/edge/v1beta/venues"
# A service that reports an unknown ID by its status, and checks the key before the timestamp.
TELLING = Choices(
    missing_status=404,
    checks=("authentication", "timestamp"),
    missing_timestamp=(401, "AUTHENTICATION_FAILED"),
)
# By default, an unknown ID returns 400, and a bad timestamp is reported before a bad key. The
# document allows both (4.6, 5.3), but the fuzzer reports them as valid requests that were refused.
WITHOUT = "positive_data_acceptance,ignored_auth"
REQUESTS, EXAMPLES = 1500, 200


@dataclass(slots=True)
class Watched:
    """An application that counts its signed requests and its responses by status."""

    app: ASGIApp
    signed: int = 0
    statuses: Counter[int] = field(default_factory=Counter)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        self.signed += _is_signed(scope)

        async def seen(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.statuses[message["status"]] += 1
            await send(message)

        await self.app(scope, receive, seen)


def _is_signed(scope: Scope) -> bool:
    """Return True if the signature is ours. Bodies are ignored, because a GET has none (5.2)."""
    headers = dict(scope["headers"])
    at = headers.get(b"svc-api-timestamp", b"")
    text = scope["method"].encode() + scope["raw_path"] + at
    digest = hmac.new(SECRET.encode(), text, hashlib.sha384).hexdigest()
    return headers.get(b"svc-api-signature") == digest.encode()


@contextmanager
def sandbox(choices: Choices) -> Iterator[tuple[Watched, str]]:
    """Serve a watched sandbox. Yield it and its origin."""
    watched = Watched(application(WORLD, {KEY: Caller(SECRET)}, unix_ms, choices))
    with serve(watched) as served:
        yield watched, served.origin


def fuzz(
    origin: str, choices: Choices, folder: Path, examples: int, seed: int, *, without: str = ""
) -> str:
    """Run the fuzzer. Return its report, or an empty string if it finds nothing."""
    (folder / "openapi.json").write_text(json.dumps(description(choices)))
    command = [
        *(
            str(environments.python("fuzz")),
            "-m",
            "schemathesis.cli",
            "run",
            "openapi.json",
        ),
        *("--url", origin),
        *("--checks", "all", "--continue-on-failure", "--no-color", "--no-shrink"),
        *("--max-examples", str(examples), "--seed", str(seed), "--warnings", "off"),
        *(("--exclude-checks", without) if without else ()),
    ]
    ours = {
        "SCHEMATHESIS_HOOKS": "signing",
        "PYTHONPATH": str(Path(__file__).parent),
        "FUZZ_KEY": KEY,
        "FUZZ_SECRET": SECRET,
    }
    ran = subprocess.run(
        command, cwd=folder, env=os.environ | ours, capture_output=True, text=True, check=False
    )
    assert ran.returncode in {0, 1}, ran.stdout + ran.stderr
    return ran.stdout if ran.returncode else ""


@pytest.mark.torture
@pytest.mark.parametrize("choices", [Choices(), TELLING], ids=["by default", "telling"])
def test_a_fuzzer_finds_no_violation(
    choices: Choices,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """Every response matches the description, and no request causes a server error."""
    seed = 0
    with sandbox(choices) as (watched, origin):
        while watched.signed < REQUESTS:
            seed += 1
            without = "" if choices is TELLING else WITHOUT
            assert fuzz(origin, choices, tmp_path, EXAMPLES, seed, without=without) == ""
    answers = {f"answered {status}": count for status, count in sorted(watched.statuses.items())}
    record_property("torture", ("fuzzer", {"signed requests": watched.signed, **answers}))
    assert not [status for status in watched.statuses if status >= 500]
    assert watched.statuses[200] > REQUESTS / 4


class Breaking:
    """A sandbox with one kind of response that contradicts its description."""

    def __init__(self, app: ASGIApp, path: bytes, old: bytes, new: bytes, status: int) -> None:
        self.app, self.path, self.old, self.new, self.status = app, path, old, new, status

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request. Change only a successful response below the path."""
        is_good = False

        async def changed(message: Message) -> None:
            nonlocal is_good
            if message["type"] == "http.response.start" and message["status"] == 200:
                is_good = True
                names = (b"content-length",)
                kept = [pair for pair in message["headers"] if pair[0].lower() not in names]
                message = {**message, "status": self.status, "headers": kept}
            elif message["type"] == "http.response.body" and is_good:
                message = {**message, "body": message["body"].replace(self.old, self.new)}
            await send(message)

        is_there = scope["raw_path"].startswith(self.path)
        await self.app(scope, receive, changed if is_there else send)


@pytest.mark.parametrize(
    ("path", "old", "new", "status", "finding"),
    [
        (PORTFOLIOS, b'"isCustomAsset":false', b'"isCustomAsset":0', 200, '0 is not of type "bool'),
        (PORTFOLIOS, b'"verified"', b'"approved"', 200, '"approved" is not one of "requested"'),
        (VENUES, b'"displayName":', b'"display":', 200, '"displayName" is a required property'),
        (VENUES, b'"meta":', b'"more":1,"meta":', 200, "('more' was unexpected)"),
        (VENUES, b"", b"", 500, "Server error"),
        (VENUES, b"", b"", 203, "Undocumented status code"),
    ],
    ids=["type", "enum", "missing field", "unknown field", "500", "status"],
)
@pytest.mark.torture
def test_the_fuzzer_finds_each_planted_violation(
    tmp_path: Path, *, path: bytes, old: bytes, new: bytes, status: int, finding: str
) -> None:
    """The fuzzer finds and names each of six violations, so the test above can fail."""
    app = application(WORLD, {KEY: Caller(SECRET)}, unix_ms, TELLING)
    with serve(Breaking(app, path, old, new, status)) as served:
        assert finding in fuzz(served.origin, TELLING, tmp_path, 4, 1)
