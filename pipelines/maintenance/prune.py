"""Delete the oldest nights, here and on the shelf, within the limits of a person."""

import contextlib
import errno
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path

from pipelines.flatten import flatten
from pipelines.lake import lake_manifest
from pipelines.landing import night_folders, snapshots
from pipelines.landing.manifest import load_manifest
from pipelines.landing.snapshots import DECISION, Snapshot, merge
from pipelines.maintenance.verify import SURPLUS, verify
from pipelines.shelf.arrival import require_same_answers
from pipelines.shelf.night_manifest import UNUSABLE, NightManifest
from pipelines.shelf.object_store import ObjectStore, StoredObject
from pipelines.shelf.shelf_list import newest_manifests, read_night
from pipelines.shelf.shelving import Shelver
from warehouse.contract.lake import LAKE
from warehouse.contract.states import ACCEPTED, COMPLETE, HELD, PRUNED
from warehouse.storage.layout import Layout, sync_directory

BY = "prune"
MOST_DAYS = 36500  # a hundred years: dates end some time, and so do slips of the finger
MOST_BYTES = 10**18


class InvalidLimit(ValueError):
    """There is no limit to prune by."""

    exit_code = 2

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"{problem}. Nothing was pruned. Say how many days to keep before the newest book, how "
            "many gigabytes bodies and tables may take, or both: nightbook prune --keep 400 "
            "--max-gb 20 --dry-run"
        )


class KeptNightDamaged(Exception):
    """What is to be kept is not whole, so nothing may go."""

    exit_code = 1

    def __init__(self, damage: list[str]) -> None:
        files = "1 file is" if len(damage) == 1 else f"{len(damage)} files are"
        super().__init__(
            f"Nothing was pruned: of nights that are to be kept, {files} not as written "
            f"({damage[0]}). Mend that first; nightbook verify lists all of it."
        )


@dataclass(frozen=True, slots=True)
class MissingDates:
    """The dates of which no night is left, and all others up to `last`, unless a night stays."""

    without_night: frozenset[date] = frozenset()
    kept: frozenset[date] = frozenset()
    last: date = date.min

    def __contains__(self, day: date) -> bool:
        return day in self.without_night or (day <= self.last and day not in self.kept)


