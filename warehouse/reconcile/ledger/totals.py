"""Total lines between the rows of a ledger, compared with the rows that they add up."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa

from warehouse.contract.model import count_of
from warehouse.exact import EXACT, exact, plain
from warehouse.reconcile.model import Amount, Notice
from warehouse.reconcile.terms import FIELDS
from warehouse.spreadsheet.reading.text import fold

_NEAR = Decimal("1e-13")  # relative error of a total in a number cell, which keeps only 15 digits

# If there are more rows, do not check the totals, because that takes longer than reading the file.
_MAX_ROWS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SumLine:
    """A total line: its amount, and its group's name in lower case, or an empty string."""

    line: int
    text: str
    group: str
    amount: Amount


@dataclass(slots=True)
class _GroupSum:
    """A group of rows: the sum of their amounts, the row count, and their assets."""

    amount: Decimal = Decimal(0)
    rows: int = 0
    assets: set[str] = dataclasses.field(default_factory=set)

    def add(self, amount: Decimal, asset: str) -> None:
        """Add a row's amount and asset to the group."""
        self.amount = EXACT.add(self.amount, amount)
        self.rows += 1
        self.assets.add(asset)

    def agrees(self, total: Amount) -> bool:
        """Return whether a total equals this sum. Totals from number cells have only 15 digits."""
        stated = exact(total.text)
        if not total.is_number:
            return stated == self.amount
        return abs(stated - self.amount) <= _NEAR * max(abs(stated), abs(self.amount))


def check_totals(totals: Sequence[SumLine], rows: pa.Table, location: str) -> Iterator[Notice]:
    """Yield a notice for each wrong total, and notices that count the correct and unchecked totals.

    A total may be the sum of the rows since the previous total, of all rows in the group that it
    names, or of all rows above it. A sum over different assets is not reported as wrong, because it
    may be a sum of values in one currency.
    """
    if rows.num_rows > _MAX_ROWS:
        lines = count_of(len(totals), "total line")
        yield Notice("low", f"{lines} not compared with the rows", location)
        return
    agreeing = unchecked = 0
    for total, sums in _sums(sorted(totals, key=lambda item: item.line), rows):
        if any(candidate.agrees(total.amount) for candidate in sums):
            agreeing += 1
        elif sums and len(sums[0].assets) == 1:
            yield Notice(
                "high",
                f"{total.text!r} says {total.amount.text}, but its {count_of(sums[0].rows, 'row')} "
                f"{'adds' if sums[0].rows == 1 else 'add'} up to {plain(sums[0].amount)}. A row "
                "may be missing, wrong or repeated",
                f"{location}:{total.line}",
            )
        else:
            unchecked += 1
    if agreeing:
        lines = f"{count_of(agreeing, 'total line')} {'agrees' if agreeing == 1 else 'agree'}"
        yield Notice("low", f"{lines} with the rows", location)
    if unchecked:
        lines = f"{count_of(unchecked, 'total line')} could not be checked"
        reason = "because there are no rows above, or the rows above have different assets"
        yield Notice("low", f"{lines}, {reason}", location)


def _sums(totals: Iterable[SumLine], rows: pa.Table) -> Iterator[tuple[SumLine, list[_GroupSum]]]:
    """Yield each total with the sums that it may represent, most likely first."""
    # Calculate all sums in a single pass: over all rows, over the rows since the last total, and
    # over the rows with each name.
    above, since = _GroupSum(), _GroupSum()
    named: dict[str, _GroupSum] = {}
    lines = rows["line"].to_pylist()
    columns = [rows[name].to_pylist() for name in FIELDS]
    amounts = rows["amount"].to_pylist()
    asset = FIELDS.index("asset")
    row = 0
    for total in totals:
        while row < len(lines) and lines[row] < total.line:
            amount, names = exact(amounts[row]), [column[row] for column in columns]
            of_names = (named.setdefault(fold(name), _GroupSum()) for name in set(names) if name)
            for group in (above, since, *of_names):
                group.add(amount, names[asset])
            row += 1
        of_group = named.get(total.group) if total.group else None
        yield total, [group for group in (of_group, since, above) if group and group.rows]
        since = _GroupSum()
