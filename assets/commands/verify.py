"""`nightbook verify`: every file of landing, lake, warehouse and closed months by its SHA-256."""

import shlex
import sys
from collections.abc import Iterator

from assets.console.color import mark
from assets.console.declaration import DONE, FAILED
from assets.console.invocation import program, spell_for
from assets.console.rows import print_rows
from assets.nightbook import Nightbook
from assets.publishing.shelf import require_shelf
from pipelines.landing import snapshots
from pipelines.maintenance.verify import WAREHOUSE, Damage, verify
from pipelines.maintenance.verify_shelf import verify_shelf
from pipelines.shelf.object_store import open_store
from warehouse.contract.wording import count_of
from warehouse.database.versions import opens_in_older_clients
from warehouse.query.printable import printable
from warehouse.reconcile.close.close import damaged_packs
from warehouse.storage.firm import is_firm, read_firm
from warehouse.storage.layout import Layout

COLUMNS = ("file", "night", "what", "remedy")
UNREADABLE = "unreadable"


def run(nightbook: Nightbook, *, is_shelf: bool, form: str | None) -> int:
    """Name each file that is not as it was written, its night, and what to do."""
    layout = nightbook.layout
    if is_shelf:
        address = require_shelf(nightbook, "verify --shelf")
        files, packs, unreadable = list(verify_shelf(open_store(address))), [], []
    else:
        files, packs = list(verify(layout)), damaged_packs(layout.home / "reconcile")
        unreadable = [] if files else list(_unreadable(layout))
    if form:
        rows = [
            (str(damage.file), damage.night, damage.what, spell_for(layout, damage.remedy))
            for damage in (*files, *unreadable)
        ]
        folder = str(layout.home / "reconcile" / "packs")
        rows += [(folder, None, pack.what, spell_for(layout, pack.remedy)) for pack in packs]
        print_rows(form, COLUMNS, rows)
        return FAILED if rows else DONE
    for damage in (*files, *packs, *unreadable):
        print(f"{mark(is_well=False, stream=sys.stderr)} {printable(str(damage))}", file=sys.stderr)
    if count := len(files) + len(packs):
        is_not = "is not as it was" if count == 1 else "are not as they were"
        print(f"{count_of(count, 'file')} {is_not} written.", file=sys.stderr)
    if count or unreadable:
        return FAILED
    if is_shelf:
        print(f"{mark(is_well=True)} every byte that the shelf's manifests name is as shelved.")
        return 0
    if is_firm(layout.home):
        _tell_of_firm(layout)
        return DONE
    nights = count_of(len(snapshots.landed_snapshots(layout)), "night")
    every = "every byte of landing, lake and warehouse is as it was written."
    print(f"{mark(is_well=True)} {nights}: {every}")
    print(f"  {layout.home}")
    return 0


def _unreadable(layout: Layout) -> Iterator[Damage]:
    """Yield the published file if DuckDB 1.2 and 1.3 cannot read it."""
    if layout.database.exists() and not opens_in_older_clients(layout.database):
        remedy = (
            "DuckDB 1.2 and 1.3 cannot read all of it, because an older nightbook wrote it; newer "
            f"versions can, and nothing in it is lost. {WAREHOUSE}"
        )
        yield Damage(layout.database, UNREADABLE, None, remedy)


def _tell_of_firm(layout: Layout) -> None:
    """Say what a firm's home has, and that the nights are in other homes."""
    versions = [*(layout.warehouse / "versions").glob("[!.]*")]
    if not versions:
        print(f"The firm has no book yet, so there is nothing to verify: {layout.home}")
    else:
        count = count_of(len(versions), "version")
        print(
            f"{mark(is_well=True)} {count} of the firm's file: every byte is as it was published."
        )
        print(f"  {layout.home}")
    print("The nights are in the homes of the organisations. Verify each of them:")
    for source in read_firm(layout.home).sources:
        home = shlex.quote(str(source.layout.home))
        print(printable(f"  {program()} --home {home} verify"))
