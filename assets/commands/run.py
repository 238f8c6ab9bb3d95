"""`nightbook run`: run the steps of one night in this process, without Dagster."""

import contextlib
import dataclasses
import signal
import sys
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import partial

import click
from click import option

from assets.console.command import HomeCommand
from assets.console.exit_codes import A_PERSON_MUST_DECIDE, DONE, FAILED
from assets.console.invocation import command_for, full_command
from assets.console.parameters import Day, flag
from assets.console.rows import JsonLog
from assets.console.terminal import TerminalProgress, is_terminal
from assets.home.creation import HomeNotCreated, create_home, is_person, refuse_missing_home
from assets.home.demo import require_real
from assets.monitoring.alerts import FAILURE, Alert, deliver
from assets.monitoring.failures import with_merge_alerts
from assets.monitoring.inspection import look
from assets.monitoring.switches import night_of
from assets.night.steps import NightRun, run_night
from assets.nightbook import ERROR, INFO, STARTED, WARNING, EventCallback, Nightbook
from pipelines import night
from pipelines.landing import snapshots
from pipelines.landing.lock import hold_pull_lock, require_writable
from pipelines.night import NeverLanded
from warehouse.contract import states
from warehouse.query.formats import printable_lines
from warehouse.storage.layout import Layout

LEVELS = {DONE: INFO, FAILED: ERROR, A_PERSON_MUST_DECIDE: WARNING}


@dataclass(frozen=True, slots=True)
class RunEnding:
    """The outcome of a run: exit code, event name, message and snapshot."""

    code: int
    event: str
    message: str
    snapshot_id: str = ""


def look_after(nightbook: Nightbook) -> None:
    """Send alerts about all problems of the home, write the metrics and send the heartbeat."""
    look(nightbook, partial(print, file=sys.stderr))


@click.command(cls=HomeCommand, needs_home=False, writes=True, then=look_after)
@option(
    "--date",
    "day",
    type=Day(),
    help="Rebuild the night of this date from its stored responses, without calling the API  "
    "[default: pull tonight's book]",
)
@flag(
    "--unless-taken",
    help="Do nothing if this date already has a snapshot. Useful for cron jobs that run several "
    "times a night",
)
def run_command(nightbook: Nightbook, *, day: date | None, unless_taken: bool) -> int:
    """Download data from the API and publish tonight's book.

    The first run in a terminal creates the home. Without a terminal, the home must exist. The run
    downloads all data, stores the responses unchanged, builds the tables, checks them, and
    publishes the book. A suspicious night is held: the book does not change, and the command exits
    with code 3. To publish a held night, type `nightbook accept ID`.
    """
    # `settings` raises a single error that lists all wrong settings. The API settings are needed
    # only to pull tonight's book.
    settings = nightbook.settings(api=day is None)
    require_real(nightbook.layout)
    today = night.business_date(settings, nightbook.now())
    try:
        refuse_missing_home(nightbook.layout, "The run", may_create=is_person())
    except HomeNotCreated as missing:
        _send_alert(nightbook, today, missing)
        raise
    chosen = day or today
    if chosen == today:
        nightbook.settings(api=True)
    elif night.landed_on(nightbook.layout, chosen) is None:
        dates = sorted(
            {landed.snapshot_date for landed in snapshots.landed_snapshots(nightbook.layout)}
        )
        raise NeverLanded(chosen, today, dates)
    if unless_taken and (snapshot := night_of(nightbook, chosen)) is not None:
        print(
            f"{chosen} already has a night: {snapshot.snapshot_id} is {snapshot.state}. "
            "Nothing was read."
        )
        return 0
    operation = f"pulling the night of {chosen}"
    require_writable(nightbook.layout, operation)
    if create_home(nightbook.layout):
        print(f"{nightbook.layout.home} is a new home.")
    if chosen == today:
        # If another run is already reading this night, fail before this run leaves a log.
        with hold_pull_lock(nightbook.layout, operation, nightbook.now(), nightbook.pause):
            pass
    return take(nightbook, chosen, is_tick=unless_taken, is_logged=not is_terminal())


