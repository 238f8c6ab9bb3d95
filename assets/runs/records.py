"""Changes of Dagster's record of a home: pruned runs, and switches that somebody turned off.

Commands never import this module. They start it as a process: `python -m assets.runs.records`.
"""

import contextlib
import json
import sqlite3
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import date
from pathlib import Path

import dagster as dg

from assets.console.errors import is_ours
from assets.console.exit_codes import DONE, FAILED, WRONG_USAGE
from assets.console.invocation import full_command
from assets.graph.record import report_state
from assets.graph.step import PARTITION
from assets.home.daemon_state import read_daemon_state
from assets.monitoring.alerts import Alert
from assets.monitoring.switches import MEANING
from assets.night.step import parse_date
from assets.nightbook import Nightbook
from assets.runs.instance import open_instance
from pipelines.maintenance.prune import MissingDates
from warehouse.storage.layout import Layout

MAX_CHARACTERS = 300
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


class RecordAway(Exception):
    """The database with Dagster's record cannot be reached."""

    def __init__(self, layout: Layout, why: BaseException) -> None:
        self.why = first_line(why)
        super().__init__(
            f"Dagster's database for {layout.home} cannot be reached ({self.why}). Until it can be "
            f"reached, no schedule runs, and nothing can be started from Dagster's UI. Nothing was "
            f"changed. The database's address is in {layout.dagster / 'dagster.yaml'}. Meanwhile, "
            "nightbook run works without it."
        )


def first_line(error: BaseException) -> str:
    """Return only an error's type and first line, because database errors are long."""
    line = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {line[:MAX_CHARACTERS]}"


@contextlib.contextmanager
def reaching_record(layout: Layout) -> Iterator[None]:
    """Convert all errors in the `with` block, except our own, to `RecordAway`."""
    try:
        yield
    except Exception as error:
        if is_ours(error):
            raise
        raise RecordAway(layout, error) from error


def record_away_alert(nightbook: Nightbook, why: str) -> Alert:
    """Return the alert for an unreachable record, which is sent at most once a day."""
    layout, day = nightbook.layout, nightbook.now().date()
    return Alert(
        cause=f"record:{day}:False",
        title="Dagster's database cannot be reached",
        words=f"{why}\nNo schedule runs until the database responds, so start tonight's run "
        "yourself.",
        see=str(layout.dagster / "dagster.yaml"),
        command=full_command(layout, "run"),
    )


def turn_on(layout: Layout) -> tuple[str, ...]:
    """Turn on each schedule or sensor that somebody turned off, and return their names.

    A running daemon reads these states at its next tick, so it need not be restarted.
    """
    turned_on = []
    with open_instance(layout) as instance:
        for state in instance.all_instigator_state():
            if state.name in MEANING and not state.is_running:
                instance.update_instigator_state(state.with_status(type(state.status)["RUNNING"]))
                turned_on.append(state.name)
        # Do not change the time of the daemon's last report, because no daemon may be running.
        if (reported := read_daemon_state(layout)) is not None:
            report_state(layout, instance, reported.reported_at)
    return tuple(name for name in MEANING if name in turned_on)


def prune_record(layout: Layout, gone: MissingDates, *, dry_run: bool) -> tuple[int, int]:
    """Delete runs for pruned dates from Dagster's record. Raises `RecordAway`.

    Returns the number and the size of the runs. Unfinished runs are kept. A run without a partition
    belongs to the day on which it was created.
    """
    if not (layout.dagster / "dagster.yaml").is_file():
        return 0, 0
    with reaching_record(layout), open_instance(layout) as instance:
        old = [record.dagster_run.run_id for record in _runs(instance) if _is_gone(record, gone)]
        files = [path for run_id in old for path in _event_files(layout, run_id)]
        files += _orphans(layout, instance)
        size = sum(path.stat().st_size for path in files)
        for run_id in old if not dry_run else ():
            instance.compute_log_manager.delete_logs(prefix=[run_id])
            instance.delete_run(run_id)
    if not dry_run:
        # Delete the event files, because Dagster deletes a run's events but leaves the empty files
        # behind.
        for path in {*files, *(path for run_id in old for path in _event_files(layout, run_id))}:
            path.unlink(missing_ok=True)
        size += sum(map(_compact, _databases(layout)))
    return len(old), size


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


def main(arguments: Sequence[str]) -> int:
    """Run one action on Dagster's record for a command, and print its result as JSON."""
    nightbook = Nightbook()
    try:
        match arguments:
            case ["turn-on"]:
                result: object = turn_on(nightbook.layout)
            case ["prune", facts]:
                request = json.loads(facts)
                gone = MissingDates(
                    frozenset(map(date.fromisoformat, request["without_night"])),
                    frozenset(map(date.fromisoformat, request["kept"])),
                    date.fromisoformat(request["last"]),
                )
                result = prune_record(nightbook.layout, gone, dry_run=request["dry_run"])
            case _:
                return WRONG_USAGE
    except Exception as error:  # noqa: BLE001 - the command that started this process reports it
        print(error.why if isinstance(error, RecordAway) else first_line(error), file=sys.stderr)
        return FAILED
    print(json.dumps(result))
    return DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
