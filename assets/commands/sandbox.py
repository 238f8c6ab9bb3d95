"""`nightbook sandbox`: the API on this machine, to try things and to rehearse faults."""

import argparse
import time

from assets.commands.dev import require_free
from assets.resources import Nightbook
from pipelines.sandbox import faults
from pipelines.sandbox.application import application
from pipelines.sandbox.server import DEMO_KEY, DEMO_KEYS, DEMO_SECRET, serve, unix_ms
from pipelines.sandbox.world import LivingWorld


class NoSuchFault(Exception):
    """A fault or scope that the sandbox does not know; the sentence is its own."""

    exit_code = 2


def run(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    """Serve until Ctrl-C; prints the settings that make nightbook use it."""
    del nightbook
    if "list" in arguments.fault:
        for name, words in sorted(faults.DESCRIPTIONS.items()):
            print(f"{name:<32} {words}")
        return 0
    try:
        chosen = tuple(faults.parse(text) for text in arguments.fault)
    except ValueError as error:
        raise NoSuchFault(str(error)) from None
    app = application(LivingWorld(), DEMO_KEYS, unix_ms, faults=chosen)
    require_free(arguments.port, "sandbox")
    with serve(app, port=arguments.port, faults=chosen) as served:
        print(f"The sandbox answers at {served.origin} until Ctrl-C. In another terminal:\n")
        print(f"  export NIGHTBOOK_API_URL={served.origin}")
        print(f"  export NIGHTBOOK_API_KEY={DEMO_KEY}")
        print(f"  export NIGHTBOOK_API_SECRET={DEMO_SECRET}", flush=True)
        for fault in chosen:
            print(f"\nFault: {fault}", flush=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            print("\nThe sandbox has stopped.")
    return 0
