"""When nights are due: the ticks of `NIGHTBOOK_SCHEDULE` in `NIGHTBOOK_TIMEZONE`.

Dagster's own iterator is asked, so that what is said here is what its daemon will do, also in the
nights when clocks change.
"""

from datetime import date, datetime, time, timedelta

from assets.home.dagster_internals import schedule_execution_time_iterator
from pipelines.settings import Settings


def next_tick(settings: Settings, after: datetime) -> datetime:
    """The first tick after a moment, in the operator's zone."""
    ticks = schedule_execution_time_iterator(
        after.timestamp(), settings.schedule, str(settings.timezone), ascending=True
    )
    return next(tick for tick in ticks if tick > after)


def tick_of(settings: Settings, day: date) -> datetime | None:
    """The first tick on a date, or None where the schedule leaves that date out."""
    midnight = datetime.combine(day, time(), settings.timezone)
    tick = next_tick(settings, midnight - timedelta(seconds=1))
    return tick if tick.astimezone(settings.timezone).date() == day else None
