"""The schedule and the sensors: whether they are on, and when the next night is due."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from assets.console.invocation import full_command
from assets.home.daemon_state import is_daemon_locked, read_daemon_state
from assets.home.demo import is_demo
from assets.monitoring.alerts import FAILURE, Alert
from assets.night.run_log import newest_runs
from assets.nightbook import Nightbook
from assets.publishing.pending_decisions import unpublished_snapshots
from pipelines import night, schedule
from pipelines.landing import snapshots
from pipelines.landing.snapshots import Snapshot
from pipelines.settings import InvalidSettings, Settings
from warehouse.contract import states
from warehouse.storage.layout import Layout

SCHEDULE = "nightly_schedule"
MEANING = {
    SCHEDULE: "no night is pulled automatically",
    "night_failed": "alerts about failed runs are late or missing",
    "night_succeeded": "heartbeat and metrics after a good night are late or missing",
    "watch": "there is no alert if a night does not start",
}
# The daemon's sensor reports every five minutes.
MAX_REPORT_AGE = timedelta(minutes=15)
YEAR = 366
API = "NIGHTBOOK_API_"


@dataclass(frozen=True, slots=True)
class Switches:
    """The state of a home's schedule, sensors and daemon, as the daemon last reported it."""

    off: tuple[str, ...] = ()
    """The schedule and sensors that somebody turned off."""
    seen: datetime | None = None
    """The time of the daemon's last report (UTC)."""
    error: str = ""
    """The reason why the daemon's last report could not be read."""
    is_on: bool | None = None
    """Whether the schedule is on, or None if nobody ever turned it on or off."""
    is_locked: bool | None = None
    """Whether a process holds the daemon's lock, or None if there is no lock, as in a cluster."""

    def is_running(self, now: datetime) -> bool:
        """Return whether a daemon is running and can start a night."""
        # When a daemon ends, its lock is released at once, but its last report stays fresh for
        # minutes. If a daemon holds the lock but has no fresh report, it has hung. In a cluster,
        # there is no lock.
        is_fresh = self.seen is not None and now - self.seen <= MAX_REPORT_AGE
        if self.is_locked is None:
            return is_fresh
        return self.is_locked and (is_fresh or self.seen is None)

    def daemon(self, now: datetime) -> str:
        """Return a short phrase that says whether a daemon is running."""
        if self.is_running(now):
            return "the daemon is running"
        if self.seen is None:
            return "the daemon's state is unknown" if self.error else "no daemon is running"
        silent = "the daemon has not reported" if self.is_locked else "no daemon has run"
        return f"{silent} since {self.seen:%Y-%m-%d %H:%M} UTC"


def read_switches(layout: Layout) -> Switches:
    """Read what the daemon last reported about the schedule and the sensors, if it ever did."""
    try:
        state = read_daemon_state(layout)
    except ValueError as error:
        return Switches(error=str(error).partition("\n")[0])
    on = state.on if state else {}
    return Switches(
        off=tuple(name for name in MEANING if not on.get(name, True)),
        seen=state.reported_at if state else None,
        is_on=on.get(SCHEDULE),
        is_locked=is_daemon_locked(layout),
    )


def switch_alerts(nightbook: Nightbook, dagster: Switches | None = None) -> Iterator[Alert]:
    """Yield a daily alert for each schedule or sensor that is off or whose state is unreadable."""
    layout = nightbook.layout
    if is_demo(layout):
        return
    switches = dagster or read_switches(layout)
    today = nightbook.now().astimezone(nightbook.settings().timezone).date()
    for name in switches.off:
        subject = "schedule" if name == SCHEDULE else f"sensor {name}"
        yield Alert(
            cause=f"off:{name}:{today}",
            title=f"the {subject} is off",
            words=f"Somebody turned {name} off in Dagster, so {MEANING[name]}. This command turns "
            "it on, even while the daemon is running.",
            see=str(layout.dagster),
            command="nightbook doctor --turn-on",
            kind=FAILURE,
        )
    if switches.error:
        yield Alert(
            cause=f"switches:{today}",
            title="the daemon's last report cannot be read",
            words=f"Cannot tell whether the schedule is on: {switches.error}",
            see=str(layout.dagster),
            command="nightbook doctor",
        )


