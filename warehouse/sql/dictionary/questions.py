"""Twenty questions that people ask of the book, each with one short query that answers it.

The dictionary shows them, and tests ask them of books whose answers are known. They stand in
`questions.sql`: a comment says who asks what, and the query follows.
"""

import re
from dataclasses import dataclass
from pathlib import Path

_FILE = Path(__file__).with_name("questions.sql")
_ENTRY = re.compile(r"-- ([^:\n]+): ([^\n]+)\n(.+?);\n", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Question:
    """Who asks, what, and the query."""

    asker: str
    words: str
    sql: str


QUESTIONS = tuple(Question(*entry) for entry in _ENTRY.findall(_FILE.read_text("utf-8")))
