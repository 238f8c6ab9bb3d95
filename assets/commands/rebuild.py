"""`nightbook rebuild`: the warehouse again from the lake, or both from the landing zone."""

import argparse
from dataclasses import replace

from assets import publishing
from assets.commands.terminal import Teller, counted
from assets.resources import Nightbook
from assets.writing import writing


def run(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    """Make everything again, offline; decisions stay as they were made."""
    with Teller() as teller, writing(nightbook, "rebuilding", teller):
        heard = replace(nightbook, tell=teller, watch=teller.watch)
        published = publishing.rebuild(heard, from_landing=arguments.from_landing)
    source = "the landing zone" if arguments.from_landing else "the lake"
    passed = sum(one.passed for one in published.checks)
    nights = counted(len(published.loaded), "night")
    print(
        f"Rebuilt from {source}: {nights}, {passed} of {len(published.checks)} checks passed."
        f"\n  {published.database}"
    )
    return 0
