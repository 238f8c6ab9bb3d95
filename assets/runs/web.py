"""The Dagster UI behind its guard: `python -m assets.runs.web`.

Dagster's own command has no place for a guard, so its application is made here and wrapped.
"""

import argparse
import contextlib
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version

import dagster as dg
import uvicorn

# Private: Dagster's own web command has no place for a guard, so its application is made by hand.
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget
from dagster._utils.log import configure_loggers
from dagster_webserver.app import create_app_from_workspace_process_context

from assets.runs.web_guard import Guard

MODULE = "assets.definitions"
LOOPBACK = "127.0.0.1"
PORT = 3000
# What Dagster's own command gives: milliseconds for a statement, seconds, connections.
STATEMENT_TIMEOUT, POOL_RECYCLE, POOL_OVERFLOW = 15_000, 3600, 20

CLOSING = 5


def parser() -> argparse.ArgumentParser:
    """Return the arguments of the process."""
    top = argparse.ArgumentParser(prog="python -m assets.runs.web", description=__doc__)
    top.add_argument("--host", default=LOOPBACK, help="the address to listen on")
    top.add_argument("--port", type=int, default=PORT)
    top.add_argument("--host-name", action="append", default=[], metavar="NAME")
    top.add_argument("--log-format", default="colored", choices=("colored", "json"))
    top.add_argument("-d", "--working-directory", required=True)
    return top


def main(argv: Sequence[str]) -> int:
    """Serve until stopped, by Ctrl-C or SIGTERM, which both end all that was started here."""
    arguments = parser().parse_args(argv)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        _serve(arguments)
    return 0


def _serve(arguments: argparse.Namespace) -> None:
    configure_loggers(formatter=arguments.log_format, log_level="INFO")
    # The name by which the schedule is known, and whether it is on, is that of the module.
    target = ModuleTarget(MODULE, None, arguments.working_directory, MODULE)
    with dg.DagsterInstance.get() as instance:
        instance.optimize_for_webserver(STATEMENT_TIMEOUT, POOL_RECYCLE, POOL_OVERFLOW)
        with WorkspaceProcessContext(
            instance,
            version=version("dagster-webserver"),
            read_only=False,
            workspace_load_target=target,
        ) as workspace:
            application = create_app_from_workspace_process_context(workspace)
            uvicorn.run(
                Guard(application, frozenset(arguments.host_name)),
                host=arguments.host,
                port=arguments.port,
                log_level="warning",
                timeout_graceful_shutdown=CLOSING,
            )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
