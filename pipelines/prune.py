"""Retention: which nights may go, and their going.

Kept for ever: the manifest and the decisions of every landed night, so that what was read, when,
with which SHA-256, and who decided what stays on record. What goes are its bodies and its tables.
A pruned night cannot be made again; the last five versions of the warehouse still show it.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from pipelines import flatten, landing, snapshots
from pipelines.snapshots import ACCEPTED, COMPLETE, DECISION, HELD, PRUNED, Snapshot
from pipelines.verify import SURPLUS, verify
from warehouse.layout import Layout, sync_directory
from warehouse.ops import NIGHTLY
from warehouse.tables import BOOK

BY = "prune"


class NotPruned(Exception):
    """What is to be kept is not whole, so nothing may go."""

    exit_code = 1

    def __init__(self, damage: list[str]) -> None:
        super().__init__(
            f"Nothing was pruned: {len(damage)} files of nights that are to be kept are not as "
            f"they were written ({damage[0]}). Mend them first; nightbook verify lists them all."
        )


@dataclass(frozen=True, slots=True)
class Pruned:
    """What went, or with `dry_run` would go: snapshot ids, and the files with their bytes."""

    snapshots: tuple[str, ...]
    files: tuple[Path, ...]
    byte_count: int


def prune(
    layout: Layout, *, keep_days: int, keep_month_ends: bool, dry_run: bool, at: datetime
) -> Pruned:
    """Let old nights go; the caller is the writer, and publishes afterwards.

    Days are counted back from the newest book, not from today: a home that has stopped loses
    nothing. What is newer stays, and the last book of each month if so wished, the newest book,
    every night that waits for a decision, and every night whose instruments a kept one carried
    over. Raises `NotPruned` where a kept night is damaged, `ValueError` for less than a day.
    """
    if keep_days < 1:
        raise ValueError(f"{keep_days} days cannot be kept: 1 is the least. Nothing was pruned.")
    known = [one for one in snapshots.landed(layout) if one.state != PRUNED]
    kept = _kept(known, keep_days, keep_month_ends=keep_month_ends)
    going = [one for one in known if one.snapshot_id not in kept]
    gone = [one for one in snapshots.landed(layout) if one.state == PRUNED]
    _require_whole(layout, {one.snapshot_id for one in going + gone})
    files = tuple(path for one in (*gone, *going) for path in _files(layout, one))
    size = sum(path.stat().st_size for path in files)
    if not dry_run:
        for one in going:
            why = f"older than {keep_days} days before the newest book"
            snapshots.decide(one, PRUNED, by=BY, at=at, reasons=(why,))
        _remove(layout, files)
    return Pruned(tuple(one.snapshot_id for one in going), files, size)


def _kept(known: list[Snapshot], keep_days: int, *, keep_month_ends: bool) -> set[str]:
    books = snapshots.books(known)
    if not books:
        return {one.snapshot_id for one in known}
    newest = max(books)
    kept = {
        one.snapshot_id
        for one in known
        if one.snapshot_date > newest - timedelta(days=keep_days) or _waits(one, known)
    }
    kept.add(books[newest].snapshot_id)
    if keep_month_ends:
        kept |= {
            book.snapshot_id for book in {(d.year, d.month): b for d, b in books.items()}.values()
        }
    return kept | _sources(known, kept)


def _waits(snapshot: Snapshot, known: list[Snapshot]) -> bool:
    """Whether a person may still make it a book."""
    is_open = snapshot.state in (HELD, COMPLETE)
    return is_open and not any(
        one.state == ACCEPTED
        and one.snapshot_date == snapshot.snapshot_date
        and one.snapshot_id > snapshot.snapshot_id
        for one in known
    )


def _sources(known: list[Snapshot], kept: set[str]) -> set[str]:
    """Nights from which a kept night carried instruments over: it could not be made without."""
    needed: set[str] = set()
    for one in sorted(known, key=lambda one: one.snapshot_id, reverse=True):
        if one.snapshot_id in kept | needed:
            manifest = landing.load(one.folder)
            if flatten.failed_venues(manifest):
                moment = datetime.fromisoformat(manifest.finished_at)
                before = snapshots.accepted_before(known, one.snapshot_id, moment)
                needed |= {source.snapshot_id for source in before[-1:]}
    return needed


def _require_whole(layout: Layout, going: set[str]) -> None:
    damage = [str(one) for one in verify(layout) if one.what != SURPLUS and one.night not in going]
    if damage:
        raise NotPruned(damage)


def _files(layout: Layout, snapshot: Snapshot) -> Iterator[Path]:
    """What goes of a night, the lake's manifest first: nobody then looks for its tables."""
    day, snapshot_id = snapshot.snapshot_date, snapshot.snapshot_id
    places = [layout.manifest(snapshot_id)]
    places += [layout.parquet(table.name, day, snapshot_id) for table in (*BOOK, *NIGHTLY)]
    places += sorted(layout.staged("portfolios", snapshot_id).parent.glob("[!.]*"))
    own = {landing.MANIFEST, DECISION}
    places += [path for path in sorted(snapshot.folder.glob("[!.]*")) if path.name not in own]
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
