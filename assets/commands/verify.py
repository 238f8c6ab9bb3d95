"""`nightbook verify`: every file of landing, lake and warehouse against its SHA-256."""

import argparse
import sys

from assets.resources import Nightbook
from pipelines import snapshots
from pipelines.verify import verify

DAMAGED = 1


def run(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    """Name each file that is not as it was written, its night, and what to do."""
    del arguments
    layout = nightbook.layout
    damage = list(verify(layout))
    for one in damage:
        print(f"✗ {one}", file=sys.stderr)
    if damage:
        print(f"{len(damage)} files are not as they were written.", file=sys.stderr)
        return DAMAGED
    nights = len(snapshots.landed(layout))
    print(f"✓ {nights} nights: every byte of landing, lake and warehouse is as it was written.")
    return 0
