"""What the audit trail and the trends need of each stored result, kept small beside it.

A result with many breaks takes long to read, and every night looks back on a month of them. The
folder `.facts` may be removed at any time.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path

import msgspec

from warehouse.reconcile.store.records import Break, RunResult, from_json, to_json
from warehouse.reconcile.store.store import Store
from warehouse.storage.layout import read_json, written_aside

AGE_BANDS = (("0-1 days", 0, 1), ("2-4 days", 2, 4), ("5-29 days", 5, 29), ("30+ days", 30, 10**6))
NOBODY = "nobody"


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One run in few figures; `of` tells whether its result is still that file.

    `ages` counts open breaks by the bands of `AGE_BANDS`, `owners` by who takes care of them, both
    with those that were not compared.
    """

    of: tuple[str, int, int]
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


def open_breaks(breaks: Iterable[Break], not_compared: Iterable[Break]) -> list[Break]:
    """Return the open breaks, with those of before that no ledger of the night says anything of."""
    return [break_ for break_ in (*breaks, *not_compared) if break_.is_open]


def count_ages(breaks: Iterable[Break], day: date) -> tuple[int, ...]:
    """Return how many breaks of a day lie in each band of age."""
    ages = [(day - break_.first_seen).days for break_ in breaks]
    return tuple(sum(low <= age <= high for age in ages) for _, low, high in AGE_BANDS)


def count_owners(breaks: Iterable[Break]) -> dict[str, int]:
    """Return how many breaks each owner has."""
    return dict(Counter(break_.owner.strip() or NOBODY for break_ in breaks))


def facts_of_runs(store: Store, day: date) -> Iterator[RunFacts]:
    """Yield every stored run of a day, the oldest first."""
    for path in store.result_paths(day):
        yield _facts(store, path, day)


def newest_facts(store: Store, day: date) -> RunFacts | None:
    """Return the run of a day that counts."""
    path = store.newest_path(day)
    return _facts(store, path, day) if path else None


def _facts(store: Store, path: Path, day: date) -> RunFacts:
    file = path.stat()
    of = (path.name, file.st_size, file.st_mtime_ns)
    copy = store.root / ".facts" / day.isoformat() / path.name
    try:
        facts = from_json(read_json(copy), RunFacts)
        if facts.of == of:
            return facts
    except (OSError, ValueError):  # it can be made again
        pass
    facts = _count(store.result_at(path), of)
    with written_aside(copy) as target:
        text = json.dumps(to_json(facts), ensure_ascii=False)
        target.write(text.encode("utf-8", "surrogatepass"))
    return facts


def _count(result: RunResult, of: tuple[str, int, int]) -> RunFacts:
    unsolved = open_breaks(result.breaks, result.not_compared)
    return RunFacts(
        of=of,
        day=result.day,
        run_id=result.run_id,
        digest=result.digest,
        made_at=result.made_at,
        by=result.by,
        settings=result.evidence.get("SHA-256 of recon.toml", ""),
        breaks=len(result.breaks),
        open_breaks=result.open_breaks,
        ages=count_ages(unsolved, result.day),
        owners=count_owners(unsolved),
        files=tuple((source.name, source.sha256) for source in result.sources),
    )
