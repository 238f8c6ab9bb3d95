"""Figures that the report derives from its query rows.

Shares and chart points are rounded, because they are only illustrations. Exact amounts stay text.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from decimal import ROUND_DOWN, Decimal, localcontext
from itertools import groupby
from typing import Any

Record = Mapping[str, Any]
_COUNTED = {
    "portfolio_count": "Portfolios",
    "account_count": "Accounts",
    "balance_count": "Amounts",
    "venue_count": "Venues",
    "instrument_count": "Instruments",
}


def compare_counts(last: Record, other: Record | None) -> Iterator[Record]:
    """Yield a row for each count, with the last night's value, an earlier value and the change."""
    for column, title in _COUNTED.items():
        now, then = last[column], other[column] if other else None
        more = None if now is None or then is None else now - then
        yield {"title": title, "now": now, "then": then, "more": more}


def states_by_day(snapshots: Iterable[Record], gaps: Iterable[Record]) -> dict[date, str]:
    """Map each date to `book`, to the state of its snapshot, or to the reason for its gap."""
    snapshots = list(snapshots)
    return (
        {row["snapshot_date"]: row["state"] for row in snapshots}
        | {row["snapshot_date"]: row["reason"] for row in gaps}
        | {row["snapshot_date"]: "book" for row in snapshots if row["is_book"]}
    )


def moves(changes: Iterable[Record]) -> Iterator[Record]:
    """Yield the assets whose total changed, with the change as a percentage of the previous total.

    `percent` is None if the previous total was zero. `share` is the percentage as text.
    """
    for row in changes:
        if Decimal(row["delta"]):
            percent = _percent(row["before"], row["delta"])
            yield {**row, "percent": percent, "share": share_text(percent)}


def _percent(before: str, delta: str) -> Decimal | None:
    """Return a change in percent of the absolute previous total, or None if the total is zero."""
    # Calculate the product exactly, and truncate the quotient, so that -100 % always means that the
    # whole amount has disappeared.
    digits = max(len(before), len(delta)) + 4
    with localcontext(prec=digits, Emax=10**6, Emin=-(10**6), rounding=ROUND_DOWN):
        base = abs(Decimal(before))
        return Decimal(delta) * 100 / base if base else None


def share_text(percent: Decimal | None) -> str:
    """Format a change in percent of the previous total, rounded to two decimal places.

    >>> [share_text(Decimal(text)) for text in ("12.345", "-99.999", "-100", "0.001", "1e9")]
    ['+12.34 %', '< -99.99 %', '-100.00 %', '< +0.01 %', '> +1000 %']
    """
    if percent is None:
        return "new"
    size = percent.copy_abs()  # Do not use `abs` here, because it would round to 28 digits.
    if size >= 1000:  # noqa: PLR2004 - decimals would not help, and the column is narrow
        return "> +1000 %" if percent > 0 else "< -1000 %"
    if Decimal("99.995") <= size < 100:  # noqa: PLR2004 - the remainder is small but not zero
        return "> +99.99 %" if percent > 0 else "< -99.99 %"
    if size < Decimal("0.01"):
        return "< +0.01 %" if percent > 0 else "> -0.01 %"
    return f"{percent:+.2f} %"


def split_shares(holding: Record) -> tuple[float, ...]:
    """Return the free, locked and other shares of a total, each between 0 and 1.

    Return an empty tuple if a part is negative or the total is zero.
    """
    with localcontext(prec=28, Emax=10**6, Emin=-(10**6)):
        parts = [Decimal(holding[f"{part}_text"]) for part in ("free", "locked", "other")]
        whole = sum(parts)
        if not whole or min(parts) < 0:
            return ()
        return tuple(float(part / whole) for part in parts)


def split_by_asset(totals: Sequence[Record]) -> Iterator[tuple[Record, Record, list[Record]]]:
    """Yield each asset's row with the highest total, its row with the lowest, and all its rows."""
    for _, rows in groupby(totals, key=lambda row: (row["asset_id"], row["is_custom_asset"])):
        nights = list(rows)

        def total(row: Record) -> Decimal:
            return Decimal(row["total"])

        yield max(nights, key=total), min(nights, key=total), nights
