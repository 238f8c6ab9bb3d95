"""Text for a terminal: names come from the wire, and none of them may move a cursor or clear it."""

import json
from collections.abc import Callable


def printable(text: str) -> str:
    """Return one line, with whatever is not printable written as Python escapes it."""
    return _escape(text, lambda character: character.encode("unicode_escape").decode())


def printable_lines(text: str) -> str:
    """Return the same for a text of several lines, which stay lines."""
    return "\n".join(map(printable, text.split("\n")))


def printable_json(text: str) -> str:
    """Return JSON of the same meaning, with such letters as JSON's own escapes."""
    lines = text.split("\n")
    return "\n".join(_escape(line, lambda character: json.dumps(character)[1:-1]) for line in lines)


def _escape(line: str, escape: Callable[[str], str]) -> str:
    if line.isprintable():
        return line
    return "".join(letter if letter.isprintable() else escape(letter) for letter in line)
