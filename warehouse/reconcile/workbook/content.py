"""The content of a workbook: a run's outcome, its totals, and the evidence for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import NamedTuple

from warehouse.query.book import OpenBook
from warehouse.reconcile.model import (
    Ledger,
    Notice,
    Outcome,
    ResolvedBreak,
    Result,
    RollForwardLine,
    Signature,
    Tie,
    TrailLine,
    Unused,
    describe_extent,
)

BREAKS, RESOLVED, TIES = "Breaks", "Resolved", "Tie-out"
POSITIONS, UNMATCHED = "All positions", "Not matched"
ROLLED, NOTICES, MAPPING, EVIDENCE = "Roll-forward", "Notices", "Mapping", "Evidence"
TRAIL = "Audit trail"

# Increase this number if a title or text in workbooks or packs changes. An older workbook is
# compared by the titles of its own version, and the pages of an older pack are not rendered.
WORDING = 4
HEADER, FIRST = 2, 3  # rows of the sheet Breaks, counted from 1


class TrendNight(NamedTuple):
    """The number of open breaks on one night, by age band and by owner."""

    day: date
    ages: tuple[int, ...]
    owners: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverTime:
    """The month's actions, the open breaks of recent nights, and the roles in recon.toml."""

    trail: tuple[TrailLine, ...] = ()
    nights: tuple[TrendNight, ...] = ()
    roles: tuple[str, ...] = ()


def left_out(counts: Mapping[Result, int], listed: int) -> tuple[Result, ...]:
    """Return the results to leave out so that the workbook lists at most `listed` positions."""
    keys, results = sum(counts.values()), []
    for result in (Result.MATCHED, Result.PRECISION):
        if keys > listed:
            results.append(result)
            keys -= counts[result]
    return tuple(results)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkbookContent:
    """Everything that a workbook shows.

    `resolved` lists the previous run's breaks that no longer exist. `names` maps each field to the
    names of its IDs. If there are more than `listed` positions, the workbook leaves out those that
    match. `written` identifies the imprint, and `void` says why earlier signatures are void.
    """

    name: str
    source: OpenBook
    ledger: Ledger
    outcome: Outcome
    ties: tuple[Tie, ...]
    rolled: Sequence[RollForwardLine]
    resolved: tuple[ResolvedBreak, ...]
    notices: Sequence[Notice]
    evidence: Mapping[str, str]
    signatures: Mapping[str, Signature]
    void: str
    run_id: str
    revision: int
    made_at: datetime
    names: Mapping[str, Mapping[str, str]]
    listed: int
    unused: Sequence[Unused] = ()
    written: str = ""
    over_time: OverTime = field(default_factory=OverTime)

    @property
    def keys(self) -> int:
        """The number of positions on either side."""
        return sum(self.outcome.counts.values())

    @property
    def pending(self) -> int:
        """The number of open breaks from earlier nights that were not compared."""
        return sum(break_.is_open for break_ in self.outcome.not_compared)

    @property
    def partial(self) -> str:
        """The number of compared positions, or an empty string if the whole book was compared."""
        if self.keys and not self.outcome.uncovered and not self.pending:
            return ""
        return describe_extent(self.keys, self.outcome.uncovered, self.pending)

    @property
    def is_lost(self) -> bool:
        """Whether some or all of the ledger data was not compared."""
        unread = any(item.severity == "high" for item in self.unused)
        undelivered = self.outcome.counts[Result.NOT_DELIVERED]
        return bool(self.ledger.rejected or undelivered or unread or self.pending or not self.keys)

    @property
    def rows(self) -> int:
        """The number of positions that the workbook lists."""
        return self.keys - sum(self.outcome.counts[result] for result in self.left_out)

    @property
    def left_out(self) -> tuple[Result, ...]:
        """The results whose positions the workbook does not list."""
        return left_out(self.outcome.counts, self.listed)

    @property
    def day(self) -> date:
        """The business date of the book."""
        return self.outcome.day

    @property
    def footer(self) -> str:
        """The footer of every page."""
        return f"Reconciliation {self.name} as of {self.day}, run {self.run_id}"

    @property
    def last(self) -> int:
        """The last row of the sheet Breaks, counted from 1."""
        return FIRST + max(len(self.outcome.breaks), 1) - 1

    def cells(self, letter: str) -> str:
        """Return the cell range of a column on the sheet Breaks."""
        return f"{BREAKS}!${letter}${FIRST}:${letter}${self.last}"
