"""`nightbook run`: tonight's job once, here, recorded in Dagster."""

import argparse
import dataclasses
import sys
from datetime import date

from assets.commands.export import day
from assets.demo_home import require_real
from assets.instance import run_night
from assets.resources import Nightbook
from pipelines import night, snapshots
from pipelines.night import NeverLanded

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
    return take(nightbook, chosen)


def take(nightbook: Nightbook, chosen: date) -> int:
    """Run the job for a date and say how it ended."""
    layout = nightbook.layout
    print(f"Taking the book of {chosen} into {layout.home}")
    ran = run_night(dataclasses.replace(nightbook, tell=_say), chosen)
    known = [one for one in snapshots.landed(layout) if one.snapshot_date == chosen]
    newest = known[-1] if known else None
    if newest is not None and newest.state == snapshots.HELD and newest.decision:
        print(f"Held: snapshot {newest.snapshot_id}. The last book stays.", file=sys.stderr)
        for reason in newest.decision.reasons:
            print(f"  {reason}", file=sys.stderr)
        print(
            f"Decide: nightbook accept {newest.snapshot_id} --why '...'   (or reject)",
            file=sys.stderr,
        )
        return A_PERSON_MUST_DECIDE
    for failure in ran.failures:
        print(failure, file=sys.stderr)
    if not ran.success:
        if not ran.failures:
            print(f"The run failed; see run {ran.run_id} in: nightbook dev", file=sys.stderr)
        return FAILED
    _tell(newest, layout.database)
    return 0


def _say(line: str) -> None:
    print(f"  {line}", flush=True)


def _tell(newest: snapshots.Snapshot | None, database: object) -> None:
    if newest is not None:
        print(f"  {newest.state}: snapshot {newest.snapshot_id}")
    print(f"  {database}")
