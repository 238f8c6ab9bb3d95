"""Cleanup of dead runs before the daemon starts.

Service units start `python -m assets.runs.dead_runs COMMAND ...`, which closes runs whose process
no longer exists and then replaces itself with COMMAND. If a machine dies, Dagster considers its run
to be in progress forever, and every later night would wait for it. A lock ensures that a home has
at most one daemon. The system releases the lock when the process ends.
"""

import contextlib
import fcntl
import os
import sys
from collections.abc import Sequence
from functools import partial

from assets.console.errors import report_error
from assets.graph.record import copy_runs, report_state
from assets.graph.sensors import death_alert
from assets.home.creation import refuse_missing_home
from assets.home.daemon_state import DAEMON_LOCK
from assets.monitoring.alerts import send_alerts
from assets.monitoring.conditions import late_alert
from assets.monitoring.inspection import look
from assets.nightbook import Nightbook
from assets.runs import records
from assets.runs.instance import close_dead_runs, open_instance
from assets.runs.records import RecordAway, reaching_record
from pipelines.landing.lock import require_owner
from warehouse.storage.layout import FILE_MODE, UMASK, Layout, make_directory


class DaemonUp(Exception):
    """A daemon is already running for this home, so its runs are alive and must not be closed."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(
            f"Dagster is already running for {layout.home}. A home can have only one daemon. No "
            "run was closed and nothing was started. Stop the other daemon first (systemctl stop "
            "nightbook-daemon, or Ctrl-C in nightbook dev)."
        )


def reap(nightbook: Nightbook) -> int:
    """Acquire the daemon's lock, close dead runs and send alerts about them.

    Returns the lock's file descriptor, which the daemon inherits. Raises `DaemonUp`, `RecordAway`
    and `HomeNotCreated`.
    """
    layout = nightbook.layout
    refuse_missing_home(layout, "The daemon")
    require_owner(layout, "the daemon")
    make_directory(layout.dagster)
    # Do not use `filelock` here. This process becomes the daemon, which must inherit the lock and
    # hold it until it ends or is killed.
    descriptor = os.open(layout.dagster / DAEMON_LOCK, os.O_RDWR | os.O_CREAT, FILE_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with reaching_record(layout), open_instance(layout) as instance:
            dead = close_dead_runs(instance)
            copy_runs(layout, instance)
            report_state(layout, instance, nightbook.now())
            alerts = [alert for run in dead if (alert := death_alert(nightbook, instance, run))]
    except BlockingIOError:
        os.close(descriptor)
        raise DaemonUp(layout) from None
    except RecordAway:
        os.close(descriptor)
        raise
    # Send alerts about dead runs here, because a sensor that runs for the first time sees only new
    # events.
    with contextlib.suppress(OSError):  # if the disk is full, start the daemon anyway
        send_alerts(nightbook, alerts)
    os.set_inheritable(descriptor, True)
    return descriptor


def _send_alerts(nightbook: Nightbook, away: RecordAway) -> None:
    """Send alerts from this process, because no sensor runs while the record is unreachable."""
    # The supervisor restarts this process every few seconds, so report late nights here too.
    alerts = [records.record_away_alert(nightbook, away.why)]
    alerts += filter(None, [late_alert(nightbook)])
    look(nightbook, partial(print, file=sys.stderr), alerts)


def main(command: Sequence[str]) -> int:
    """Close dead runs, then replace this process with the command.

    Returns an exit code only if the command was not started.
    """
    try:
        descriptor = reap(Nightbook())
    except RecordAway as away:
        _send_alerts(Nightbook(), away)
        return report_error(away, Nightbook())
    except Exception as error:  # noqa: BLE001 - reported in one paragraph, like every command
        return report_error(error, Nightbook())
    if command:
        os.umask(UMASK)  # set the umask for the files that Dagster writes
        os.execvp(command[0], list(command))  # noqa: S606 - the unit names a program, not a shell
    os.close(descriptor)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
