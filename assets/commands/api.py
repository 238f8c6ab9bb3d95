"""`nightbook api PATH`: send one signed GET request and show the API's response."""

import json
import re
import sys
from typing import Any

import click
from click import argument, option

from assets.console.command import HomeCommand
from assets.nightbook import Nightbook
from pipelines.edge.client import EdgeClient
from pipelines.edge.requests import raw_call
from pipelines.edge.signing import Credentials

# Control characters (except JSON whitespace), line separators, and text direction marks.
_TERMINAL_CONTROLS = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\r(?!\n)"
)


class KeyValue(click.ParamType[tuple[str, str]]):
    """The parameter type for a name and a value."""

    name = "K=V"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Split the text at the first equals sign."""
        name, equals, text = value.partition("=")
        if not equals or not name:
            self.fail(f"{value!r} does not have the form K=V. Nothing was sent.", param, ctx)
        return name, text


@click.command(cls=HomeCommand, needs_home=False, prints_result=True)
@argument("path", help="API path to request, for example /venues")
@option("--query", type=KeyValue(), multiple=True, help="Add a query parameter (repeatable)")
def api_command(nightbook: Nightbook, *, path: str, query: tuple[tuple[str, str], ...]) -> int:
    """Send one signed GET request and print the response."""
    # Print the body unchanged, except that control characters are escaped in a terminal.
    settings = nightbook.settings(api=True)
    access = settings.access
    call = raw_call(path, query)
    if access is None:
        return 1
    with EdgeClient(
        access.url,
        Credentials(access.key, access.secret),
        deadline=settings.deadline,
        ca_file=access.ca_file,
        clock=lambda: int(nightbook.now().timestamp() * 1000),
    ) as client:
        response = client.fetch(call)
        body = bytes(response.body.buffer())
        response.body.close()
    is_terminal = sys.stdout.isatty()
    sys.stdout.flush()
    sys.stdout.buffer.write(_printable_body(body) if is_terminal else body)
    sys.stdout.buffer.flush()
    if is_terminal and not body.endswith(b"\n"):
        # Print a line break, so that the shell's next prompt starts on a new line.
        print(file=sys.stderr)
    return 0


def _printable_body(body: bytes) -> bytes:
    """Replace control characters with JSON escapes, so that a terminal can show the body safely."""
    # The only control characters that strict JSON may contain unescaped are DEL, C1 controls and
    # text direction marks.
    return _TERMINAL_CONTROLS.sub(lambda match: json.dumps(match[0])[1:-1], body.decode()).encode()
