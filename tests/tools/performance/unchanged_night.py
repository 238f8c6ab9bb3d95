"""Quiet nights in whole commands: a small, a tiny and the smallest book, without a Dagster server.

    python -m tests.tools.performance.unchanged_night

A server in its own process returns the accounts of a book, and twelve venues with two hundred
instruments each. `nightbook run` and `nightbook query` are measured as whole processes, including
their children.
"""

import json
import statistics
import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.support.created_home import created_home
from tests.tools.performance.bodies import SCALES, Scale, portfolios
from tests.tools.performance.cpu_profile import Spent, spent
from tests.tools.performance.fetching import server
from tests.tools.performance.slow_server import instruments
from tests.tools.performance.whole_command import venue, write_answer

VENUES, EACH = 12, 100
BOOKS = (
    SCALES["S"],
    Scale("tiny", 4, 9, 1),
    Scale("smallest", 1, 1, 1),
)  # an empty book would be held
QUESTION = "select asset_id, exact_sum(amount_text) as total from balances group by all"


def quiet(runs: int) -> list[str]:
    """Return the lines of a table with the costs of the commands."""
    lines = [
        f"Quiet nights with {VENUES} venues of {2 * EACH} instruments",
        "",
        "| | CPU s | wall s |",
        "|---|---:|---:|",
    ]
    return lines + [line for scale in BOOKS for line in _measured(scale, runs)]


def _measured(scale: Scale, runs: int) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="nightbook-bench-") as folder:
        bodies = Path(folder) / "bodies"
        bodies.mkdir()
        sums = _book(bodies, scale)
        nights: list[Spent] = []
        questions: list[Spent] = []
        with server("0", str(bodies)) as origin:
            settings = _settings(origin, created_home(Path(folder) / "home"))
            first = _nightbook(settings, "run")
            for _ in range(runs):
                nights.append(_nightbook(settings, "run"))
                questions.append(_nightbook(settings, "query", "--format", "json", QUESTION))
                _require(questions[-1], sums)
    book = f"of {scale.rows:,} accounts"
    return [
        _row(f"`nightbook run` {book}, the first in a new home", [first]),
        _row(f"`nightbook run` {book}", nights),
        _row(f"`nightbook query` {book}", questions),
    ]


def _row(name: str, several: list[Spent]) -> str:
    cpu = statistics.median(one.cpu for one in several)
    wall = statistics.median(one.wall for one in several)
    return f"| {name} | {cpu:.2f} | {wall:.2f} |"


def _settings(origin: str, home: Path) -> dict[str, str]:
    return {
        "NIGHTBOOK_API_URL": origin,
        "NIGHTBOOK_API_KEY": "key",
        "NIGHTBOOK_API_SECRET": "secret",
        "NIGHTBOOK_HOME": str(home),
    }


def _nightbook(settings: dict[str, str], *words: str) -> Spent:
    return spent([str(Path(sys.executable).with_name("nightbook")), *words], settings)


def _require(answer: Spent, sums: dict[str, Decimal]) -> None:
    """Check that the published sums are those of the body."""
    found = {row["asset_id"]: Decimal(row["total"]) for row in json.loads(answer.output)}
    assert found == sums, "the published sums are not those of the body"


def _book(folder: Path, scale: Scale) -> dict[str, Decimal]:
    """Write every response of the night, and return the exact sum of each asset."""
    data = list(portfolios(scale, 7))
    write_answer(folder / "portfolios.json", data)
    names = [f"venue-{number}" for number in range(VENUES)]
    venues = []
    for name in names:
        listed = []
        for kind in ("spot", "future"):
            body = instruments(EACH, f"{name}-{kind}", kind)
            (folder / f"{name}-{kind}.json").write_bytes(body)
            listed += json.loads(body)["data"]
        venues.append(venue(name, listed))
    write_answer(folder / "venues.json", venues)
    sums: dict[str, Decimal] = {}
    for asset, text in _amounts(data):
        sums[asset] = sums.get(asset, Decimal(0)) + Decimal(text)
    return sums


def _amounts(data: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [
        (position["assetId"], text)
        for portfolio in data
        for position in portfolio["positions"]
        for account in position["accounts"]
        for parts in account["balance"].values()
        for text in parts.values()
    ]


if __name__ == "__main__":
    print("\n".join(quiet(3)))
