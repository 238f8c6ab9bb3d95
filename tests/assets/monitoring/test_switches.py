"""Tests of the state of the daemon and the schedule that `status` and `doctor` report."""

import fcntl
import os
from collections.abc import Callable
from datetime import timedelta

import dagster as dg
import pytest
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.remote_origin import (
    ManagedGrpcPythonEnvCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    ScheduleInstigatorData,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from assets.graph.record import LOCATION
from assets.home.daemon_state import (
    DAEMON_LOCK,
    DaemonState,
    read_daemon_state,
    write_daemon_state,
)
from assets.home.demo import MARK
from assets.monitoring.switches import MAX_REPORT_AGE, SCHEDULE
from assets.runs.instance import open_instance
from tests.assets.monitoring.test_switches_reminders import days_later
from tests.support.dagster_runs import watching
from tests.support.operator import Watched
from tests.support.operator_home import SECOND, THIRD, Keeper

Make = Callable[..., Watched]
NOTHING_STARTS = "nothing starts the next night"


def turned(instance: dg.DagsterInstance, name: str, *, is_on: bool, location: str) -> None:
    """Write Dagster's record of a schedule or sensor that somebody turned on or off."""
    target = LoadableTargetOrigin(module_name=LOCATION)
    place = ManagedGrpcPythonEnvCodeLocationOrigin(target, location)
    origin = RemoteInstigatorOrigin(RemoteRepositoryOrigin(place, "__repository__"), name)
    kind = InstigatorType.SCHEDULE if name == SCHEDULE else InstigatorType.SENSOR
    data = ScheduleInstigatorData("15 2 * * *") if name == SCHEDULE else None
    status = InstigatorStatus.RUNNING if is_on else InstigatorStatus.STOPPED
    instance.add_instigator_state(InstigatorState(origin, kind, status, data))


def schedule_line(keeper: Keeper) -> str:
    """Return the line of `doctor` about the schedule."""
    [line] = [line for line in keeper("doctor").out.splitlines() if line[2:].startswith("schedule")]
    return line


def test_a_killed_daemon_is_reported_at_once(watched: Make) -> None:
    """A killed daemon is reported at once by its released lock, although its report is fresh."""
    keeper = watched().keeper
    days_later(keeper, 0, hour=9)
    keeper.report()
    lock = os.open(keeper.layout.dagster / DAEMON_LOCK, os.O_RDWR | os.O_CREAT, 0o640)
    fcntl.flock(lock, fcntl.LOCK_EX)
    for command in ("status", "doctor"):
        assert "the daemon is running" in keeper(command).out
    os.close(lock)
    for command in ("status", "doctor"):
        said = keeper(command).out
        assert "no daemon has run since 2026-03-04 09:15 UTC" in said
        assert "the daemon is running" not in said


def test_a_daemon_that_does_not_report_is_a_problem(watched: Make) -> None:
    """If a running daemon has not reported for a while, `status` recommends `doctor --turn-on`."""
    keeper = watched().keeper
    days_later(keeper, 0, hour=9)
    keeper.report()
    with (keeper.layout.dagster / DAEMON_LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        keeper.sandbox.clock.moment += MAX_REPORT_AGE + timedelta(seconds=1)
        said = keeper("status")
        assert (said.code, schedule_line(keeper)[0]) == (1, "✗")
    assert "the daemon has not reported since 2026-03-04 09:15 UTC" in said.out
    assert f"{NOTHING_STARTS}: " in said.out
    assert said.out.endswith("doctor --turn-on\n")


def test_neither_daemon_nor_cron_is_a_problem(watched: Make) -> None:
    """If neither a daemon nor cron starts the nights, `status` and `doctor` report a problem."""
    keeper = watched().keeper
    days_later(keeper, 0, hour=9)
    said = keeper("status")
    assert (said.code, f"problems    {NOTHING_STARTS}" in said.out) == (1, True)
    assert schedule_line(keeper).startswith("✗")
    assert "let cron type: " in schedule_line(keeper)
    keeper.report()
    said = keeper("status")
    assert (said.code, "problems    none" in said.out) == (0, True)
    assert schedule_line(keeper).startswith("✓")


@pytest.mark.parametrize("words", [(), ("--unless-taken",)])
def test_only_a_run_by_cron_is_evidence_of_cron(watched: Make, words: tuple[str, ...]) -> None:
    """After `run --unless-taken` on the last scheduled date, cron is known to start the nights."""
    keeper = watched().keeper
    keeper.sandbox.show("access-denied-400,path=/portfolios")
    assert keeper.run(THIRD, *words).code == 1
    for later, is_known in ((timedelta(days=1), bool(words)), (timedelta(days=2), False)):
        keeper.sandbox.clock.night(THIRD + later, hour=9)
        assert schedule_line(keeper).startswith("✓" if is_known else "✗")
        assert ("cron started the last night" in schedule_line(keeper)) == is_known
        assert (NOTHING_STARTS not in keeper("status").out) == is_known


def test_the_recommended_command_turns_the_schedule_on(watched: Make) -> None:
    """`status` recommends `doctor --turn-on`, which turns on the schedule and the sensors.

    The state that belongs to the shipped units counts. The time of the last report stays.
    """
    keeper = watched().keeper
    days_later(keeper, 0, hour=9)
    with open_instance(keeper.layout) as instance:
        for name in (SCHEDULE, "watch"):
            turned(instance, name, is_on=False, location=LOCATION)
        turned(instance, SCHEDULE, is_on=True, location="another")
    watching(keeper)
    [offered] = {line for line in keeper("status").out.splitlines() if "schedule is off: " in line}
    assert offered.endswith("doctor --turn-on")
    keeper.sandbox.clock.moment += timedelta(hours=1)
    assert f"turned on in Dagster: {SCHEDULE}, watch" in keeper("doctor", "--turn-on").out
    assert "is off" not in keeper("status").out
    state = read_daemon_state(keeper.layout)
    assert state is not None
    assert f"{state.reported_at:%Y-%m-%d %H:%M}" == f"{SECOND} 09:15"
    assert "nothing was turned off" in keeper("doctor", "--turn-on").out


def test_turning_on_reports_a_damaged_database(watched: Make) -> None:
    """If Dagster's database is damaged, `doctor --turn-on` says so, and checks everything else."""
    keeper = watched().keeper
    days_later(keeper, 0, hour=9)
    keeper.report()
    database = keeper.layout.dagster / "schedules" / "schedules.db"
    database.parent.mkdir()
    database.write_bytes(b"no database at all" * 400)
    said = keeper("doctor", "--turn-on")
    assert said.code == 1
    first, *others = said.out.splitlines()
    assert first.startswith("✗ schedule")
    assert "could not be changed (DatabaseError: " in first
    assert all(line.startswith("✓") for line in others)


def test_the_schedule_of_a_demo_is_reported_as_off(watched: Make) -> None:
    """The schedule of a demo is reported as off, even if a daemon is running for it."""
    keeper = watched().keeper
    days_later(keeper, 0, hour=9)
    keeper.report()
    (keeper.home / MARK).write_text("{}", encoding="utf-8")
    assert "only by hand, because the schedule is off" in keeper("status").out
    assert "a demo's schedule is off" in keeper("doctor").out


def test_a_demo_whose_daemon_has_stopped_is_a_warning(watched: Make) -> None:
    """If somebody turned on the schedule of a demo, `doctor` warns if no daemon is running."""
    keeper = watched().keeper
    days_later(keeper, 0, hour=9)
    (keeper.home / MARK).write_text("{}", encoding="utf-8")
    state = DaemonState(reported_at=keeper.sandbox.clock(), on={SCHEDULE: True})
    write_daemon_state(keeper.layout, state)
    assert schedule_line(keeper).startswith("✓")
    keeper.sandbox.clock.moment += timedelta(days=1)
    assert schedule_line(keeper).startswith("!")
    assert "no daemon has run since" in schedule_line(keeper)
