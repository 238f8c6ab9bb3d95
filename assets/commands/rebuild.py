"""`nightbook rebuild`: the warehouse again from the lake, or both from the landing zone."""

import argparse
from dataclasses import replace

from assets import publishing
from assets.commands.terminal import Teller, counted
from assets.journal import STARTED
from assets.resources import Nightbook
from pipelines.writer import the_writer


def run(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    """Make everything again, offline; decisions stay as they were made."""
    layout, teller = nightbook.layout, Teller()
    heard = replace(nightbook, tell=teller, watch=teller.watch)
    with the_writer(layout, "rebuilding", nightbook.now()):
        published = publishing.rebuild(heard, from_landing=arguments.from_landing)
    source = "the landing zone" if arguments.from_landing else "the lake"
    passed = sum(one.passed for one in published.checks)
    nights = counted(len(published.loaded), "night")
    words = f"Rebuilt from {source}: {nights}, {passed} of {len(published.checks)} checks passed."
    teller(f"{words}\n  {published.database}", event=STARTED)
    return 0
