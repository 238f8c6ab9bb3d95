"""Tests of the logs of runs: which runs are dead, and which logs are pruned."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from assets.night.results import AssetResult
from assets.night.run_log import SUCCESS, RunLog, add_report, archive, logs_of, newest_runs
from assets.night.step import StepFailure
from assets.nightbook import Nightbook
from pipelines.maintenance.prune import MissingDates

DAY = date(2026, 3, 6)
KILLED = """
import os, signal, sys
from datetime import date
from assets.night.run_log import RunLog
from assets.nightbook import Nightbook
nightbook = Nightbook(lambda: {"NIGHTBOOK_HOME": sys.argv[1]})
with RunLog(nightbook, "ours", date(2026, 3, 6), is_tick=True):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def nightbook(tmp_path: Path) -> Nightbook:
    """Return the context of an empty home, at an evening whose UTC date is the day before."""
    moment = datetime(2026, 3, 5, 23, 30, tzinfo=UTC)
    return Nightbook(lambda: {"NIGHTBOOK_HOME": str(tmp_path)}, lambda: moment)


def test_a_log_contains_the_results_and_the_failures_of_a_run(nightbook: Nightbook) -> None:
    """A log has one line for the start, each step and the end, and the results can be read back."""
    made = AssetResult(asset=("lake", "venues"), metadata={"rows": 2, "file": Path("a")})
    failure = StepFailure(step="workbook", message="no room", command="prune", trace="line 1")
    with RunLog(nightbook, "ours", DAY) as log:
        log.add_results("flatten_venues", [made])
        log.add_failure(failure)
        log.end("failure")
    [run] = newest_runs(nightbook.layout)
    assert (run.run_id, run.day, run.results) == ("ours", DAY, [made])
    assert [(one.step, one.message, one.command) for one in run.failures] == [
        ("workbook", "no room", "prune")
    ]
    assert (run.is_alive, run.is_ended, run.is_dead, run.is_tick) == (False, True, False, False)
    lines = [json.loads(line) for line in run.path.read_bytes().splitlines()]
    assert [next(iter(line)) for line in lines] == ["run", "step", "failed", "end"]
    assert all(line["at"] == "2026-03-05T23:30:00+00:00" for line in lines)


def test_a_moved_log_is_not_created_again(nightbook: Nightbook) -> None:
    """If the daemon moves a log before it is marked as reported, no second log appears."""
    with RunLog(nightbook, "ours", DAY) as log:
        log.end("failure")
    [run] = newest_runs(nightbook.layout)
    archive(nightbook.layout, run)
    add_report(run)
    assert not run.path.exists()
    [moved] = newest_runs(nightbook.layout)
    assert moved.day == DAY


def test_only_a_killed_run_is_dead(nightbook: Nightbook) -> None:
    """A run is dead if its process was killed, but not if it is alive or was stopped by Ctrl-C."""

    def are_dead() -> list[bool]:
        return [run.is_dead for run in newest_runs(nightbook.layout)]

    with RunLog(nightbook, "alive", DAY) as log:
        assert are_dead() == [False]
        log.end(SUCCESS)
    with pytest.raises(KeyboardInterrupt), RunLog(nightbook, "stopped", DAY):
        raise KeyboardInterrupt
    assert are_dead() == [False, False]
    home = str(nightbook.layout.home)
    killed = subprocess.run([sys.executable, "-c", KILLED, home], check=False)
    assert killed.returncode == -signal.SIGKILL
    newest, *others = newest_runs(nightbook.layout)
    assert (newest.run_id, newest.day, newest.is_tick) == ("ours", DAY, True)
    assert newest.is_dead
    assert not any(run.is_dead for run in others)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:20],
        lambda _: b"",
        lambda text: b"\xff\x00" + text,
        lambda text: text.replace(b"2026-03-06", b"tomorrow"),
    ],
)
def test_a_damaged_log_has_the_date_and_the_id_in_its_name(
    nightbook: Nightbook, damage: Callable[[bytes], bytes]
) -> None:
    """If the first line of a log is damaged, the run has the ID and the date in the log's name."""
    with RunLog(nightbook, "ours", DAY):
        pass
    [run] = newest_runs(nightbook.layout)
    run.path.write_bytes(damage(run.path.read_bytes()))
    (nightbook.layout.runs / "notes.jsonl").write_bytes(b"mine")
    [run] = newest_runs(nightbook.layout)
    assert (run.run_id, run.day, run.is_dead) == ("ours", date(2026, 3, 5), True)


def test_a_run_does_not_fail_if_its_log_cannot_be_written(nightbook: Nightbook) -> None:
    """If the folder of the logs cannot be created, the run continues without a log."""
    nightbook.layout.runs.write_bytes(b"not a folder")
    with RunLog(nightbook, "ours", DAY) as log:
        log.add_results("pull", [])
        log.end(SUCCESS)
    assert list(newest_runs(nightbook.layout)) == []


def test_logs_are_pruned_by_the_date_of_the_night(nightbook: Nightbook) -> None:
    """The logs of a pruned night are found by its date, whatever the date in UTC."""
    for run_id, day in (("gone", DAY), ("kept", date(2026, 3, 7)), ("unfinished", DAY)):
        with RunLog(nightbook, run_id, day) as log:
            if run_id != "unfinished":
                log.end(SUCCESS)
    gone = MissingDates(frozenset({DAY}), frozenset(), date(2026, 3, 1))
    [path] = logs_of(nightbook.layout, gone)
    assert path.stem.endswith("-gone")
