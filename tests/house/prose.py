"""Constructions that are frequent in our older prose and rare in English technical prose.

    python -m tests.house.prose PATTERN     every place of one pattern

A count finds places to look at, and it does not judge them. Many hits are good English.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.house.syntax import parsed

ROOT = Path(__file__).parents[2]
ROOMS = ("assets", "pipelines", "warehouse", "tests")
_FEWEST_WORDS = 3
_NOT_PROSE = re.compile(r"\b(select|group by|order by|join)\b|</?\w+[ >]|noqa|type: ignore")
_VERBS = "is|are|was|were|has|have|does|do|can|must|may|stands?|holds?|comes?|says?|needs?"
PATTERNS = {
    "what as a noun": r"\b(?:of|by|from|with|to|and|for|in|on|is|are|return|all) what (?!to\b)",
    "a question at the start": r"^(?:What|Which|Whose|By what|From what|Where|Up to)\b",
    "where instead of if": (
        rf"(?:^|[,;:.] )[Ww]here (?:\w+ ){{1,5}}?(?:{_VERBS})\b|\b(?:None|error) where\b"
    ),
    "a semicolon between sentences": r"[a-z`)]; (?:it|they|this|that|what|one|each|a|an|the|no)\b",
    "that of, those of": r"\b(?:that|those) of\b",
    "no instead of not": r"(?<!there )\b(?:is|are|was|were) (?:no (?!longer|more\b|less\b)|none\b)",
    "stand and lie": r"\b(?:stands?|stood|lies?|lay|lain)\b",
    "told, said, asked": r"\b(?:is|are|was|were|be) (?:not )?(?:told|said|asked|heard)\b",
    "say of, know of": r"\b(?:said|says|known|knows|told|asked|kept) of\b",
    "again": r"\b(?:made|makes?|read|reads|written|taken|built|done) (?:\w+ )?(?:again|anew)\b",
    "old words": r"\b(?:upon|anew|whoever|lest|hence|thus|beside|whence|wherever|for ever)\b",
    "letters": r"\bletters?\b(?! case)",
    "go and gone": r"\b(?:is|are|was) gone\b|\b(?:[Ll]ets?) (?:\w+ ){1,4}go\b",
    "of its own": r"\bof (?:its|their|his|our|your) own\b",
    "hold against": r"\b(?:[Hh]olds?|[Hh]eld)\b[^.;:]{0,60}\bagainst\b",
}


class Place(NamedTuple):
    """A docstring, comment or message: its file, its line and its text on one line."""

    file: str
    line: int
    text: str


def prose(root: Path = ROOT) -> Iterator[Place]:
    """Yield the docstrings, comments and messages of the product and its tests.

    Strings in tests are mostly data, so only their docstrings and comments count.
    """
    for path in sorted(file for room in ROOMS for file in (root / room).rglob("*.py")):
        source, file = path.read_text(encoding="utf-8"), path.relative_to(root).as_posix()
        tree = parsed(source)
        documented = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
        for node in documented if file.startswith("tests/") else ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from _place(file, node.lineno, node.value)
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield from _place(file, token.start[0], token.string.lstrip("# "))


def _place(file: str, line: int, text: str) -> Iterator[Place]:
    words = re.findall(r"[A-Za-z']+", text)
    if len(words) >= _FEWEST_WORDS and " " in text.strip() and not _NOT_PROSE.search(text):
        yield Place(file, line, " ".join(text.split()))


def counts(places: list[Place]) -> dict[str, int]:
    """Return the number of places that have each pattern."""
    return {name: len(having(name, places)) for name in PATTERNS}


def having(name: str, places: list[Place]) -> list[Place]:
    """Return the places that have one pattern."""
    expression = re.compile(PATTERNS[name])
    return [place for place in places if expression.search(place.text)]


if __name__ == "__main__":
    for found in having(sys.argv[1], list(prose())):
        print(f"{found.file}:{found.line}  {found.text}")
