"""`nightbook prune`: let old nights go; what was read and decided stays on record."""

import argparse
from decimal import Decimal

from assets import publishing
from assets.commands.terminal import counted
from assets.resources import Nightbook
from assets.writing import writing
from pipelines import lake
from pipelines.prune import MOST_BYTES, NoLimit, prune, require_limit

A_PERSON_MUST_DECIDE = 3
GIGABYTE = 10**9
FOR_EVER = (
    "Kept for ever, whatever the limits: manifests and decisions of every night, the newest book,\n"
    "nights that wait for a decision, and those whose rows a kept night carried over."
)


def run(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    """Prune, or with `--dry-run` say what would go."""
    layout, now = nightbook.layout, nightbook.now()
    most = _bytes(arguments.max_gb)
    require_limit(arguments.keep, most)
    with writing(nightbook, "pruning"):
        publishing.remake(nightbook)
        gone = prune(
            layout,
            keep_days=arguments.keep,
            most_bytes=most,
            keep_month_ends=not arguments.no_month_ends,
            dry_run=arguments.dry_run,
            at=now,
        )
        if gone.snapshots and not arguments.dry_run:
            lake.settle(layout)
            publishing.refresh(nightbook)
    verb = "would go" if arguments.dry_run else "went"
    nights, size = len(gone.snapshots), gone.byte_count / 1e6
    print(f"{counted(nights, 'night')} {verb}: {counted(len(gone.files), 'file')}, {size:.1f} MB.")
    for snapshot_id in gone.snapshots:
        print(f"  {snapshot_id}")
    print(f"Bodies and tables of the nights that stay take {gone.left / 1e6:.1f} MB.")
    print(FOR_EVER)
    if most is not None and gone.left > most:
        print(f"That is more than {arguments.max_gb} GB, and none of them may go.")
        return A_PERSON_MUST_DECIDE
    return 0


def _bytes(text: str | None) -> int | None:
    """Gigabytes as bytes; raises `NoLimit` for what is no number of them."""
    if text is None:
        return None
    try:
        wanted = Decimal(text) * GIGABYTE
    except ArithmeticError:  # no number, or one beyond all numbers
        wanted = Decimal("nan")
    if not wanted.is_finite() or not 1 <= wanted <= MOST_BYTES:
        raise NoLimit(f"{text[:40]!r} GB is no limit")
    return int(wanted)
