"""Deletion of the oldest nights in this home, with limits that a person sets."""

import contextlib
import errno
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path

from pipelines.flatten import flatten
from pipelines.lake import lake_manifest
from pipelines.landing import night_folders, snapshots
from pipelines.landing.damage import SURPLUS
from pipelines.landing.manifest import load_manifest
from pipelines.landing.snapshots import DECISION, Snapshot
from pipelines.maintenance.verify import verify
from warehouse.contract.lake import LAKE
from warehouse.contract.states import ACCEPTED, COMPLETE, HELD, PRUNED
from warehouse.storage.layout import Layout, sync_directory

BY = "prune"
MAX_DAYS = 36500  # a hundred years, to reject typos and dates that are out of range
MAX_BYTES = 10**18


class InvalidLimit(ValueError):
    """Pruning was started without a valid limit."""

    exit_code = 2

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"{problem}. Nothing was pruned. Specify how many days to keep before the newest book, "
            "how many gigabytes API responses and tables may use, or both: nightbook prune "
            "--keep 400 --max-gb 20 --dry-run"
        )


class KeptNightDamaged(Exception):
    """A night that would be kept is damaged, so nothing may be deleted."""

    exit_code = 1

    def __init__(self, damage: list[str]) -> None:
        count = len(damage)
        files = "1 file of a kept night is" if count == 1 else f"{count} files of kept nights are"
        super().__init__(
            f"Nothing was pruned, because {files} damaged or missing ({damage[0]}). Repair this "
            "first. For the full list, type: nightbook verify"
        )


@dataclass(frozen=True, slots=True)
class MissingDates:
    """A set of dates that have no night.

    These are the dates in `without_night`, and all dates up to `last` except those in `kept`.
    """

    without_night: frozenset[date] = frozenset()
    kept: frozenset[date] = frozenset()
    last: date = date.min

    def __contains__(self, day: date) -> bool:
        return day in self.without_night or (day <= self.last and day not in self.kept)


