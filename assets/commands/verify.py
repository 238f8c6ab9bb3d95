"""`nightbook verify`: every file of landing, lake, warehouse and closed months by its SHA-256."""

import sys

from assets.console.color import mark
from assets.console.declaration import DONE, FAILED
from assets.console.rows import print_rows
from assets.nightbook import Nightbook
from assets.publishing.shelf import require_shelf
from pipelines.landing import snapshots
from pipelines.maintenance.verify import verify
from pipelines.maintenance.verify_shelf import verify_shelf
from pipelines.shelf.object_store import open_store
from warehouse.contract.wording import count_of
from warehouse.query.printable import printable
from warehouse.reconcile.close.stored_packs import damaged_packs

COLUMNS = ("file", "night", "what", "remedy")


def run(nightbook: Nightbook, *, is_shelf: bool, form: str | None) -> int:
    """Name each file that is not as it was written, its night, and what to do."""
    layout = nightbook.layout
    if is_shelf:
        address = require_shelf(nightbook, "verify --shelf")
        files, packs = list(verify_shelf(open_store(address))), []
    else:
        files, packs = list(verify(layout)), damaged_packs(layout.home / "reconcile")
    if form:
        rows = [(str(damage.file), damage.night, damage.what, damage.remedy) for damage in files]
        folder = str(layout.home / "reconcile" / "packs")
        rows += [(folder, None, pack.what, pack.remedy) for pack in packs]
        print_rows(form, COLUMNS, rows)
        return FAILED if rows else DONE
    damages = [str(damage) for damage in (*files, *packs)]
    for damage in damages:
        print(f"{mark(is_well=False, stream=sys.stderr)} {printable(damage)}", file=sys.stderr)
    if damages:
        is_not = "is not as it was" if len(damages) == 1 else "are not as they were"
        print(f"{count_of(len(damages), 'file')} {is_not} written.", file=sys.stderr)
        return FAILED
    if is_shelf:
        print(f"{mark(is_well=True)} every byte that the shelf's manifests name is as shelved.")
        return 0
    nights = count_of(len(snapshots.landed_snapshots(layout)), "night")
    every = "every byte of landing, lake and warehouse is as it was written."
    print(f"{mark(is_well=True)} {nights}: {every}")
    print(f"  {layout.home}")
    return 0
