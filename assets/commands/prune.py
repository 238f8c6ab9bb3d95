"""`nightbook prune`: delete old nights. Their manifests and decisions stay on record."""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click import option

from assets.console.command import HomeCommand
from assets.console.exit_codes import A_PERSON_MUST_DECIDE
from assets.console.parameters import flag
from assets.console.rows import print_lines
from assets.home.daemon_state import DagsterFailed, change_record
from assets.home.writer_lock import writing
from assets.night import run_log
from assets.night.step import parse_date
from assets.nightbook import Nightbook
from assets.publishing import publish, repair, shelf
from pipelines.lake import placement
from pipelines.landing import lock
from pipelines.maintenance.prune import (
    MAX_BYTES,
    InvalidLimit,
    MissingDates,
    PruneResult,
    prune,
    require_limit,
)
from warehouse.contract.model import count_of
from warehouse.database import versions
from warehouse.query.formats import printable_lines
from warehouse.reconcile.record.record import records_of
from warehouse.reconcile.terms import NotReconciled
from warehouse.storage.layout import Layout, sync_directory

if TYPE_CHECKING:
    from pipelines.lakehouse.entrance import Lakehouse

GIGABYTE = 10**9
# A new version of the warehouse starts as a copy of the last version. Including temporary files, it
# needs at most 1.3 times the space of the last version (measured).
COPIES_NEEDED = 1.5
COPIES_WANTED = 2
_EXPORT = re.compile(
    r"[a-z_]+-(\d{4}-\d\d-\d\d)(-part-[0-9a-f]{12})?"
    r"\.(xlsx|people\.csv|machines\.csv|parquet|duckdb|txt)(\.rejected\.txt)?"
)
_REPORT = re.compile(r"(?:statement-)?(\d{4}-\d\d-\d\d)(?:-[0-9a-f]{12})?\.html(\.rejected\.txt)?")
ALWAYS_KEPT = (
    "Never deleted: every night's manifest and decisions, the newest book,\n"
    "nights that are waiting for a decision, and nights whose rows a later night still uses."
)

EXAMPLES = "Examples:\n  nightbook prune --keep 400 --dry-run\n  nightbook prune --max-gb 50"


@dataclass(frozen=True, slots=True)
class Removed:
    """The number and size of the files that were removed or would be removed."""

    count: int
    byte_count: int


@click.command(cls=HomeCommand, writes=True, epilog=EXAMPLES)
@option(
    "--keep",
    "keep_days",
    type=click.IntRange(min=0),
    metavar="DAYS",
    help="Keep the last DAYS days, counted back from the newest book",
)
@option(
    "--max-gb",
    metavar="N",
    help="Delete the oldest nights until API responses and tables take at most N gigabytes",
)
@flag("--no-month-ends", help="Treat month-end books like any other night")
@flag("--shelf", "is_shelf", help="Also delete pruned nights from the object store")
@flag("--dry-run", help="List the nights to delete without deleting them")
def prune_command(
    nightbook: Nightbook,
    *,
    keep_days: int | None,
    max_gb: str | None,
    no_month_ends: bool,
    is_shelf: bool,
    dry_run: bool,
) -> int:
    """Delete old nights.

    Use --keep, --max-gb or both. The command never deletes the newest book, a night that is waiting
    for a decision, or a night whose rows a later night still uses. The manifest and the decisions
    of every night are never deleted either. --keep does not delete month-end books, and --max-gb
    deletes them last.
    """
    layout, now = nightbook.layout, nightbook.now()
    most = _bytes(max_gb)
    require_limit(keep_days, most)
    lakehouse = shelf.require_shelf(nightbook, "prune --shelf") if is_shelf else None
    with writing(nightbook, "pruning"):
        try:
            shelf.require_all_on_shelf(nightbook)
        except shelf.NotYetShelved as refusal:
            if not dry_run:
                raise
            print(printable_lines(f"Without --dry-run, this would fail: {refusal}"))
        verb = "to delete" if dry_run else "deleted"
        _make_room(layout, verb, dry_run=dry_run)
        is_unpublished = not dry_run and repair.before_publishing(nightbook)
        result = prune(
            layout,
            keep_days=keep_days,
            max_bytes=most,
            keep_month_ends=not no_month_ends,
            dry_run=dry_run,
            at=now,
        )
        _print_result(result, verb)
        _prune_files_and_runs(layout, result, verb, dry_run=dry_run)
        if is_unpublished or (result.snapshots and not dry_run):
            placement.move_into_place(layout)
            _publish(nightbook)
        if lakehouse is not None:
            _prune_shelf(lakehouse, result.snapshots, verb, dry_run=dry_run)
    print(f"The remaining nights' API responses and tables take up {result.left / 1e6:.1f} MB.")
    print(ALWAYS_KEPT)
    if most is not None and result.left > most:
        print(f"That is more than {max_gb} GB, but no more nights can be deleted.")
        return A_PERSON_MUST_DECIDE
    return 0


def _prune_shelf(
    lakehouse: "Lakehouse", pruned: tuple[str, ...], verb: str, *, dry_run: bool
) -> None:
    """Delete the pruned nights from the shelf, after removing them from the Iceberg tables."""
    result = lakehouse.prune(pruned, dry_run=dry_run)
    nights = count_of(len(result.nights), "night")
    count = count_of(len(result.objects), "object")
    size = sum(result.objects.values())
    print(f"{nights} {verb} from {lakehouse.url}: {count}, {size / 1e6:.1f} MB.")
    result.require_complete()


