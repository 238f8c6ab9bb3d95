"""Tests of a look at the home that finds runs which failed or whose process was killed."""

from collections.abc import Callable

import pytest

from assets.monitoring import inspection
from assets.night.run_log import DIED, FAILURE, RunLog, newest_runs
from assets.night.step import StepFailure
from tests.support.operator import Receiver, Watched
from tests.support.operator_home import THIRD

Make = Callable[..., Watched]


def test_a_killed_run_sends_one_alert(watched: Make, receiver: Receiver) -> None:
    """The next look after a killed run sends one alert about it, and later looks send none."""
    here = watched()
    here.keeper.sandbox.clock.night(THIRD)
    with RunLog(here.keeper.nightbook, "killed", THIRD):
        here.look()
        assert receiver.titles == []
    here.look()
    [(title, words)] = receiver.alerts
    assert title == f"nightbook: the run of {THIRD} failed"
    assert DIED in words
    receiver.alerts.clear()
    here.look()
    assert receiver.titles == []


def test_a_failed_run_is_reported_by_the_next_look(watched: Make, receiver: Receiver) -> None:
    """If a command is killed after its run failed, the next look sends the alert, and only once."""
    here = watched()
    here.keeper.sandbox.clock.night(THIRD)
    with RunLog(here.keeper.nightbook, "failed", THIRD) as log:
        log.add_failure(StepFailure(step="pull", message="The API said no.", command="doctor"))
        log.end(FAILURE)
    here.look()
    [(title, words)] = receiver.alerts
    assert title == f"nightbook: the run of {THIRD} failed"
    assert "The API said no." in words
    assert "doctor" in words
    receiver.alerts.clear()
    here.look()
    assert receiver.titles == []


def test_a_killed_run_of_cron_is_retried_quietly(watched: Make, receiver: Receiver) -> None:
    """If cron starts another run on the same date, the alert about the killed run is quiet."""
    here = watched()
    here.keeper.sandbox.clock.night(THIRD)
    with RunLog(here.keeper.nightbook, "killed", THIRD, is_tick=True):
        """The process is killed."""
    here.look()
    assert receiver.kinds == ["info"]
    assert receiver.titles == [f"the night of {THIRD} has not been pulled yet and will be retried"]


def test_a_killed_run_is_reported_if_the_look_is_killed_too(
    watched: Make, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a look is killed after it found a killed run, the next look sends the alert."""
    here = watched()
    here.keeper.sandbox.clock.night(THIRD)
    with RunLog(here.keeper.nightbook, "killed", THIRD):
        """The process is killed."""

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(inspection, "find_alerts", die)
    with pytest.raises(KeyboardInterrupt):
        here.look()
    monkeypatch.undo()
    assert not any(run.is_dead for run in newest_runs(here.keeper.layout))
    here.look()
    assert receiver.titles == [f"the run of {THIRD} failed"]
