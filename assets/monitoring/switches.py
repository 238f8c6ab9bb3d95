"""Whether the schedule and the sensors are on: in Dagster anybody may turn them off with a click.

Then no night begins and nobody is told, while everything that is there is as good as it was.
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
    SCHEDULE: "no night is taken by itself",
    "night_failed": "a run that fails is told late, or never",
    "night_succeeded": "after a good night the sign of life and the metrics come late, or never",
    "watch": "a night that never began is told by nobody",
}
LOCATION = "assets.definitions"
DAEMON = "SCHEDULER"
FRESH = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Switches:
    """The state of schedule, sensors and daemon.

    `off` names what somebody turned off. `is_on` says whether the schedule was turned on, or is
    None if nobody ever did either. `seen` is the daemon's last heartbeat (UTC). `is_locked` says
    whether a process holds the daemon's lock, or is None if none ever took it, as in a cluster.
    `error` is the reason why Dagster's record could not be read.
    """

    off: tuple[str, ...] = ()
    seen: datetime | None = None
    error: str = ""
    is_on: bool | None = None
    is_locked: bool | None = None

    def daemon(self, now: datetime) -> str:
        """Return in words whether a daemon is up that starts a night."""
        if self.seen is None and not self.is_locked:
            return "if the daemon is up"
        # The lock goes with the process that holds it, but a heartbeat lasts for minutes after it.
        # A process that holds the lock without a heartbeat hangs.
        is_fresh = self.seen is None or now - self.seen <= FRESH
        if is_fresh and self.is_locked is not False:
            return "the daemon is up"
        return f"no daemon since {self.seen:%Y-%m-%d %H:%M} UTC" if self.seen else "no daemon is up"


def read_switches(layout: Layout) -> Switches:
    """Read the record of a home. If Dagster never ran in it, the result is empty."""
    if not (layout.dagster / "dagster.yaml").is_file():
        return Switches()
    try:
        with open_instance(layout) as instance:
            return switches_of(instance, layout)
    except Exception as error:  # noqa: BLE001 - a database may fail in many ways
        return Switches(error=f"{type(error).__name__}: {error}".partition("\n")[0])


def switches_of(instance: dg.DagsterInstance, layout: Layout) -> Switches:
    """Read a record that is open. Opening one costs a tenth of a second."""
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

    The daemon reads these states at its next tick, so it can be up meanwhile.
    """
    turned_on = []
    with open_instance(layout) as instance:
        for state in instance.all_instigator_state():
            if state.name in MEANING and not state.is_running:
                instance.update_instigator_state(state.with_status(InstigatorStatus.RUNNING))
                turned_on.append(state.name)
    return tuple(name for name in MEANING if name in turned_on)


def _ours(states: Iterable[InstigatorState]) -> dict[str, bool]:
    """Whether each is on; of a home that was loaded under two names, as nightbook loads it."""
    is_on: dict[str, bool] = {}
    # The shipped units load the definitions as `assets.definitions`; that location decides, so it
    # is sorted to the end, where it overwrites what another name says.
    for state in sorted(states, key=_is_of_units):
        is_on[state.name] = state.is_running
    return is_on


def _is_of_units(state: InstigatorState) -> bool:
    return state.origin.repository_origin.code_location_origin.location_name == LOCATION


def switch_alerts(nightbook: Nightbook, dagster: Switches | None = None) -> Iterator[Alert]:
    """Yield an alert for each that is off, every day until it is on."""
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
            "it on again, also while the daemon is up.",
            see=str(layout.dagster),
            command=full_command(layout, "doctor", "--turn-on"),
            kind=FAILURE,
        )
    if switches.error:
        yield Alert(
            cause=f"switches:{today}",
            title="Dagster's record of this home cannot be read",
            words=f"So nobody knows whether the schedule is on: {switches.error}",
            see=str(layout.dagster),
            command=full_command(layout, "doctor"),
        )
