"""Contact with Dagster for commands, which never import it.

The daemon reports its state in a file. Changes of Dagster's record run in a separate process.
"""

import contextlib
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from warehouse.storage.home import HOME
from warehouse.storage.layout import Layout, read_json, write_json

DAEMON_LOCK = "daemon.lock"
STATE_FILE = "daemon.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonState:
    """The last report of the daemon's sensor.

    `on` maps the name of a schedule or sensor that somebody turned on or off to whether it is on.
    """

    reported_at: datetime
    on: Mapping[str, bool] = field(default_factory=dict)


def write_daemon_state(layout: Layout, state: DaemonState) -> None:
    """Store a report of the daemon. A full disk does not stop the daemon."""
    facts = {"reported_at": state.reported_at.isoformat(), "on": dict(state.on)}
    with contextlib.suppress(OSError):
        write_json(layout.dagster / STATE_FILE, facts)


def read_daemon_state(layout: Layout) -> DaemonState | None:
    """Read the daemon's last report, or return None if there is none. Raises `ValueError`."""
    path = layout.dagster / STATE_FILE
    try:
        facts = read_json(path)
        return DaemonState(
            reported_at=datetime.fromisoformat(facts["reported_at"]),
            on={str(name): bool(is_on) for name, is_on in facts["on"].items()},
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} cannot be read ({type(error).__name__}: {error})") from error


def is_daemon_locked(layout: Layout) -> bool | None:
    """Return whether a daemon is running, or None if its lock file is missing or unreadable."""
    return is_locked(layout.dagster / DAEMON_LOCK)


def is_locked(path: Path) -> bool | None:
    """Return whether a process holds a lock file, or None if it is missing or unreadable."""
    # Try to acquire a shared lock. This fails if a different process holds an exclusive lock, and
    # it needs only read permission.
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False


class DagsterFailed(Exception):
    """A process that changes Dagster's record failed."""

    def __init__(self, layout: Layout, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"Dagster's record for {layout.home} could not be changed ({reason}). Nothing else was "
            f"changed. Dagster's configuration is in {layout.dagster / 'dagster.yaml'}."
        )


def change_record(layout: Layout, *arguments: str) -> Any:
    """Run an action of `assets.runs.records` in a process. Raises `DagsterFailed`."""
    # PYTHONSAFEPATH keeps Python from importing modules from the current folder, which may be a
    # home with a folder named `warehouse`.
    process = subprocess.run(
        [sys.executable, "-m", "assets.runs.records", *arguments],
        env=os.environ
        | {HOME: str(layout.home), "PYTHONSAFEPATH": "1", "PYTHONWARNINGS": "ignore"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        reason = process.stderr.strip().rpartition("\n")[2]
        raise DagsterFailed(layout, reason or f"exit code {process.returncode}")
    return json.loads(process.stdout)
