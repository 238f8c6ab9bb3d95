"""Totals that must agree, per asset, venue and portfolio, and how they rolled forward."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from duckdb import DuckDBPyConnection

from warehouse.exact import EXACT, exact, subtract
from warehouse.reconcile.matching import join
from warehouse.reconcile.terms.dimensions import TOTALLED, display_asset

STEPPED = tuple(
    f"{side} {step}"
    for side in ("Ledger", "Book", "Breaks")
    for step in ("opening", "movement", "closing")
)
EQUAL = "equal"
Steps = tuple[str, str, str]


class Tie(msgspec.Struct, frozen=True, kw_only=True):
    """Both sides of one asset, perhaps at one venue or in one portfolio, in exact texts.

    `broken` and `near` are the parts of the difference that breaks, and keys within tolerance,
    account for.
    """

    level: str
    of: str
    asset: str
    keys: int
    breaks: int
    ledger: str
    snapshot: str
    difference: str
    broken: str
    near: str

    @property
    def adds_up(self) -> bool:
        """Whether the difference is exactly what breaks and tolerances come to."""
        return exact(self.difference) == EXACT.add(exact(self.broken), exact(self.near))

    @property
    def result(self) -> str:
        """`equal`, `within tolerance`, or `differs`."""
        if self.breaks:
            return "differs"
        return EQUAL if self.difference == "0" == self.near else "within tolerance"


def tie_totals(connection: DuckDBPyConnection, fields: tuple[str, ...]) -> list[Tie]:
    """Return the totals of every asset, then of every venue and portfolio that the level has."""
    levels = [name for name in TOTALLED if name in fields]
    join.add_up(connection, levels)
    return list(_ties(connection, levels))


def _ties(connection: DuckDBPyConnection, levels: Sequence[str]) -> Iterator[Tie]:
    for row in join.totals(connection, levels):
        *names, keys, breaks, sums = row
        ledger, snapshot, broken_ledger, broken_snapshot, near_ledger, near_snapshot = sums
        level, name = [pair for pair in zip(levels, names, strict=True) if pair[1] is not None][-1]
        yield Tie(
            level=level,
            of=name,
            asset=names[0],
            keys=int(keys),
            breaks=int(breaks),
            ledger=ledger,
            snapshot=snapshot,
            difference=subtract(ledger, snapshot),
            broken=subtract(broken_ledger, broken_snapshot),
            near=subtract(near_ledger, near_snapshot),
        )


@dataclass(frozen=True, slots=True)
class RollForwardLine:
    """One asset from the run before to this one: opening, movement and closing of each.

    An opening that nobody knows is empty, and so is the movement from it.
    """

    asset: str
    ledger: Steps
    snapshot: Steps
    breaks: Steps

    @property
    def steps(self) -> tuple[str, ...]:
        """All nine of them, as `STEPPED` names them."""
        return (*self.ledger, *self.snapshot, *self.breaks)

    @property
    def has_breaks(self) -> bool:
        """Whether the asset has breaks, or had some."""
        return any(text not in ("", "0") for text in self.breaks)

    @property
    def adds_up(self) -> bool:
        """Whether each opening and movement make the closing."""
        return all(
            EXACT.add(exact(opening), exact(movement)) == exact(closing)
            for opening, movement, closing in (self.ledger, self.snapshot, self.breaks)
            if opening
        )

    @property
    def line(self) -> list[str]:
        """Its row of the workbook: the asset as people see it, `STEPPED`, whether it adds up."""
        return [display_asset(self.asset), *self.steps, "yes" if self.adds_up else "NO"]


def roll_forward(
    ties: Sequence[Tie], before: Sequence[Tie] | None, book_before: Mapping[str, str] | None
) -> list[RollForwardLine]:
    """Return every asset that this run or the one before it has, those with breaks first.

    Where there was no run before, the book before is the opening of the snapshot.
    """
    now = {tie.asset: tie for tie in ties if tie.level == "asset"}
    then = {tie.asset: tie for tie in before or () if tie.level == "asset"}
    lines = []
    for asset in sorted({*now, *then, *(book_before or {})}):
        steps: list[Steps] = []
        for name in ("ledger", "snapshot", "broken"):
            opening = getattr(then.get(asset), name, "0")
            if before is None:
                is_known = name == "snapshot" and book_before is not None
                opening = (book_before or {}).get(asset, "0") if is_known else ""
            closing = getattr(now.get(asset), name, "0")
            steps.append((opening, subtract(closing, opening) if opening else "", closing))
        lines.append(RollForwardLine(asset, *steps))
    return sorted(lines, key=lambda line: not line.has_breaks)
