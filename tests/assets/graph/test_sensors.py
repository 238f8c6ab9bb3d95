"""Tests of the sensors and the schedule: alerts after real runs, ticks and default settings."""

import stat
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import cast

import dagster as dg
import pytest

from assets.definitions import assemble
from assets.graph.sensors import AFTER_A_RUN, BETWEEN, LOGGED
from assets.graph.step import SNAPSHOT
from assets.home.demo import MARK
from assets.runs.instance import open_instance
from pipelines.pull import pull
from tests.support.dagster_runs import ended, scheduled, watching
from tests.support.operator import Receiver, Watched
from tests.support.operator_home import FOURTH, SECOND, THIRD, Keeper

Make = Callable[..., Watched]


def test_a_failed_run_sends_one_alert(watched: Make, receiver: Receiver) -> None:
    """A failed run sends exactly one alert with its date, the API's error and a command to type."""
    keeper = watched().keeper
    keeper.sandbox.show("access-denied-400,path=/portfolios")
    assert not scheduled(keeper, THIRD).success
    ended(keeper)
    ended(keeper)
    keeper.sandbox.clock.night(THIRD, hour=9)
    watching(keeper)
    [(title, words)] = receiver.alerts
    assert title == f"nightbook: the run of {THIRD} failed"
    assert "ACCESS_DENIED" in words
    assert "It will not be retried." in words
    assert f"--home {keeper.home} doctor" in words
    assert receiver.fetched == []


def test_a_run_started_in_dagster_sends_only_an_info_alert(
    watched: Make, receiver: Receiver
) -> None:
    """A person who starts a run in Dagster sees it fail, so the failure is only an info alert."""
    keeper = watched().keeper
    with open_instance(keeper.layout) as instance:
        job = assemble(keeper.nightbook).resolve_implicit_global_asset_job_def()
        chosen = job.get_subset(asset_selection={dg.AssetKey("report")})
        assert not chosen.execute_in_process(instance=instance, raise_on_error=False).success
    ended(keeper)
    [(title, words)] = receiver.alerts
    assert title == "nightbook: a run that was started in Dagster failed (without a night)"
    assert "choose a night" in words
    assert receiver.kinds == ["info"]


@pytest.mark.torture
@pytest.mark.parametrize("is_by_command", [True, False])
def test_a_failed_run_sends_its_alert_once_a_channel_works(
    watched: Make, receiver: Receiver, *, is_by_command: bool
) -> None:
    """If every channel is down when a run fails, one alert is sent as soon as a channel works.

    The alert says when the failure was found. It is sent even if no sensor saw the failed run.
    """
    keeper = watched().keeper
    receiver.status = 500
    keeper.sandbox.show("access-denied-400,path=/portfolios")
    if is_by_command:
        assert keeper.run(THIRD).code == 1
    else:
        assert not scheduled(keeper, THIRD).success
        ended(keeper)
    unsent = keeper.home / "alerts" / "unsent.json"
    assert stat.S_IMODE(unsent.stat().st_mode) == 0o640
    assert "token-5b1d" not in unsent.read_text(encoding="utf-8")
    receiver.status = 200
    for hour in (3, 5):
        keeper.sandbox.clock.night(THIRD, hour=hour)
        watching(keeper)
    [(title, words)] = receiver.alerts
    assert title == f"nightbook: the run of {THIRD} failed"
    assert words.startswith(f"Found at {THIRD} 02:15 UTC.\n")
    assert "ACCESS_DENIED" in words
    assert not unsent.exists()


@pytest.mark.torture
def test_a_held_run_sends_only_one_alert(watched: Make, receiver: Receiver) -> None:
    """A run whose night is held sends one alert, which says that the night is held."""
    keeper = watched().keeper
    keeper.sandbox.show("portfolios-empty")
    scheduled(keeper, THIRD)
    ended(keeper)
    watching(keeper)
    assert receiver.titles == [f"the night of {THIRD} is held"]
    assert receiver.fetched == []


