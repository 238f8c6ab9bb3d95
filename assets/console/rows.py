"""Output for other programs: records as rows, and log lines as JSON."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, TextIO

from assets.nightbook import DEFAULT_EVENT, INFO
from warehouse.query.formats import FORMATS, QueryResult, printable, printable_json

print_at_once = partial(print, flush=True)


@dataclass(frozen=True, slots=True)
class JsonLog:
    """A log that writes events as JSON lines. All lines contain the values in `facts`."""

    now: Callable[[], datetime]
    facts: Mapping[str, str] = field(default_factory=dict)
    write: Callable[[str], None] = print_at_once

    def __call__(
        self, message: str, *, event: str = DEFAULT_EVENT, level: str = INFO, snapshot: str = ""
    ) -> None:
        """Write one event as a line of JSON."""
        facts = {**self.facts, "snapshot": snapshot}
        self.write(json_line(self.now(), level, event, message, facts))


def print_lines(lines: Iterable[object], start: str = "  ", file: TextIO | None = None) -> None:
    """Print a line for each item, without control characters."""
    for line in lines:
        print(f"{start}{printable(str(line))}", file=file)


def print_records(output_format: str, columns: Sequence[str], records: Iterable[object]) -> None:
    """Print a row for each record, with the attributes named by `columns`."""
    print_rows(
        output_format, columns, ([getattr(record, name) for name in columns] for record in records)
    )


def print_rows(output_format: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows in one of the formats that `nightbook query` supports."""
    sys.stdout.write(
        FORMATS[output_format](QueryResult(tuple(columns), tuple(map(tuple, rows)), is_cut=False))
    )


def json_line(at: datetime, level: str, event: str, message: str, facts: Mapping[str, str]) -> str:
    """Format a log line as JSON, without control characters. Empty `facts` are left out."""
    time = at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    content = {"time": time, "level": level, "event": event, "words": message}
    present = {name: value for name, value in facts.items() if value}
    return printable_json(json.dumps(content | present, ensure_ascii=False))
