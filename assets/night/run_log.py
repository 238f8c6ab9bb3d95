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
from datetime import date
from pathlib import Path
from typing import IO, Any, Self

from assets.home.daemon_state import is_locked
from assets.night.results import Result, from_json, to_json
from assets.night.step import StepFailure
from assets.nightbook import Nightbook
from pipelines.maintenance.prune import MissingDates
from warehouse.storage.layout import Layout, make_directory, sync_directory

COPIED = "copied"
MAX_READ = 40  # number of the newest logs that are searched for a run
DIED = "This run's process has died: it was killed, or the machine was stopped."
# How a run ended. A run that was stopped by a person is neither a success nor a failure.
SUCCESS, FAILURE, STOPPED, KILLED = "success", "failure", "stopped", "killed"
_NAME = re.compile(r"(\d{8})T\d{6}Z-(.+)\.jsonl")


class RunLog:
    """The log of the run of this process. Use it as a context manager.

    A full disk does not stop the run, because the steps report it.
    """

    def __init__(
        self, nightbook: Nightbook, run_id: str, day: date, *, is_tick: bool = False
    ) -> None:
        self._now = nightbook.now
        name = f"{self._now():%Y%m%dT%H%M%SZ}-{run_id}.jsonl"
        self._path = nightbook.layout.runs / name
        self._first = {"run": run_id, "day": day.isoformat(), "is_tick": is_tick}
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        # Use a temporary name until the file is locked. Otherwise, another process could consider
        # this run dead.
        temporary = self._path.with_name(f".{self._path.name}.aside")
        with contextlib.suppress(OSError):
            make_directory(self._path.parent)
            self._file = temporary.open("ab", buffering=0)
            fcntl.flock(self._file, fcntl.LOCK_EX)
            self._write(self._first)
            temporary.rename(self._path)
            sync_directory(self._path.parent)
        return self

    def __exit__(self, _: object, error: object, *traceback: object) -> None:
        if isinstance(error, KeyboardInterrupt):
            self.end(STOPPED)
        if self._file is not None:
            self._file.close()

    def add_results(self, step: str, results: Sequence[Result]) -> None:
        """Store the results of a step."""
        self._write({"step": step, "results": [to_json(result) for result in results]})

    def add_failure(self, failure: StepFailure) -> None:
        """Store the reason why a step failed."""
        self._write(
            {
                "failed": failure.step,
                "message": failure.message,
                "command": failure.command,
                "trace": failure.trace,
            }
        )

    def end(self, end: str) -> None:
        """Store how the run ended. The next look at the home reports its problems."""
        self._write({"end": end, "is_reported": False})

    def _write(self, facts: dict[str, Any]) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.write(_line(facts | {"at": self._now().isoformat()}))
                os.fsync(self._file.fileno())


@dataclass(slots=True, kw_only=True)
class LoggedRun:
    """A run as its log tells it.

    `is_alive` is true if the process still runs, and `is_tick` if cron started it. `is_reported` is
    false until a look at the home has stored the alerts about the run.
    """

    path: Path
    run_id: str
    day: date
    is_alive: bool
    is_ended: bool = False
    is_tick: bool = False
    is_reported: bool = False
    results: list[Result] = field(default_factory=list)
    failures: list[StepFailure] = field(default_factory=list)

    @property
    def is_dead(self) -> bool:
        """Whether the run's process died before the run ended."""
        return not self.is_alive and not self.is_ended


def uncopied_runs(layout: Layout) -> Iterator[LoggedRun]:
    """Yield the runs that Dagster does not show yet, oldest first."""
    yield from map(_read, _paths(layout.runs))


def newest_runs(layout: Layout) -> Iterator[LoggedRun]:
    """Yield the newest runs by commands, newest first."""
    yield from map(_read, reversed(_paths(*_folders(layout))[-MAX_READ:]))


def add_report(run: LoggedRun) -> None:
    """Store that the alerts about a run are stored, and the end of a run whose process died."""
    end = {"end": KILLED} if run.is_dead else {}
    # Never create the file: the daemon may have moved it, and an empty log would replace it there.
    with (
        contextlib.suppress(OSError),
        os.fdopen(os.open(run.path, os.O_WRONLY | os.O_APPEND), "ab") as file,
    ):
        file.write(b"\n" + _line(end | {"is_reported": True}))


def archive(layout: Layout, run: LoggedRun) -> None:
    """Move the log of a run whose results Dagster shows now."""
    make_directory(layout.runs / COPIED)
    run.path.replace(layout.runs / COPIED / run.path.name)


def logs_of(layout: Layout, days: MissingDates) -> list[Path]:
    """Return the logs of the runs for these dates, except of runs that have not ended."""
    runs = map(_read, _paths(*_folders(layout)))
    return [run.path for run in runs if run.day in days and run.is_ended]


def _folders(layout: Layout) -> tuple[Path, Path]:
    return layout.runs, layout.runs / COPIED


def _paths(*folders: Path) -> list[Path]:
    """Return the paths of all logs, oldest first. Skip files with unknown names."""
    paths = [path for folder in folders for path in folder.glob("*.jsonl")]
    return sorted((path for path in paths if _NAME.match(path.name)), key=lambda path: path.name)


def _read(path: Path) -> LoggedRun:
    """Read a log. Ignore an unfinished or damaged line, because the run may have been killed."""
    [(day, run_id)] = _NAME.findall(path.name)
    is_alive = bool(is_locked(path))
    run = LoggedRun(path=path, run_id=run_id, day=date.fromisoformat(day), is_alive=is_alive)
    with contextlib.suppress(OSError):
        for line in path.read_bytes().splitlines():
            with contextlib.suppress(LookupError, TypeError, ValueError):
                _add(run, json.loads(line))
    return run


def _add(run: LoggedRun, facts: dict[str, Any]) -> None:
    if "run" in facts:
        run.day, run.is_tick = date.fromisoformat(facts["day"]), bool(facts["is_tick"])
    elif "results" in facts:
        run.results += [from_json(result) for result in facts["results"]]
    elif "failed" in facts:
        run.failures.append(
            StepFailure(
                step=facts["failed"], message=facts["message"], command=facts.get("command", "")
            )
        )
    elif "end" in facts or "is_reported" in facts:
        run.is_ended = True
        run.is_reported = facts.get("is_reported", True)  # older logs do not say it


def _line(facts: dict[str, Any]) -> bytes:
    return json.dumps(facts, ensure_ascii=False).encode() + b"\n"
