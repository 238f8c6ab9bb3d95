"""What the audit trail and the trends need of each stored result, kept small in `.facts`.

Every night looks back on a month of them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path

from warehouse.reconcile.store.records import Break, RunResult
from warehouse.reconcile.store.result_cache import CachedFacts, FileState, from_cache
from warehouse.reconcile.store.store import Store

AGE_BANDS = (("0-1 days", 0, 1), ("2-4 days", 2, 4), ("5-29 days", 5, 29), ("30+ days", 30, 10**6))
UNASSIGNED = "Unassigned"


class RunFacts(CachedFacts, frozen=True, kw_only=True):
    """One run in few figures.

    `ages` counts open breaks by the bands of `AGE_BANDS`, `owners` by who takes care of them (empty
    where nobody does), both with those that were not compared.
    """

    day: date
    run_id: str
    digest: str
    made_at: str
    by: str
    settings: str
    breaks: int
    open_breaks: int
    ages: tuple[int, ...]
    owners: Mapping[str, int]
    files: tuple[tuple[str, str], ...]


def count_ages(breaks: Iterable[Break], day: date) -> tuple[int, ...]:
    """Return how many breaks of a day lie in each band of age."""
    ages = [(day - break_.first_seen).days for break_ in breaks]
    return tuple(sum(low <= age <= high for age in ages) for _, low, high in AGE_BANDS)


def count_owners(breaks: Iterable[Break]) -> dict[str, int]:
    """Return how many breaks each owner has; the name of nobody is empty."""
    return dict(Counter(break_.owner.strip() for break_ in breaks))


def facts_of_runs(store: Store, day: date) -> Iterator[RunFacts]:
    """Yield every stored run of a day, the oldest first."""
    for path in store.result_paths(day):
        yield _facts(store, path, day)


def newest_facts(store: Store, day: date) -> RunFacts | None:
    """Return the run of a day that counts."""
    path = store.newest_path(day)
    return _facts(store, path, day) if path else None


def _facts(store: Store, path: Path, day: date) -> RunFacts:
    copy = store.root / ".facts" / day.isoformat() / path.name
    return from_cache(copy, path, RunFacts, lambda of: _count(store.result_at(path), of))


def _count(result: RunResult, of: FileState) -> RunFacts:
    unsolved = result.unsolved_breaks
    return RunFacts(
        of=of,
        day=result.day,
        run_id=result.run_id,
        digest=result.digest,
        made_at=result.made_at,
        by=result.by,
        settings=result.settings_digest,
        breaks=len(result.breaks),
        open_breaks=result.open_breaks,
        ages=count_ages(unsolved, result.day),
        owners=count_owners(unsolved),
        files=tuple((source.name, source.sha256) for source in result.sources),
    )
