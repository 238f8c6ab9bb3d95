"""The commands `nightbook verify` and `nightbook prove`, which check stored nights."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import date

from assets.console.declaration import DONE, FAILED
from assets.console.invocation import spell_for
from assets.console.rows import print_rows
from assets.console.terminal import mark
from assets.nightbook import Nightbook
from assets.publishing.shelf import require_shelf
from pipelines.landing import snapshots
from pipelines.maintenance.proof import Proof, prove
from pipelines.maintenance.verify import WAREHOUSE, Damage, verify, verify_shelf
from pipelines.shelf.object_store import open_store
from warehouse.contract.model import count_of
from warehouse.database.versions import opens_in_older_clients
from warehouse.query.formats import printable
from warehouse.reconcile.record.record import find_damage
from warehouse.storage.layout import Layout

COLUMNS = ("file", "night", "what", "remedy")
UNREADABLE = "unreadable"


def verify_home(nightbook: Nightbook, *, is_shelf: bool, output_format: str | None) -> int:
    """Check every stored file. Print each damaged or missing file, its night, and the remedy."""
    layout = nightbook.layout
    if is_shelf:
        address = require_shelf(nightbook, "verify --shelf")
        files, packs, unreadable = list(verify_shelf(open_store(address))), [], []
    else:
        files, packs = list(verify(layout)), find_damage(layout.home / "reconcile")
        unreadable = [] if files else list(_unreadable(layout))
    if output_format:
        rows = [
            (str(damage.file), damage.night, damage.what, spell_for(layout, damage.remedy))
            for damage in (*files, *unreadable)
        ]
        rows += [
            (str(pack.file), None, pack.what, spell_for(layout, pack.remedy)) for pack in packs
        ]
        print_rows(output_format, COLUMNS, rows)
        return FAILED if rows else DONE
    for damage in (*files, *packs, *unreadable):
        print(f"{mark(is_well=False, stream=sys.stderr)} {printable(str(damage))}", file=sys.stderr)
    if count := len(files) + len(packs):
        verb = "is" if count == 1 else "are"
        print(f"{count_of(count, 'file')} {verb} damaged or missing.", file=sys.stderr)
    if count or unreadable:
        return FAILED
    if is_shelf:
        print(f"{mark(is_well=True)} every file on the shelf is unchanged.")
        return 0
    nights = count_of(len(snapshots.landed_snapshots(layout)), "night")
    result = "every file in landing, lake and warehouse is unchanged."
    print(f"{mark(is_well=True)} {nights}: {result}")
    print(f"  {layout.home}")
    return 0


def _unreadable(layout: Layout) -> Iterator[Damage]:
    """Yield a problem if DuckDB 1.2 and 1.3 cannot read the published warehouse."""
    if layout.database.exists() and not opens_in_older_clients(layout.database):
        remedy = (
            "DuckDB 1.2 and 1.3 cannot read all of it, because an older version of nightbook wrote "
            f"it. Later versions of DuckDB can read it, and no data is lost. {WAREHOUSE}"
        )
        yield Damage(layout.database, UNREADABLE, None, remedy)


PROOF_COLUMNS = (
    "date",
    "snapshot_id",
    "engine",
    "is_equal",
    "rows",
    "stated_rows",
    "assets",
    "texts",
    "differences",
)


def run_proof(
    nightbook: Nightbook,
    *,
    engine: str,
    as_of: date | None,
    are_all: bool,
    in_parts: bool,
    output_format: str | None,
) -> int:
    """Compare an engine's totals with the control totals, and print a line for each night.

    Return 1 if any totals differ.
    """
    nights = prove(nightbook.layout, engine, as_of=as_of, are_all=are_all, in_parts=in_parts)
    proofs = list(nights) if output_format else list(_print_each(engine, nights))
    if output_format:
        print_rows(output_format, PROOF_COLUMNS, [_row(engine, proof) for proof in proofs])
    mismatches = sum(not proof.is_equal for proof in proofs)
    if mismatches and not output_format:
        advice = (
            "Read exact sums from the warehouse's views, such as holdings_by_asset."
            if in_parts
            else f"{engine} also has an exact method. To check it, type: nightbook prove --engine "
            f"{engine} --exact"
        )
        print(
            f"{engine} adds up {count_of(mismatches, 'night')} of {len(proofs)} incorrectly. "
            f"{advice}",
            file=sys.stderr,
        )
    return FAILED if mismatches else DONE


def _row(engine: str, proof: Proof) -> tuple[object, ...]:
    return (
        proof.snapshot.snapshot_date,
        proof.snapshot.snapshot_id,
        engine,
        proof.is_equal,
        proof.rows,
        proof.stated_rows,
        proof.assets,
        proof.texts,
        tuple(asdict(difference) for difference in proof.differences),
    )


def _print_each(engine: str, proofs: Iterable[Proof]) -> Iterable[Proof]:
    for proof in proofs:
        rows = count_of(proof.rows, "row")
        if proof.rows != proof.stated_rows:
            rows += f" of {proof.stated_rows:,}"
        sums = f"{proof.assets - len(proof.differences):,} of {count_of(proof.assets, 'sum')} equal"
        texts = (
            f"; {count_of(proof.texts, 'amount')} too large for DECIMAL(38,18), so the exact texts "
            "were added up" * bool(proof.texts)
        )
        head = f"{proof.snapshot.snapshot_date}  {proof.snapshot.snapshot_id}  {engine}"
        print(f"{mark(is_well=proof.is_equal)} {head}: {rows}, {sums}{texts}")
        for difference in proof.differences:
            custom = " (custom)" * difference.is_custom_asset
            total = difference.engine or "no sum (it failed)"
            asset = printable(f"{difference.asset_id}{custom}")
            print(
                f"    {asset}: {engine} has {total}, but the control total is {difference.stated}"
            )
        yield proof
