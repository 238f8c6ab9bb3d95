"""`nightbook dev`: the Dagster UI, daemon and schedule for this home, on this machine only."""

import argparse
import os
import signal
import socket
import subprocess
import sys

from assets.reap import reap
from assets.resources import Nightbook
from warehouse.layout import Layout

LOOPBACK = "127.0.0.1"
LAST = 65535


class NotStarted(Exception):
    """What is to be started cannot be started here now."""


def run(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    """Start Dagster and stay until it is stopped: Ctrl-C, or SIGTERM from a supervisor."""
    layout = nightbook.layout
    require_free(arguments.port, "dev")
    with os.fdopen(reap(nightbook)) as lock:
        print(f"Dagster for {layout.home}: http://{LOOPBACK}:{arguments.port}   (Ctrl-C stops it)")
        print("It has no login and can start runs with your key: do not open this port to others.")
        sys.stdout.flush()
        command = [sys.executable, "-m", "dagster", "dev", "-m", "assets.definitions"]
        command += ["-d", str(layout.dagster), "-h", LOOPBACK, "-p", str(arguments.port)]
        command += [] if sys.stderr.isatty() else ["--log-format", "json"]
        return _stay(command, layout, lock.fileno())


def _stay(command: list[str], layout: Layout, lock: int) -> int:
    """Wait for Dagster to end; it has the lock as well, so that a kill of ours frees nothing."""
    quiet = {"PYTHONWARNINGS": "ignore", "NIGHTBOOK_HOME": str(layout.home)}
    # Nothing in the folder it starts in, such as the `warehouse` of a home, is taken for a module.
    quiet["PYTHONSAFEPATH"] = "1"
    asked: list[int] = []
    started: list[subprocess.Popen[bytes]] = []

    def stop(signal_no: int, _: object) -> None:
        asked.append(signal_no)
        for process in started:
            process.send_signal(signal.SIGTERM)

    # Before the start: what is ignored here (nohup, a background job) would be ignored there too.
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, stop)
    with subprocess.Popen(command, env=os.environ | quiet, pass_fds=(lock,)) as process:
        started.append(process)
        if asked:
            process.terminate()
        code = process.wait()
    return 0 if asked else code


def require_free(port: int, command: str) -> None:
    """Raises `NotStarted` where something else has the port; 0 takes a free one."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise NotStarted(
                f"Port {port} of this machine cannot be used ({error.strerror}). Nothing was "
                f"started. Choose another: nightbook {command} --port {port % LAST + 1}"
            ) from None
