"""`nightbook prune`: let old nights go; what was read and decided stays on record."""

import argparse

from assets import publishing
from assets.resources import Nightbook
from pipelines import lake
from pipelines.prune import prune
from pipelines.writer import the_writer


def run(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    """Prune, or with `--dry-run` say what would go."""
    layout, now = nightbook.layout, nightbook.now()
    with the_writer(layout, "pruning", now):
        gone = prune(
            layout,
            keep_days=arguments.keep,
            keep_month_ends=not arguments.no_month_ends,
            dry_run=arguments.dry_run,
            at=now,
        )
        if gone.snapshots and not arguments.dry_run:
            lake.settle(layout)
            publishing.refresh(nightbook)
    verb = "would go" if arguments.dry_run else "went"
    size = gone.byte_count / 1e6
    print(f"{len(gone.snapshots)} nights {verb}: {len(gone.files)} files, {size:.1f} MB.")
    for snapshot_id in gone.snapshots:
        print(f"  {snapshot_id}")
    print("Manifests and decisions of every night stay for ever.")
    return 0
