"""`nightbook status`: in five lines whether last night was good, what comes next, what is wrong."""

from datetime import timedelta

from assets.monitoring.conditions import find_alerts
from assets.monitoring.due import next_night
from assets.monitoring.night_conditions import late_alert, published_books, unread_dates
from assets.monitoring.switches import SCHEDULE, read_switches
from assets.nightbook import Nightbook
from pipelines.landing import snapshots
from pipelines.landing.snapshots import Snapshot
from warehouse.contract.wording import count_of
from warehouse.query.printable import printable
from warehouse.storage.layout import Layout

WRONG, A_PERSON_MUST_DECIDE = 1, 3
DECIDE = ("held:", "breaks:", "breaks-old:", "incomplete:")


def run(nightbook: Nightbook) -> int:
    """Print five lines; 3 while a night or a break waits for somebody, 1 for other wrongs."""
    settings, layout, now = nightbook.settings(), nightbook.layout, nightbook.now()
    nights = snapshots.landed_snapshots(layout)
    books, unpublished = published_books(layout, nights)
    dagster = read_switches(layout)
    alerts = find_alerts(nightbook, patience=timedelta(), dagster=dagster)
    alerts = [*filter(None, [late_alert(nightbook)]), *alerts]
    print(f"last night  {_line(nights[-1]) if nights else _none(layout)}")
    counts = f"; {count_of(len(books), 'night')} in all"
    counts += f", {count_of(len(unpublished), 'book')} not published" if unpublished else ""
    gaps = unread_dates(nightbook, nights, now.astimezone(settings.timezone).date())
    counts += f", {count_of(len(gaps), 'date')} not read (ops.gaps)" if gaps else ""
    print(f"book        {_line(books[-1]) if books else 'none yet'}{counts}")
    tick = next_night(nightbook)
    due = f"{tick:%Y-%m-%d %H:%M} {settings.timezone}, {dagster.daemon(now)}"
    print(f"next        {'by hand only: the schedule is off' if SCHEDULE in dagster.off else due}")
    missing = "no dead-man's switch: set NIGHTBOOK_HEARTBEAT"
    switch = "and a dead-man's switch" if settings.heartbeat else missing
    print(f"alerts      {count_of(len(settings.alerts), 'channel')}; {switch}")
    print(f"wrong       {printable('; '.join(alert.title for alert in alerts)) or 'nothing'}")
    for alert in alerts:
        print(f"            {printable(f'{alert.title}: {alert.command}')}")
    if any(alert.cause.startswith(DECIDE) for alert in alerts):
        return A_PERSON_MUST_DECIDE
    return WRONG if alerts else 0


def _none(layout: Layout) -> str:
    if layout.database.exists():
        return "none is landed any more"
    return "none yet: nightbook run takes the first"


def _line(snapshot: Snapshot) -> str:
    return f"{snapshot.snapshot_date}, snapshot {snapshot.snapshot_id}, {snapshot.state}"
