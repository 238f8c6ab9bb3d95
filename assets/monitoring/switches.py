"""The schedule and the sensors: whether they are on, and when the next night is due."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from assets.console.invocation import full_command
from assets.home.demo import is_demo
from assets.home.instance import (
    InstigatorState,
    InstigatorStatus,
    is_daemon_locked,
    open_instance,
    schedule_execution_time_iterator,
)
from assets.monitoring.alerts import FAILURE, Alert
from assets.nightbook import Nightbook
from assets.publishing import lost_decisions
from pipelines import night
from pipelines.landing import snapshots
from pipelines.landing.snapshots import Snapshot
from pipelines.settings import Settings
from warehouse.contract import states
from warehouse.storage.layout import Layout

SCHEDULE = "nightly_schedule"
MEANING = {
    SCHEDULE: "no night is pulled automatically",
    "night_failed": "alerts about failed runs are late or missing",
    "night_succeeded": "heartbeat and metrics after a good night are late or missing",
    "watch": "there is no alert if a night does not start",
}
LOCATION = "assets.definitions"
DAEMON = "SCHEDULER"
MAX_HEARTBEAT_AGE = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Switches:
    """The state of a home's schedule, sensors and daemon in Dagster."""

    off: tuple[str, ...] = ()
    """The schedule and sensors that somebody turned off."""
    seen: datetime | None = None
    """The daemon's last heartbeat (UTC)."""
    error: str = ""
    """The reason why Dagster's database could not be read."""
    is_on: bool | None = None
    """Whether the schedule is on, or None if nobody ever turned it on or off."""
    is_locked: bool | None = None
    """Whether a process holds the daemon's lock, or None if there is no lock, as in a cluster."""

    def daemon(self, now: datetime) -> str:
        """Return a short phrase that says whether a daemon is running and can start a night."""
        if self.seen is None and not self.is_locked:
            return "if the daemon is running"
        # When a daemon ends, its lock is released at once, but its last heartbeat stays fresh for
        # minutes. If a daemon holds the lock but has no fresh heartbeat, it has hung.
        is_fresh = self.seen is None or now - self.seen <= MAX_HEARTBEAT_AGE
        if is_fresh and self.is_locked is not False:
            return "the daemon is running"
        return (
            f"no daemon since {self.seen:%Y-%m-%d %H:%M} UTC"
            if self.seen
            else "no daemon is running"
        )


def read_switches(layout: Layout) -> Switches:
    """Read the state of schedule and sensors from Dagster's records, if Dagster ever ran."""
    if not (layout.dagster / "dagster.yaml").is_file():
        return Switches()
    try:
        with open_instance(layout) as instance:
            states = _ours(instance.all_instigator_state())
            beat = instance.get_daemon_heartbeats().get(DAEMON)
            return Switches(
                off=tuple(name for name in MEANING if name in states and not states[name]),
                seen=datetime.fromtimestamp(beat.timestamp, UTC) if beat else None,
                is_on=states.get(SCHEDULE),
                is_locked=is_daemon_locked(layout),
            )
    except Exception as error:  # noqa: BLE001 - a database may raise any error
        return Switches(error=f"{type(error).__name__}: {error}".partition("\n")[0])


def turn_on(layout: Layout) -> tuple[str, ...]:
    """Turn on each schedule or sensor that somebody turned off, and return their names.

    A running daemon reads these states at its next tick, so it need not be restarted.
    """
    turned_on = []
    with open_instance(layout) as instance:
        for state in instance.all_instigator_state():
            if state.name in MEANING and not state.is_running:
                instance.update_instigator_state(state.with_status(InstigatorStatus.RUNNING))
                turned_on.append(state.name)
    return tuple(name for name in MEANING if name in turned_on)


def _ours(states: Iterable[InstigatorState]) -> dict[str, bool]:
    """Map the name of each schedule and sensor to whether it is on.

    Dagster may store several states for a name, one for each name of the code location.
    """
    is_on: dict[str, bool] = {}
    # The systemd units that we ship use the code location `assets.definitions`. It is sorted last,
    # so its state overrides the states of other locations.
    for state in sorted(states, key=_is_of_units):
        is_on[state.name] = state.is_running
    return is_on


def _is_of_units(state: InstigatorState) -> bool:
    return state.origin.repository_origin.code_location_origin.location_name == LOCATION


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
            command=full_command(layout, "doctor", "--turn-on"),
            kind=FAILURE,
        )
    if switches.error:
        yield Alert(
            cause=f"switches:{today}",
            title="Dagster's database for this home cannot be read",
            words=f"Cannot tell whether the schedule is on: {switches.error}",
            see=str(layout.dagster),
            command=full_command(layout, "doctor"),
        )


def next_tick(settings: Settings, after: datetime) -> datetime:
    """Return the schedule's first tick after a time, in the operator's time zone."""
    # Use the same iterator as Dagster's daemon, so that both return the same ticks when clocks
    # change.
    ticks = schedule_execution_time_iterator(
        after.timestamp(), settings.schedule, str(settings.timezone), ascending=True
    )
    return next(tick for tick in ticks if tick > after)


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
    unpublished = lost_decisions.unpublished_snapshots(layout, nights)
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
