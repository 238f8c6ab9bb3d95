"""A date and its book: whether it is taken, and when it is tried again where it is not."""

from datetime import date, datetime, time, timedelta

from assets.monitoring.due import next_tick
from assets.nightbook import Nightbook
from assets.publishing import lost_decisions
from pipelines import night
from pipelines.landing import snapshots
from pipelines.landing.snapshots import Snapshot


def night_of(nightbook: Nightbook, day: date) -> Snapshot | None:
    """Return the night that a date has, so that a later tick has nothing to do.

    A held one is one: it waits for a person, and reading again would not decide it. One that was
    accepted and that nobody can open, for it was never published, is none.
    """
    layout = nightbook.layout
    known = snapshots.landed_snapshots(layout)
    unpublished = lost_decisions.untold(layout, known)
    found = [snapshot for snapshot in known if snapshot.snapshot_date == day]
    # By a clock that is off, this date's run may have taken the night of another.
    if (manifest := night.taken_on(layout, day)) is not None:
        found += [snapshot for snapshot in known if snapshot.snapshot_id == manifest.snapshot_id]
    done = [
        snapshot
        for snapshot in found
        if snapshot.state == snapshots.HELD
        or (snapshot.state == snapshots.ACCEPTED and snapshot.snapshot_id not in unpublished)
    ]
    return max(done, key=lambda snapshot: snapshot.snapshot_id, default=None)


def next_try(nightbook: Nightbook, day: date) -> datetime | None:
    """Return the next tick on which a date can still be taken; None where there is no more."""
    settings = nightbook.settings()
    tick = next_tick(settings, nightbook.now())
    return tick if tick.astimezone(settings.timezone).date() == day else None


def next_night(nightbook: Nightbook) -> datetime:
    """Return the next tick that takes a night: on a date that has its own it does nothing."""
    settings = nightbook.settings()
    tick = next_tick(settings, nightbook.now())
    day = tick.astimezone(settings.timezone).date()
    if night_of(nightbook, day) is None:
        return tick
    midnight = datetime.combine(day + timedelta(days=1), time(), settings.timezone)
    return next_tick(settings, midnight - timedelta(microseconds=1))
