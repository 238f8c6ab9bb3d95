"""The schedule of nights (`NIGHTBOOK_SCHEDULE`), and the nights that dates already have."""

from datetime import date, datetime, time, timedelta

from assets.home.dagster_internals import schedule_execution_time_iterator
from assets.nightbook import Nightbook
from assets.publishing import lost_decisions
from pipelines import night
from pipelines.landing import snapshots
from pipelines.landing.snapshots import Snapshot
from pipelines.settings import Settings
from warehouse.contract import states


def next_tick(settings: Settings, after: datetime) -> datetime:
    """Return the first tick after a time, in the operator's time zone."""
    # Uses the iterator of Dagster's daemon, so that both agree when clocks change.
    ticks = schedule_execution_time_iterator(
        after.timestamp(), settings.schedule, str(settings.timezone), ascending=True
    )
    return next(tick for tick in ticks if tick > after)


def tick_of(settings: Settings, day: date) -> datetime | None:
    """Return the first tick on a date, or None if the schedule has none on that date."""
    midnight = datetime.combine(day, time(), settings.timezone)
    tick = next_tick(settings, midnight - timedelta(seconds=1))
    return tick if tick.astimezone(settings.timezone).date() == day else None


def night_of(nightbook: Nightbook, day: date) -> Snapshot | None:
    """Return the night that a date already has, so that a later tick does nothing."""
    # A held night counts, because it waits for a person, and reading the API again would not help.
    # An accepted night that was never published does not count.
    layout = nightbook.layout
    nights = snapshots.landed_snapshots(layout)
    unpublished = lost_decisions.unpublished_snapshots(layout, nights)
    candidates = [snapshot for snapshot in nights if snapshot.snapshot_date == day]
    # If the clock is wrong, the run of this date may have taken the night of a different date.
    if (manifest := night.taken_on(layout, day)) is not None:
        candidates += [
            snapshot for snapshot in nights if snapshot.snapshot_id == manifest.snapshot_id
        ]
    for snapshot in sorted(candidates, key=lambda snapshot: snapshot.snapshot_id, reverse=True):
        is_published = snapshot.snapshot_id not in unpublished
        if snapshot.state == states.HELD or (snapshot.state == states.ACCEPTED and is_published):
            return snapshot
    return None


def next_try(nightbook: Nightbook, day: date) -> datetime | None:
    """Return the next tick on a date, or None if there are no more ticks on it."""
    settings = nightbook.settings()
    tick = next_tick(settings, nightbook.now())
    return tick if tick.astimezone(settings.timezone).date() == day else None


def next_night(nightbook: Nightbook) -> datetime:
    """Return the next tick that takes a night. Ticks on a date that has a night do nothing."""
    settings = nightbook.settings()
    tick = next_tick(settings, nightbook.now())
    day = tick.astimezone(settings.timezone).date()
    if night_of(nightbook, day) is None:
        return tick
    midnight = datetime.combine(day + timedelta(days=1), time(), settings.timezone)
    return next_tick(settings, midnight - timedelta(microseconds=1))
