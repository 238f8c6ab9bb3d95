"""Retention: which nights may go, and their going.

Kept for ever: the manifest and the decisions of every landed night, so that what was read, when,
with which SHA-256, and who decided what stays on record. What goes are its bodies and its tables.
A pruned night cannot be made again; the last five versions of the warehouse still show it.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from pipelines.flatten import flatten
from pipelines.lake import lake_manifest
from pipelines.landing import night_folders, snapshots, zone
from pipelines.landing.snapshots import ACCEPTED, COMPLETE, DECISION, HELD, PRUNED, Snapshot
from pipelines.maintenance.verify import SURPLUS, verify
from warehouse.contract.book import BOOK
from warehouse.contract.ops import NIGHTLY
from warehouse.storage.layout import Layout, sync_directory

BY = "prune"
MOST_DAYS = 36500  # a hundred years: dates end some time, and so do slips of the finger
MOST_BYTES = 10**18


class NoLimit(ValueError):
    """There is no limit to prune by."""

    exit_code = 2

    def __init__(self, found: str) -> None:
        super().__init__(
            f"{found}. Nothing was pruned. Say how many days to keep before the newest book, how "
            "many gigabytes bodies and tables may take, or both: nightbook prune --keep 400 "
            "--max-gb 20 --dry-run"
        )


class NotPruned(Exception):
    """What is to be kept is not whole, so nothing may go."""

    exit_code = 1

    def __init__(self, damage: list[str]) -> None:
        files = "1 file is" if len(damage) == 1 else f"{len(damage)} files are"
        super().__init__(
            f"Nothing was pruned: of nights that are to be kept, {files} not as written "
            f"({damage[0]}). Mend that first; nightbook verify lists all of it."
        )


@dataclass(frozen=True, slots=True)
class PruneResult:
    """What went, or with `dry_run` would go: snapshot ids, and the files with their bytes.

    `left` is how many bytes the bodies and tables of the nights that stay take.
    """

    snapshots: tuple[str, ...]
    files: tuple[Path, ...]
    byte_count: int
    left: int = 0


@dataclass(frozen=True, slots=True)
class _Plan:
    """Nights that are there, those that stay, those that must, and the last book of each month."""

    known: list[Snapshot]
    kept: set[str]
    never: set[str]
    month_ends: set[str]


def prune(
    layout: Layout,
    *,
    keep_days: int | None,
    keep_month_ends: bool,
    dry_run: bool,
    at: datetime,
    most_bytes: int | None = None,
) -> PruneResult:
    """Let old nights go, by age, by space or both; the caller is the writer, and publishes then.

    Days are counted back from the newest book, not from today: a home that has stopped loses
    nothing. What is newer stays, and the last book of each month if so wished. Where bodies and
    tables then take more than `most_bytes`, nights go too, the oldest first and month ends last.
    Whatever the limits, the newest book stays, every night that waits for a decision, and every
    night whose instruments a kept one carried over. Raises `NotPruned` where a kept night is
    damaged, `NoLimit` for a limit that is none.
    """
    require_limit(keep_days, most_bytes)
    known = [one for one in snapshots.landed_snapshots(layout) if one.state != PRUNED]
    plan = _plan(layout, known, keep_days, keep_month_ends=keep_month_ends)
    sizes = {one.snapshot_id: _size(_files(layout, one)) for one in known}
    too_much = set() if most_bytes is None else _too_much(layout, plan, sizes, most_bytes)
    kept = plan.kept - too_much
    going = [one for one in known if one.snapshot_id not in kept]
    gone = [one for one in snapshots.landed_snapshots(layout) if one.state == PRUNED]
    _require_whole(layout, {one.snapshot_id for one in going + gone})
    files = tuple(path for one in (*gone, *going) for path in _files(layout, one))
    done = PruneResult(
        tuple(one.snapshot_id for one in going),
        files,
        _size(files),
        sum(sizes[one] for one in kept),
    )
    if not dry_run:
        # What can be made again goes first: on a full disk there is no room for a decision before.
        _remove(layout, tuple(path for one in going for path in _lake_files(layout, one)))
        for one in going:
            days = "1 day" if keep_days == 1 else f"{keep_days} days"
            why = f"older than {days} before the newest book"
            if one.snapshot_id in too_much:
                why = f"bodies and tables took more than {most_bytes} bytes"
            snapshots.decide(one, PRUNED, by=BY, at=at, reasons=(why,))
        _remove(layout, files)
    return done


def require_limit(keep_days: int | None, most_bytes: int | None) -> None:
    """Raise `NoLimit` where neither an age nor a size is given, or one that cannot be meant."""
    if keep_days is None and most_bytes is None:
        raise NoLimit("Neither --keep nor --max-gb is given")
    if keep_days is not None and not 1 <= keep_days <= MOST_DAYS:
        raise NoLimit(f"{str(keep_days)[:40]} days is no limit: it is 1 to {MOST_DAYS}")
    if most_bytes is not None and not 1 <= most_bytes <= MOST_BYTES:
        raise NoLimit("A size that bodies and tables may take is 1 to 10^18 bytes")


def _plan(
    layout: Layout, known: list[Snapshot], keep_days: int | None, *, keep_month_ends: bool
) -> _Plan:
    books = snapshots.books(known)
    every = {one.snapshot_id for one in known}
    if not books:
        return _Plan(known, every, every, set())
    newest = max(books)
    never = {one.snapshot_id for one in known if _waits(one, known)} | {books[newest].snapshot_id}
    lasts = {(day.year, day.month): book for day, book in sorted(books.items())}
    month_ends = {one.snapshot_id for one in lasts.values()} if keep_month_ends else set()
    if keep_days is None:
        return _Plan(known, every, never, month_ends)
    young = {
        one.snapshot_id for one in known if one.snapshot_date > newest - timedelta(days=keep_days)
    }
    kept = young | never | month_ends
    return _Plan(known, kept | set(_sources(layout, known, kept).values()), never, month_ends)


def _too_much(layout: Layout, plan: _Plan, sizes: Mapping[str, int], most_bytes: int) -> set[str]:
    """What goes besides, until the rest fits or nothing more may go."""
    sources = _sources(layout, plan.known, plan.kept)
    order = sorted(plan.kept - plan.never, key=lambda one: (one in plan.month_ends, one))
    kept, size = set(plan.kept), sum(sizes[one] for one in plan.kept)
    while size > most_bytes:
        needed = {source for one, source in sources.items() if one in kept}
        going = next((one for one in order if one in kept and one not in needed), None)
        if going is None:
            break
        kept.remove(going)
        size -= sizes[going]
    return plan.kept - kept


def _size(files: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in files)


def _waits(snapshot: Snapshot, known: list[Snapshot]) -> bool:
    """Whether a person may still make it a book."""
    is_open = snapshot.state in (HELD, COMPLETE)
    return is_open and not any(
        one.state == ACCEPTED
        and one.snapshot_date == snapshot.snapshot_date
        and one.snapshot_id > snapshot.snapshot_id
        for one in known
    )


def _sources(layout: Layout, known: list[Snapshot], kept: set[str]) -> dict[str, str]:
    """Of each kept night, that from which it carried instruments over: it cannot be made without.

    A source counts as kept, so that its own source is found as well.
    """
    needed: dict[str, str] = {}
    for one in sorted(known, key=lambda one: one.snapshot_id, reverse=True):
        if one.snapshot_id in kept or one.snapshot_id in needed.values():
            manifest = zone.load(one.folder)
            if flatten.failed_venues(manifest) or _has_carried(layout, one):
                moment = datetime.fromisoformat(manifest.finished_at)
                before = snapshots.accepted_before(known, one.snapshot_id, moment)
                if before:
                    needed[one.snapshot_id] = before[-1].snapshot_id
    return needed


def _has_carried(layout: Layout, snapshot: Snapshot) -> bool:
    """Whether rows of an earlier night are in it, whatever its answers were."""
    if not layout.manifest(snapshot.snapshot_id).is_file():
        return False
    return bool(lake_manifest.read_manifest(layout, snapshot.snapshot_id).get("carried"))


def _require_whole(layout: Layout, going: set[str]) -> None:
    damage = [str(one) for one in verify(layout) if one.what != SURPLUS and one.night not in going]
    if damage:
        raise NotPruned(damage)


def _files(layout: Layout, snapshot: Snapshot) -> Iterator[Path]:
    """What goes of a night."""
    own = {night_folders.MANIFEST, DECISION}
    bodies = [path for path in sorted(snapshot.folder.glob("[!.]*")) if path.name not in own]
    yield from _lake_files(layout, snapshot)
    yield from (path for path in bodies if path.is_file())


def _lake_files(layout: Layout, snapshot: Snapshot) -> Iterator[Path]:
    """What of it can be made again, the lake's manifest first: nobody then looks for its tables."""
    day, snapshot_id = snapshot.snapshot_date, snapshot.snapshot_id
    places = [layout.manifest(snapshot_id)]
    places += [layout.parquet(table.name, day, snapshot_id) for table in (*BOOK, *NIGHTLY)]
    places += sorted(layout.staged_file("portfolios", snapshot_id).parent.glob("[!.]*"))
    return (path for path in places if path.is_file())


def _remove(layout: Layout, files: tuple[Path, ...]) -> None:
    for path in files:
        path.unlink(missing_ok=True)
    for folder in {path.parent: None for path in files}:
        if folder != layout.manifests:
            with contextlib.suppress(OSError):  # something else is in it
                folder.rmdir()
        if folder.is_dir():
            sync_directory(folder)
