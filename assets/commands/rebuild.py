"""`nightbook rebuild`: the warehouse again from the lake, or both from the landing zone."""

import argparse

from assets import publishing
from assets.resources import Nightbook
from pipelines.writer import the_writer


def run(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    """Make everything again, offline; decisions stay as they were made."""
    layout = nightbook.layout
    with the_writer(layout, "rebuilding", nightbook.now()):
        published = publishing.rebuild(nightbook, from_landing=arguments.from_landing)
    source = "the landing zone" if arguments.from_landing else "the lake"
    passed = sum(one.passed for one in published.checks)
    print(
        f"Rebuilt from {source}: {len(published.loaded)} nights, "
        f"{passed} of {len(published.checks)} checks passed.\n  {published.database}"
    )
    return 0