def _make_room(layout: Layout, verb: str, *, dry_run: bool) -> None:
    """Remove old warehouse versions if the disk has no room for `COPIES_WANTED` copies."""
    # Removing old versions is safe, because they can be rebuilt from the lake, and prune publishes
    # a new version at the end.
    lock.sweep(layout)
    is_full = not _has_room(layout, COPIES_WANTED)
    older = versions.older(layout) if is_full else []
    if older:
        count, size = count_of(len(older), "old version"), sum(map(versions.size_of, older))
        print(f"The disk is nearly full: {count} of the warehouse {verb}, {size / 1e6:.1f} MB.")
    for version in older if not dry_run else ():
        versions.remove(version)


def _publish(nightbook: Nightbook) -> None:
    """Publish the remaining nights if the disk has room. Delete old versions if necessary."""
    layout = nightbook.layout
    if not _has_room(layout, COPIES_NEEDED):
        print(
            "The warehouse was not published, because the disk is too full. It still shows the "
            "deleted nights. Free some space, then type: nightbook rebuild"
        )
        return
    publish.refresh(nightbook)
    _make_room(layout, "deleted", dry_run=False)


def _has_room(layout: Layout, copies: float) -> bool:
    """Return whether the disk has room for this many copies of the warehouse."""
    needed = copies * layout.database.stat().st_size if layout.database.exists() else 0
    return shutil.disk_usage(layout.home).free >= needed


def _prune_files_and_runs(layout: Layout, result: PruneResult, verb: str, *, dry_run: bool) -> None:
    """Delete exports, reports and Dagster runs of all nights that were ever pruned."""
    files = _prune_files(layout, result.gone, dry_run=dry_run)
    if files.count:
        count = count_of(files.count, "file")
        print(f"{count} from exports and reports {verb}, {files.byte_count / 1e6:.1f} MB.")
    for path in [] if dry_run else run_log.logs_of(layout, result.gone):
        path.unlink(missing_ok=True)
    if not (layout.dagster / "dagster.yaml").is_file():
        return
    gone = result.gone
    facts = {
        "without_night": [day.isoformat() for day in gone.without_night],
        "kept": [day.isoformat() for day in gone.kept],
        "last": gone.last.isoformat(),
        "dry_run": dry_run,
    }
    try:
        run_count, byte_count = change_record(layout, "prune", json.dumps(facts))
    except DagsterFailed as failure:
        reason = f"Dagster's runs were not deleted. The next prune will retry. {failure.reason}"
        print(printable_lines(reason))
        return
    if run_count or byte_count:
        count = count_of(run_count, "run")
        print(f"{count} from Dagster's history {verb}, {byte_count / 1e6:.1f} MB.")


def _print_result(result: PruneResult, verb: str) -> None:
    """Print the deleted nights. Call this before publishing, because publishing may fail."""
    nights, files = count_of(len(result.snapshots), "night"), count_of(len(result.files), "file")
    print(f"{nights} {verb}: {files}, {result.byte_count / 1e6:.1f} MB.")
    print_lines(result.snapshots)


def _bytes(text: str | None) -> int | None:
    """Convert gigabytes to bytes. Raises `InvalidLimit` if the limit is not valid."""
    if text is None:
        return None
    try:
        limit = Decimal(text) * GIGABYTE
    except ArithmeticError:  # the limit is not a number, or is out of range
        limit = Decimal("nan")
    if not limit.is_finite() or not 1 <= limit <= MAX_BYTES:
        raise InvalidLimit(f"{text[:40]!r} GB is not a valid limit")
    return int(limit)


def _prune_files(layout: Layout, gone: MissingDates, *, dry_run: bool) -> Removed:
    """Remove exports and reports for pruned dates, unless the date was signed or closed.

    With `dry_run`, only count them.
    """
    files = list(_files(layout, gone))
    size = sum(path.stat().st_size for path in files)
    for path in files if not dry_run else ():
        path.unlink(missing_ok=True)
    for folder in (layout.exports, layout.reports):
        if folder.is_dir() and not dry_run:
            sync_directory(folder)
    return Removed(len(files), size)


def _files(layout: Layout, gone: MissingDates) -> Iterator[Path]:
    """Yield the exports and reports to remove. Skip files with unknown names."""
    signed = _signed_days(layout)
    if signed is None:
        return
    for folder, name in ((layout.exports, _EXPORT), (layout.reports, _REPORT)):
        for path in sorted(folder.glob("*-*-*.*")):
            found = name.fullmatch(path.name)
            day = parse_date(found[1]) if found else None
            if day is not None and day in gone and day not in signed and path.is_file():
                yield path


def _signed_days(layout: Layout) -> set[date] | None:
    """Return the days that are signed or in a closed month, or None if the record is unreadable."""
    stores = records_of(layout.home)
    try:
        closed = {day.day for store in stores for each in store.closings for day in each.days}
        return closed | {signature.day for store in stores for signature in store.signatures}
    except NotReconciled:
        return None
