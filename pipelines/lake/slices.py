"""Slices of a book (a venue, a portfolio, a balance kind) that nearly vanished or multiplied.

A single asset is not a slice, because assets are sold out, bought, swept and netted every day. A
slice counts only if it held at least two assets and nearly all of them moved in the same direction.
Amounts are compared without their signs, so that long and short do not cancel out, and as
floating-point numbers. `pipelines.lake.guards` compares totals exactly.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from warehouse.sql.files import open_files

GONE, FELL, ROSE = "gone", "fell", "rose"
VENUE, PORTFOLIO, KIND = "venue", "portfolio", "balance kind"
# Trades do not change all assets by more than this factor at once. An error in the scale does.
SCALE = 8

_MOVES = Path(__file__).with_name("slices.sql").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice in which nearly all assets moved in one direction.

    `change` is gone, fell or rose. The slice held `assets` assets, and `moved` of them moved so.
    """

    kind: str
    identity: str
    change: str
    assets: int
    moved: int


def moves(before: Path, now: Path, without: Collection[str] = ()) -> list[Slice]:
    """Return the slices that moved between two files of balances, ordered by kind and identity.

    `without` are portfolios to leave out.
    """
    with open_files({"before": before, "now": now}) as connection:
        rows = connection.execute(_MOVES, {"without": sorted(without), "scale": SCALE}).fetchall()
    return [Slice(*row) for row in rows]
