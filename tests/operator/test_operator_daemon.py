"""A real daemon, started as the shipped unit starts it: it ticks, dies, comes back, publishes."""

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from assets.commands.install import UNITS, rendered
from tests.keeper import KEY, SECRET, Sandbox, sandbox
from tests.operator.conftest import Receiver
from warehouse.layout import Layout

PATIENCE = 150.0
START_UP = timedelta(seconds=15)


class Now:
    """The clock of this machine, where a sandbox expects one that stands."""

    def __call__(self) -> datetime:
        """The time it is."""
        return datetime.now(UTC)


def until(what: str, is_so: Callable[[], bool], log: Path) -> None:
    """Wait for something, and say what the daemon wrote where it does not come."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, f"{what}: not within {PATIENCE} s\n{log.read_text()[-4000:]}"
        time.sleep(0.3)


@contextmanager
def daemon(home: Path, settings: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The unit's command in its folder and environment; killed with all it started at the end."""
    unit = rendered(UNITS[0], Layout(home), home.parent, is_system=True)
    lines = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line)
    given = dict(word.split("=", 1) for word in shlex.split(lines["Environment"]))
    kept = {name: value for name, value in os.environ.items() if "NIGHTBOOK" not in name}
    with log.open("ab") as file:
        process = subprocess.Popen(
            shlex.split(lines["ExecStart"]),
            cwd=lines["WorkingDirectory"],
            env=kept | settings | given,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """What a power cut leaves of a daemon and its runs: nothing."""
    inside = f"{process.pid}"
    found = subprocess.run(["ps", "-eo", "pid=,sid="], capture_output=True, text=True, check=True)
    for line in found.stdout.splitlines():
        pid, session = line.split()
        if session == inside:
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                continue
    process.wait()


def runs(home: Path) -> dict[str, dg.DagsterRun]:
    """The runs of a home, by their status."""
    with dg.DagsterInstance.from_config(str(home / "dagster")) as instance:
        return {run.status.value: run for run in instance.get_runs()}


@pytest.mark.torture
def test_a_killed_daemon_comes_back_and_publishes(receiver: Receiver, tmp_path: Path) -> None:
    """Killed in mid-run and started again it tells the death, takes the night again, publishes."""
    home, log = tmp_path / "home", tmp_path / "daemon.log"
    home.mkdir()
    tick = datetime.now(UTC) + START_UP + timedelta(minutes=1)
    with sandbox() as shown:
        shown.clock = Now()  # type: ignore[assignment] # all that is asked of it is the time
        shown.show("drip,path=/portfolios")
        settings = {
            "NIGHTBOOK_API_URL": shown.origin,
            "NIGHTBOOK_API_KEY": KEY,
            "NIGHTBOOK_API_SECRET": SECRET,
            "NIGHTBOOK_SCHEDULE": f"{tick.minute} {tick.hour} * * *",
            "NIGHTBOOK_ALERTS": f"json://127.0.0.1:9/dead,{receiver.channel}",
            "NIGHTBOOK_HEARTBEAT": f"http://127.0.0.1:{receiver.port}/alive",
        }
        with daemon(home, settings, log):
            pulling = "landing/*/.*.pulling"
            until("a night is begun", lambda: bool(list(home.glob(pulling))), log)
            assert "STARTED" in runs(home)
        _again(home, settings, log, receiver, shown)
    assert receiver.fetched == ["/alive"]
    [(title, words)] = receiver.alerts
    assert title == f"nightbook: the run of {tick.date()} failed"
    assert "It is tried again by itself." in words
    assert "Not reached: channel 1 (json)." in words


def _again(
    home: Path, settings: dict[str, str], log: Path, receiver: Receiver, shown: Sandbox
) -> None:
    shown.show()
    with daemon(home, settings, log):
        until("the death is told", lambda: bool(receiver.alerts), log)
        until("the night is taken again", lambda: "SUCCESS" in runs(home), log)
        until("the sign of life", lambda: bool(receiver.fetched), log)
        ended = runs(home)
        assert set(ended) == {"FAILURE", "SUCCESS"}
        assert ended["SUCCESS"].parent_run_id == ended["FAILURE"].run_id
        assert Layout(home).database.exists()
