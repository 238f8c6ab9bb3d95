"""Dagster's run record: pruning, and storage for events while the record is unreachable."""

import contextlib
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg

from assets.console.errors import is_ours
from assets.console.invocation import full_command
from assets.graph.step import PARTITION, parse_date
from assets.home.instance import forget_checks, open_instance
from assets.monitoring.alerts import Alert
from assets.nightbook import Nightbook
from pipelines.maintenance.prune import MissingDates
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.terms import NotReconciled
from warehouse.storage.layout import Layout, read_json, sync_directory, write_json

KEPT = "unrecorded.json"
LONGEST = 300
DATABASES = {"sqlalchemy", "sqlite3", "psycopg2", "dagster_postgres", "pg8000", "MySQLdb"}


class RecordAway(Exception):
    """The database with Dagster's record cannot be reached."""

    def __init__(self, layout: Layout, why: BaseException) -> None:
        self.why = first_line(why)
        super().__init__(
            f"Dagster's database for {layout.home} cannot be reached ({self.why}). Until it can be "
            f"reached, no schedule runs, and nothing can be started from Dagster's UI. Nothing was "
            f"changed. The database's address is in {layout.dagster / 'dagster.yaml'}. "
            "Meanwhile, nightbook "
            "run can pull the night without the database, and records the run there later."
        )


def first_line(error: BaseException) -> str:
    """Return only an error's type and first line, because database errors are long."""
    line = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {line[:LONGEST]}"


def is_away(error: BaseException) -> bool:
    """Return whether a database raised the error or one of its causes."""
    # Check the module of each error in the chain of causes, not its type, because Dagster wraps
    # database errors and each driver has its own error types.
    current: BaseException | None = error
    while current is not None:
        if type(current).__module__.partition(".")[0] in DATABASES:
            return True
        current = current.__cause__
    return False


@contextlib.contextmanager
def reaching_record(layout: Layout) -> Iterator[None]:
    """Convert all errors in the `with` block, except our own, to `RecordAway`."""
    try:
        yield
    except Exception as error:
        if is_ours(error):
            raise
        raise RecordAway(layout, error) from error


def record_away_alert(nightbook: Nightbook, why: str, *, is_taken: bool) -> Alert:
    """Return the alert for an unreachable record, which is sent at most once a day."""
    layout, day = nightbook.layout, nightbook.now().date()
    outcome = "No schedule runs until the database responds, so start tonight's run yourself."
    if is_taken:
        outcome = (
            "The night was pulled without the database. The run will be recorded there when the "
            "database can be reached."
        )
    return Alert(
        cause=f"record:{day}:{is_taken}",
        title="Dagster's database cannot be reached",
        words=f"{why}\n{outcome}",
        see=str(layout.dagster / "dagster.yaml"),
        command=full_command(layout, "run"),
    )


def store_events(layout: Layout, day: str, result: dg.ExecuteInProcessResult) -> None:
    """Append a run's events to the file of events that Dagster could not record."""
    events: list[dict[str, Any]] = [
        {"day": day, "asset": list(event.asset_key.path)}
        for event in result.get_asset_materialization_events()
        if event.asset_key is not None
    ]
    events += [
        {
            "day": day,
            "asset": list(evaluation.asset_key.path),
            "check": evaluation.check_name,
            "passed": evaluation.passed,
            "severity": evaluation.severity.value,
            "words": evaluation.description or "",
        }
        for evaluation in result.get_asset_check_evaluations()
    ]
    write_json(layout.home / KEPT, [*_stored_events(layout.home / KEPT), *events])


def record_stored_events(layout: Layout, instance: dg.DagsterInstance) -> None:
    """Record the stored events in Dagster.

    If this call is interrupted, the next call records all events a second time, which is harmless.
    """
    entries = _stored_events(layout.home / KEPT)
    for entry in entries:
        instance.report_runless_asset_event(_event(entry))
    if entries:
        (layout.home / KEPT).unlink()


def _event(entry: dict[str, Any]) -> dg.AssetMaterialization | dg.AssetCheckEvaluation:
    key = dg.AssetKey(entry["asset"])
    if "check" not in entry:
        description = "This happened while Dagster's database could not be reached."
        return dg.AssetMaterialization(key, description=description, partition=entry["day"])
    return dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=entry["check"],
        passed=entry["passed"],
        metadata={},
        severity=dg.AssetCheckSeverity(entry["severity"]),
        description=entry["words"],
    )


def _stored_events(path: Path) -> list[dict[str, Any]]:
    """Return the stored events that Dagster has not recorded, or none if the file is unreadable."""
    with contextlib.suppress(OSError, ValueError):
        return list(read_json(path))
    return []


