"""Tests of runs from the command line, as cron starts them: alerts, JSON lines and heartbeats."""

import json
from collections.abc import Callable
from typing import Any

import dagster as dg
import pytest

from assets import definitions
from assets.night.run_log import DIED, RunLog, newest_runs
from tests.support.dagster_runs import scheduled, watching
from tests.support.operator import Receiver, Watched
from tests.support.operator_home import KEY, SECRET, THIRD, amounts_of

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
    reason, channel = said.err.splitlines()
    assert last["words"] == reason
    assert channel == "channel 1 (json) in NIGHTBOOK_ALERTS did not accept a message"
    watching(keeper)
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
    watching(keeper)
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
    assert {one["run"] for one in found} == {next(newest_runs(keeper.layout)).run_id}
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
    keeper.sandbox.clock.night(THIRD, hour=1)
    with RunLog(keeper.nightbook, "killed", THIRD):
        """The process is killed."""
    keeper.sandbox.show()
    assert keeper.run(THIRD).code == 0
    [(title, words)] = receiver.alerts
    assert title == f"nightbook: the run of {THIRD} failed"
    assert DIED in words
    receiver.alerts.clear()
    monkeypatch.setattr("assets.console.terminal.is_terminal", lambda: True)
    monkeypatch.setattr("assets.commands.run.is_terminal", lambda: True)
    said = keeper.run(THIRD, hour=3)
    assert (said.code, receiver.titles) == (0, [])
    assert "{" not in said.out
    assert f"accepted: snapshot {THIRD:%Y%m%d}T031500Z" in said.out


@pytest.mark.torture
def test_a_night_succeeds_while_the_database_of_dagster_is_damaged(
    watched: Make, receiver: Receiver
) -> None:
    """A command never opens Dagster's database, so a night is complete while it is damaged.

    `status` and `doctor` work too.
    """
    keeper = watched().keeper
    database = keeper.layout.dagster / "history" / "runs.db"
    database.parent.mkdir(parents=True)
    database.write_bytes(b"no database " * 1000)
    keeper.sandbox.show()
    said = keeper.run(THIRD)
    assert (said.code, said.err, receiver.titles) == (0, "", [])
    rows = keeper.ask(
        "select portfolio_id, asset_id, venue_id, account_name, bucket, state, amount_text "
        f"from history.balances where snapshot_date = '{THIRD}'"
    )
    assert sorted(rows) == amounts_of(THIRD)
    assert f"last night  {THIRD}, snapshot" in keeper("status").out
    assert "database" not in keeper("doctor").out
    assert database.read_bytes() == b"no database " * 1000


def test_runs_of_the_schedule_log_the_same_lines(
    watched: Make, capfd: pytest.CaptureFixture[str]
) -> None:
    """A run of the schedule logs the same JSON lines to stderr, with the reason for a failure."""
    keeper = watched().keeper
    keeper.sandbox.show("access-denied-400,path=/portfolios")
    ran = scheduled(keeper, THIRD)
    found = lines(capfd.readouterr().err)
    assert {one["run"] for one in found} == {ran.run_id}
    assert {one["night"] for one in found} == {str(THIRD)}
    [failed] = [one for one in found if one["event"] == "step_failure"]
    assert (failed["level"], failed["step"]) == ("error", "pull")
    assert "ACCESS_DENIED" in failed["words"]


def test_an_import_assembles_no_definitions() -> None:
    """Importing `assets.definitions` assembles no definitions. Each caller assembles them once."""
    assert not any(isinstance(one, dg.Definitions) for one in vars(definitions).values())