@dataclass(frozen=True, slots=True)
class PruneResult:
    """The snapshots and files that pruning deleted (or would delete, in a dry run), and their size.

    `left` is the size of the remaining nights' bodies and tables, in bytes.
    """

    snapshots: tuple[str, ...]
    files: tuple[Path, ...]
    byte_count: int
    left: int = 0
    gone: MissingDates = field(default_factory=MissingDates, compare=False)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A plan for pruning: nights to keep for their age, nights to keep always, and month ends."""

    nights: list[Snapshot]
    staying: set[str]
    fixed: set[str]
    month_ends: set[str]


def prune(
    layout: Layout,
    *,
    keep_days: int | None,
    keep_month_ends: bool,
    dry_run: bool,
    at: datetime,
    max_bytes: int | None = None,
) -> PruneResult:
    """Delete old nights by age, by size, or by both.

    The caller holds the writer lock, and publishes afterwards. The age of a night is counted from
    the newest book, not from today, so nothing is deleted in a home that is no longer used. More
    recent nights stay, as does the last book of each month if `keep_month_ends` is set. If bodies
    and tables still exceed `max_bytes`, more nights are deleted, starting with the oldest and
    leaving month ends for last. Some nights stay regardless of the limits: the newest book, each
    night that waits for a decision, and each night whose instruments were carried over into a kept
    night.

    Raises `KeptNightDamaged` if a kept night is damaged, and `InvalidLimit` if a limit is invalid.
    """
    require_limit(keep_days, max_bytes)
    landed = snapshots.landed_snapshots(layout)
    gone = [snapshot for snapshot in landed if snapshot.state == PRUNED]
    nights = [snapshot for snapshot in landed if snapshot.state != PRUNED]
    plan = _plan(layout, nights, keep_days, keep_month_ends=keep_month_ends)
    sizes = {snapshot.snapshot_id: _size(_files(layout, snapshot)) for snapshot in nights}
    excess = set() if max_bytes is None else _excess(layout, plan, sizes, max_bytes)
    staying = plan.staying - excess
    going = [snapshot for snapshot in nights if snapshot.snapshot_id not in staying]
    _require_whole(layout, {snapshot.snapshot_id for snapshot in going + gone})
    files = tuple(path for snapshot in (*gone, *going) for path in _files(layout, snapshot))
    result = PruneResult(
        tuple(snapshot.snapshot_id for snapshot in going),
        files,
        _size(files),
        sum(sizes[snapshot] for snapshot in staying),
        _gone_days(
            gone + going, [each for each in nights if each.snapshot_id in staying], keep_days
        ),
    )
    if not dry_run:
        for snapshot in going:
            days = "1 day" if keep_days == 1 else f"{keep_days} days"
            reason = f"more than {days} older than the newest book"
            if snapshot.snapshot_id in excess:
                reason = f"API responses and tables used more than {max_bytes} bytes"
            _decide_to_prune(layout, snapshot, at, reason)
        _remove(layout, files)
    return result


def require_limit(keep_days: int | None, max_bytes: int | None) -> None:
    """Raise `InvalidLimit` if no limit is given or a limit is out of range."""
    if keep_days is None and max_bytes is None:
        raise InvalidLimit("Neither --keep nor --max-gb was given")
    if keep_days is not None and not 1 <= keep_days <= MAX_DAYS:
        raise InvalidLimit(f"--keep {str(keep_days)[:40]} is not between 1 and {MAX_DAYS} days")
    if max_bytes is not None and not 1 <= max_bytes <= MAX_BYTES:
        raise InvalidLimit("--max-gb must be a limit between 1 and 10^18 bytes")


def _gone_days(
    gone: list[Snapshot], staying: list[Snapshot], keep_days: int | None
) -> MissingDates:
    """Return the dates that will have no night after pruning."""
    kept = frozenset(snapshot.snapshot_date for snapshot in staying)
    books, last = snapshots.books(staying), date.min
    if keep_days is not None and books:
        last = max(books) - timedelta(days=keep_days)
    return MissingDates(frozenset(each.snapshot_date for each in gone) - kept, kept, last)


def _decide_to_prune(layout: Layout, snapshot: Snapshot, at: datetime, reason: str) -> None:
    """Record the decision to prune a night. Call this before deleting any of its files.

    So if the run crashes in between, no file counts as missing. If the disk is too full to record
    the decision, first delete the files that can be rebuilt.
    """
    decide = partial(snapshots.decide, snapshot, PRUNED, by=BY, at=at, reasons=(reason,))
    try:
        decide()
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _remove(layout, tuple(_lake_files(layout, snapshot)))
        decide()


def _plan(
    layout: Layout, nights: list[Snapshot], keep_days: int | None, *, keep_month_ends: bool
) -> _Plan:
    """Decide which nights to keep because of their age, and which may be deleted to save space."""
    books = snapshots.books(nights)
    all_ids = {snapshot.snapshot_id for snapshot in nights}
    if not books:
        return _Plan(nights, all_ids, all_ids, set())
    newest = max(books)
    fixed = {snapshot.snapshot_id for snapshot in nights if _may_become_book(snapshot, nights)} | {
        books[newest].snapshot_id
    }
    lasts = {(day.year, day.month): book for day, book in sorted(books.items())}
    month_ends = {snapshot.snapshot_id for snapshot in lasts.values()} if keep_month_ends else set()
    if keep_days is None:
        return _Plan(nights, all_ids, fixed, month_ends)
    recent = {
        snapshot.snapshot_id
        for snapshot in nights
        if snapshot.snapshot_date > newest - timedelta(days=keep_days)
    }
    staying = recent | fixed | month_ends
    return _Plan(
        nights, staying | set(_sources(layout, nights, staying).values()), fixed, month_ends
    )


def _excess(layout: Layout, plan: _Plan, sizes: Mapping[str, int], max_bytes: int) -> set[str]:
    """Choose nights to delete until the rest fits into `max_bytes`, or no more can be deleted."""
    sources = _sources(layout, plan.nights, plan.staying)
    order = sorted(
        plan.staying - plan.fixed, key=lambda snapshot: (snapshot in plan.month_ends, snapshot)
    )
    staying, size = set(plan.staying), sum(sizes[snapshot] for snapshot in plan.staying)
    # After each deletion, search again, because a night whose instruments were carried over can be
    # deleted only after the night that uses them.
    while size > max_bytes:
        needed = {source for snapshot, source in sources.items() if snapshot in staying}
        going = next(
            (snapshot for snapshot in order if snapshot in staying and snapshot not in needed), None
        )
        if going is None:
            break
        staying.remove(going)
        size -= sizes[going]
    return plan.staying - staying


def _size(files: Iterable[Path]) -> int:
    """Add up the sizes of files, in bytes."""
    return sum(path.stat().st_size for path in files)


def _may_become_book(snapshot: Snapshot, nights: list[Snapshot]) -> bool:
    """Return whether this night may still be accepted as a book."""
    is_open = snapshot.state in (HELD, COMPLETE)
    return is_open and not any(
        snapshot_.state == ACCEPTED
        and snapshot_.snapshot_date == snapshot.snapshot_date
        and snapshot_.snapshot_id > snapshot.snapshot_id
        for snapshot_ in nights
    )


def _sources(layout: Layout, nights: list[Snapshot], staying: set[str]) -> dict[str, str]:
    """Map kept nights to the earlier nights from which their instruments were carried over."""
    # The earlier night must be kept too. If its own instruments were also carried over, their
    # source must be kept as well.
    needed: dict[str, str] = {}
    for snapshot in sorted(nights, key=lambda snapshot: snapshot.snapshot_id, reverse=True):
        if snapshot.snapshot_id in staying or snapshot.snapshot_id in needed.values():
            manifest = load_manifest(snapshot.folder)
            if flatten.failed_venues(manifest) or _has_carried(layout, snapshot):
                moment = datetime.fromisoformat(manifest.finished_at)
                before = snapshots.accepted_before(nights, snapshot.snapshot_id, moment)
                if (last := next(before, None)) is not None:
                    needed[snapshot.snapshot_id] = last.snapshot_id
    return needed


def _has_carried(layout: Layout, snapshot: Snapshot) -> bool:
    """Return whether a night contains instruments carried over from an earlier night."""
    if not layout.manifest(snapshot.snapshot_id).is_file():
        return False
    return bool(lake_manifest.read_manifest(layout, snapshot.snapshot_id).get("carried"))


def _require_whole(layout: Layout, going: set[str]) -> None:
    """Raise `KeptNightDamaged` if any night is damaged, except for the nights to be deleted."""
    damages = [damage for damage in verify(layout) if damage.what != SURPLUS]
    kept_damages = [str(damage) for damage in damages if damage.night not in going]
    if kept_damages:
        raise KeptNightDamaged(kept_damages)


def _files(layout: Layout, snapshot: Snapshot) -> Iterator[Path]:
    """Yield a night's lake files and bodies, which are the files that pruning deletes."""
    own = {night_folders.MANIFEST, DECISION}
    bodies = [path for path in sorted(snapshot.folder.glob("[!.]*")) if path.name not in own]
    yield from _lake_files(layout, snapshot)
    yield from (path for path in bodies if path.is_file())


def _lake_files(layout: Layout, snapshot: Snapshot) -> Iterator[Path]:
    """Yield a night's files in the lake, which can all be rebuilt.

    The lake manifest comes first, because it lists the other files.
    """
    day, snapshot_id = snapshot.snapshot_date, snapshot.snapshot_id
    places = [layout.manifest(snapshot_id)]
    places += [layout.parquet(table.name, day, snapshot_id) for table in LAKE]
    places += sorted(layout.staged_file("portfolios", snapshot_id).parent.glob("[!.]*"))
    return (path for path in places if path.is_file())


def _remove(layout: Layout, files: tuple[Path, ...]) -> None:
    """Delete files, and the folders that become empty."""
    for path in files:
        path.unlink(missing_ok=True)
    for folder in {path.parent: None for path in files}:
        if folder != layout.manifests:
            with contextlib.suppress(OSError):  # The error means that the folder is not empty.
                folder.rmdir()
        if folder.is_dir():
            sync_directory(folder)
