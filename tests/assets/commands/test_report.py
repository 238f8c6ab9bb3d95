"""Tests of the moment that `report --at` accepts."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from assets.commands.report import WrongMoment, parse_moment

ZURICH = ZoneInfo("Europe/Zurich")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-20 03:15:07", datetime(2026, 11, 20, 2, 15, 7, tzinfo=UTC)),
        ("2026-07-20T03:15", datetime(2026, 7, 20, 1, 15, tzinfo=UTC)),
        ("2026-10-25 02:30:00+01:00", datetime(2026, 10, 25, 1, 30, tzinfo=UTC)),
        ("2026-11-20T02:15:07Z", datetime(2026, 11, 20, 2, 15, 7, tzinfo=UTC)),
    ],
)
def test_a_moment_is_in_the_zone_or_has_its_offset(text: str, moment: datetime) -> None:
    """Summer and winter time are different offsets of one zone."""
    assert parse_moment(text, ZURICH) == moment


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2026-11-20", "is not a date and time"),
        ("yesterday", "is not a date and time"),
        ("2026-10-25 02:30:00", r"Add an offset \(\+01:00 or \+02:00\)"),
        ("2026-03-29 02:30:00", "not a single second"),
    ],
)
def test_a_moment_that_is_not_a_single_second_is_refused(text: str, message: str) -> None:
    """A date has no second. When clocks change, a local time may name two seconds or none."""
    with pytest.raises(WrongMoment, match=message):
        parse_moment(text, ZURICH)
