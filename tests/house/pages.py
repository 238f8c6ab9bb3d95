"""The documentation pages of the tree, and the code blocks in them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Generated from the contract and from the demo. Other tests run every query in these pages.
GENERATED = {ROOT / "warehouse" / "README.md", ROOT / "warehouse" / "answers.md"}
# The beginning of a generated page, which is not a page itself.
FRAGMENTS = {ROOT / "warehouse" / "sql" / "dictionary" / "opening.md"}
ROOMS = (".github", "assets", "pipelines", "warehouse", "tests")
PAGES = sorted(
    {ROOT / "README.md", *(page for room in ROOMS for page in (ROOT / room).rglob("*.md"))}
    - FRAGMENTS
)
"""All pages of the tree. A new page is tested automatically."""
WRITTEN = [page for page in PAGES if page not in GENERATED]
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}
EVERY_TEXT = "\n".join(TEXTS[page] for page in WRITTEN)


def blocks(language: str, page: Path | None = None) -> list[str]:
    """Return the fenced blocks of a language, from one page or from all pages that people wrote."""
    text = EVERY_TEXT if page is None else TEXTS[page]
    return re.findall(rf"^ *```{language}\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)


def queries() -> list[str]:
    """Return each statement of an SQL block, and each query typed after `nightbook query`."""
    pasted = [text.strip() for block in blocks("sql") for text in block.split(";")]
    typed = re.findall(r'nightbook query "([^"]+)"', EVERY_TEXT)
    return list(dict.fromkeys(text for text in (*pasted, *typed) if text.strip(".")))
