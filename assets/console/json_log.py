"""Log lines: words for a person at a terminal, one JSON object a line for everything else.

A line has `time`, `level`, `event` and `words`, and where they are known `night`, `run`, `step` and
`snapshot`. The words are those that a person reads, so they hold no secret.
"""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from assets.nightbook import INFO, TOLD
from warehouse.query.printable import printable_json


def json_line(at: datetime, level: str, event: str, message: str, facts: Mapping[str, str]) -> str:
    """Return one line; unknown facts are left out, and nothing in it moves a cursor."""
    moment = at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    content = {"time": moment, "level": level, "event": event, "words": message}
    present = {name: value for name, value in facts.items() if value}
    return printable_json(json.dumps(content | present, ensure_ascii=False))


def _print(line: str) -> None:
    print(line, file=sys.stdout, flush=True)


@dataclass(frozen=True, slots=True)
class JsonLog:
    """Says JSON lines; `facts` are in each of them."""

    now: Callable[[], datetime]
    facts: Mapping[str, str] = field(default_factory=dict)
    write: Callable[[str], None] = _print

    def __call__(
        self, message: str, *, event: str = TOLD, level: str = INFO, snapshot: str = ""
    ) -> None:
        """Write one line."""
        facts = {**self.facts, "snapshot": snapshot}
        self.write(json_line(self.now(), level, event, message, facts))
