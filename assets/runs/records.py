"""The runs in Dagster's database: their records, and how long they are kept."""

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
from assets.graph.partitions import PARTITION
from assets.home.dagster_internals import forget_checks
from assets.home.instance import open_instance, quiet
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
    """Dagster's record cannot be reached."""

    def __init__(self, layout: Layout, why: BaseException) -> None:
        self.why = first_line(why)
        super().__init__(
            f"Dagster's record of {layout.home} cannot be reached ({self.why}), so no schedule "
            "runs and nothing can be started from its UI until it is back. Nothing was changed. "
            f"See {layout.dagster / 'dagster.yaml'} for where it is. Meanwhile nightbook run takes "
            "the night without it, and the record follows."
        )


def first_line(error: BaseException) -> str:
    """Return the first line of an error: those of databases are pages, with statements in them."""
    line = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {line[:LONGEST]}"


def is_away(error: BaseException) -> bool:
    """Whether an error is that of a database, or was raised because of one."""
    # Dagster wraps the error of a database, and each database has its own module of errors: so the
    # whole chain of causes is searched for where an error comes from, not for its type.
    current: BaseException | None = error
    while current is not None:
        if type(current).__module__.partition(".")[0] in DATABASES:
            return True
        current = current.__cause__
    return False


@contextlib.contextmanager
def in_memory() -> Iterator[dg.DagsterInstance]:
    """Yield an instance that keeps its record for as long as the `with` lasts."""
    with quiet(), dg.DagsterInstance.ephemeral() as instance:
        yield instance


@contextlib.contextmanager
def reaching_record(layout: Layout) -> Iterator[None]:
    """Raise `RecordAway` for whatever is the matter with the record within the `with`."""
    try:
        yield
    except Exception as error:
        if is_ours(error):
            raise
        raise RecordAway(layout, error) from error


def record_away_alert(nightbook: Nightbook, why: str, *, is_taken: bool) -> Alert:
    """Return the alert that the record cannot be reached; once a day."""
    layout, day = nightbook.layout, nightbook.now().date()
    outcome = "No schedule runs until it is back: tonight is read by nobody unless by hand."
    if is_taken:
        outcome = "The night was taken without it, and the record follows when it is back."
    return Alert(
        cause=f"record:{day}:{is_taken}",
        title="Dagster's record cannot be reached",
        words=f"{why}\n{outcome}",
        see=str(layout.dagster / "dagster.yaml"),
        command=full_command(layout, "run"),
    )


def store_events(layout: Layout, day: str, result: dg.ExecuteInProcessResult) -> None:
    """Keep what a run made that could not be recorded, beside what is kept already."""
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


def record_stored_events(layout: Layout, instance: dg.DagsterInstance) -> int:
    """Give Dagster what was made without its record; how many events. Done twice is no harm."""
    entries = _stored_events(layout.home / KEPT)
    for entry in entries:
        instance.report_runless_asset_event(_event(entry))
    if entries:
        (layout.home / KEPT).unlink()
    return len(entries)


def _event(entry: dict[str, Any]) -> dg.AssetMaterialization | dg.AssetCheckEvaluation:
    key = dg.AssetKey(entry["asset"])
    if "check" not in entry:
        description = "Made while Dagster's record could not be reached."
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
    """Return what waits to be recorded; a file that cannot be read holds nothing of worth."""
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
PATIENCE = 10.0  # seconds for which a running daemon may hold a database
WORTH = 0.2  # of a database that is free before it is written anew
_EXPORT = re.compile(
    r"[a-z_]+-(\d{4}-\d\d-\d\d)\.(xlsx|people\.csv|machines\.csv|parquet)(\.rejected\.txt)?"
)
_REPORT = re.compile(r"(\d{4}-\d\d-\d\d)\.html(\.rejected\.txt)?")


@dataclass(frozen=True, slots=True)
class Removed:
    """What went, or would go: how many things and how many bytes."""

    count: int
    byte_count: int


def prune_files(layout: Layout, gone: MissingDates, *, dry_run: bool) -> Removed:
    """Remove exports and reports of dates that are gone, unless the date was signed or closed."""
    files = list(_files(layout, gone))
    size = sum(path.stat().st_size for path in files)
    for path in files if not dry_run else ():
        path.unlink(missing_ok=True)
    for folder in (layout.exports, layout.reports):
        if folder.is_dir() and not dry_run:
            sync_directory(folder)
    return Removed(len(files), size)


def _files(layout: Layout, gone: MissingDates) -> Iterator[Path]:
    """Yield files with the names that we give; a person's file of another name stays."""
    evidence = _signed_days(layout)
    if evidence is None:
        return
    for folder, name in ((layout.exports, _EXPORT), (layout.reports, _REPORT)):
        for path in sorted(folder.glob("*-*-*.*")):
            found = name.fullmatch(path.name)
            day = _date(found[1]) if found else None
            if day is not None and day in gone and day not in evidence and path.is_file():
                yield path


def _signed_days(layout: Layout) -> set[date] | None:
    """Return the days with a signature or a closed month; None if that cannot be read."""
    store = Record(layout.home / "reconcile")
    try:
        closed = {day.day for closing_ in store.closings for day in closing_.days}
        return closed | {signature.day for signature in store.signatures}
    except NotReconciled:
        return None


def prune_record(layout: Layout, gone: MissingDates, *, dry_run: bool) -> Removed:
    """Delete the runs of dates that are gone from Dagster's record; raises `RecordAway`.

    Runs that are not finished stay. A run without a date goes by the day on which it was created.
    """
    if not (layout.dagster / "dagster.yaml").is_file():
        return Removed(0, 0)
    with reaching_record(layout), open_instance(layout) as instance:
        old = [record.dagster_run.run_id for record in _runs(instance) if _is_gone(record, gone)]
        shards = [path for run_id in old for path in _shards(layout, run_id)]
        shards += _orphans(layout, instance)
        size = sum(path.stat().st_size for path in shards)
        for run_id in old if not dry_run else ():
            instance.compute_log_manager.delete_logs(prefix=[run_id])
            instance.delete_run(run_id)
        if old and not dry_run:
            forget_checks(instance, old)
    if not dry_run:
        # Dagster deletes the events of a run, and leaves the file of each run empty.
        for path in {*shards, *(path for run_id in old for path in _shards(layout, run_id))}:
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
    day = _date(record.dagster_run.tags.get(PARTITION, ""))
    return record.create_timestamp.date() <= gone.last if day is None else day in gone


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _shards(layout: Layout, run_id: str) -> list[Path]:
    """Return the files in which SQLite has the events of one run; none with another database."""
    folder = layout.dagster / "history" / "runs"
    return [path for path in sorted(folder.glob(f"{run_id}.db*")) if path.is_file()]


def _orphans(layout: Layout, instance: dg.DagsterInstance) -> list[Path]:
    """Return files of runs that were deleted by a prune which died before it came to the files."""
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
    """Give the free pages of a database back to the disk, and return how many bytes it had.

    A database that is in use stays as it is, and so does one for whose copy the disk has no room:
    the next prune tries again. SQLite makes the copy in one transaction.
    """
    before = path.stat().st_size
    try:
        with closing(sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)) as database:
            [free], [pages] = (
                database.execute(f"pragma {name}").fetchone()
                for name in ("freelist_count", "page_count")
            )
            if free < WORTH * pages:
                return 0
            database.execute("vacuum")
            database.execute("pragma wal_checkpoint(truncate)")
    except sqlite3.Error:
        return 0
    return max(0, before - path.stat().st_size)
