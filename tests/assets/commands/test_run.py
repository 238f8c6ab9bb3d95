"""Tests of runs from the command line, as cron starts them: alerts, JSON lines and heartbeats."""

import json
from collections.abc import Callable
from typing import Any

import dagster as dg
import pytest

from assets import definitions
from assets.definitions import assemble
from assets.graph.sensors import LOGGED, NIGHTLY
from assets.runs.instance import DIED, PROCESS
from tests.support.operator import Receiver, Watched, ended
from tests.support.operator_home import KEY, SECRET, THIRD, Keeper

Make = Callable[..., Watched]


def lines(text: str) -> list[dict[str, Any]]:
    """Parse JSON lines, and check the keys that every line has."""
    found = [json.loads(line) for line in text.splitlines()]
    assert all({"time", "level", "event", "words"} <= set(one) for one in found)
    assert all(one["time"].endswith("Z") for one in found)
    return found


@pytest.mark.torture
def test_a_failed_run_sends_its_own_alert_once(watched: Make, receiver: Receiver) -> None:
    """Without a daemon, a failed run sends its alert itself. A daemon does not send it twice."""
    keeper = watched().keeper
    keeper.sandbox.show("access-denied-400,path=/portfolios")
    said = keeper.run(THIRD)
    [(title, words)] = receiver.alerts
    assert title == f"nightbook: the run of {THIRD} failed"
    assert "ACCESS_DENIED" in words
    assert "ACCESS_DENIED" in said.err
    *_, last = lines(said.out)
    assert (last["event"], last["level"]) == ("failed", "error")
    assert last["words"] == said.err.rstrip("\n")
    ended(keeper)
    assert len(receiver.alerts) == 1
    assert receiver.fetched == []


@pytest.mark.parametrize(
    ("fault", "deadline", "cause"),
    [
        pytest.param(
            *("503", 2, "The API has answered with status 503 since 02:1"),
            marks=pytest.mark.torture,
        ),
        ("503-retry-after,seconds=600", 20, "The API asks the client to wait 600 seconds, but "),
    ],
)
def test_the_error_of_a_run_begins_with_its_cause(
    watched: Make, receiver: Receiver, fault: str, deadline: int, cause: str
) -> None:
    """The error of a run begins with the behaviour of the API, not with the pull's deadline."""
    keeper = watched().keeper
    keeper.more["NIGHTBOOK_DEADLINE"] = str(deadline)
    keeper.sandbox.show(fault)
    said = keeper.run(THIRD)
    assert said.code == 1
    assert said.err.startswith(cause)
    assert "NIGHTBOOK_DEADLINE" in said.err


@pytest.mark.torture
def test_a_held_run_sends_its_own_alert_once(watched: Make, receiver: Receiver) -> None:
    """A run whose night is held sends only the alert about the held night, and only once."""
    keeper = watched().keeper
    keeper.sandbox.show("portfolios-empty")
    said = keeper.run(THIRD)
    assert said.code == 3
    ended(keeper)
    assert receiver.titles == [f"the night of {THIRD} is held"]
    *_, last = lines(said.out)
    assert (last["event"], last["level"]) == ("held", "warning")
    assert last["snapshot"] == f"{THIRD:%Y%m%d}T021500Z"
    assert receiver.fetched == []


@pytest.mark.torture
def test_a_good_run_logs_json_and_sends_a_heartbeat(watched: Make, receiver: Receiver) -> None:
    """A good run logs JSON lines with night, run and snapshot, and sends only a heartbeat.

    It also writes the metrics, and does not log any secret.
    """
    keeper = watched().keeper
    keeper.sandbox.show()
    said = keeper.run(THIRD)
    assert (said.code, said.err) == (0, "")
    found = lines(said.out)
    events = [one["event"] for one in found]
    assert events[0] == "started"
    assert events[-2:] == ["accepted", "published"]
    assert {"landed", "flattened"} <= set(events)
    assert {one["night"] for one in found} == {str(THIRD)}
    with dg.DagsterInstance.from_config(str(keeper.layout.dagster)) as instance:
        assert {one["run"] for one in found} == {instance.get_runs(limit=1)[0].run_id}
    early = ("started", "pulling", "publishing")  # progress lines, which may lack a snapshot
    known = {one["snapshot"] for one in found if one["event"] not in early}
    assert known == {f"{THIRD:%Y%m%d}T021500Z"}
    assert (receiver.titles, receiver.fetched) == ([], ["/alive"])
    assert (keeper.home / "metrics" / "nightbook.prom").is_file()
    for secret in (KEY, SECRET, "token-5b1d"):
        assert secret not in said.out


@pytest.mark.torture
def test_the_next_run_reports_a_killed_run(
    watched: Make, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run after a killed run sends one alert about it, without any daemon.

    At a terminal, a run prints text instead of JSON.
    """
    keeper = watched().keeper
    keeper.layout.dagster.mkdir(exist_ok=True)
    with dg.DagsterInstance.from_config(str(keeper.layout.dagster)) as instance:
        job = assemble(keeper.nightbook).resolve_job_def(NIGHTLY)
        tags = {PROCESS: "gone", "dagster/partition": str(THIRD)}
        status = dg.DagsterRunStatus.STARTED
        dead = instance.create_run_for_job(job, status=status, tags=tags)
    keeper.sandbox.show()
    assert keeper.run(THIRD).code == 0
    [(title, words)] = receiver.alerts
    assert title == f"nightbook: the run of {THIRD} failed"
    assert DIED in words
    with dg.DagsterInstance.from_config(str(keeper.layout.dagster)) as instance:
        run = instance.get_run_by_id(dead.run_id)
        assert run is not None
        assert run.status is dg.DagsterRunStatus.FAILURE
    receiver.alerts.clear()
    monkeypatch.setattr("assets.console.terminal.is_terminal", lambda: True)
    monkeypatch.setattr("assets.commands.run.is_terminal", lambda: True)
    said = keeper.run(THIRD, hour=3)
    assert (said.code, receiver.titles) == (0, [])
    assert "{" not in said.out
    assert f"accepted: snapshot {THIRD:%Y%m%d}T031500Z" in said.out


def test_runs_of_the_schedule_log_the_same_lines(
    watched: Make, capfd: pytest.CaptureFixture[str]
) -> None:
    """A run of the schedule logs the same JSON lines to stderr, with the reason for a failure."""
    keeper: Keeper = watched().keeper
    keeper.sandbox.clock.night(THIRD)
    keeper.sandbox.show("access-denied-400,path=/portfolios")
    job = assemble(keeper.nightbook).resolve_job_def(NIGHTLY)
    with dg.DagsterInstance.ephemeral() as instance:
        ran = job.execute_in_process(
            partition_key=str(THIRD), instance=instance, run_config=LOGGED, raise_on_error=False
        )
    found = lines(capfd.readouterr().err)
    assert {one["run"] for one in found} == {ran.run_id}
    assert {one["night"] for one in found} == {str(THIRD)}
    [failed] = [one for one in found if one["event"] == "step_failure"]
    assert (failed["level"], failed["step"]) == ("error", "pull")
    assert "ACCESS_DENIED" in failed["words"]


def test_an_import_assembles_no_definitions() -> None:
    """Importing `assets.definitions` assembles no definitions. Each caller assembles them once."""
    assert not any(isinstance(one, dg.Definitions) for one in vars(definitions).values())
