"""The note that is printed with a result if the newest book is older than the last scheduled night.

It imports nothing from Dagster, because fast commands import this module.
"""

from datetime import date, datetime, timedelta

from assets.home.demo import is_demo
from assets.nightbook import Nightbook
from assets.publishing.pending_decisions import unpublished_snapshots
from pipelines.landing import snapshots
from pipelines.landing.snapshots import Snapshot
from pipelines.schedule import is_due, last_tick
from pipelines.settings import Settings
from warehouse.contract import states
from warehouse.storage.layout import Layout

# The time allowed for publishing after the deadline of a run. The alert for a late night uses the
# same period.
GRACE = timedelta(hours=1)
MAX_SHOWN = 10
WAITING = (states.COMPLETE, states.HELD, states.ACCEPTED)


def staleness_note(nightbook: Nightbook) -> str:
    """Return a note about the newest book and later nights, or "" if the book is current."""
    # The note says that a later night is waiting if the night has landed but has not been judged or
    # published yet, or is held. The note says that a night has no book if the night was due but was
    # not pulled or was rejected.
    layout, settings = nightbook.layout, nightbook.settings()
    if is_demo(layout) or not layout.database.exists():
        return ""
    nights = snapshots.landed_snapshots(layout)
    published, _ = published_books(layout, nights)
    if not published:
        return ""
    newest = published[-1].snapshot_date
    due = _due_since(settings, newest, nightbook.now())
    later = [
        snapshot
        for snapshot in nights
        if snapshot.snapshot_date > newest and snapshot.state in WAITING
    ]
    waiting = {snapshot.snapshot_date for snapshot in later}
    missing = set(due) - waiting
    if not waiting and not missing:
        return ""
    parts = [
        _describe_nights(sorted(waiting), "is waiting for you", "are waiting for you"),
        _describe_nights(sorted(missing), "has no book", "have no book"),
    ]
    later_nights = "; ".join(filter(None, parts))
    return f"The latest book is from {newest}: since then, {later_nights}. See: nightbook status"


def published_books(
    layout: Layout, nights: list[Snapshot]
) -> tuple[list[Snapshot], list[Snapshot]]:
    """Return the books in the warehouse, and the accepted books that were never published."""
    unpublished = unpublished_snapshots(layout, nights)
    books = list(snapshots.books(nights).values())
    missing = [snapshot for snapshot in books if snapshot.snapshot_id in unpublished]
    published = [snapshot for snapshot in nights if snapshot.snapshot_id not in unpublished]
    return list(snapshots.books(published).values()), missing


def _due_since(settings: Settings, newest: date, now: datetime) -> list[date]:
    """Return the dates after the newest book whose nights should be published by now."""
    # Include today only after the time of today's last tick, plus the maximum duration of a pull
    # and one hour for publishing.
    local = now.astimezone(settings.timezone)
    last_run = datetime.combine(local.date(), last_tick(settings.schedule), settings.timezone)
    is_over = local >= last_run + timedelta(seconds=settings.deadline) + GRACE
    last = local.date() if is_over else local.date() - timedelta(days=1)
    days = (newest + timedelta(days=number + 1) for number in range((last - newest).days))
    return [day for day in days if is_due(settings.schedule, day)]


def _describe_nights(days: list[date], singular: str, plural: str) -> str:
    if not days:
        return ""
    if len(days) == 1:
        return f"the night of {days[0]} {singular}"
    return f"{len(days)} nights ({days[0]} to {days[-1]}) {plural}"