def test_a_good_run_sends_only_a_heartbeat(copied: Keeper, receiver: Receiver) -> None:
    """A successful run has a tag with its snapshot, and sends one heartbeat and no alert."""
    heartbeat = f"http://127.0.0.1:{receiver.port}/alive"
    more = {"NIGHTBOOK_HEARTBEAT": heartbeat, "NIGHTBOOK_ALERTS": receiver.channel}
    keeper = Keeper(copied.home, copied.sandbox, more)
    assert scheduled(keeper, FOURTH).success
    with open_instance(keeper.layout) as instance:
        [run] = instance.get_runs(limit=1)
    assert run.tags[SNAPSHOT] == f"{FOURTH:%Y%m%d}T021500Z"
    ended(keeper)
    watching(keeper)
    assert (receiver.titles, receiver.fetched) == ([], ["/alive"])


def test_a_night_that_did_not_start_sends_one_alert(watched: Make, receiver: Receiver) -> None:
    """If no run starts, exactly one alert is sent, hours after the tick and not earlier."""
    keeper = watched().keeper
    keeper.sandbox.clock.night(THIRD, hour=3)
    watching(keeper)
    assert receiver.titles == []
    for hour in (5, 6):
        keeper.sandbox.clock.night(THIRD, hour=hour)
        watching(keeper)
    assert receiver.titles == [f"no book for {THIRD} yet"]


@pytest.mark.torture
@pytest.mark.parametrize("later", [timedelta(), timedelta(days=3)])
def test_an_unjudged_night_sends_one_alert(
    watched: Make, receiver: Receiver, later: timedelta
) -> None:
    """A landed but unjudged night sends one alert after its deadline, and its command fixes it."""
    keeper = watched().keeper
    keeper.sandbox.show()
    keeper.sandbox.clock.night(THIRD)
    pull.pull_snapshot(keeper.nightbook.settings(api=True), keeper.nightbook.now, "0")
    keeper.sandbox.clock.night(THIRD, hour=3, minute=44)
    watching(keeper)
    assert receiver.titles == []
    for minute in (45, 50):
        keeper.sandbox.clock.night(THIRD + later, hour=3, minute=minute)
        watching(keeper)
    told = [words for title, words in receiver.alerts if "landed but not judged" in title]
    assert len(told) == 1
    of = f" --date {THIRD}" if later else ""
    assert f"--home {keeper.home} run{of}\n" in told[0]
    receiver.alerts.clear()
    assert keeper("run", *of.split()).code == 0
    assert "landed but not judged" not in keeper("status").out
    if later:
        assert keeper.ask("select max(snapshot_date) from balances") == [(THIRD,)]


def test_a_later_tick_skips_a_date_that_has_a_night(watched: Make) -> None:
    """A later tick starts a run only if the date has neither a book nor a held night."""
    home = watched()
    home.third("portfolios-empty")
    definitions = assemble(home.keeper.nightbook)
    schedule = definitions.resolve_schedule_def("nightly_schedule")
    repository = definitions.get_repository_def()
    wanted = {SECOND: 0, THIRD: 0, THIRD + timedelta(days=1): 1}
    for day, count in wanted.items():
        tick = datetime(day.year, day.month, day.day, 4, 15, tzinfo=UTC)
        with dg.DagsterInstance.ephemeral() as instance:
            context = dg.build_schedule_context(instance, tick, repository_def=repository)
            found = schedule.evaluate_tick(context).run_requests or []
        assert [one.run_config for one in found] == [LOGGED] * count, day


@pytest.mark.parametrize("is_demo", [True, False])
def test_sensors_are_on_by_default_except_in_a_demo(watched: Make, *, is_demo: bool) -> None:
    """All three sensors are on by default, except in a demo, and run at their own intervals."""
    keeper = watched().keeper
    keeper.sandbox.clock.night(SECOND, hour=9)
    if is_demo:
        (keeper.home / MARK).write_text("{}", encoding="utf-8")
    found = cast("Sequence[dg.SensorDefinition]", assemble(keeper.nightbook).sensors)
    assert [one.name for one in found] == ["night_failed", "night_succeeded", "watch"]
    wanted = dg.DefaultSensorStatus.STOPPED if is_demo else dg.DefaultSensorStatus.RUNNING
    assert {one.default_status for one in found} == {wanted}
    assert [one.minimum_interval_seconds for one in found] == [AFTER_A_RUN, AFTER_A_RUN, BETWEEN]