def has_api(nightbook: Nightbook) -> bool:
    """Return whether any setting of the API is set, so that the home is for real nights."""
    variables = nightbook.variables()
    return any(name.startswith(API) and value.strip() for name, value in variables.items())


def is_reader_home(nightbook: Nightbook) -> bool:
    """Return whether a home only downloads nights from a shelf and never calls the API.

    Such a home has a shelf, but no API settings and no past runs.
    """
    try:
        settings = nightbook.settings()
    except InvalidSettings:
        return False
    layout = Layout(settings.home)
    is_taker = has_api(nightbook) or layout.runs.exists() or layout.dagster.exists()
    return settings.shelf is not None and not is_taker


def start_alert(nightbook: Nightbook, switches: Switches) -> Alert | None:
    """Return an alert if neither a daemon nor cron will start the next night, or None."""
    layout, now = nightbook.layout, nightbook.now()
    if switches.error or is_demo(layout) or is_reader_home(nightbook):
        return None  # an unreadable report is a separate alert
    if switches.is_running(now) or _is_started_by_cron(nightbook):
        return None
    command = ["install"]
    remedy = (
        "Start the daemon (nightbook install, or nightbook dev), or let cron type: "
        f"{full_command(layout, 'run', '--unless-taken')}"
    )
    if switches.is_locked:
        command = ["doctor", "--turn-on"]
        remedy = (
            "Somebody may have turned off the sensor watch, which reports. If nightbook doctor "
            "--turn-on does not help, restart the daemon."
        )
    return Alert(
        cause="daemon",
        title="nothing starts the next night",
        words=f"Cron has not started the last night, and {switches.daemon(now)}. {remedy}",
        see=str(layout.dagster),
        command=" ".join(["nightbook", *command]),
    )


def next_tick(settings: Settings, after: datetime) -> datetime:
    """Return the schedule's first tick after a time, in the operator's time zone."""
    return schedule.next_tick(settings.schedule, settings.timezone, after)


def tick_of(settings: Settings, day: date, after: datetime | None = None) -> datetime | None:
    """Return the schedule's first tick on a date (after the time `after`, if given), or None."""
    midnight = datetime.combine(day, time(), settings.timezone)
    tick = next_tick(settings, after or midnight - timedelta(seconds=1))
    return tick if tick.astimezone(settings.timezone).date() == day else None


def night_of(nightbook: Nightbook, day: date) -> Snapshot | None:
    """Return the held or published night of a date, or None if a later tick should pull one."""
    # Held nights count, because they are waiting for a person and another pull would not help.
    # Accepted nights that were never published do not count.
    layout = nightbook.layout
    nights = snapshots.landed_snapshots(layout)
    unpublished = unpublished_snapshots(layout, nights)
    candidates = [snapshot for snapshot in nights if snapshot.snapshot_date == day]
    # If the clock was wrong, the run for this date may have pulled a night that belongs to a
    # different date.
    if (manifest := night.taken_on(layout, day)) is not None:
        candidates += [
            snapshot for snapshot in nights if snapshot.snapshot_id == manifest.snapshot_id
        ]
    for snapshot in sorted(candidates, key=lambda snapshot: snapshot.snapshot_id, reverse=True):
        is_published = snapshot.snapshot_id not in unpublished
        if snapshot.state == states.HELD or (snapshot.state == states.ACCEPTED and is_published):
            return snapshot
    return None


def next_night(nightbook: Nightbook) -> datetime:
    """Return the next tick that will pull a night. Skip dates that already have a night."""
    settings = nightbook.settings()
    tick = next_tick(settings, nightbook.now())
    day = tick.astimezone(settings.timezone).date()
    if night_of(nightbook, day) is None:
        return tick
    midnight = datetime.combine(day + timedelta(days=1), time(), settings.timezone)
    return next_tick(settings, midnight - timedelta(microseconds=1))


def _is_started_by_cron(nightbook: Nightbook) -> bool:
    """Return whether cron started a run on the last date before today that had a scheduled run."""
    settings = nightbook.settings()
    newest = next((run for run in newest_runs(nightbook.layout) if run.is_tick), None)
    today = nightbook.now().astimezone(settings.timezone).date()
    days = (today - timedelta(days=ago) for ago in range(1, YEAR))
    last = next((day for day in days if schedule.is_due(settings.schedule, day)), None)
    return newest is not None and last is not None and newest.day >= last
