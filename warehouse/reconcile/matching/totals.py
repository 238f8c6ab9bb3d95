"""Totals that must agree, per asset, venue and portfolio, and how they rolled forward."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duckdb import DuckDBPyConnection

from warehouse.exact import EXACT, exact, subtract
from warehouse.reconcile.dimensions import TOTALLED, display_asset
from warehouse.reconcile.matching import join

_SIDES = ("Ledger", "Snapshot", "Breaks")
_STEPS = ("opening", "movement", "closing")
STEPPED = tuple(f"{side} {step}" for side in _SIDES for step in _STEPS)


@dataclass(frozen=True, slots=True)
class Tie:
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
        return "equal" if self.difference == "0" == self.near else "within tolerance"


def tie_totals(connection: DuckDBPyConnection, fields: tuple[str, ...]) -> list[Tie]:
    """Every asset, then every venue and portfolio that the level has, by asset."""
    join.add_up(connection, tuple(name for name in TOTALLED if name in fields))
    return [tie for level in TOTALLED if level in fields for tie in _level(connection, level)]


def _level(connection: DuckDBPyConnection, level: str) -> Iterator[Tie]:
    by = ("asset",) if level == "asset" else (level, "asset")
    for row in join.ties(connection, by):
        *names, keys, breaks, ours, theirs, our_breaks, their_breaks, our_near, their_near = row
        yield Tie(
            level,
            str(names[0]),
            str(names[-1]),
            int(str(keys)),
            int(str(breaks)),
            str(ours),
            str(theirs),
            subtract(str(ours), str(theirs)),
            subtract(str(our_breaks), str(their_breaks)),
            subtract(str(our_near), str(their_near)),
        )


@dataclass(frozen=True, slots=True)
class RollForwardLine:
    """One asset from the run before to this one: openings, movements and closings of three."""

    asset: str
    ledger: tuple[str, str, str]
    snapshot: tuple[str, str, str]
    breaks: tuple[str, str, str]

    @property
    def adds_up(self) -> bool:
        """Whether each opening and movement make the closing."""
        return all(
            EXACT.add(exact(opening), exact(movement)) == exact(closing)
            for opening, movement, closing in (self.ledger, self.snapshot, self.breaks)
        )

    @property
    def line(self) -> list[str]:
        """Its row of the workbook: the asset as people see it, `STEPPED`, whether it adds up."""
        steps = [*self.ledger, *self.snapshot, *self.breaks]
        return [display_asset(self.asset), *steps, "yes" if self.adds_up else "NO"]


def roll_forward(ties: Sequence[Tie], prior: Mapping[str, Any] | None) -> list[RollForwardLine]:
    """Every asset that either run has."""
    now = {tie.asset: tie for tie in ties if tie.level == "asset"}
    then = {tie["asset"]: tie for tie in (prior or {}).get("ties", []) if tie["level"] == "asset"}
    made = []
    for asset in sorted({*now, *then}):
        steps = []
        for name in ("ledger", "snapshot", "broken"):
            opening = str(then.get(asset, {}).get(name, "0"))
            closing = str(getattr(now[asset], name)) if asset in now else "0"
            steps.append((opening, subtract(closing, opening), closing))
        made.append(RollForwardLine(asset, *steps))
    return made
