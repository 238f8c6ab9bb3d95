"""A real daemon, started as the shipped unit starts it: it ticks, dies, comes back, publishes."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from assets.commands.install import UNITS
from tests.keeper import Sandbox, sandbox
from tests.operator.conftest import Receiver
from tests.operator.units import Now, environment, started, until
from warehouse.layout import Layout

START_UP = timedelta(seconds=15)


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
            "NIGHTBOOK_SCHEDULE": f"{tick.minute} {tick.hour} * * *",
            "NIGHTBOOK_ALERTS": f"json://127.0.0.1:9/dead,{receiver.channel}",
            "NIGHTBOOK_HEARTBEAT": f"http://127.0.0.1:{receiver.port}/alive",
        }
        variables = environment(home, shown.origin, settings)
        with started(UNITS[0], home, variables, log):
            pulling = "landing/*/.*.pulling"
            until("a night is begun", lambda: bool(list(home.glob(pulling))), log)
            assert "STARTED" in runs(home)
        _again(home, variables, log, receiver, shown)
    assert receiver.fetched == ["/alive"]
    [(title, words)] = receiver.alerts
    assert title == f"nightbook: the run of {tick.date()} failed"
    assert "It is tried again by itself." in words
    assert "Not reached: channel 1 (json)." in words


def _again(
    home: Path, variables: dict[str, str], log: Path, receiver: Receiver, shown: Sandbox
) -> None:
    shown.show()
    with started(UNITS[0], home, variables, log):
        until("the death is told", lambda: bool(receiver.alerts), log)
        until("the night is taken again", lambda: "SUCCESS" in runs(home), log)
        until("the sign of life", lambda: bool(receiver.fetched), log)
        ended = runs(home)
        assert set(ended) == {"FAILURE", "SUCCESS"}
        assert ended["SUCCESS"].parent_run_id == ended["FAILURE"].run_id
        assert Layout(home).database.exists()
