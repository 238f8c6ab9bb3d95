"""Tests of the state of the daemon and the schedule that `status` and `doctor` report."""

import fcntl
import os
from collections.abc import Callable

from dagster._core.scheduler.instigation import InstigatorStatus
from dagster._daemon.types import DaemonHeartbeat

from assets.home.demo import MARK
from assets.monitoring.switches import SCHEDULE
from assets.runs.instance import DAEMON_LOCK, open_instance
from tests.assets.monitoring.test_switches_reminders import days_later, turned
from tests.support.operator import Watched
from tests.support.operator_home import Keeper

Make = Callable[..., Watched]


def beat(keeper: Keeper) -> None:
    """Write the heartbeat of a daemon that is running now."""
    now = keeper.nightbook.now()
    with open_instance(keeper.layout) as instance:
        instance.add_daemon_heartbeat(DaemonHeartbeat(now.timestamp(), "SCHEDULER", None, []))


def test_a_killed_daemon_is_reported_at_once(watched: Make) -> None:
    """A killed daemon is reported at once by its released lock, although its heartbeat is fresh."""
    keeper = watched().keeper
    days_later(keeper, 0, hour=9)
    beat(keeper)
    lock = os.open(keeper.layout.dagster / DAEMON_LOCK, os.O_RDWR | os.O_CREAT, 0o640)
    fcntl.flock(lock, fcntl.LOCK_EX)
    for command in ("status", "doctor"):
        assert "the daemon is running" in keeper(command).out
    os.close(lock)
    for command in ("status", "doctor"):
        said = keeper(command).out
        assert "no daemon since" in said
        assert "the daemon is running" not in said


def test_the_recommended_command_turns_the_schedule_on(watched: Make) -> None:
    """`status` recommends `doctor --turn-on`, which turns on the schedule and the sensors."""
    keeper = watched().keeper
    days_later(keeper, 0, hour=9)
    for name in (SCHEDULE, "watch"):
        turned(keeper.layout, name, InstigatorStatus.STOPPED)
    [offered] = {line for line in keeper("status").out.splitlines() if "schedule is off: " in line}
    assert offered.endswith("doctor --turn-on")
    assert f"turned on in Dagster: {SCHEDULE}, watch" in keeper("doctor", "--turn-on").out
    assert "is off" not in keeper("status").out
    assert "nothing was turned off" in keeper("doctor", "--turn-on").out


def test_the_schedule_of_a_demo_is_reported_as_off(watched: Make) -> None:
    """The schedule of a demo is reported as off, even if a daemon is running for it."""
    keeper = watched().keeper
    days_later(keeper, 0, hour=9)
    beat(keeper)
    (keeper.home / MARK).write_text("{}", encoding="utf-8")
    assert "only by hand, because the schedule is off" in keeper("status").out
    assert "a demo's schedule is off" in keeper("doctor").out