FINISHED = [
    dg.DagsterRunStatus.SUCCESS,
    dg.DagsterRunStatus.FAILURE,
    dg.DagsterRunStatus.CANCELED,
]
PAGE = 500
A_DAY = 86_400.0
# Maximum number of seconds to wait for a running daemon to release a database.
DATABASE_TIMEOUT = 10.0
VACUUM_SHARE = 0.2  # vacuum a database if at least this share of its pages is free
_EXPORT = re.compile(
    r"[a-z_]+-(\d{4}-\d\d-\d\d)\.(xlsx|people\.csv|machines\.csv|parquet)(\.rejected\.txt)?"
)
_REPORT = re.compile(r"(\d{4}-\d\d-\d\d)\.html(\.rejected\.txt)?")


@dataclass(frozen=True, slots=True)
class Removed:
    """The number and size of the files or runs that were removed or would be removed."""

    count: int
    byte_count: int


def prune_files(layout: Layout, gone: MissingDates, *, dry_run: bool) -> Removed:
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
    store = Record(layout.home / "reconcile")
    try:
        closed = {day.day for closing in store.closings for day in closing.days}
        return closed | {signature.day for signature in store.signatures}
    except NotReconciled:
        return None


def prune_record(layout: Layout, gone: MissingDates, *, dry_run: bool) -> Removed:
    """Delete runs for pruned dates from Dagster's record. Raises `RecordAway`.

    Unfinished runs are kept. A run without a partition belongs to the day on which it was created.
    """
    if not (layout.dagster / "dagster.yaml").is_file():
        return Removed(0, 0)
    with reaching_record(layout), open_instance(layout) as instance:
        old = [record.dagster_run.run_id for record in _runs(instance) if _is_gone(record, gone)]
        files = [path for run_id in old for path in _event_files(layout, run_id)]
        files += _orphans(layout, instance)
        size = sum(path.stat().st_size for path in files)
        for run_id in old if not dry_run else ():
            instance.compute_log_manager.delete_logs(prefix=[run_id])
            instance.delete_run(run_id)
        if old and not dry_run:
            forget_checks(instance, old)
    if not dry_run:
        # Delete the event files, because Dagster deletes a run's events but leaves the empty files
        # behind.
        for path in {*files, *(path for run_id in old for path in _event_files(layout, run_id))}:
            path.unlink(missing_ok=True)
        size += sum(map(_compact, _databases(layout)))
    return Removed(len(old), size)


def _runs(instance: dg.DagsterInstance) -> Iterator[dg.RunRecord]:
    cursor = None
    finished = dg.RunsFilter(statuses=FINISHED)
    while page := instance.get_run_records(finished, limit=PAGE, cursor=cursor):
        yield from page
        cursor = page[-1].dagster_run.run_id


def _is_gone(record: dg.RunRecord, gone: MissingDates) -> bool:
    day = parse_date(record.dagster_run.tags.get(PARTITION, ""))
    return record.create_timestamp.date() <= gone.last if day is None else day in gone


def _event_files(layout: Layout, run_id: str) -> list[Path]:
    """Return the paths of a run's SQLite event files. Database servers do not use such files."""
    folder = layout.dagster / "history" / "runs"
    return [path for path in sorted(folder.glob(f"{run_id}.db*")) if path.is_file()]


def _orphans(layout: Layout, instance: dg.DagsterInstance) -> list[Path]:
    """Return event files that an interrupted prune left behind after deleting their runs."""
    known = {*instance.get_run_ids(), "index"}
    files = (layout.dagster / "history" / "runs").glob("*.db*")
    yesterday = time.time() - A_DAY
    return [
        path
        for path in files
        if path.name.partition(".")[0] not in known and path.stat().st_mtime < yesterday
    ]


def _databases(layout: Layout) -> Iterable[Path]:
    names = ("history/runs.db", "history/runs/index.db", "schedules/schedules.db")
    return (path for name in names if (path := layout.dagster / name).is_file())


def _compact(path: Path) -> int:
    """Vacuum a database if enough of its pages are free. Returns the number of bytes freed.

    SQLite vacuums in one transaction, by making a copy. If the database is in use or the disk has
    no room for the copy, nothing changes and the next prune tries again.
    """
    before = path.stat().st_size
    try:
        with closing(
            sqlite3.connect(path, timeout=DATABASE_TIMEOUT, isolation_level=None)
        ) as database:
            [free], [pages] = (
                database.execute(f"pragma {name}").fetchone()
                for name in ("freelist_count", "page_count")
            )
            if free < VACUUM_SHARE * pages:
                return 0
            database.execute("vacuum")
            database.execute("pragma wal_checkpoint(truncate)")
    except sqlite3.Error:
        return 0
    return max(0, before - path.stat().st_size)