@dataclass(frozen=True, slots=True)
class PruneResult:
    """What went, or with `dry_run` would go: snapshot ids, and the files with their bytes.

    `left` is how many bytes the bodies and tables of the nights that stay take.
    """

    snapshots: tuple[str, ...]
    files: tuple[Path, ...]
    byte_count: int
    left: int = 0
    gone: MissingDates = field(default_factory=MissingDates, compare=False)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Nights that are there, those that stay, those that must, and the last book of each month."""

    nights: list[Snapshot]
    staying: set[str]
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
    night whose instruments a kept one carried over. Raises `KeptNightDamaged` where a kept night is
    damaged, `InvalidLimit` for a limit that is none.
    """
    require_limit(keep_days, most_bytes)
    landed = snapshots.landed_snapshots(layout)
    gone = [snapshot for snapshot in landed if snapshot.state == PRUNED]
    nights = [snapshot for snapshot in landed if snapshot.state != PRUNED]
    plan = _plan(layout, nights, keep_days, keep_month_ends=keep_month_ends)
    sizes = {snapshot.snapshot_id: _size(_files(layout, snapshot)) for snapshot in nights}
    too_much = set() if most_bytes is None else _too_much(layout, plan, sizes, most_bytes)
    staying = plan.staying - too_much
    going = [snapshot for snapshot in nights if snapshot.snapshot_id not in staying]
    _require_whole(layout, {snapshot.snapshot_id for snapshot in going + gone})
    files = tuple(path for snapshot in (*gone, *going) for path in _files(layout, snapshot))
    done = PruneResult(
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
            why = f"older than {days} before the newest book"
            if snapshot.snapshot_id in too_much:
                why = f"bodies and tables took more than {most_bytes} bytes"
            _let_go(layout, snapshot, at, why)
        _remove(layout, files)
    return done


def _gone_days(
    gone: list[Snapshot], staying: list[Snapshot], keep_days: int | None
) -> MissingDates:
    kept = frozenset(snapshot.snapshot_date for snapshot in staying)
    books, last = snapshots.books(staying), date.min
    if keep_days is not None and books:
        last = max(books) - timedelta(days=keep_days)
    return MissingDates(frozenset(each.snapshot_date for each in gone) - kept, kept, last)


def _let_go(layout: Layout, snapshot: Snapshot, at: datetime, why: str) -> None:
    """Decide that a night goes, before any file of it does: killed between, none is missing.

    On a full disk there is no room for a decision. Only there goes first what can be made again.
    """
    decide = partial(snapshots.decide, snapshot, PRUNED, by=BY, at=at, reasons=(why,))
    try:
        decide()
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _remove(layout, tuple(_lake_files(layout, snapshot)))
        decide()


def require_limit(keep_days: int | None, most_bytes: int | None) -> None:
    """Raise `InvalidLimit` where neither an age nor a size is given, or one that cannot be meant."""
    if keep_days is None and most_bytes is None:
        raise InvalidLimit("Neither --keep nor --max-gb is given")
    if keep_days is not None and not 1 <= keep_days <= MOST_DAYS:
        raise InvalidLimit(f"{str(keep_days)[:40]} days is no limit: it is 1 to {MOST_DAYS}")
    if most_bytes is not None and not 1 <= most_bytes <= MOST_BYTES:
        raise InvalidLimit("A size that bodies and tables may take is 1 to 10^18 bytes")


def _plan(
    layout: Layout, nights: list[Snapshot], keep_days: int | None, *, keep_month_ends: bool
) -> _Plan:
    books = snapshots.books(nights)
    every = {snapshot.snapshot_id for snapshot in nights}
    if not books:
        return _Plan(nights, every, every, set())
    newest = max(books)
    never = {snapshot.snapshot_id for snapshot in nights if _waits(snapshot, nights)} | {
        books[newest].snapshot_id
    }
    lasts = {(day.year, day.month): book for day, book in sorted(books.items())}
    month_ends = {snapshot.snapshot_id for snapshot in lasts.values()} if keep_month_ends else set()
    if keep_days is None:
        return _Plan(nights, every, never, month_ends)
    young = {
        snapshot.snapshot_id
        for snapshot in nights
        if snapshot.snapshot_date > newest - timedelta(days=keep_days)
    }
    staying = young | never | month_ends
    return _Plan(
        nights, staying | set(_sources(layout, nights, staying).values()), never, month_ends
    )


def _too_much(layout: Layout, plan: _Plan, sizes: Mapping[str, int], most_bytes: int) -> set[str]:
    """Return what goes besides, until the rest fits or nothing more may go."""
    sources = _sources(layout, plan.nights, plan.staying)
    order = sorted(
        plan.staying - plan.never, key=lambda snapshot: (snapshot in plan.month_ends, snapshot)
    )
    staying, size = set(plan.staying), sum(sizes[snapshot] for snapshot in plan.staying)
    # Who needs whom changes as nights go: a night from which a kept one carried instruments over is
    # free only when that one has gone. So the next to go is looked for anew each time.
    while size > most_bytes:
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
    return sum(path.stat().st_size for path in files)


def _waits(snapshot: Snapshot, nights: list[Snapshot]) -> bool:
    """Return whether a person may still make it a book."""
    is_open = snapshot.state in (HELD, COMPLETE)
    return is_open and not any(
        snapshot_.state == ACCEPTED
        and snapshot_.snapshot_date == snapshot.snapshot_date
        and snapshot_.snapshot_id > snapshot.snapshot_id
        for snapshot_ in nights
    )


def _sources(layout: Layout, nights: list[Snapshot], staying: set[str]) -> dict[str, str]:
    """Return, by kept night, the night from which it carried instruments over."""
    # A source counts as kept, so that its own source is found as well.
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
    """Return whether rows of an earlier night are in it, whatever its answers were."""
    if not layout.manifest(snapshot.snapshot_id).is_file():
        return False
    return bool(lake_manifest.read_manifest(layout, snapshot.snapshot_id).get("carried"))


def _require_whole(layout: Layout, going: set[str]) -> None:
    damages = [damage for damage in verify(layout) if damage.what != SURPLUS]
    kept_damages = [str(damage) for damage in damages if damage.night not in going]
    if kept_damages:
        raise KeptNightDamaged(kept_damages)


def _files(layout: Layout, snapshot: Snapshot) -> Iterator[Path]:
    """Yield what goes of a night."""
    own = {night_folders.MANIFEST, DECISION}
    bodies = [path for path in sorted(snapshot.folder.glob("[!.]*")) if path.name not in own]
    yield from _lake_files(layout, snapshot)
    yield from (path for path in bodies if path.is_file())


def _lake_files(layout: Layout, snapshot: Snapshot) -> Iterator[Path]:
    """Yield what can be made again, the lake's manifest first, which names the rest."""
    day, snapshot_id = snapshot.snapshot_date, snapshot.snapshot_id
    places = [layout.manifest(snapshot_id)]
    places += [layout.parquet(table.name, day, snapshot_id) for table in LAKE]
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


ROOMS = ("landing/", "lake/")


@dataclass(frozen=True, slots=True)
class ShelfPruneResult:
    """Nights that went from the shelf, their objects, and why others did not."""

    snapshots: tuple[str, ...]
    objects: tuple[StoredObject, ...]
    problems: tuple[str, ...] = ()


def prune_shelf(
    shelver: Shelver,
    forget: Callable[[Collection[str]], None],
    would_go: Collection[str] = (),
    *,
    dry_run: bool,
) -> ShelfPruneResult:
    """Delete what the shelf holds of nights that are pruned here; `dry_run` only says what.

    `forget` takes them out of whatever else points at their objects, before anything goes;
    `would_go` are nights that a dry run has not pruned. Raises `StoreFailed`.
    """
    pruned = [
        snapshot
        for snapshot in snapshots.landed_snapshots(shelver.layout)
        if snapshot.state == PRUNED or snapshot.snapshot_id in would_go
    ]
    objects = _objects(shelver.store, {snapshot.snapshot_id for snapshot in pruned})
    going = [snapshot for snapshot in pruned if snapshot.snapshot_id in objects]
    if going and not dry_run:
        forget([snapshot.snapshot_id for snapshot in going])
        going, problems = _mark(shelver, going)
        keys = [item.key for snapshot in going for item in objects[snapshot.snapshot_id]]
        shelver.store.delete(keys)
    else:
        problems = []
    names = tuple(snapshot.snapshot_id for snapshot in going)
    gone = tuple(item for name in names for item in objects[name])
    return ShelfPruneResult(names, gone, tuple(problems))


def _objects(store: ObjectStore, snapshot_ids: Collection[str]) -> dict[str, list[StoredObject]]:
    """Return the large objects of some nights, also those that a dead run left unnamed."""
    objects: dict[str, list[StoredObject]] = {}
    for room in ROOMS:
        for item in store.list(room):
            snapshot_id = item.key.rpartition("/")[2].partition("-")[0]
            if snapshot_id in snapshot_ids:
                objects.setdefault(snapshot_id, []).append(item)
    return objects


def _mark(shelver: Shelver, nights: list[Snapshot]) -> tuple[list[Snapshot], list[str]]:
    """Write the generation that says that a night is pruned; returns those, and why others not."""
    newest, marked, problems = newest_manifests(shelver.store), list[Snapshot](), list[str]()
    for snapshot in nights:

        def next_generation(before: NightManifest, snapshot: Snapshot = snapshot) -> NightManifest:
            return _pruned_generation(shelver, snapshot, before)

        try:
            if (key := newest.get(snapshot.snapshot_id)) is not None:
                before = read_night(shelver.store, key)
                shelver.commit(before, next_generation(before), next_generation)
            marked.append(snapshot)  # without a manifest there is only what a dead run uploaded
        except UNUSABLE as error:
            problems.append(str(error))
    return marked, problems


def _pruned_generation(
    shelver: Shelver, snapshot: Snapshot, before: NightManifest
) -> NightManifest:
    """Return the generation of a night that is pruned, or the one before if it says so already."""
    if before.state == PRUNED:
        return before
    require_same_answers(snapshot, before)
    decisions = merge(snapshot.decisions, before.decisions)
    return shelver.generation(snapshot, before, decisions, before.documents, files=())
