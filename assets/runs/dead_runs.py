"""Before the daemon: runs whose process is gone are closed, then the daemon takes this place.

`python -m assets.runs.dead_runs COMMAND ...` is what the units start. Dagster leaves a run that
died with its machine running for ever, and every later night would wait for it. The lock says that
one daemon is up for a home; it goes with the process that holds it.
"""

import contextlib
import fcntl
import os
import sys
from collections.abc import Sequence
from functools import partial

from assets.console.errors import report_error
from assets.graph.sensors import death_alert, look
from assets.home.instance import DAEMON_LOCK, close_dead_runs, open_instance
from assets.monitoring.alerts import send_alerts
from assets.monitoring.conditions import late_alert
from assets.nightbook import Nightbook
from assets.runs import records
from assets.runs.records import RecordAway, reaching_record
from pipelines.landing.lock import require_owner
from warehouse.storage.layout import FILE_MODE, UMASK, Layout, make_directory


class DaemonUp(Exception):
    """Another daemon is up for this home, so no run of it may be closed."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(
            f"Dagster is already up for {layout.home}: one daemon is enough for a home, and its "
            "runs are alive. Nothing was closed or started. Stop the other one first "
            "(systemctl stop nightbook-daemon, or Ctrl-C in nightbook dev)."
        )


def reap(nightbook: Nightbook) -> int:
    """Close dead runs, alert, and return the lock, which the daemon goes on holding."""
    layout = nightbook.layout
    require_owner(layout, "the daemon")
    make_directory(layout.dagster)
    # Not `filelock`: the daemon that this process becomes must inherit the lock, and hold it until
    # it is gone, even by kill -9.
    descriptor = os.open(layout.dagster / DAEMON_LOCK, os.O_RDWR | os.O_CREAT, FILE_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise DaemonUp(layout) from None
    with reaching_record(layout), open_instance(layout) as instance:
        dead = close_dead_runs(layout, instance, launched=True)
        records.record_stored_events(layout, instance)
        alerts = [alert for run in dead if (alert := death_alert(nightbook, instance, run))]
    # Here and not by the sensor alone: a sensor that never ticked before sees only what is new.
    with contextlib.suppress(OSError):  # a full disk must not keep the daemon down
        send_alerts(nightbook, alerts)
    os.set_inheritable(descriptor, True)
    return descriptor


def _tell(nightbook: Nightbook, away: RecordAway) -> None:
    """Tell what no sensor can while the record is away: this process is all there is to tell."""
    # Its supervisor starts it again every few seconds, so a night that is late is told too.
    alerts = [records.record_away_alert(nightbook, away.why, is_taken=False)]
    alerts += filter(None, [late_alert(nightbook)])
    look(nightbook, partial(print, file=sys.stderr), alerts)


def main(command: Sequence[str]) -> int:
    """Reap, then become the command; with no command only reap."""
    try:
        descriptor = reap(Nightbook())
    except RecordAway as away:
        _tell(Nightbook(), away)
        return report_error(away, Nightbook())
    except Exception as error:  # noqa: BLE001 - said in one paragraph, as the command line does
        return report_error(error, Nightbook())
    if command:
        os.umask(UMASK)  # for what Dagster writes from now on
        os.execvp(command[0], list(command))  # noqa: S606 - no shell is wanted, the unit names it
    os.close(descriptor)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
