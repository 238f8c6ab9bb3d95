"""`nightbook status`: in five lines whether last night was good, what comes next, what is wrong."""

import argparse

from assets.commands.terminal import counted
from assets.concerns import concerns, late
from assets.resources import Nightbook
from assets.ticks import next_tick
from pipelines import snapshots
from pipelines.snapshots import Snapshot

WRONG, A_PERSON_MUST_DECIDE = 1, 3
DECIDE = ("held:", "breaks:", "breaks-old:")


def run(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    """Print five lines; 3 while a night or a break waits for somebody, 1 for other wrongs."""
    del arguments
    settings, layout, now = nightbook.settings(), nightbook.layout, nightbook.now()
    known = snapshots.landed(layout)
    books = list(snapshots.books(known).values())
    found = [*filter(None, [late(nightbook)]), *concerns(nightbook)]
    print(f"last night  {_told(known[-1]) if known else 'none yet: nightbook run takes the first'}")
    nights = counted(len(books), "night")
    print(f"book        {_told(books[-1]) if books else 'none yet'}; {nights} in all")
    tick = next_tick(settings, now)
    print(f"next        {tick:%Y-%m-%d %H:%M} {settings.timezone}, if the daemon is up")
    missing = "no dead-man's switch: set NIGHTBOOK_HEARTBEAT"
    switch = "and a dead-man's switch" if settings.heartbeat else missing
    print(f"alerts      {counted(len(settings.alerts), 'channel')}; {switch}")
    print(f"wrong       {'; '.join(one.title for one in found) or 'nothing'}")
    for one in found:
        print(f"            {one.title}: {one.command}")
    if any(one.cause.startswith(DECIDE) for one in found):
        return A_PERSON_MUST_DECIDE
    return WRONG if found else 0


def _told(one: Snapshot) -> str:
    return f"{one.snapshot_date}, snapshot {one.snapshot_id}, {one.state}"
