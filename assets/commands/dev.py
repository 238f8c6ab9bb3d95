"""`nightbook dev`: Dagster's UI, daemon and schedule on this machine."""

import os
import signal
import subprocess
import sys
from time import sleep

import click
from click import option

from assets.commands.sandbox import HOST_NAMES, LOOPBACK, PORT, require_free
from assets.console.command import HomeCommand
from assets.console.terminal import wants_color
from assets.home.creation import create_home, is_person
from assets.nightbook import Nightbook
from assets.runs.dead_runs import reap
from assets.runs.instance import DAEMON_MODULE
from pipelines.landing.lock import require_owner
from warehouse.storage.home import HOME
from warehouse.storage.layout import UMASK, Layout

POLL_SECONDS, STOP_TIMEOUT = 0.2, 60


@click.command(cls=HomeCommand, needs_home=False, writes=True)
@option("--port", **PORT, default=3000, show_default=True, help="Port of the Dagster UI")
@HOST_NAMES
def dev_command(nightbook: Nightbook, *, port: int, host_names: tuple[str, ...]) -> int:
    """Start the Dagster UI and daemon on this machine."""
    # Wait for Ctrl-C, or for SIGTERM from a supervisor.
    layout = nightbook.layout
    require_free(port, "dev")
    require_owner(layout, "nightbook dev")
    if is_person():
        create_home(layout)
    with os.fdopen(reap(nightbook)) as lock:
        print(f"Dagster for {layout.home}: http://{LOOPBACK}:{port}   (Ctrl-C stops it)")
        print(
            "Dagster has no login and can start runs with your API key, so do not make this port "
            "accessible to other people."
        )
        sys.stdout.flush()
        log = ["--log-format", "colored" if wants_color(sys.stderr) else "json"]
        folder = ["-d", str(layout.dagster)]
        daemon = [DAEMON_MODULE, "run", *log, "-m", "assets.definitions", *folder]
        web = ["assets.runs.web", *log, *folder, "--port", str(port)]
        web += [word for name in host_names for word in ("--host-name", name)]
        return _run_until_stop([daemon, web], layout, lock.fileno())


def _run_until_stop(modules: list[list[str]], layout: Layout, lock: int) -> int:
    """Run each module in a child process until one exits or a signal arrives, then stop all."""
    # The child processes inherit the demo's lock, so killing this process does not release the
    # lock. PYTHONSAFEPATH keeps Python from importing modules from the current folder, which may be
    # a home with a folder named `warehouse`.
    variables = {"PYTHONWARNINGS": "ignore", HOME: str(layout.home), "PYTHONSAFEPATH": "1"}
    signals: list[int] = []
    # Set the handlers before the children start. Otherwise, the children would also ignore the
    # signals that nohup or a background job ignores.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _: signals.append(received))
    started = [
        subprocess.Popen(
            [sys.executable, "-m", *arguments],
            env=os.environ | variables,
            pass_fds=(lock,),
            umask=UMASK,
            # Use a separate process group, so that Ctrl-C does not reach the children directly.
            # Otherwise, they would get two signals, and the second signal would kill them.
            process_group=0,
        )
        for arguments in modules
    ]
    while not signals and all(process.poll() is None for process in started):
        sleep(POLL_SECONDS)
    ended = [process.returncode for process in started if process.returncode is not None]
    for process in started:
        process.terminate()
    for process in started:
        _wait_for(process)
    return 0 if signals else max(map(abs, ended))


def _wait_for(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
