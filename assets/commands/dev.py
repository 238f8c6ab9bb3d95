"""`nightbook dev`: the Dagster UI, daemon and schedule for this home, on this machine only."""

import os
import signal
import socket
import subprocess
import sys
from time import sleep

from assets.console.color import wants_color
from assets.home.dagster_internals import DAEMON_MODULE
from assets.nightbook import Nightbook
from assets.runs.dead_runs import reap
from warehouse.storage.home import HOME
from warehouse.storage.layout import UMASK, Layout

LOOPBACK = "127.0.0.1"
LAST = 65535
LOOK_SECONDS, PATIENCE = 0.2, 60


class NotStarted(Exception):
    """What is to be started cannot be started here now."""


def run(nightbook: Nightbook, *, port: int, host_names: tuple[str, ...]) -> int:
    """Start Dagster and stay until it is stopped: Ctrl-C, or SIGTERM from a supervisor."""
    layout = nightbook.layout
    require_free(port, "dev")
    with os.fdopen(reap(nightbook)) as lock:
        print(f"Dagster for {layout.home}: http://{LOOPBACK}:{port}   (Ctrl-C stops it)")
        print("It has no login and can start runs with your key: do not open this port to others.")
        sys.stdout.flush()
        log = ["--log-format", "colored" if wants_color(sys.stderr) else "json"]
        folder = ["-d", str(layout.dagster)]
        daemon = [DAEMON_MODULE, "run", *log, "-m", "assets.definitions", *folder]
        web = ["assets.runs.web", *log, *folder, "--port", str(port)]
        web += [word for name in host_names for word in ("--host-name", name)]
        return _stay([daemon, web], layout, lock.fileno())


def _stay(modules: list[list[str]], layout: Layout, lock: int) -> int:
    """Wait until a module ends or somebody stops us, then end all of them."""
    # They hold the lock as well, so that a kill of ours frees nothing.
    quiet = {"PYTHONWARNINGS": "ignore", HOME: str(layout.home)}
    # Nothing in the folder it starts in, such as the `warehouse` of a home, is taken for a module.
    quiet["PYTHONSAFEPATH"] = "1"
    signals: list[int] = []
    # Before the start: what is ignored here (nohup, a background job) would be ignored there too.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _: signals.append(received))
    started = [
        subprocess.Popen(
            [sys.executable, "-m", *arguments],
            env=os.environ | quiet,
            pass_fds=(lock,),
            umask=UMASK,
            process_group=0,  # Ctrl-C is for us alone: told to stop twice they die on their way
        )
        for arguments in modules
    ]
    while not signals and all(process.poll() is None for process in started):
        sleep(LOOK_SECONDS)
    ended = [process.returncode for process in started if process.returncode is not None]
    for process in started:
        process.terminate()
    for process in started:
        _wait_for(process)
    return 0 if signals else max(map(abs, ended))


def _wait_for(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def require_free(port: int, command: str) -> None:
    """Raise `NotStarted` where something else has the port; 0 takes a free one."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise NotStarted(
                f"Port {port} of this machine cannot be used ({error.strerror}). Nothing was "
                f"started. Choose another: nightbook {command} --port {port % LAST + 1}"
            ) from None
