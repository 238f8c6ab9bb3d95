"""Safe text for a terminal: names come from the API and must not move the cursor or clear it."""

import json
from collections.abc import Callable


def printable(text: str) -> str:
    """Return one line in which unprintable characters are escaped as in Python."""
    return _escape(text, lambda character: character.encode("unicode_escape").decode())


def printable_lines(text: str) -> str:
    """Return several lines in which unprintable characters are escaped as in Python."""
    return "\n".join(map(printable, text.split("\n")))


def printable_json(text: str) -> str:
    """Return equivalent JSON in which unprintable characters are escaped as in JSON."""
    lines = text.split("\n")
    return "\n".join(_escape(line, lambda character: json.dumps(character)[1:-1]) for line in lines)


def _escape(line: str, escape: Callable[[str], str]) -> str:
    if line.isprintable():
        return line
    return "".join(
        character if character.isprintable() else escape(character) for character in line
    )
