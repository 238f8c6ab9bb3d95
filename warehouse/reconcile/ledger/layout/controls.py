"""Totals that stand among the rows of a ledger, held against the rows that they may be of."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import pyarrow as pa

from warehouse.contract.wording import count_of
from warehouse.exact import EXACT, exact, plain
from warehouse.reconcile.ledger.cells.amounts import Amount
from warehouse.reconcile.terms.dimensions import FIELDS
from warehouse.reconcile.terms.notices import Notice
from warehouse.spreadsheet.reading.text import fold

_NEAR = Decimal("1e-13")  # of a total that a number cell of 15 digits holds
_MOST_ROWS = 200_000  # above, adding up in Python costs more than reading the file


@dataclass(frozen=True, slots=True, kw_only=True)
class SumLine:
    """A line that says a total: the group that it names, if any, folded, and its amount."""

    line: int
    text: str
    group: str
    amount: Amount


@dataclass(slots=True)
class _GroupSum:
    """The sum of some rows, how many they are, and their assets."""

    amount: Decimal = Decimal(0)
    rows: int = 0
    assets: set[str] = field(default_factory=set)

    def add(self, amount: Decimal, asset: str) -> None:
        """Take in one row."""
        self.amount = EXACT.add(self.amount, amount)
        self.rows += 1
        self.assets.add(asset)

    def agrees(self, total: Amount) -> bool:
        """Return whether it is a total as it is written; a number cell has 15 digits of it."""
        stated = exact(total.text)
        if not total.is_number:
            return stated == self.amount
        return abs(stated - self.amount) <= _NEAR * max(abs(stated), abs(self.amount))


def check_totals(totals: Sequence[SumLine], rows: pa.Table, place: str) -> Iterator[Notice]:
    """Yield how many totals agree with their rows, and each that surely does not.

    A total is of the rows since the total before it, of all rows of the group that it names, or of
    all rows above it. One that adds up different assets says nothing where it does not agree: it
    may be a value.
    """
    if rows.num_rows > _MOST_ROWS:
        yield Notice("low", f"{count_of(len(totals), 'total line')} not added up again", place)
        return
    agreeing = 0
    for total, sums in _sums(sorted(totals, key=lambda item: item.line), rows):
        if any(candidate.agrees(total.amount) for candidate in sums):
            agreeing += 1
        elif sums and len(sums[0].assets) == 1:
            yield Notice(
                "high",
                f"{total.text!r} says {total.amount.text}, and its "
                f"{count_of(sums[0].rows, 'row')} add up to {plain(sums[0].amount)}: a row is "
                "missing, twice or wrong",
                f"{place}:{total.line}",
            )
    if agreeing:
        lines = f"{count_of(agreeing, 'total line')} {'agrees' if agreeing == 1 else 'agree'}"
        yield Notice("low", f"{lines} with the rows", place)


def _sums(totals: Iterable[SumLine], rows: pa.Table) -> Iterator[tuple[SumLine, list[_GroupSum]]]:
    """Yield each total with the sums that it may be of, the likeliest first."""
    # One pass: running sums of all rows, of those since the last total, and of each name.
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
            for group in (
                above,
                since,
                *(named.setdefault(fold(name), _GroupSum()) for name in set(names) if name),
            ):
                group.add(amount, names[asset])
            row += 1
        of_group = named.get(total.group) if total.group else None
        yield total, [group for group in (of_group, since, above) if group and group.rows]
        since = _GroupSum()
