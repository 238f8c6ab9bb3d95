"""Slices of a book (venues, portfolios, balance kinds) whose amounts nearly all moved."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from warehouse.sql.files import open_files

GONE, FELL, ROSE = "gone", "fell", "rose"
VENUE, PORTFOLIO, KIND = "venue", "portfolio", "balance kind"
# If all assets change by more than this factor at once, the cause is not trading, but probably a
# scaling error.
SCALE = 8

_MOVES = Path(__file__).with_name("slices.sql").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Slice:
    """A venue, portfolio or balance kind whose amounts nearly all rose, fell or disappeared.

    `change` is `GONE`, `FELL` or `ROSE`, `assets` is the number of assets in the slice, and `moved`
    is the number of assets that moved.
    """

    kind: str
    identity: str
    change: str
    assets: int
    moved: int


def find_moved_slices(before: Path, now: Path, without: Collection[str] = ()) -> list[Slice]:
    """Compare two balance files. Return the moved slices (see `Slice`), by kind and identity.

    `without` contains the portfolios to leave out.
    """
    with open_files({"before": before, "now": now}) as connection:
        rows = connection.execute(_MOVES, {"without": sorted(without), "scale": SCALE}).fetchall()
    return [Slice(*row) for row in rows]
