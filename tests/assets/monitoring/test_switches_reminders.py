"""Tests of problems that wait for a person: alerts, daily reminders and their severity."""

from collections.abc import Callable
from datetime import date, timedelta

import pytest

from assets.home.daemon_state import STATE_FILE
from assets.monitoring.switches import MEANING, SCHEDULE
from pipelines.landing import snapshots
from pipelines.schedule import is_due
from tests.support.operator import Receiver, Watched
from tests.support.operator_home import SECOND, THIRD, Keeper
from warehouse.contract import states


def days_later(keeper: Keeper, days: int, hour: int = 2) -> None:
    """Set the clock to this many days after the second night, at a quarter past the hour."""
    keeper.sandbox.clock.night(SECOND + timedelta(days=days), hour)


@pytest.mark.torture
def test_a_schedule_that_is_off_sends_a_daily_alert(
    watched: Callable[..., Watched], receiver: Receiver
) -> None:
    """If the schedule is off, `status` and `doctor` report it, and an alert is sent daily."""
    here = watched()
    keeper = here.keeper
    days_later(keeper, 0, hour=9)
    keeper.report(off=[SCHEDULE])
    said = keeper("status")
    assert said.code == 1
    assert "only by hand, because the schedule is off" in said.out
    assert "the schedule is off: " in said.out
    [line] = [line for line in keeper("doctor").out.splitlines() if " schedule " in line]
    assert line.startswith("✗")
    assert f"turned off in Dagster: {SCHEDULE}" in line
    here.look()
    here.look()
    assert receiver.titles == ["the schedule is off"]
    days_later(keeper, 1)
    here.look()
    assert "the schedule is off" in receiver.titles
    keeper.report()
    assert "is off" not in keeper("status").out


@pytest.mark.parametrize("name", [name for name in MEANING if name != SCHEDULE])
def test_status_names_a_sensor_that_is_off(watched: Callable[..., Watched], name: str) -> None:
    """`status` names any sensor that was turned off."""
    keeper = watched().keeper
    days_later(keeper, 0, hour=9)
    keeper.report(off=[name])
    assert f"the sensor {name} is off" in keeper("status").out


@pytest.mark.parametrize("report", ["", "[]", '{"reported_at": "2026-03-04T09:15:00+00:00"}'])
def test_status_fails_if_the_report_of_the_daemon_is_damaged(
    watched: Callable[..., Watched], report: str
) -> None:
    """If the daemon's last report cannot be read, `status` and `doctor` say so and fail."""
    keeper = watched().keeper
    days_later(keeper, 0, hour=9)
    keeper.report()
    (keeper.layout.dagster / STATE_FILE).write_text(report, encoding="utf-8")
    said = keeper("status")
    assert said.code == 1
    assert "the daemon's last report cannot be read" in said.out
    assert "no daemon is running" not in said.out
    assert f"{STATE_FILE} cannot be read" in keeper("doctor").out


def held(here: Watched) -> str:
    """Create the third night as a held night, and return its snapshot ID."""
    assert here.third("portfolios-empty") == states.HELD
    return snapshots.landed_snapshots(here.keeper.layout)[-1].snapshot_id


@pytest.mark.torture
def test_a_held_night_sends_reminders_until_a_decision(
    watched: Callable[..., Watched], receiver: Receiver
) -> None:
    """A held night causes one alert, then one reminder a day until a person decides on it."""
    here = watched()
    keeper = here.keeper
    snapshot_id = held(here)
    assert receiver.titles == [f"the night of {THIRD} is held"]
    here.look()
    assert receiver.titles == []
    for days in (2, 3, 30):
        days_later(keeper, days)
        here.look()
        here.look()
        reminders = [title for title in receiver.titles if "waiting" in title]
        assert reminders == ["1 alert still waiting for you"]
        said = keeper("status")
        assert said.code == 3
        assert f"the night of {THIRD} is held" in said.out
    assert keeper("reject", snapshot_id).code == 0
    days_later(keeper, 31)
    here.look()
    assert not [title for title in receiver.titles if "waiting" in title]


