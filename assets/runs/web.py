"""Serve the Dagster UI behind a guard: `python -m assets.runs.web`.

Dagster's own command cannot add a guard, so this module creates its application and wraps it.
"""

import contextlib
import signal
from importlib.metadata import version

import click
import dagster as dg
import uvicorn

# Private modules of Dagster, because its own command cannot add a guard.
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget
from dagster._utils.log import configure_loggers
from dagster_webserver.app import create_app_from_workspace_process_context

from assets.runs.web_guard import Guard

MODULE = "assets.definitions"
LOOPBACK = "127.0.0.1"
PORT = 3000
# The defaults of Dagster's own command, in milliseconds, seconds and connections.
STATEMENT_TIMEOUT, POOL_RECYCLE, POOL_OVERFLOW = 15_000, 3600, 20
SHUTDOWN_TIMEOUT = 5  # seconds


@click.command(help=__doc__)
@click.option("--host", default=LOOPBACK, help="Address to listen on.")
@click.option("--port", type=int, default=PORT)
@click.option("--host-name", "host_names", multiple=True, metavar="NAME")
@click.option("--log-format", default="colored", type=click.Choice(["colored", "json"]))
@click.option("-d", "--working-directory", required=True)
def main(
    host: str, port: int, host_names: tuple[str, ...], log_format: str, working_directory: str
) -> None:
    """Serve until Ctrl-C or SIGTERM, which also end all processes that were started here."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    configure_loggers(formatter=log_format, log_level="INFO")
    # Dagster stores the state of the schedule under the module name, so it must not change.
    target = ModuleTarget(MODULE, None, working_directory, MODULE)
    with (
        contextlib.suppress(KeyboardInterrupt),
        dg.DagsterInstance.get() as instance,
    ):
        instance.optimize_for_webserver(STATEMENT_TIMEOUT, POOL_RECYCLE, POOL_OVERFLOW)
        with WorkspaceProcessContext(
            instance,
            version=version("dagster-webserver"),
            read_only=False,
            workspace_load_target=target,
        ) as workspace:
            uvicorn.run(
                Guard(create_app_from_workspace_process_context(workspace), frozenset(host_names)),
                host=host,
                port=port,
                log_level="warning",
                timeout_graceful_shutdown=SHUTDOWN_TIMEOUT,
            )


if __name__ == "__main__":
    main()
