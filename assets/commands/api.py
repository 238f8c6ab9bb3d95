"""`nightbook api PATH`: one signed GET, for a person who wants to see what the API says."""

import argparse
import json
import sys

from assets.resources import Nightbook
from pipelines.edge import protocol
from pipelines.edge.auth import Credentials
from pipelines.edge.client import EdgeClient


class NotAPair(Exception):
    """A query that is not of the form K=V."""

    exit_code = 2

    def __init__(self, text: str) -> None:
        super().__init__(f"--query {text!r} is not of the form K=V. Nothing was sent.")


def run(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    """Print the body: readable in a terminal, byte for byte into a file or pipe."""
    settings = nightbook.settings(api=True)
    access = settings.access
    call = protocol.raw_call(arguments.path, [_pair(text) for text in arguments.query])
    if access is None:
        return 1
    with EdgeClient(
        access.url,
        Credentials(access.key, access.secret),
        deadline=settings.deadline,
        clock=lambda: int(nightbook.now().timestamp() * 1000),
    ) as client:
        reply = client.fetch(call)
        body = bytes(reply.body.buffer())
        reply.body.close()
    if sys.stdout.isatty():
        print(json.dumps(json.loads(body, parse_float=str), indent=2))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(body)
        sys.stdout.buffer.flush()
    return 0


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise NotAPair(text)
    return name, value