def test_a_reminder_is_an_info_alert_with_commands(
    watched: Callable[..., Watched], receiver: Receiver
) -> None:
    """A reminder has Apprise's type "info", and contains the command for each open problem."""
    here = watched()
    snapshot_id = held(here)
    days_later(here.keeper, 2)
    here.look()
    [words] = [words for title, words in receiver.alerts if "waiting" in title]
    assert f"accept {snapshot_id}" in words
    kinds = dict(zip((title for title, _ in receiver.alerts), receiver.kinds, strict=True))
    assert kinds[f"nightbook: the night of {THIRD} is held"] == "warning"
    assert kinds["nightbook: 1 alert still waiting for you"] == "info"


def test_a_gap_sends_a_failure_alert_and_stays_in_status(
    watched: Callable[..., Watched], receiver: Receiver
) -> None:
    """The alert about a gap has the type "failure", and `status` counts gaps of any age."""
    here = watched()
    days_later(here.keeper, 2)
    here.look()
    told = dict(zip((title for title, _ in receiver.alerts), receiver.kinds, strict=True))
    assert told[f"nightbook: {THIRD} was not read"] == "failure"
    days_later(here.keeper, 40)
    assert "39 dates not read (ops.gaps)" in here.keeper("status").out


@pytest.mark.torture
def test_commands_add_a_note_about_a_stale_book(watched: Callable[..., Watched]) -> None:
    """`query`, `export` and `report` add a note if the newest book is older than due."""
    here = watched()
    keeper = here.keeper
    days_later(keeper, 0, hour=9)
    fresh = [keeper("query", "select 1 as n"), keeper("report")]
    assert [said.err for said in fresh] == ["", ""]
    held(here)
    for words in (("query", "select 1 as n"), ("export", "--format", "csv"), ("report",)):
        said = keeper(*words)
        assert said.code == 0
        assert f"The latest book is from {SECOND}: since then, the night of {THIRD}" in said.err
    days_later(keeper, 5, hour=9)
    said = keeper("query", "select 1 as n", "--format", "csv")
    assert "4 nights (2026-03-06 to 2026-03-09) have no book" in said.err
    assert said.out == "n\n1\n"
    assert "newest book" not in keeper("export", "--as-of", str(SECOND), "--format", "csv").err


@pytest.mark.parametrize(
    ("schedule", "days"),
    [
        ("15 2 * * *", [1, 2, 3, 4, 5, 6, 7]),
        ("15 2,4,6 * * 1-5", [2, 3, 4, 5, 6]),
        ("0 3 * * sun", [1]),
        ("0 3 1,3 * *", [1, 3]),
        ("0 3 3 * mon", [2, 3]),
        ("0 3 */2 4 *", []),
    ],
)
def test_is_due_finds_the_scheduled_dates(schedule: str, days: list[int]) -> None:
    """`is_due` finds the scheduled dates in the week from Sunday, 2026-03-01."""
    week = [date(2026, 3, day) for day in range(1, 8)]
    assert [day.day for day in week if is_due(schedule, day)] == days


def test_run_and_doctor_report_the_same_invalid_settings(watched: Callable[..., Watched]) -> None:
    """`run` and `doctor` report the same invalid settings, and correct a misspelled name."""
    keeper = watched().keeper
    wrong = {"NIGHTBOOK_ALERT": "json://x", "NIGHTBOOK_API_KEY": "", "NIGHTBOOK_TIMEZONE": "Mars"}
    broken = Keeper(keeper.home, keeper.sandbox, {**keeper.more, **wrong})
    ran, looked = broken("run"), broken("doctor")
    assert (ran.code, looked.code) == (2, 2)
    complaints = [line.strip() for line in ran.err.splitlines()[1:-1]]
    assert complaints == [
        line.removeprefix("✗ settings").strip()
        for line in looked.out.splitlines()
        if line.startswith("✗ settings")
    ]
    assert len(complaints) == 3
    assert complaints[0] == "NIGHTBOOK_ALERT is not a setting. Did you mean NIGHTBOOK_ALERTS?"


def test_status_creates_no_records_of_dagster(watched: Callable[..., Watched]) -> None:
    """If a home has no Dagster records, `status` does not create any."""
    keeper = watched().keeper
    days_later(keeper, 0, hour=9)
    assert "no daemon is running" in keeper("status").out
    assert not keeper.layout.dagster.exists()