def _send_alert(nightbook: Nightbook, today: date, missing: HomeNotCreated) -> None:
    """Send an alert that is not recorded anywhere, because there is no home to record it in."""
    alert = Alert(
        cause=f"no home:{today}",
        title=f"the run of {today} did not start",
        words=str(missing),
        see=str(nightbook.layout.home),
        command=full_command(nightbook.layout, "doctor"),
        kind=FAILURE,
    )
    deliver(nightbook.settings().alerts, (alert,))


def take(
    nightbook: Nightbook, chosen: date, *, is_tick: bool = False, is_logged: bool = False
) -> int:
    """Run the night of a date, and print the result.

    `is_tick` means that cron may start more runs for the date later. With `is_logged`, write the
    progress and the result as JSON lines, and also print readable messages to standard error.
    """
    layout, run_id = nightbook.layout, str(uuid.uuid4())
    facts = {"night": chosen.isoformat(), "run": run_id}
    log = JsonLog(nightbook.now, facts) if is_logged else None
    with TerminalProgress() as progress, _stopping_at_sigterm():
        tell: EventCallback = log or progress
        tell(f"Pulling the night of {chosen} into {layout.home}", event=STARTED)
        reporting = dataclasses.replace(
            nightbook,
            tell=with_merge_alerts(nightbook, tell),
            watch=None if log else progress.watch,
        )
        outcome = run_night(reporting, chosen, run_id, is_tick=is_tick)
    is_today = chosen == night.business_date(nightbook.settings(), nightbook.now())
    ending = _ending(layout, _newest(layout, chosen, is_today=is_today), chosen, outcome)
    for failure in outcome.failures if nightbook.is_debug else ():
        print(printable_lines(failure.trace), file=sys.stderr)
    if ending.code:
        print(printable_lines(ending.message), file=sys.stderr)
    if log or not ending.code:
        tell(
            ending.message,
            event=ending.event,
            level=LEVELS[ending.code],
            snapshot=ending.snapshot_id,
        )
    if not ending.code:
        tell(str(layout.database), event="published", snapshot=ending.snapshot_id)
    return ending.code


@contextlib.contextmanager
def _stopping_at_sigterm() -> Iterator[None]:
    """Let SIGTERM stop the run like Ctrl-C, even in a background job, which ignores Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _newest(layout: Layout, chosen: date, *, is_today: bool) -> snapshots.Snapshot | None:
    """Return the snapshot that a run pulled or processed.

    Tonight's snapshot may have a different date, because its date comes from the API's clock.
    """
    if is_today and (manifest := night.taken_on(layout, chosen)) is not None:
        return snapshots.find(layout, manifest.snapshot_id)
    landed = reversed(snapshots.landed_snapshots(layout))
    return next((snapshot for snapshot in landed if snapshot.snapshot_date == chosen), None)


def _ending(
    layout: Layout, newest: snapshots.Snapshot | None, chosen: date, outcome: NightRun
) -> RunEnding:
    """Return the outcome of a run: the night is held or published, or the run failed."""
    if outcome.is_judged and newest is not None and newest.state == states.HELD:
        message = "\n".join([_held_message(layout, newest), *outcome.messages])
        return RunEnding(A_PERSON_MUST_DECIDE, newest.state, message, newest.snapshot_id)
    if outcome.failures:
        return RunEnding(FAILED, "failed", "\n".join(outcome.messages))
    if newest is None:
        return RunEnding(0, "ended", f"{chosen} was taken")
    message = f"{newest.state}: snapshot {newest.snapshot_id}"
    return RunEnding(0, newest.state, message, newest.snapshot_id)


def _held_message(layout: Layout, newest: snapshots.Snapshot) -> str:
    books = snapshots.books(snapshots.landed_snapshots(layout))
    book = books.get(newest.snapshot_date) or next(reversed(books.values()), None)
    stays = f"the book of {book.snapshot_date} was not changed" if book else "there is no book yet"
    lines = [f"Held: snapshot {newest.snapshot_id}; {stays}."]
    lines += [f"  {reason}" for reason in (newest.decision.reasons if newest.decision else ())]
    lines += [
        f"Decide: {command_for(layout)} accept {newest.snapshot_id} --why '...'   (or reject)"
    ]
    return "\n".join(lines)
