"""Text for a terminal: names come from the wire, and none of them may move a cursor or clear it."""

import json


def printable(text: str) -> str:
    """Return one line, with whatever is not printable written as Python escapes it."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def printable_lines(text: str) -> str:
    """Return the same for a text of several lines, which stay lines."""
    return "\n".join(map(printable, text.split("\n")))


def printable_json(text: str) -> str:
    """Return JSON of the same meaning, with such letters as JSON's own escapes."""
    return "\n".join(map(_escape, text.split("\n")))


def _escape(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(
        character if character.isprintable() else json.dumps(character)[1:-1] for character in line
    )
