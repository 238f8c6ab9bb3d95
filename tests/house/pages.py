"""The pages of the tree, found by name, and the blocks of code in them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Written from the contract and from the demo: tests of their own ask every query in them.
GENERATED = {ROOT / "warehouse" / "README.md", ROOT / "warehouse" / "answers.md"}
# The beginning of one of these, and no page.
FRAGMENTS = {ROOT / "warehouse" / "sql" / "dictionary" / "opening.md"}
ROOMS = (".github", "assets", "pipelines", "warehouse", "tests")
PAGES = sorted(
    {ROOT / "README.md", *(page for room in ROOMS for page in (ROOT / room).rglob("*.md"))}
    - FRAGMENTS
)
"""Every page of the tree: a new one is under test by being there."""
WRITTEN = [page for page in PAGES if page not in GENERATED]
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}
EVERY_TEXT = "\n".join(TEXTS[page] for page in WRITTEN)


def blocks(language: str, page: Path | None = None) -> list[str]:
    """Return the fenced blocks of a language, of one page or of all that people wrote."""
    text = EVERY_TEXT if page is None else TEXTS[page]
    return re.findall(rf"^ *```{language}\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)


def queries() -> list[str]:
    """Return each statement of an SQL block, and each typed after `nightbook query`."""
    pasted = [text.strip() for block in blocks("sql") for text in block.split(";")]
    typed = re.findall(r'nightbook query "([^"]+)"', EVERY_TEXT)
    return list(dict.fromkeys(text for text in (*pasted, *typed) if text.strip(".")))
