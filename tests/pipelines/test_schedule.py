"""Tests of the times at which a schedule runs: they are the same as Dagster's."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice, product
from zoneinfo import ZoneInfo

import pytest
from dagster._utils.schedules import schedule_execution_time_iterator

from pipelines.schedule import next_tick

DAILY = ("15 2 * * *", "15 2,4,6 * * *", "30 1 * * *", "0 2 * * *", "0 0 * * *", "30 2 * * 1-5")
RARE = ("0 3 1 * *", "15 4 1,15 * mon", "45 0 29 2 *", "15 2 * * sun")
HOURLY = ("*/15 * * * *", "0 * * * *", "0 */2 * * *", "15 1-3 * * *")
# For each time zone, the schedules and the number of times that are compared.
COMPARED: dict[str, dict[tuple[str, ...], int]] = {
    "UTC": {DAILY: 3, RARE: 2, HOURLY: 8},
    "Europe/Berlin": {DAILY: 6, HOURLY: 70},
    "America/New_York": {DAILY: 6, HOURLY: 90},
    "Asia/Kolkata": {DAILY: 3, HOURLY: 8},
    "Australia/Lord_Howe": {DAILY: 6},  # its clocks change by half an hour
}
# The evenings before clocks change, in one of these time zones.
STARTS = ("2026-03-07", "2026-03-28", "2026-04-04", "2026-10-03", "2026-10-24", "2026-10-31")


def ticks(schedule: str, zone: str, after: datetime) -> Iterator[datetime]:
    """Yield the times at which a schedule runs."""
    while True:
        after = next_tick(schedule, ZoneInfo(zone), after).astimezone(UTC)
        yield after


@pytest.mark.parametrize("zone", COMPARED)
def test_a_schedule_runs_at_the_same_times_as_in_dagster(zone: str) -> None:
    """A schedule runs at the same times as in Dagster, also when clocks change."""
    counts = {one: count for listed, count in COMPARED[zone].items() for one in listed}
    for (schedule, count), day in product(counts.items(), STARTS):
        start = datetime.fromisoformat(f"{day}T12:00+00:00")
        found = schedule_execution_time_iterator(start.timestamp(), schedule, zone)
        theirs = (moment.astimezone(UTC) for moment in found)
        expected = list(islice((moment for moment in theirs if moment > start), count))
        assert list(islice(ticks(schedule, zone, start), count)) == expected, (schedule, day)


def test_the_next_time_is_in_the_zone_of_the_schedule() -> None:
    """The next time is later than the given time, and in the time zone of the schedule."""
    found = next_tick(
        "15 2 * * *", ZoneInfo("Europe/Berlin"), datetime(2026, 3, 4, 1, 15, tzinfo=UTC)
    )
    assert found.isoformat() == "2026-03-05T02:15:00+01:00"
