"""Programs that tests start as the shipped systemd units do, and kill like a power cut."""

import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from assets.commands.install import render_unit
from tests.support.created_home import created_home
from tests.support.operator_home import KEY, SECRET, Clock
from warehouse.storage.layout import Layout

PATIENCE = 400.0
UI_PORT = "3000"


class Now(Clock):
    """The clock of this machine, for a sandbox that expects a clock that tests set."""

    def __call__(self) -> datetime:
        """Return the current time."""
        return datetime.now(UTC)


def until(what: str, is_so: Callable[[], Any], log: Path | None = None) -> Any:
    """Wait until `is_so` returns a true value, and return it. After a timeout, show the log."""
    end = time.monotonic() + PATIENCE
    while not (found := is_so()):
        said = log.read_text()[-4000:] if log else ""
        assert time.monotonic() < end, f"{what}: not within {PATIENCE} s\n{said}"
        time.sleep(0.3)
    return found


def free_port() -> int:
    """Return a loopback port that is not in use."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def environment(home: Path, origin: str, more: Mapping[str, str]) -> dict[str, str]:
    """Create a home. Return this process's environment with the nightbook settings of the home."""
    created_home(home)
    kept = {name: value for name, value in os.environ.items() if "NIGHTBOOK" not in name}
    access = {"API_URL": origin, "API_KEY": KEY, "API_SECRET": SECRET, "HOME": str(home)}
    return kept | {f"NIGHTBOOK_{name}": value for name, value in access.items()} | dict(more)


@contextmanager
def started(
    name: str, home: Path, variables: Mapping[str, str], log: Path, port: str = UI_PORT
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a unit's command in its folder and environment. At the end, kill all its processes."""
    unit = render_unit(name, Layout(home), home.parent, is_system=True)
    lines = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line)
    given = dict(word.split("=", 1) for word in shlex.split(lines["Environment"]))
    with log.open("ab") as file:
        process = subprocess.Popen(
            shlex.split(lines["ExecStart"].replace(f" {UI_PORT} ", f" {port} ")),
            cwd=lines["WorkingDirectory"],
            env=dict(variables) | given,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and all processes of its session, as a power cut would."""
    inside = f"{process.pid}"
    found = subprocess.run(["ps", "-eo", "pid=,sid="], capture_output=True, text=True, check=True)
    for line in found.stdout.splitlines():
        pid, session = line.split()
        if session == inside:
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                continue
    process.wait()
