"""The commands `nightbook verify` and `nightbook prove`, which check stored nights."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import date
from typing import TYPE_CHECKING

import click
from click import option

from assets.console.command import HomeCommand
from assets.console.exit_codes import DONE, FAILED
from assets.console.invocation import spell_for
from assets.console.parameters import Choice, FingerprintText, as_of_option, flag, format_option
from assets.console.rows import print_lines, print_rows
from assets.console.terminal import mark
from assets.nightbook import Nightbook
from assets.publishing.shelf import require_shelf
from pipelines.lakehouse import entrance
from pipelines.landing import snapshots
from pipelines.landing.damage import Damage
from pipelines.landing.fingerprint import NIGHT, ChainEntry, differences, entries_up_to
from pipelines.maintenance.verify import verify
from warehouse.contract.model import count_of
from warehouse.database.own_findings import damaged_findings
from warehouse.query.formats import printable
from warehouse.reconcile.record.record import RecordDamage, find_damage, records_of
from warehouse.reference.inbox import damaged_files
from warehouse.storage.layout import Layout

if TYPE_CHECKING:
    from pipelines.lakehouse.entrance import Proof

COLUMNS = ("file", "night", "what", "remedy")
ENGINES = ("duckdb", "polars", "pyarrow", "spark")
PROOF_COLUMNS = (
    *("date", "snapshot_id", "engine", "is_equal", "rows", "stated_rows", "assets", "texts"),
    "differences",
)


@click.command(cls=HomeCommand, prints_result=True)
@flag("--shelf", "is_shelf", help="Check the object store instead of the home (downloads all data)")
@option(
    "--fingerprint",
    type=FingerprintText(),
    metavar="HEX",
    help="Also check that all nights and decisions up to this fingerprint are unchanged",
)
@format_option()
def verify_command(
    nightbook: Nightbook, *, is_shelf: bool, fingerprint: str | None, output_format: str | None
) -> int:
    """Check every stored file against its SHA-256.

    A fingerprint is in each alert, report and workbook. With an old one, the command also names
    the nights and decisions that were changed, removed or inserted since.
    """
    layout = nightbook.layout
    if is_shelf and fingerprint:
        raise click.UsageError(
            "--fingerprint checks this home, and --shelf checks the object store. Use one of them."
        )
    covered = entries_up_to(layout, fingerprint) if fingerprint else []
    found: list[Damage | RecordDamage] = []
    if is_shelf:
        found += require_shelf(nightbook, "verify --shelf").verify()
    else:
        found += dict.fromkeys([*differences(layout, covered), *verify(layout)])
        found += _find_other_damage(layout)
    if output_format:
        rows = [
            (str(item.file), item.night, item.what, spell_for(layout, item.remedy))
            for item in found
        ]
        print_rows(output_format, COLUMNS, rows)
        return FAILED if rows else DONE
    print_lines(found, f"{mark(is_well=False, stream=sys.stderr)} ", sys.stderr)
    if found:
        verb = "is" if len(found) == 1 else "are"
        print(f"{count_of(len(found), 'file')} {verb} damaged or missing.", file=sys.stderr)
        return FAILED
    if is_shelf:
        print(f"{mark(is_well=True)} every file on the shelf is unchanged.")
        return 0
    nights = count_of(len(snapshots.landed_snapshots(layout)), "night")
    print(f"{mark(is_well=True)} {nights}: every file in landing, lake and warehouse is unchanged.")
    if covered:
        print(f"{mark(is_well=True)} {_coverage_text(layout, covered)}")
    print(f"  {layout.home}")
    return 0


def _find_other_damage(layout: Layout) -> Iterator[RecordDamage]:
    """Yield the damage of reconciliations, of kept reference files and of stored findings."""
    for record in records_of(layout.home):
        yield from find_damage(record.root)
    kept = damaged_files(layout.home / "reference")
    for path, problem in (*kept, *damaged_findings(layout.home)):
        yield RecordDamage(path, problem, "restore reference/kept from the backup")


def _coverage_text(layout: Layout, covered: list[ChainEntry]) -> str:
    """Describe the entries that a fingerprint covers, and how many the home has in all."""
    taken = [entry for entry in covered if entry.kind == NIGHT]
    decided = count_of(len(covered) - len(taken), "decision")
    newest = max((entry.snapshot_id for entry in taken), default="none")
    later = len(snapshots.landed_snapshots(layout)) - len(taken)
    return (
        f"the fingerprint covers {count_of(len(taken), 'night')} (the newest is {newest}) and "
        f"{decided}: all are unchanged, and none was removed or inserted. "
        f"{count_of(later, 'later night')} came after it."
    )


@click.command(cls=HomeCommand, prints_result=True)
@option(
    "--engine", type=Choice(ENGINES), default="duckdb", show_default=True, help="Engine to check"
)
@as_of_option()
@flag("--all", "are_all", help="Check all books up to --as-of, not only the newest")
@flag("--exact", "in_parts", help="Use a summation method that is exact for very large amounts")
@format_option()
def prove_command(
    nightbook: Nightbook,
    *,
    engine: str,
    as_of: date | None,
    are_all: bool,
    in_parts: bool,
    output_format: str | None,
) -> int:
    """Check that a query engine calculates the exact totals of the book."""
    nights = entrance.prove(
        nightbook.layout, engine, as_of=as_of, are_all=are_all, in_parts=in_parts
    )
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


def _row(engine: str, proof: "Proof") -> tuple[object, ...]:
    return (
        *(proof.snapshot.snapshot_date, proof.snapshot.snapshot_id, engine, proof.is_equal),
        *(proof.rows, proof.stated_rows, proof.assets, proof.texts),
        tuple(asdict(difference) for difference in proof.differences),
    )


def _print_each(engine: str, proofs: "Iterable[Proof]") -> "Iterable[Proof]":
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
