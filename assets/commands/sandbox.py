"""`nightbook sandbox`: the simulated API, for any client on this machine."""

import socket
from time import sleep
from typing import Any

import click
from click import option

from assets.console.command import HomeCommand
from assets.console.parameters import format_option
from assets.console.rows import print_lines, print_rows
from assets.nightbook import Nightbook
from pipelines.sandbox.faults import EXAMPLE, FAULTS, SCOPES, parse
from pipelines.sandbox.options import describe_choices, parse_choices
from pipelines.sandbox.server import DEMO_KEY, DEMO_KEYS, DEMO_SECRET, application, serve, unix_ms
from pipelines.sandbox.world.world import LivingWorld
from warehouse.query.formats import printable

LOOPBACK = "127.0.0.1"
LAST_PORT = 65535
PORT: dict[str, Any] = {"type": click.IntRange(0, LAST_PORT), "metavar": "N"}
HOST_NAMES = click.option(
    "--host-name",
    "host_names",
    multiple=True,
    metavar="NAME",
    help="Also accept requests for this host name, used by your proxy",
)
"""The type of the option `--port`."""


class NotStarted(Exception):
    """The server could not be started."""


class NoSuchFault(Exception):
    """A fault, scope or choice was requested that the sandbox does not have."""

    exit_code = 2


@click.command(cls=HomeCommand, needs_home=False)
@option("--port", **PORT, default=0, help="Port to listen on  [default: any free port]")
@option(
    "--fault",
    "faults",
    metavar="NAME[,SCOPE]",
    multiple=True,
    help="Simulate a fault (`--fault list` shows all)",
)
@option(
    "--choice",
    "choices",
    metavar="NAME=VALUE",
    multiple=True,
    help="Choose a behaviour that the API document does not define (`--choice list` shows all)",
)
@format_option(help_text="Output format of the lists of faults and choices")
def sandbox_command(
    nightbook: Nightbook,
    *,
    port: int,
    faults: tuple[str, ...],
    choices: tuple[str, ...],
    output_format: str | None,
) -> int:
    """Serve a simulated API that can also simulate faults."""
    del nightbook
    if "list" in (*faults, *choices):
        _print_list(output_format, is_choices="list" in choices)
        return 0
    try:
        chosen = tuple(parse(text) for text in faults)
        options = parse_choices(choices)
    except ValueError as error:
        raise NoSuchFault(str(error)) from None
    app = application(LivingWorld(), DEMO_KEYS, unix_ms, options, chosen)
    require_free(port, "sandbox")
    with serve(app, port=port) as served:
        print(
            f"The sandbox serves the API at {served.origin} until you press Ctrl-C. In another "
            "terminal:\n"
        )
        print(f"  export NIGHTBOOK_API_URL={served.origin}")
        print(f"  export NIGHTBOOK_API_KEY={DEMO_KEY}")
        print(f"  export NIGHTBOOK_API_SECRET={DEMO_SECRET}", flush=True)
        for fault in chosen:
            print(f"\nFault: {fault}", flush=True)
        for text in choices:
            print(f"\nChoice: {printable(text)}", flush=True)
        try:
            while True:
                sleep(3600)
        except KeyboardInterrupt:
            print("\nThe sandbox has stopped.")
    return 0


def require_free(port: int, command: str) -> None:
    """Raise `NotStarted` if a port cannot be used. With port 0, the system chooses a free port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise NotStarted(
                f"Port {port} on this machine cannot be used ({error.strerror}). Nothing was "
                f"started. Choose another port: nightbook {command} --port {port % LAST_PORT + 1}"
            ) from None


def _print_list(output_format: str | None, *, is_choices: bool) -> None:
    """Print the faults, or the choices with their possible values and defaults."""
    choices = describe_choices()
    faults = [(name, kind.description) for name, kind in sorted(FAULTS.items())]
    if output_format and is_choices:
        print_rows(output_format, ("choice", "may_be", "default"), choices)
    elif output_format:
        print_rows(output_format, ("fault", "description"), faults)
    elif is_choices:
        print_lines((f"{name:<30} {default:<32} {may_be}" for name, may_be, default in choices), "")
    else:
        print_lines((f"{name:<32} {description}" for name, description in faults), "")
        print(f"\nA SCOPE limits a fault, for example: --fault {EXAMPLE}")
        print_lines(f"{example:<30} {meaning}" for example, meaning in SCOPES.items())
