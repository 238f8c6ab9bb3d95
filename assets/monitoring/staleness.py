"""What to say beside an answer from a book that is not of the last night that was due.

Read by what must answer in well under a second: nothing of Dagster is imported here.
"""

from datetime import date, datetime, timedelta

from assets.home.demo import is_demo
from assets.nightbook import Nightbook
from assets.publishing import lost_decisions
from pipelines.landing import snapshots
from pipelines.schedule import is_due, last_tick
from pipelines.settings import Settings
from warehouse.contract import states

# A run may take its deadline and has an hour to publish, as for the alert of a late night.
GRACE = timedelta(hours=1)
WAITING = (states.COMPLETE, states.HELD, states.ACCEPTED)


def staleness_note(nightbook: Nightbook) -> str:
    """Say of which date the newest book is and what became of later nights; empty if current."""
    # A night that has no published book waits (it is landed, and not decided or not shown), or has
    # none (it was due and not read, or it was rejected).
    layout, settings = nightbook.layout, nightbook.settings()
    if is_demo(layout) or not layout.database.exists():
        return ""
    nights = snapshots.landed_snapshots(layout)
    untold = lost_decisions.unpublished_snapshots(layout, nights)
    published = snapshots.books(
        [snapshot for snapshot in nights if snapshot.snapshot_id not in untold]
    )
    if not published:
        return ""
    newest = max(published)
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
        _days_words(sorted(waiting), "waits for you", "wait for you"),
        _days_words(sorted(missing), "has no book", "have no book"),
    ]
    since = "; ".join(filter(None, parts))
    return f"The newest book is of {newest}: since then {since}. See: nightbook status"


def _due_since(settings: Settings, newest: date, now: datetime) -> list[date]:
    """Return dates after the newest book whose night should be published by now."""
    # Today counts once its last tick, the longest pull and an hour for publishing are over; before
    # that only yesterday can be missing.
    local = now.astimezone(settings.timezone)
    over = datetime.combine(local.date(), last_tick(settings.schedule), settings.timezone)
    is_over = local >= over + timedelta(seconds=settings.deadline) + GRACE
    last = local.date() if is_over else local.date() - timedelta(days=1)
    days = (newest + timedelta(days=number + 1) for number in range((last - newest).days))
    return [day for day in days if is_due(settings.schedule, day)]


def _days_words(days: list[date], singular: str, plural: str) -> str:
    if not days:
        return ""
    if len(days) == 1:
        return f"the night of {days[0]} {singular}"
    return f"{len(days)} nights ({days[0]} to {days[-1]}) {plural}"
