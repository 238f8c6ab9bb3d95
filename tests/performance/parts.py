"""The parts of the benchmark that are not designs side by side, and their places in the README.

    python -m tests.performance --only fetch|landing|quiet|history [--runs N] [--readme]

Each part stands between marks of its own, so that one can be measured again without the others.
"""

from collections.abc import Callable
from pathlib import Path

import duckdb

from tests.performance import history
from tests.performance.fetching import bodies, requests
from tests.performance.machine import machine
from tests.performance.unchanged_night import quiet

README = Path(__file__).parents[2] / "README.md"
PARTS: dict[str, Callable[[int], list[str]]] = {
    "fetch": requests,
    "landing": bodies,
    "quiet": quiet,
    "history": lambda _: history.main(),  # a year is measured once
}


def measure(names: list[str], runs: int, *, readme: bool) -> None:
    """Measure parts, print them, and put them into the README."""
    for name in names:
        title, *table = PARTS[name](runs)
        about = f"{title}; {machine()}, DuckDB {duckdb.__version__}."
        text = "\n".join([about, *table]) + "\n"
        print(f"\n{text}", flush=True)
        if readme:
            README.write_text(
                placed(README.read_text(encoding="utf-8"), name, text), encoding="utf-8"
            )


def placed(readme: str, name: str, text: str) -> str:
    """The README with a part's text between its marks."""
    marks = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
    before, found, rest = readme.partition(marks[0])
    _, ended, after = rest.partition(marks[1])
    if not found or not ended:
        raise ValueError(f"README.md has no {marks[0]} ... {marks[1]} to put the table between")
    return f"{before}{marks[0]}\n{text}{marks[1]}{after}"
