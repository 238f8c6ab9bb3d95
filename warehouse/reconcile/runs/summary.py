"""What a run came to, as commands and the nightly job tell it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from warehouse.contract.wording import count_of
from warehouse.reconcile.ledger.coverage import per_words, totals
from warehouse.reconcile.ledger.model import Unused
from warehouse.reconcile.matching.join import Result
from warehouse.reconcile.runs.reconciliation import RunFiles
from warehouse.reconcile.store.records import OPEN_BREAKS, TIED, RunResult
from warehouse.reconcile.terms.notices import Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """The result of a run: `exit_code` is 0 if all ties or is accepted, 3 if breaks are open.

    It is 3 as well if no position was compared; `extent` says how many of the book were.
    A run without a ledger has no `run_id` and says so in `notices`.
    """

    day: date
    run_id: str = ""
    digest: str = ""
    counts: Mapping[str, int]
    extent: str = ""
    open_breaks: int = 0
    breaks: int = 0
    rejected: int = 0
    files: tuple[Path, ...]
    notices: tuple[Notice, ...]
    exit_code: int
    unused: tuple[Unused, ...] = ()
    level: str = ""

    @property
    def words(self) -> str:
        """The result in one paragraph."""
        if not self.run_id:
            return "; ".join(": ".join(filter(None, (n.where, n.words))) for n in self.notices)
        equal = self.counts[Result.MATCHED.value] + self.counts[Result.MATCHED_ZERO.value]
        settled = (
            (self.counts[Result.TOLERANCE.value], "within tolerance"),
            (self.counts[Result.PRECISION.value], "within the ledger's precision"),
        )
        parts = [f"{equal:,} equal", *(f"{count:,} {how}" for count, how in settled if count)]
        return (
            f"{self.day}: {self.extent} "
            f"{per_words(self.level)}; {', '.join(parts)}, {count_of(self.breaks, 'break')} "
            f"({self.open_breaks:,} open), {count_of(self.rejected, 'row')} rejected; "
            f"not used: {totals(self.unused) or 'nothing'}."
        )


def summary_of(day: date, left: RunFiles) -> RunSummary:
    """Return what a run of a day came to, with or without a ledger."""
    return _without_ledger(day, left) if left.result is None else _with_ledger(left.result, left)


def _without_ledger(day: date, left: RunFiles) -> RunSummary:
    is_quiet = all(item.severity == "low" for item in left.unused)
    return RunSummary(
        day=day,
        counts={},
        files=(),
        notices=left.notices,
        exit_code=TIED if is_quiet else OPEN_BREAKS,
        unused=left.unused,
    )


def _with_ledger(result: RunResult, left: RunFiles) -> RunSummary:
    return RunSummary(
        day=result.day,
        run_id=result.run_id,
        digest=result.digest,
        counts=result.counts,
        extent=result.extent,
        open_breaks=result.open_breaks,
        breaks=len(result.breaks),
        rejected=result.rejected,
        files=left.files,
        notices=left.notices,
        exit_code=result.exit_code,
        unused=left.unused,
        level=result.coverage.level if result.coverage else "",
    )
