"""Log lines for programs: one JSON object for each line.

A line has `time`, `level`, `event` and `words`, and `night`, `run`, `step` and `snapshot` if they
are known. `words` is the message that a person sees at a terminal, so it contains no secret.
"""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from assets.nightbook import INFO, TOLD
from warehouse.query.printable import printable_json


def json_line(at: datetime, level: str, event: str, message: str, facts: Mapping[str, str]) -> str:
    """Return one line without unknown facts and without control characters."""
    time = at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    content = {"time": time, "level": level, "event": event, "words": message}
    present = {name: value for name, value in facts.items() if value}
    return printable_json(json.dumps(content | present, ensure_ascii=False))


def _print(line: str) -> None:
    print(line, file=sys.stdout, flush=True)


@dataclass(frozen=True, slots=True)
class JsonLog:
    """A log that writes JSON lines. Each line contains `facts`."""

    now: Callable[[], datetime]
    facts: Mapping[str, str] = field(default_factory=dict)
    write: Callable[[str], None] = _print

    def __call__(
        self, message: str, *, event: str = TOLD, level: str = INFO, snapshot: str = ""
    ) -> None:
        """Write one line."""
        facts = {**self.facts, "snapshot": snapshot}
        self.write(json_line(self.now(), level, event, message, facts))
