"""What Dagster's sensors tell after real runs of the nightly job, and how Dagster is given them."""

import stat
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import cast

import dagster as dg
import pytest

from assets.definitions import assemble
from assets.graph.sensors import AFTER_A_RUN, BETWEEN, LOGGED, sensors
from assets.home.demo import MARK
from pipelines.pull import pull
from tests.support.operator import Receiver, Watched, ended
from tests.support.operator_home import SECOND, THIRD, Keeper

Make = Callable[..., Watched]


def watching(keeper: Keeper) -> None:
    """A tick of the sensor that looks between runs."""
    keeper.layout.dagster.mkdir(exist_ok=True)
    with dg.DagsterInstance.from_config(str(keeper.layout.dagster)) as instance:
        sensors(keeper.nightbook)[2](dg.build_sensor_context(instance))


def test_a_failed_run_is_told_once(watched: Make, receiver: Receiver) -> None:
    """A run that failed is one message with the API's words, the run and what to type."""
    keeper = watched().keeper
    keeper.sandbox.show("access-denied-400,path=/portfolios")
    assert keeper.run(THIRD).code == 1
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


def test_a_run_that_a_person_started_sends_no_loud_alert(watched: Make, receiver: Receiver) -> None:
    """Who clicks in Dagster sees there how it ended, so its failure is only a piece of news."""
    keeper = watched().keeper
    keeper.layout.dagster.mkdir(exist_ok=True)
    with dg.DagsterInstance.from_config(str(keeper.layout.dagster)) as instance:
        job = assemble(keeper.nightbook).resolve_implicit_global_asset_job_def()
        chosen = job.get_subset(asset_selection={dg.AssetKey("report")})
        assert not chosen.execute_in_process(instance=instance, raise_on_error=False).success
    ended(keeper)
    [(title, words)] = receiver.alerts
    assert title == "nightbook: a run that was started in Dagster failed (without a night)"
    assert "choose a night" in words
    assert receiver.kinds == ["info"]


@pytest.mark.torture
@pytest.mark.parametrize("is_seen", [True, False])
def test_a_failed_run_is_told_when_a_channel_lives_again(
    watched: Make, receiver: Receiver, *, is_seen: bool
) -> None:
    """A run that failed while every channel was dead is told once one lives, once, and when it was.

    Whether a daemon has seen it too, or the command alone.
    """
    keeper = watched().keeper
    receiver.status = 500
    keeper.sandbox.show("access-denied-400,path=/portfolios")
    assert keeper.run(THIRD).code == 1
    if is_seen:
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
def test_a_held_run_is_told_as_held_only(watched: Make, receiver: Receiver) -> None:
    """A run that ends badly only because its night is held is one message: that it is held."""
    keeper = watched().keeper
    keeper.sandbox.show("portfolios-empty")
    assert keeper.run(THIRD).code == 3
    ended(keeper)
    watching(keeper)
    assert receiver.titles == [f"the night of {THIRD} is held"]
    assert receiver.fetched == []


def test_a_good_run_is_alive_and_silent(copied: Keeper, receiver: Receiver) -> None:
    """A good run gives one sign of life and no message."""
    heartbeat = f"http://127.0.0.1:{receiver.port}/alive"
    more = {"NIGHTBOOK_HEARTBEAT": heartbeat, "NIGHTBOOK_ALERTS": receiver.channel}
    keeper = Keeper(copied.home, copied.sandbox, more)
    ended(keeper)
    watching(keeper)
    assert (receiver.titles, receiver.fetched) == ([], ["/alive"])


def test_a_night_that_never_began_is_told_once(watched: Make, receiver: Receiver) -> None:
    """Hours after its tick a night without any run is told; not before, and not twice."""
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
def test_a_landed_night_that_nobody_judged_is_told_once(
    watched: Make, receiver: Receiver, later: timedelta
) -> None:
    """A machine that died after landing: told once the run must be over, with what mends it."""
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


def test_a_second_tick_takes_only_what_the_first_could_not(watched: Make) -> None:
    """Later in the night a tick does nothing where the book stands or waits, else it runs."""
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
def test_sensors_run_by_themselves(watched: Make, *, is_demo: bool) -> None:
    """All three are on without a click, but in a demo, and tick no faster than they need to."""
    keeper = watched().keeper
    keeper.sandbox.clock.night(SECOND, hour=9)
    if is_demo:
        (keeper.home / MARK).write_text("{}", encoding="utf-8")
    found = cast("Sequence[dg.SensorDefinition]", assemble(keeper.nightbook).sensors)
    assert [one.name for one in found] == ["night_failed", "night_succeeded", "watch"]
    wanted = dg.DefaultSensorStatus.STOPPED if is_demo else dg.DefaultSensorStatus.RUNNING
    assert {one.default_status for one in found} == {wanted}
    assert [one.minimum_interval_seconds for one in found] == [AFTER_A_RUN, AFTER_A_RUN, BETWEEN]
