"""`nightbook run`: tonight's job once, here, recorded in Dagster."""

import dataclasses
import gc
import sys
import uuid
from dataclasses import dataclass
from datetime import date
from functools import partial

from assets.console.declaration import A_PERSON_MUST_DECIDE, DONE, FAILED
from assets.console.invocation import command_for
from assets.console.json_log import JsonLog
from assets.console.terminal import TerminalProgress, is_terminal
from assets.graph.sensors import look
from assets.home.demo import require_real
from assets.home.gate import misplaced_firm
from assets.monitoring.due import night_of
from assets.nightbook import ERROR, INFO, STARTED, WARNING, Nightbook, Tell
from assets.runs.night import NightRun, run_night
from pipelines import night
from pipelines.landing import snapshots
from pipelines.landing.lock import hold_pull_lock, require_writable
from pipelines.night import NeverLanded
from warehouse.contract import states
from warehouse.query.printable import printable_lines
from warehouse.storage.layout import Layout

LEVELS = {DONE: INFO, FAILED: ERROR, A_PERSON_MUST_DECIDE: WARNING}


@dataclass(frozen=True, slots=True)
class RunEnding:
    """How a run ended: its exit code, that in one word, that in words, and its snapshot."""

    code: int
    event: str
    message: str
    snapshot_id: str = ""


def run(nightbook: Nightbook, *, day: date | None, unless_taken: bool) -> int:
    """Take the book; exit code 3 when the night is held."""
    # Every complaint at once, as doctor has them: the API's are of use for tonight alone.
    settings = nightbook.settings(api=day is None)
    require_real(nightbook.layout)
    if hint := misplaced_firm(nightbook.layout):
        print(printable_lines(hint), file=sys.stderr)
    today = night.business_date(settings, nightbook.now())
    chosen = day or today
    if chosen == today:
        nightbook.settings(api=True)
    elif night.landed_on(nightbook.layout, chosen) is None:
        dates = sorted(
            {landed.snapshot_date for landed in snapshots.landed_snapshots(nightbook.layout)}
        )
        raise NeverLanded(chosen, today, dates)
    if unless_taken and (snapshot := night_of(nightbook, chosen)) is not None:
        print(f"{chosen} is taken: {snapshot.snapshot_id} is {snapshot.state}. Nothing was read.")
        return 0
    doing = f"starting the book of {chosen}"
    require_writable(nightbook.layout, doing)
    if chosen == today:
        # Who reads this very night already is said before a run is begun that could only fail.
        with hold_pull_lock(nightbook.layout, doing, nightbook.now()):
            pass
    run_id, log = None, None
    if not is_terminal():
        run_id = str(uuid.uuid4())
        log = JsonLog(nightbook.now, {"night": chosen.isoformat(), "run": run_id})
    # What is imported stays: looking through it for garbage again and again would cost a night of
    # 300,000 accounts half a CPU second (measured). What is never thawed, DuckDB's library would
    # list as leaked when the process ends.
    gc.freeze()
    try:
        return take(nightbook, chosen, log=log, run_id=run_id, is_tick=unless_taken)
    finally:
        gc.unfreeze()


def take(
    nightbook: Nightbook,
    chosen: date,
    *,
    log: JsonLog | None = None,
    run_id: str | None = None,
    is_tick: bool = False,
) -> int:
    """Run the job for a date, send its alerts, and print how it ended."""
    # With a `log` progress and ending are its lines; what a person must read is on standard error
    # either way. After one that `is_tick` others of the date follow.
    layout = nightbook.layout
    with TerminalProgress() as teller:
        tell: Tell = log or teller
        watch = None if log else teller.watch
        tell(f"Taking the book of {chosen} into {layout.home}", event=STARTED)
        watched = dataclasses.replace(nightbook, tell=tell, watch=watch)
        outcome = run_night(watched, chosen, run_id, is_tick=is_tick)
    if not nightbook.is_demo:
        look(
            nightbook,
            partial(tell, event="alerts", level=WARNING),
            outcome.alerts,
            dagster=outcome.switches,
        )
    is_today = chosen == night.business_date(nightbook.settings(), nightbook.now())
    ended = _ending(layout, _newest(layout, chosen, is_today=is_today), chosen, outcome)
    if nightbook.is_debug and outcome.trace:
        print(printable_lines(outcome.trace), file=sys.stderr)
    if ended.code:
        print(printable_lines(ended.message), file=sys.stderr)
    if log or not ended.code:
        tell(ended.message, event=ended.event, level=LEVELS[ended.code], snapshot=ended.snapshot_id)
    if not ended.code:
        tell(str(layout.database), event="published", snapshot=ended.snapshot_id)
    return ended.code


def _newest(layout: Layout, chosen: date, *, is_today: bool) -> snapshots.Snapshot | None:
    """Return the snapshot that a run was about; today's may have another date by its clock."""
    if is_today and (manifest := night.taken_on(layout, chosen)) is not None:
        return snapshots.find(layout, manifest.snapshot_id)
    landed = reversed(snapshots.landed_snapshots(layout))
    return next((snapshot for snapshot in landed if snapshot.snapshot_date == chosen), None)


def _ending(
    layout: Layout, newest: snapshots.Snapshot | None, chosen: date, outcome: NightRun
) -> RunEnding:
    """Return how a run ended: held, failed, or with the book."""
    if outcome.is_judged and newest is not None and newest.state == states.HELD:
        message = _held_words(layout, newest)
        return RunEnding(A_PERSON_MUST_DECIDE, newest.state, message, newest.snapshot_id)
    if not outcome.success:
        lines = outcome.failures or (f"The run failed: see run {outcome.run_id} in nightbook dev.",)
        return RunEnding(FAILED, "failed", "\n".join(lines))
    if newest is None:
        return RunEnding(0, "ended", f"{chosen} was taken")
    message = f"{newest.state}: snapshot {newest.snapshot_id}"
    return RunEnding(0, newest.state, message, newest.snapshot_id)


def _held_words(layout: Layout, newest: snapshots.Snapshot) -> str:
    books = snapshots.books(snapshots.landed_snapshots(layout))
    book = books.get(newest.snapshot_date) or next(reversed(books.values()), None)
    stays = f"the book of {book.snapshot_date} stays" if book else "there is no book yet"
    lines = [f"Held: snapshot {newest.snapshot_id}; {stays}."]
    lines += [f"  {reason}" for reason in (newest.decision.reasons if newest.decision else ())]
    lines += [
        f"Decide: {command_for(layout)} accept {newest.snapshot_id} --why '...'   (or reject)"
    ]
    return "\n".join(lines)
