"""Dagster's web process, with a guard that checks every request."""

import contextlib
import signal
from collections.abc import Iterable
from importlib.metadata import version
from typing import Final
from urllib.parse import parse_qs

import click
import dagster as dg
import uvicorn
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget
from dagster._utils.log import configure_loggers
from dagster_webserver.app import create_app_from_workspace_process_context
from graphql import GraphQLError, OperationDefinitionNode, OperationType, parse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Scope

from assets.console.guard import Guard, Refusal

JSON: Final = "application/json"
NOT_ALLOWED, NOT_JSON = 405, 415


def guard(application: ASGIApp, names: Iterable[str] = ()) -> Guard:
    """Return an application that a guard protects. It accepts changes only as JSON."""
    return Guard(application, frozenset(names), _check_change)


def _check_change(scope: Scope, headers: Headers) -> Refusal | None:
    """Return a refusal for changes that are not sent as JSON, because forms cannot send JSON."""
    if scope["method"] in ("GET", "HEAD", "OPTIONS"):
        queries = parse_qs(scope["query_string"].decode("latin-1")).get("query", [])
        if not any(map(_changes, queries)):
            return None
        return Refusal(NOT_ALLOWED, "Nothing was done. Send mutations as JSON in a POST request.")
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == JSON and len(headers.getlist("content-type")) == 1:
        return None
    return Refusal(NOT_JSON, f"Nothing was done. Send changes as {JSON}.")


def _changes(query: str) -> bool:
    """Return whether a GraphQL document contains a mutation or subscription, or is invalid."""
    try:
        document = parse(query)
    except (GraphQLError, RecursionError):
        return True
    return any(
        part.operation is not OperationType.QUERY
        for part in document.definitions
        if isinstance(part, OperationDefinitionNode)
    )


# This module uses private modules of Dagster, because Dagster's own command cannot add a guard.


MODULE = "assets.definitions"
LOOPBACK = "127.0.0.1"
PORT = 3000
# The defaults of Dagster's own command: milliseconds, seconds, and number of connections.
STATEMENT_TIMEOUT, POOL_RECYCLE, POOL_OVERFLOW = 15_000, 3600, 20
SHUTDOWN_TIMEOUT = 5  # seconds that open requests have to finish


@click.command(help=__doc__)
@click.option("--host", default=LOOPBACK, help="Address to listen on.")
@click.option("--port", type=int, default=PORT)
@click.option("--host-name", "host_names", multiple=True, metavar="NAME")
@click.option("--log-format", default="colored", type=click.Choice(["colored", "json"]))
@click.option("-d", "--working-directory", required=True)
def main(
    host: str, port: int, host_names: tuple[str, ...], log_format: str, working_directory: str
) -> None:
    """Serve until Ctrl-C or SIGTERM. Then also stop all processes that this server started."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    configure_loggers(formatter=log_format, log_level="INFO")
    # Dagster stores the schedule's state under the module name, so that name must not change.
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
                guard(create_app_from_workspace_process_context(workspace), host_names),
                host=host,
                port=port,
                log_level="warning",
                timeout_graceful_shutdown=SHUTDOWN_TIMEOUT,
            )


if __name__ == "__main__":
    main()
