"""`nightbook rebuild`: the warehouse again from the lake, or both from the landing zone."""

from dataclasses import replace

from assets.commands.dry_run import print_changes
from assets.console.terminal import TerminalProgress
from assets.home.rehearsal import rehearsing
from assets.home.writer_lock import writing
from assets.nightbook import Nightbook
from assets.publishing import publish
from warehouse.contract.wording import count_of


def run(
    nightbook: Nightbook, *, from_landing: bool, dry_run: bool = False, form: str | None = None
) -> int:
    """Make everything again, offline; decisions stay as they were made."""
    if dry_run:
        with rehearsing(nightbook) as rehearsal:
            publish.rebuild(rehearsal, from_landing=from_landing)
            print_changes(nightbook.layout, rehearsal.layout, form)
        return 0
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
