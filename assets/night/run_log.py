"""The log of each run of a night: what its steps produced, and how the run ended.

Each run by a command writes one file in the folder `runs` of the home, one JSON object per line.
The daemon copies the results into Dagster and then moves the file into `runs/copied`. The process
holds a lock on its file, so a file without an end and without a lock belongs to a run that died.
"""

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import IO, Any, Self

from assets.home.daemon_state import is_locked
from assets.night.results import Result, from_json, to_json
from assets.night.step import StepFailure
from pipelines.maintenance.prune import MissingDates
from warehouse.storage.layout import Layout, make_directory, sync_directory

COPIED = "copied"
SUFFIX = ".jsonl"
MAX_READ = 40  # number of the newest logs that are read to find a run
_NAME = re.compile(r"\d{8}T\d{6}Z-")
DIED = "This run's process has died: it was killed, or the machine was stopped."


class RunLog:
    """The log of the run of this process. Use it as a context manager.

    A full disk does not stop the run, because the steps report it.
    """

    def __init__(
        self, layout: Layout, run_id: str, day: date, started: datetime, *, is_tick: bool = False
    ) -> None:
        self._path = folder_of(layout) / f"{started:%Y%m%dT%H%M%SZ}-{run_id}{SUFFIX}"
        self._first: dict[str, Any] = {
            "run": run_id,
            "day": day.isoformat(),
            "started": started.isoformat(),
            "is_tick": is_tick,
        }
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        with contextlib.suppress(OSError):
            make_directory(self._path.parent)
            self._file = self._path.open("ab", buffering=0)
            fcntl.flock(self._file, fcntl.LOCK_EX)
            self._write(self._first)
            sync_directory(self._path.parent)
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()

    def add_results(self, step: str, results: Sequence[Result]) -> None:
        """Store the results of a step."""
        self._write({"step": step, "results": [to_json(result) for result in results]})

    def add_failure(self, failure: StepFailure) -> None:
        """Store the reason why a step failed."""
        self._write({"failed": failure.step, "message": failure.message, "trace": failure.trace})

    def end(self, at: datetime, *, success: bool) -> None:
        """Store the end of the run."""
        self._write({"ended": at.isoformat(), "success": success})

    def _write(self, facts: dict[str, Any]) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.write(json.dumps(facts, ensure_ascii=False).encode() + b"\n")
                os.fsync(self._file.fileno())


@dataclass(slots=True, kw_only=True)
class LoggedRun:
    """A run as its log tells it. `success` is None if the log has no end.

    `is_alive` is true if the process still runs, and `is_tick` if cron started it.
    """

    path: Path
    run_id: str = ""
    day: date = date.min
    started: datetime | None = None
    ended: datetime | None = None
    success: bool | None = None
    is_alive: bool = False
    is_tick: bool = False
    failures: list[StepFailure] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)


def folder_of(layout: Layout) -> Path:
    """Return the folder with the logs of runs."""
    return layout.home / "runs"


def uncopied_runs(layout: Layout) -> list[LoggedRun]:
    """Return the runs that Dagster does not show yet, oldest first."""
    paths = sorted(folder_of(layout).glob(f"*{SUFFIX}"))
    return [_read(path) for path in paths if _NAME.match(path.name)]


def newest_run(layout: Layout, *, is_tick: bool = False) -> LoggedRun | None:
    """Return the newest run by a command (that cron started, if `is_tick`), or None."""
    runs = map(_read, reversed(_paths(layout)[-MAX_READ:]))
    return next((run for run in runs if run.is_tick or not is_tick), None)


def end_dead_runs(layout: Layout, at: datetime) -> list[LoggedRun]:
    """Return the runs whose process has died, and store their end, so that each is found once."""
    dead = [run for run in uncopied_runs(layout) if run.success is None and not run.is_alive]
    for run in dead:
        end = {"ended": at.isoformat(), "success": False, "died": True}
        with contextlib.suppress(OSError), run.path.open("ab") as file:
            file.write(b"\n" + json.dumps(end).encode() + b"\n")
    return dead


def move_to_copied(layout: Layout, run: LoggedRun) -> None:
    """Move the log of a run whose results Dagster shows now."""
    make_directory(_copied(layout))
    run.path.replace(_copied(layout) / run.path.name)


def logs_of(layout: Layout, days: MissingDates) -> list[Path]:
    """Return the logs of runs that started on one of these dates (UTC)."""
    return [path for path in _paths(layout) if date.fromisoformat(path.name[:8]) in days]


def _paths(layout: Layout) -> list[Path]:
    """Return the paths of all logs, oldest first. Skip files with unknown names."""
    folders = (_copied(layout), folder_of(layout))
    paths = [path for folder in folders for path in folder.glob(f"*{SUFFIX}")]
    return sorted((path for path in paths if _NAME.match(path.name)), key=lambda path: path.name)


def _copied(layout: Layout) -> Path:
    return folder_of(layout) / COPIED


def _read(path: Path) -> LoggedRun:
    """Read a log. Ignore an unfinished or damaged line, because the run may have been killed."""
    run = LoggedRun(path=path, is_alive=bool(is_locked(path)))
    for facts in _lines(path):
        with contextlib.suppress(LookupError, TypeError, ValueError):
            _add(run, facts)
    return run


def _add(run: LoggedRun, facts: dict[str, Any]) -> None:
    if "run" in facts:
        run.run_id, run.day = str(facts["run"]), date.fromisoformat(facts["day"])
        run.started, run.is_tick = datetime.fromisoformat(facts["started"]), bool(facts["is_tick"])
    elif "failed" in facts:
        failure = StepFailure(
            step=str(facts["failed"]), message=str(facts["message"]), trace=str(facts["trace"])
        )
        run.failures.append(failure)
    elif "results" in facts:
        run.results += [from_json(result) for result in facts["results"]]
    elif "ended" in facts:
        run.ended, run.success = datetime.fromisoformat(facts["ended"]), bool(facts["success"])


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        with contextlib.suppress(ValueError):
            facts = json.loads(line)
            if isinstance(facts, dict):
                yield facts
