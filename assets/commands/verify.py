"""`nightbook verify`: every file of landing, lake, warehouse and closed months by its SHA-256."""

import sys

from assets.nightbook import Nightbook
from pipelines.landing import snapshots
from pipelines.maintenance.verify import verify
from warehouse.contract.wording import count_of
from warehouse.query.printable import printable
from warehouse.reconcile.close.kept_packs import damaged_packs

DAMAGED = 1


def run(nightbook: Nightbook) -> int:
    """Name each file that is not as it was written, its night, and what to do."""
    layout = nightbook.layout
    damage = [*map(str, verify(layout)), *damaged_packs(layout.home / "reconcile")]
    for file in damage:
        print(f"✗ {printable(file)}", file=sys.stderr)
    if damage:
        is_not = "is not as it was" if len(damage) == 1 else "are not as they were"
        print(f"{count_of(len(damage), 'file')} {is_not} written.", file=sys.stderr)
        return DAMAGED
    nights = count_of(len(snapshots.landed_snapshots(layout)), "night")
    print(f"✓ {nights}: every byte of landing, lake and warehouse is as it was written.")
    print(f"  {layout.home}")
    return 0
