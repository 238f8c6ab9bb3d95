"""The content of a workbook: a run, and everything else that the workbook shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from warehouse.query.book import OpenBook
from warehouse.reconcile.model import (
    DERIVED,
    SETTLED,
    STATUSES,
    Alias,
    DisplayNames,
    Result,
    RollForwardLine,
    Run,
    Signature,
    TrailLine,
    TrendNight,
)

BREAKS, RESOLVED, TIES = "Breaks", "Resolved", "Tie-out"
POSITIONS, UNMATCHED = "All positions", "Not matched"
ROLLED, NOTICES, MAPPING, EVIDENCE = "Roll-forward", "Notices", "Mapping", "Evidence"
TRAIL = "Audit trail"

# Increase this number if a title or text in workbooks or packs changes. Then `verify` must still
# know the titles of version 9, the first one that a release wrote.
WORDING = 9
# Numbers of the header row and the first row on the sheet Breaks, counted from 1.
HEADER, FIRST = 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class OverTime:
    """The actions in a month, the open breaks on recent nights, and the roles in recon.toml."""

    trail: tuple[TrailLine, ...] = ()
    nights: tuple[TrendNight, ...] = ()
    roles: tuple[str, ...] = ()


def left_out(counts: Mapping[str, int], listed: int) -> tuple[Result, ...]:
    """Return the results to leave out, so that a workbook lists at most `listed` positions."""
    keys, results = sum(counts.values()), []
    for result in (Result.MATCHED, Result.PRECISION):
        if keys > listed:
            results.append(result)
            keys -= counts[result.value]
    return tuple(results)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkbookContent:
    """A run, and everything else that its workbook shows.

    `break_ids` maps the numbers of positions to break IDs. `names` maps each field to the names of
    its IDs. If there are more than `listed` positions, the workbook leaves out the positions that
    match. `void` is the reason why earlier signatures are void.
    """

    run: Run
    source: OpenBook
    aliases: tuple[Alias, ...]
    break_ids: Mapping[int, str]
    rolled: Sequence[RollForwardLine]
    signatures: Mapping[str, Signature]
    void: str
    names: DisplayNames
    listed: int
    over_time: OverTime = field(default_factory=OverTime)

    @property
    def left_out(self) -> tuple[Result, ...]:
        """The results of the positions that the workbook does not list."""
        return left_out(self.run.counts, self.listed)

    @property
    def rows(self) -> int:
        """The number of positions that the workbook lists."""
        unlisted = sum(self.run.counts[result.value] for result in self.left_out)
        return self.run.position_count - unlisted

    @property
    def statuses(self) -> tuple[str, ...]:
        """The statuses that breaks may have. Limits in recon.toml give two more."""
        return (*STATUSES, *DERIVED) if self.run.coverage.materiality else STATUSES

    @property
    def final_statuses(self) -> tuple[str, ...]:
        """The statuses of breaks that are not open."""
        return tuple(status for status in self.statuses if status in SETTLED)

    @property
    def footer(self) -> str:
        """The footer of every printed page."""
        run = self.run
        return f"Reconciliation {run.name} as of {run.day}, run {run.run_id}"

    @property
    def last(self) -> int:
        """The number of the last row on the sheet Breaks, counted from 1."""
        return FIRST + max(len(self.run.breaks), 1) - 1

    def cells(self, letter: str) -> str:
        """Return the cell range of a column on the Breaks sheet."""
        return f"{BREAKS}!${letter}${FIRST}:${letter}${self.last}"
