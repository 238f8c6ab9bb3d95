"""Tests of a real daemon, started like the shipped unit: it is killed, restarts and publishes."""

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.remote_origin import (
    ManagedGrpcPythonEnvCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from assets.commands.install import UNITS
from assets.definitions import assemble
from assets.graph.sensors import LOGGED, NIGHTLY
from assets.night.run_log import DIED
from assets.nightbook import Nightbook
from assets.runs.instance import make_instance
from tests.support.operator import DEAD, Receiver
from tests.support.operator_home import Sandbox, sandbox
from tests.support.shipped_units import Now, environment, started, until
from warehouse.storage.layout import Layout

START_UP = timedelta(seconds=15)


def runs(home: Path) -> dict[str, dg.DagsterRun]:
    """Return the runs of a home by their status."""
    with dg.DagsterInstance.from_config(str(home / "dagster")) as instance:
        return {run.status.value: run for run in instance.get_runs()}


def left_by_a_power_cut(layout: Layout, variables: dict[str, str], day: str) -> str:
    """Record a run that died with its daemon, so it is shown as running. Return the run's ID."""
    ours = {name: value for name, value in variables.items() if name.startswith("NIGHTBOOK_")}
    nightbook = Nightbook(lambda: ours)
    job = assemble(nightbook).resolve_job_def(NIGHTLY)
    target = LoadableTargetOrigin(
        executable_path=sys.executable, module_name="assets.definitions", working_directory=None
    )
    location = ManagedGrpcPythonEnvCodeLocationOrigin(
        loadable_target_origin=target, location_name="assets.definitions"
    )
    repository = RemoteRepositoryOrigin(location, "__repository__")
    make_instance(layout)
    with dg.DagsterInstance.from_config(str(layout.dagster)) as instance:
        # Simulate that a daemon ran before, because the first daemon of a home ignores all failures
        # that are older than itself.
        ended = [dg.DagsterEventType.RUN_FAILURE, dg.DagsterEventType.RUN_SUCCESS]
        cursors = {f"EVENT_LOG_CONSUMER_CURSOR-{kind.value}": "0" for kind in ended}
        instance.daemon_cursor_storage.set_cursor_values(cursors)
        return instance.create_run_for_job(
            job,
            run_config=LOGGED,
            status=dg.DagsterRunStatus.STARTED,
            tags={"dagster/partition": day},
            remote_job_origin=RemoteJobOrigin(repository, NIGHTLY),
        ).run_id


@pytest.mark.torture
def test_the_daemon_retries_the_night_after_a_power_cut(receiver: Receiver, tmp_path: Path) -> None:
    """The shipped unit's daemon reports the dead run, retries the night and sends a heartbeat."""
    home, log = tmp_path / "home", tmp_path / "daemon.log"
    day = str(datetime.now(UTC).date())
    with sandbox() as shown:
        shown.clock = Now()
        shown.show()
        variables = environment(home, shown.origin, telling(receiver))
        dead = left_by_a_power_cut(Layout(home), variables, day)
        _again(home, variables, log, receiver, shown)
    told_once(receiver, day)
    assert runs(home)["FAILURE"].run_id == dead
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    ours = [line for line in lines if line.get("run")]
    assert {"landed", "flattened"} <= {line["event"] for line in ours}
    assert {line["night"] for line in ours} == {day}


def telling(receiver: Receiver) -> dict[str, str]:
    """Return settings with a dead channel, followed by the receiver's channel and heartbeat."""
    return {
        "NIGHTBOOK_ALERTS": f"{DEAD},{receiver.channel}",
        "NIGHTBOOK_HEARTBEAT": f"http://127.0.0.1:{receiver.port}/alive",
    }


def told_once(receiver: Receiver, day: str) -> None:
    """Check that the receiver got one alert about the dead run and one heartbeat."""
    assert receiver.fetched == ["/alive"]
    [(title, words)] = receiver.alerts
    assert title == f"nightbook: the run of {day} failed"
    assert DIED in words
    assert "Dagster will retry it automatically." in words
    assert "These channels failed: channel 1 (json)." in words


@pytest.mark.torture
@pytest.mark.parametrize("begun", ["landing/*/.*.pulling", "lake/manifests/[0-9]*.json"])
def test_a_restarted_daemon_retries_and_publishes(
    receiver: Receiver, tmp_path: Path, begun: str
) -> None:
    """A daemon that is killed during a run and restarted reports it, retries it and publishes.

    `begun` matches a file that exists at that time: a night being pulled, or being moved into
    place.
    """
    home, log = tmp_path / "home", tmp_path / "daemon.log"
    home.mkdir()
    tick = datetime.now(UTC) + START_UP + timedelta(minutes=1)
    with sandbox() as shown:
        shown.clock = Now()
        shown.show("drip,path=/portfolios")
        settings = {"NIGHTBOOK_SCHEDULE": f"{tick.minute} {tick.hour} * * *"}
        variables = environment(home, shown.origin, settings | telling(receiver))
        with started(UNITS[0], home, variables, log):
            until("a night is begun", lambda: bool(list(home.glob(begun))), log)
            assert "STARTED" in runs(home)
        _again(home, variables, log, receiver, shown)
    told_once(receiver, str(tick.date()))


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
    with dg.DagsterInstance.from_config(str(home / "dagster")) as instance:
        slots = instance.event_log_storage
        assert all(
            not slots.get_concurrency_info(key).active_slot_count
            for key in slots.get_concurrency_keys()
        )
