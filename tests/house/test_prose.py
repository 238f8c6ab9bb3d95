"""The language of docstrings, comments and messages does not fall back into old habits."""

from pathlib import Path

import pytest

from tests.house.prose import PATTERNS, counts, prose

GOLDEN = Path(__file__).parents[1] / "golden" / "prose.txt"


def kept() -> dict[str, int]:
    """Return the highest number that each pattern may have."""
    lines = GOLDEN.read_text(encoding="utf-8").splitlines()
    return {name: int(number) for number, name in (line.split(maxsplit=1) for line in lines)}


def test_no_pattern_becomes_more_frequent(pytestconfig: pytest.Config) -> None:
    """Each pattern occurs at most as often as when it was last counted. No word is banned."""
    found = counts(list(prose()))
    if pytestconfig.getoption("--golden-update"):
        lines = [f"{number:4}  {name}\n" for name, number in found.items()]
        GOLDEN.write_text("".join(lines), encoding="utf-8")
    more = {name: number for name, number in found.items() if number > kept().get(name, 0)}
    assert more == {}, "python -m tests.house.prose PATTERN shows the places"


def test_every_pattern_is_counted(tmp_path: Path) -> None:
    """A sentence of each kind is found, in a docstring, a comment and a message."""
    sentences = {
        "what as a noun": "Return the rows of what was read.",
        "a question at the start": "What came of reading a source.",
        "where instead of if": "Return None where the shelf is not set.",
        "a semicolon between sentences": "Read the file; it may be empty.",
        "that of, those of": "Use the day of the book or that of the ledger.",
        "no instead of not": "The text is no date.",
        "stand and lie": "The title stands in the first cell.",
        "told, said, asked": "The person is told.",
        "say of, know of": "See what is said of the key in Help.",
        "again": "The view is made anew.",
        "old words": "The exact text is beside the number.",
        "letters": "The name has three letters.",
        "go and gone": "Let the oldest nights go.",
        "of its own": "The desk has a home of its own.",
        "hold against": "Hold the file against the manifest.",
    }
    assert sentences.keys() == PATTERNS.keys()
    (tmp_path / "assets").mkdir()
    for name, sentence in sentences.items():
        text = f'"""{sentence}"""\n\n# {sentence}\nx = "{sentence}"\n'
        (tmp_path / "assets" / "sample.py").write_text(text, encoding="utf-8")
        assert counts(list(prose(tmp_path)))[name] == 3, name
