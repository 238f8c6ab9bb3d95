"""`nightbook sandbox`: the API on this machine, to try things and to rehearse faults.

What the document leaves open (its choices) can be rehearsed as faults can.
"""

from time import sleep

from assets.commands.dev import require_free
from assets.console.rows import print_rows
from assets.nightbook import Nightbook
from pipelines.sandbox.application import application
from pipelines.sandbox.faults import catalog
from pipelines.sandbox.options import describe_choices, parse_choices
from pipelines.sandbox.server import DEMO_KEY, DEMO_KEYS, DEMO_SECRET, serve, unix_ms
from pipelines.sandbox.world.world import LivingWorld
from warehouse.query.printable import printable


class NoSuchFault(Exception):
    """A fault, scope or choice that the sandbox does not know; the sentence is its own."""

    exit_code = 2


def run(
    nightbook: Nightbook,
    *,
    port: int,
    faults: tuple[str, ...],
    choices: tuple[str, ...],
    form: str | None,
) -> int:
    """Serve until Ctrl-C; prints the settings that make nightbook use it."""
    del nightbook
    if "list" in (*faults, *choices):
        _list(form, is_choices="list" in choices)
        return 0
    try:
        chosen = tuple(catalog.parse(text) for text in faults)
        read = parse_choices(choices)
    except ValueError as error:
        raise NoSuchFault(str(error)) from None
    app = application(LivingWorld(), DEMO_KEYS, unix_ms, read, chosen)
    require_free(port, "sandbox")
    with serve(app, port=port, faults=chosen) as served:
        print(f"The sandbox answers at {served.origin} until Ctrl-C. In another terminal:\n")
        print(f"  export NIGHTBOOK_API_URL={served.origin}")
        print(f"  export NIGHTBOOK_API_KEY={DEMO_KEY}")
        print(f"  export NIGHTBOOK_API_SECRET={DEMO_SECRET}", flush=True)
        rehearsed = [f"Fault: {fault}" for fault in chosen]
        rehearsed += [f"Choice: {printable(text)}" for text in choices]
        for line in rehearsed:
            print(f"\n{line}", flush=True)
        try:
            while True:
                sleep(3600)
        except KeyboardInterrupt:
            print("\nThe sandbox has stopped.")
    return 0


def _list(form: str | None, *, is_choices: bool) -> None:
    """Print what can be rehearsed: faults, or readings with their defaults and what they may be."""
    choices, faults = describe_choices(), sorted(catalog.DESCRIPTIONS.items())
    if form and is_choices:
        print_rows(form, ("choice", "may_be", "default"), choices)
    elif form:
        print_rows(form, ("fault", "description"), faults)
    elif is_choices:
        for name, may_be, default in choices:
            print(f"{name:<30} {default:<32} {may_be}")
    else:
        for name, description in faults:
            print(f"{name:<32} {description}")
        print(f"\nA fault may have a SCOPE, for example: --fault {catalog.EXAMPLE}")
        for example, meaning in catalog.SCOPES.items():
            print(f"  {example:<30} {meaning}")
