"""`nightbook prove`: whether an engine adds up the nights as the control totals have them."""

import sys
from collections.abc import Iterable
from dataclasses import asdict
from datetime import date

from assets.console.color import mark
from assets.console.declaration import DONE, FAILED
from assets.console.rows import print_rows
from assets.nightbook import Nightbook
from pipelines.maintenance.proof import Proof, prove
from warehouse.contract.wording import count_of
from warehouse.query.printable import printable

COLUMNS = (
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


def run(
    nightbook: Nightbook,
    *,
    engine: str,
    as_of: date | None,
    are_all: bool,
    in_parts: bool,
    form: str | None,
) -> int:
    """Print a line for each night; exit code 1 where one is not equal."""
    nights = prove(nightbook.layout, engine, as_of=as_of, are_all=are_all, in_parts=in_parts)
    proofs = list(nights) if form else list(_print_each(engine, nights))
    if form:
        print_rows(form, COLUMNS, [_row(engine, proof) for proof in proofs])
    wrong = sum(not proof.is_equal for proof in proofs)
    if wrong and not form:
        advice = (
            "Sum up in SQL (holdings and its twins are exact), or read holdings_by_asset."
            if in_parts
            else f"It adds up rightly in parts: nightbook prove --engine {engine} --exact."
        )
        print(
            f"{engine} is not to be trusted with {count_of(wrong, 'night')} of "
            f"{len(proofs)}. {advice}",
            file=sys.stderr,
        )
    return FAILED if wrong else DONE


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
        of_rows = count_of(proof.rows, "row")
        if proof.rows != proof.stated_rows:
            of_rows += f" of {proof.stated_rows:,}"
        sums = f"{proof.assets - len(proof.differences):,} of {count_of(proof.assets, 'sum')} equal"
        texts = f"; {count_of(proof.texts, 'amount')} only text holds, added to it" * bool(
            proof.texts
        )
        head = f"{proof.snapshot.snapshot_date}  {proof.snapshot.snapshot_id}  {engine}"
        print(f"{mark(is_well=proof.is_equal)} {head}: {of_rows}, {sums}{texts}")
        for difference in proof.differences:
            custom = " (custom)" * difference.is_custom_asset
            total = difference.engine or "no sum (it refuses)"
            asset = printable(f"{difference.asset_id}{custom}")
            print(f"    {asset}: {engine} has {total}; stated is {difference.stated}")
        yield proof
