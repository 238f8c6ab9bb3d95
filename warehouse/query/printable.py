"""Text for a terminal: names come from the wire, and none of them may move a cursor or clear it."""

import json


def printable(text: str) -> str:
    """One line, with whatever is not printable written as Python escapes it."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def printable_lines(text: str) -> str:
    """The same for text of several lines, which stay lines."""
    return "\n".join(map(printable, text.split("\n")))


def printable_json(text: str) -> str:
    """JSON that means the same and has no such letter: each is written as JSON's own escape."""
    return "\n".join(map(_escape, text.split("\n")))


def _escape(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(
        character if character.isprintable() else json.dumps(character)[1:-1] for character in line
    )
