"""Colour where a terminal wants it: as `--color` says, else NO_COLOR, else where a person reads."""

import os
import sys
from typing import TextIO

GREEN, YELLOW, RED = 32, 33, 31
# Of the command that runs.
_chosen = ["auto"]


def choose_color(choice: str) -> None:
    """Let it be as `--color` says, for what this command says from now on."""
    _chosen[:] = [choice]


def wants_color(stream: TextIO) -> bool:
    """Whether a stream wants colours."""
    if _chosen != ["auto"]:
        return _chosen == ["always"]
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def paint(text: str, color: int, stream: TextIO | None = None) -> str:
    """Return a text in a colour, where the stream wants it."""
    return f"\x1b[{color}m{text}\x1b[0m" if wants_color(stream or sys.stdout) else text


def mark(*, is_well: bool, stream: TextIO | None = None) -> str:
    """Return the sign before a line that says whether something is well."""
    return paint("✓", GREEN, stream) if is_well else paint("✗", RED, stream)
