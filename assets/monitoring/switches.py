"""The state of the schedule and the sensors, which anybody can turn off in Dagster with a click.

If they are off, no night starts and no alert is sent, although everything looks well.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import dagster as dg

from assets.console.invocation import full_command
from assets.home.dagster_internals import InstigatorState, InstigatorStatus
from assets.home.demo import is_demo
from assets.home.instance import is_daemon_locked, open_instance
from assets.monitoring.alerts import FAILURE, Alert
from assets.nightbook import Nightbook
from warehouse.storage.layout import Layout

SCHEDULE = "nightly_schedule"
MEANING = {
    SCHEDULE: "no night is taken automatically",
    "night_failed": "alerts about failed runs are late or missing",
    "night_succeeded": "heartbeat and metrics after a good night are late or missing",
    "watch": "there is no alert if a night does not start",
}
LOCATION = "assets.definitions"
DAEMON = "SCHEDULER"
MAX_HEARTBEAT_AGE = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Switches:
    """The state of schedule, sensors and daemon."""

    off: tuple[str, ...] = ()
    """The schedule and sensors that somebody turned off."""
    seen: datetime | None = None
    """The last heartbeat of the daemon (UTC)."""
    error: str = ""
    """The reason why Dagster's records could not be read."""
    is_on: bool | None = None
    """Whether the schedule is on, or None if nobody ever turned it on or off."""
    is_locked: bool | None = None
    """Whether a process holds the daemon's lock. None if there is no lock, as in a cluster."""

    def daemon(self, now: datetime) -> str:
        """Return a phrase that says whether a daemon is up to start a night."""
        if self.seen is None and not self.is_locked:
            return "if the daemon is up"
        # The lock ends with its process, but the last heartbeat stays fresh for minutes after that.
        # A process that holds the lock without a fresh heartbeat hangs.
        is_fresh = self.seen is None or now - self.seen <= MAX_HEARTBEAT_AGE
        if is_fresh and self.is_locked is not False:
            return "the daemon is up"
        return f"no daemon since {self.seen:%Y-%m-%d %H:%M} UTC" if self.seen else "no daemon is up"


def read_switches(layout: Layout) -> Switches:
    """Read Dagster's records of a home. If Dagster never ran in it, the result is empty."""
    if not (layout.dagster / "dagster.yaml").is_file():
        return Switches()
    try:
        with open_instance(layout) as instance:
            return switches_of(instance, layout)
    except Exception as error:  # noqa: BLE001 - a database may raise any error
        return Switches(error=f"{type(error).__name__}: {error}".partition("\n")[0])


def switches_of(instance: dg.DagsterInstance, layout: Layout) -> Switches:
    """Read from an open instance. Opening one takes 0.1 s."""
    states = _ours(instance.all_instigator_state())
    beat = instance.get_daemon_heartbeats().get(DAEMON)
    return Switches(
        off=tuple(name for name in MEANING if name in states and not states[name]),
        seen=datetime.fromtimestamp(beat.timestamp, UTC) if beat else None,
        is_on=states.get(SCHEDULE),
        is_locked=is_daemon_locked(layout),
    )


def turn_on(layout: Layout) -> tuple[str, ...]:
    """Turn on the schedule and the sensors that somebody turned off, and return their names.

    The daemon may be running, because it reads these states at its next tick.
    """
    turned_on = []
    with open_instance(layout) as instance:
        for state in instance.all_instigator_state():
            if state.name in MEANING and not state.is_running:
                instance.update_instigator_state(state.with_status(InstigatorStatus.RUNNING))
                turned_on.append(state.name)
    return tuple(name for name in MEANING if name in turned_on)


def _ours(states: Iterable[InstigatorState]) -> dict[str, bool]:
    """Return whether each is on. A home may have two names for its code location."""
    is_on: dict[str, bool] = {}
    # The shipped units use the location `assets.definitions`. It is sorted last, so that it
    # overrides other locations.
    for state in sorted(states, key=_is_of_units):
        is_on[state.name] = state.is_running
    return is_on


def _is_of_units(state: InstigatorState) -> bool:
    return state.origin.repository_origin.code_location_origin.location_name == LOCATION


def switch_alerts(nightbook: Nightbook, dagster: Switches | None = None) -> Iterator[Alert]:
    """Yield an alert for each schedule or sensor that is off, every day until it is on."""
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
            title="Dagster's records of this home cannot be read",
            words=f"So it is unknown whether the schedule is on: {switches.error}",
            see=str(layout.dagster),
            command=full_command(layout, "doctor"),
        )
