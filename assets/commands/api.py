"""`nightbook api PATH`: one signed GET, for a person who wants to see what the API says."""

import json
import re
import sys

from assets.nightbook import Nightbook
from pipelines.edge.client import EdgeClient
from pipelines.edge.requests import raw_call
from pipelines.edge.signing import Credentials

# All controls but the white space of JSON, line separators, and what turns the direction of text.
_STEERS = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\r(?!\n)"
)


def run(nightbook: Nightbook, *, path: str, query: tuple[tuple[str, str], ...]) -> int:
    """Print the body as it came; in a terminal but for letters that would move its cursor."""
    settings = nightbook.settings(api=True)
    access = settings.access
    call = raw_call(path, query)
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
    is_terminal = sys.stdout.isatty()
    sys.stdout.flush()
    sys.stdout.buffer.write(_printable_body(body) if is_terminal else body)
    sys.stdout.buffer.flush()
    if is_terminal and not body.endswith(b"\n"):
        print(file=sys.stderr)  # so that the next prompt has a line of its own
    return 0


def _printable_body(body: bytes) -> bytes:
    """Return a body as a terminal may have it: what would steer it is written as JSON's escape."""
    # Of strict JSON only DEL, the C1 controls and marks of direction can stand there as they are.
    return _STEERS.sub(lambda match: json.dumps(match[0])[1:-1], body.decode()).encode()
