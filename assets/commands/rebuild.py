"""`nightbook rebuild`: the warehouse again from the lake, or both from the landing zone."""

from dataclasses import replace

from assets.console.terminal import TerminalProgress
from assets.home.writer_lock import writing
from assets.nightbook import Nightbook
from assets.publishing import publish
from warehouse.contract.wording import count_of


def run(nightbook: Nightbook, *, from_landing: bool) -> int:
    """Make everything again, offline; decisions stay as they were made."""
    with TerminalProgress() as teller, writing(nightbook, "rebuilding", teller):
        heard = replace(nightbook, tell=teller, watch=teller.watch)
        published = publish.rebuild(heard, from_landing=from_landing)
    source = "the landing zone" if from_landing else "the lake"
    passed = sum(check.is_ok for check in published.checks)
    nights = count_of(len(published.loaded), "night")
    print(
        f"Rebuilt from {source}: {nights}, {passed} of {len(published.checks)} checks passed."
        f"\n  {published.database}"
    )
    return 0
