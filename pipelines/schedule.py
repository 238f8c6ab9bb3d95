"""Whether a text is a cron schedule: five fields, each within its bounds, that come to pass.

And on which dates it ticks, for what must answer faster than Dagster can be imported.
"""

from datetime import date, time

RANGE = 2
DIGITS = 4
SHORT = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}  # the most days that a month can have, where not 31
# The five cron fields: lowest and highest number, and the names that stand for numbers.
CRON = (
    (0, 59, ""),
    (0, 23, ""),
    (1, 31, ""),
    (1, 12, "jan feb mar apr may jun jul aug sep oct nov dec"),
    (0, 7, "sun mon tue wed thu fri sat"),
)


def is_schedule(text: str) -> bool:
    """Return whether a text is five cron fields of numbers, names, ranges, lists and steps."""
    # One whose days are in none of its months is none, whatever its weekdays: Dagster finds no
    # tick.
    fields = text.lower().split()
    if len(fields) != len(CRON):
        return False
    listed = [_field_values(field, *kind) for field, kind in zip(fields, CRON, strict=True)]
    if not all(listed):
        return False
    _, _, days, months, _ = listed
    # The 31st of February is five correct fields and never comes.
    return min(days) <= max(SHORT.get(month, 31) for month in months)


def is_due(schedule: str, day: date) -> bool:
    """Return whether a schedule ticks on a date; of days and weekdays, either will do."""
    fields = schedule.lower().split()
    _, _, days, months, weekdays = (
        _field_values(field, *kind) for field, kind in zip(fields, CRON, strict=True)
    )
    is_day = day.day in days
    is_weekday = bool({day.isoweekday(), day.isoweekday() % 7} & weekdays)
    # Cron's own rule: where both days and weekdays are restricted, a date needs only one of them.
    either = not fields[2].startswith("*") and not fields[4].startswith("*")
    return day.month in months and (is_day or is_weekday if either else is_day and is_weekday)


def last_tick(schedule: str) -> time:
    """Return the latest time of a day on which a schedule ticks."""
    minutes, hours, *_ = (
        _field_values(field, *kind)
        for field, kind in zip(schedule.lower().split(), CRON, strict=True)
    )
    return time(max(hours), max(minutes))


def _field_values(field: str, lowest: int, highest: int, names: str) -> set[int]:
    """Return the numbers that a field lists; none where a part is wrong or out of bounds."""
    parts = [_part(part, lowest, highest, names) for part in field.split(",")]
    return set().union(*parts) if all(parts) else set()


def _part(part: str, lowest: int, highest: int, names: str) -> set[int]:
    """Return the numbers of a part: `*`, a number or a range, perhaps with a step."""
    range_, has_step, step = part.partition("/")
    every = (_small(step) or 0) if has_step else 1
    if not 1 <= every <= highest:
        return set()
    if range_ == "*":
        return set(range(lowest, highest + 1, every))
    numbers = []
    for text in range_.split("-"):
        named = names.split().index(text) + lowest if text in names.split() else None
        number = named if named is not None else _small(text)
        if number is None or not lowest <= number <= highest:
            return set()
        numbers.append(number)
    if len(numbers) > RANGE:
        return set()
    last = highest if has_step and len(numbers) == 1 else numbers[-1]
    return set(range(numbers[0], last + 1, every))


def _small(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS else None
