"""What to say beside an answer from a book that is not of the last night that was due.

Read by what must answer in well under a second: nothing of Dagster is imported here.
"""

from collections.abc import Sequence
from datetime import date, datetime, timedelta

from assets.home.demo import is_demo
from assets.nightbook import Nightbook
from assets.publishing import lost_decisions
from pipelines.landing import snapshots
from pipelines.schedule import is_due, last_tick
from pipelines.settings import Settings
from warehouse.contract import states
from warehouse.contract.model import and_more
from warehouse.query.firm_state import FirmNight, FirmState, read_state
from warehouse.query.printable import printable
from warehouse.storage.firm import is_firm

# A run may take its deadline and has an hour to publish, as for the alert of a late night.
GRACE = timedelta(hours=1)
# An organisation that left a firm is in no sum; after a month everybody knows, or status says so.
TOLD_FOR = timedelta(days=31)
SHOWN = 10
WAITING = (states.COMPLETE, states.HELD, states.ACCEPTED)


def staleness_note(nightbook: Nightbook) -> str:
    """Say of which date the newest book is and what became of later nights; empty if current."""
    # A night that has no published book waits (it is landed, and not decided or not shown), or has
    # none (it was due and not read, or it was rejected).
    layout, settings = nightbook.layout, nightbook.settings()
    if is_demo(layout) or not layout.database.exists():
        return ""
    if is_firm(layout.home):
        return _firm_note(read_state(layout.database), settings, nightbook.now())
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


def _firm_note(state: FirmState, settings: Settings, now: datetime) -> str:
    """Say in one line what the sums of a firm's book lack; empty if they lack nothing."""
    parts = []
    tried = state.nights[0].snapshot_date if state.nights else None
    if state.book:
        late = {*_due_since(settings, state.book, now), *([tried] if tried else [])} - {state.book}
        words = _days_words(sorted(late), "has no book", "have no book")
        parts += [f"The newest book is of {state.book}: since then {words}."] * bool(late)
    if state.lacking:
        parts.append(f"The book of {state.book} lacks {_names(state.lacking)}.")
    if tried != state.book:
        parts.append(f"The night of {tried} lacks {_names(state.nights)}.")
    away = [
        name for name in state.problems if name not in {night.source for night in state.lacking}
    ]
    if away:
        parts.append(f"The homes of some organisations could not be read: {and_more(away, SHOWN)}.")
    if state.unsettled_portfolios:
        shared = [
            f"{item.portfolio_id} ({', '.join(item.sources)})"
            for item in state.unsettled_portfolios
        ]
        parts.append(
            "Portfolios that several organisations see count once, and nobody said for which: "
            f"{and_more(shared, SHOWN)}."
        )
    if left := [name for name, since in state.removed.items() if now - since < TOLD_FOR]:
        parts.append(f"No longer in firm.toml, and in no table: {and_more(sorted(left), SHOWN)}.")
    return printable(" ".join((*parts, "See: nightbook status"))) if parts else ""


def _names(nights: Sequence[FirmNight]) -> str:
    lacking = [
        f"{night.source} ({night.state}, "
        f"{f'last book {night.as_of}' if night.as_of else 'no book yet'})"
        for night in nights
        if not night.is_in_book
    ]
    return and_more(lacking, SHOWN)


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
