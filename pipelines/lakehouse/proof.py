"""A check that a query engine computes the same sums of balances as the control totals."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import reduce
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.lakehouse.engine_sums import engine_sums
from pipelines.landing import snapshots
from pipelines.landing.snapshots import Snapshot
from pipelines.records import amounts
from warehouse.contract.book import BALANCES
from warehouse.contract.ops import CONTROL_TOTALS
from warehouse.exact import EXACT, exact, plain
from warehouse.storage.layout import Layout

Asset = tuple[str, bool]


class NoBookToProve(ValueError):
    """The book to check does not exist, or its files are missing."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Difference:
    """An asset whose sum from the engine (None if missing) differs from the control total."""

    asset_id: str
    is_custom_asset: bool
    engine: str | None
    stated: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """An engine's totals for a night, compared with the control totals.

    `texts` is the number of amounts that are stored only as strings, which we add up ourselves.
    """

    snapshot: Snapshot
    rows: int
    stated_rows: int
    assets: int
    texts: int
    differences: tuple[Difference, ...]

    @property
    def is_equal(self) -> bool:
        """True if the engine's row count and all its sums equal the control totals."""
        return not self.differences and self.rows == self.stated_rows


def prove(
    layout: Layout, engine: str, *, as_of: date | None, are_all: bool, in_parts: bool
) -> Iterator[Proof]:
    """Check the newest book, optionally as of a date, or check all books. Yield the results.

    With `as_of`, books after that date are ignored. Raises `NoBookToProve` and `NotInstalled`.
    """
    books = snapshots.books(snapshots.landed_snapshots(layout))
    dates = sorted(day for day in books if as_of is None or day <= as_of)
    if not dates:
        reason = f"the first book is dated {min(books)}" if books else "no night has been accepted"
        raise NoBookToProve(f"There is no book to check with {engine}: {reason}. Nothing was done.")
    for day in dates if are_all else dates[-1:]:
        yield _prove(layout, engine, books[day], in_parts=in_parts)


def _prove(layout: Layout, engine: str, snapshot: Snapshot, *, in_parts: bool) -> Proof:
    """Compare an engine's sums for one snapshot with the snapshot's control totals."""
    file, totals = (
        layout.parquet(table.name, snapshot.snapshot_date, snapshot.snapshot_id)
        for table in (BALANCES, CONTROL_TOTALS)
    )
    for path in (file, totals):
        if not path.is_file():
            raise NoBookToProve(
                f"{path} is missing. Nothing was done. Rebuild the lake with: nightbook rebuild"
            )
    sums, stated_rows = _control_sums(totals)
    texts, text_count = _texts(file)
    rows, found = 0, dict[Asset, Decimal | None](texts)
    for asset_id, is_custom, count, numbers, *parts in engine_sums(engine, file, in_parts=in_parts):
        rows += count
        asset = asset_id, is_custom
        # If there are no numbers to add up, the engine returns NULL, so add nothing.
        added = texts.get(asset, Decimal(0))
        is_lost = numbers and None in parts
        found[asset] = None if is_lost else reduce(EXACT.add, parts if numbers else (), added)
    differences = []
    for asset in sorted(sums.keys() | found.keys()):
        stated, total = sums.get(asset, Decimal(0)), found.get(asset, Decimal(0))
        if total != stated:
            engine_text = None if total is None else plain(total)
            differences.append(Difference(*asset, engine_text, plain(stated)))
    return Proof(
        snapshot=snapshot,
        rows=rows,
        stated_rows=stated_rows,
        assets=len(sums),
        texts=text_count,
        differences=tuple(differences),
    )


def _control_sums(path: Path) -> tuple[dict[Asset, Decimal], int]:
    """Read each asset's exact sum and the number of rows from the control totals."""
    sums: defaultdict[Asset, Decimal] = defaultdict(Decimal)
    rows = 0
    for line in pq.read_table(path, partitioning=None).to_pylist():
        if line["measure"] == "sum":
            asset = (line["asset_id"], line["is_custom_asset"])
            sums[asset] = EXACT.add(sums[asset], exact(line["in_lake"]))
        elif line["table_name"] == BALANCES.name:
            rows = int(line["in_lake"])
    return dict(sums), rows


def _texts(path: Path) -> tuple[dict[Asset, Decimal], int]:
    """Add up and count the amounts that are stored only as strings, because engines skip them."""
    sums: defaultdict[Asset, Decimal] = defaultdict(Decimal)
    names = ["asset_id", "is_custom_asset", "amount", "amount_text"]
    rows = pq.read_table(path, columns=names, partitioning=None)
    string_rows = rows.filter(pc.is_null(rows["amount"])).to_pylist()
    for line in string_rows:
        asset = (line["asset_id"], line["is_custom_asset"])
        sums[asset] = EXACT.add(sums[asset], amounts.parse(line["amount_text"]) or Decimal(0))
    return dict(sums), len(string_rows)
