"""The parts of the benchmark that do not compare designs, and their places in its page.

    python -m tests.tools.performance --only fetch|landing|quiet|history|decade [--runs N] [--page]

Each part has its own marks in the page, so that it can be measured again without the others.
"""

from collections.abc import Callable
from pathlib import Path

import duckdb

from tests.tools.performance import decade, history
from tests.tools.performance.fetching import bodies, requests
from tests.tools.performance.machine import machine
from tests.tools.performance.unchanged_night import quiet

PAGE = Path(__file__).with_name("README.md")
PARTS: dict[str, Callable[[int], list[str]]] = {
    "fetch": requests,
    "landing": bodies,
    "quiet": quiet,
    "history": lambda _: history.main(),  # a year is measured once
    "decade": lambda _: decade.main(),
}


def measure(names: list[str], runs: int, *, into_page: bool) -> None:
    """Measure parts and print them. If `into_page`, also write them into the page."""
    for name in names:
        title, *table = PARTS[name](runs)
        about = f"{title}; {machine()}, DuckDB {duckdb.__version__}."
        text = "\n".join([about, *table]) + "\n"
        print(f"\n{text}", flush=True)
        if into_page:
            PAGE.write_text(placed(PAGE.read_text(encoding="utf-8"), name, text), encoding="utf-8")


def placed(page: str, name: str, text: str) -> str:
    """Return the page with a part's text between its marks."""
    marks = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
    before, found, rest = page.partition(marks[0])
    _, ended, after = rest.partition(marks[1])
    if not found or not ended:
        raise ValueError(f"{PAGE.name} has no {marks[0]} ... {marks[1]} to put the table between")
    return f"{before}{marks[0]}\n{text}{marks[1]}{after}"
