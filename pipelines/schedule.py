"""Functions that check a cron schedule and find the dates and times of its runs.

This module does not use Dagster, because commands never import it.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

RANGE = 2
DIGITS = 4
HOURS = 24
SHORT = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}  # number of days in each month with fewer than 31
# The lowest number, the highest number and the names in each of the five cron fields.
CRON = (
    (0, 59, ""),
    (0, 23, ""),
    (1, 31, ""),
    (1, 12, "jan feb mar apr may jun jul aug sep oct nov dec"),
    (0, 7, "sun mon tue wed thu fri sat"),
)


def is_schedule(text: str) -> bool:
    """Return whether a string is a valid cron schedule with five fields and at least one run."""
    # A schedule is invalid if none of its months has the given days, even if it also lists
    # weekdays, because Dagster finds no run for such a schedule.
    fields = text.lower().split()
    if len(fields) != len(CRON):
        return False
    listed = _values(fields)
    if not all(listed):
        return False
    _, _, days, months, _ = listed
    # Reject a schedule such as February 31: its five fields are valid, but it never runs.
    return min(days) <= max(SHORT.get(month, 31) for month in months)


def is_due(schedule: str, day: date) -> bool:
    """Return whether a cron schedule runs on a date."""
    fields = schedule.lower().split()
    _, _, days, months, weekdays = _values(fields)
    is_day = day.day in days
    is_weekday = bool({day.isoweekday(), day.isoweekday() % 7} & weekdays)
    # In cron, if both days and weekdays are restricted, a date needs to match only one of them.
    either = not fields[2].startswith("*") and not fields[4].startswith("*")
    return day.month in months and (is_day or is_weekday if either else is_day and is_weekday)


def last_tick(schedule: str) -> time:
    """Return the latest time of day at which a cron schedule runs."""
    minutes, hours, *_ = _values(schedule.lower().split())
    return time(max(hours), max(minutes))


def next_tick(schedule: str, zone: ZoneInfo, after: datetime) -> datetime:
    """Return the schedule's first run after a time, in `zone`. Dagster runs at the same times.

    If clocks are set forward, a time that is skipped runs when the clocks change. If clocks are set
    back, a time that occurs twice runs the second time, or both times if the schedule is hourly.
    """
    day = after.astimezone(zone).date()
    while True:
        ticks = sorted(_ticks_on(schedule, day, zone)) if is_due(schedule, day) else []
        for tick in ticks:
            if tick > after:
                return tick.astimezone(zone)
        day += timedelta(days=1)


def _ticks_on(schedule: str, day: date, zone: ZoneInfo) -> Iterator[datetime]:
    """Yield the times (UTC) at which a schedule runs on a date."""
    minutes, hours, *_ = _values(schedule.lower().split())
    for clock in (time(hour, minute) for hour in hours for minute in minutes):
        local = datetime.combine(day, clock, zone)
        first, last = (local.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
        # If the clocks skip this time, they change at a multiple of the skipped period.
        if first > last:
            gap, midnight = first - last, datetime.combine(day, time(), zone)
            change = local + gap - (local - midnight) % gap
            yield change.astimezone(UTC)
            continue
        yield last
        if first < last and len(hours) == HOURS:
            yield first


def _values(fields: list[str]) -> list[set[int]]:
    """Return the set of numbers that each of the five cron fields matches."""
    return [_field_values(field, *kind) for field, kind in zip(fields, CRON, strict=True)]


def _field_values(field: str, lowest: int, highest: int, names: str) -> set[int]:
    """Return the numbers that a cron field matches, or an empty set if any part is invalid."""
    parts = [_part(part, lowest, highest, names) for part in field.split(",")]
    return set().union(*parts) if all(parts) else set()


def _part(part: str, lowest: int, highest: int, names: str) -> set[int]:
    """Return the numbers in one part of a cron field, such as `5`, `mon-fri`, `*` or `*/2`."""
    range_, has_step, step = part.partition("/")
    step_size = (_parse_number(step) or 0) if has_step else 1
    if not 1 <= step_size <= highest:
        return set()
    if range_ == "*":
        return set(range(lowest, highest + 1, step_size))
    numbers = []
    for text in range_.split("-"):
        named = names.split().index(text) + lowest if text in names.split() else None
        number = named if named is not None else _parse_number(text)
        if number is None or not lowest <= number <= highest:
            return set()
        numbers.append(number)
    if len(numbers) > RANGE:
        return set()
    last = highest if has_step and len(numbers) == 1 else numbers[-1]
    return set(range(numbers[0], last + 1, step_size))


def _parse_number(text: str) -> int | None:
    """Parse a number of at most four digits. Return None if it is invalid."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS else None
