"""`nightbook run`: tonight's job once, here, recorded in Dagster."""

import argparse
import dataclasses
import sys
from datetime import date

from assets.commands.export import day
from assets.commands.terminal import Teller, typed
from assets.demo_home import require_real
from assets.instance import run_night
from assets.resources import Nightbook
from pipelines import night, snapshots
from pipelines.night import NeverLanded
from pipelines.writer import the_writer
from warehouse.layout import Layout

FAILED, A_PERSON_MUST_DECIDE = 1, 3


def run(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    """Take the book; exit code 3 when the night is held."""
    require_real(nightbook.layout)
    settings = nightbook.settings()
    today = night.business_date(settings, nightbook.now())
    chosen = day(arguments.date) or today
    if chosen == today:
        nightbook.settings(api=True)
    elif night.landed_on(nightbook.layout, chosen) is None:
        dates = sorted({one.snapshot_date for one in snapshots.landed(nightbook.layout)})
        raise NeverLanded(chosen, today, dates)
    # Who is busy is said before a run is begun that could only fail.
    with the_writer(nightbook.layout, f"starting the book of {chosen}", nightbook.now()):
        pass
    return take(nightbook, chosen, debug=arguments.debug)


def take(nightbook: Nightbook, chosen: date, *, debug: bool = False) -> int:
    """Run the job for a date and say how it ended."""
    layout, tell = nightbook.layout, Teller()
    print(f"Taking the book of {chosen} into {layout.home}")
    ran = run_night(dataclasses.replace(nightbook, tell=tell, watch=tell.watch), chosen)
    newest = next(
        (one for one in reversed(snapshots.landed(layout)) if one.snapshot_date == chosen), None
    )
    if ran.is_judged and newest is not None and newest.state == snapshots.HELD:
        _tell_held(layout, newest)
        return A_PERSON_MUST_DECIDE
    if not ran.success:
        if debug and ran.trace:
            print(ran.trace, file=sys.stderr)
        lines = ran.failures or (f"The run failed: see run {ran.run_id} in nightbook dev.",)
        print("\n".join(lines), file=sys.stderr)
        return FAILED
    if newest is not None:
        tell(f"{newest.state}: snapshot {newest.snapshot_id}")
    tell(str(layout.database))
    return 0


def _tell_held(layout: Layout, newest: snapshots.Snapshot) -> None:
    books = snapshots.books(snapshots.landed(layout))
    book = books.get(newest.snapshot_date) or next(reversed(books.values()), None)
    stays = f"the book of {book.snapshot_date} stays" if book else "there is no book yet"
    lines = [f"Held: snapshot {newest.snapshot_id}; {stays}."]
    lines += [f"  {reason}" for reason in (newest.decision.reasons if newest.decision else ())]
    lines += [f"Decide: {typed(layout)} accept {newest.snapshot_id} --why '...'   (or reject)"]
    print("\n".join(lines), file=sys.stderr)
