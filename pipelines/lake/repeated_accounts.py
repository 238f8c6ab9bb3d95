"""Accounts that the API lists more than once with the same amounts, so that they count twice.

An account is known by portfolio, asset, venue and name. Accounts of one name with different amounts
are accounts of their own: nothing is counted twice, and they hold no night.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.records import amounts
from warehouse.exact import EXACT, plain

_KEY = ["portfolio_id", "asset_id", "is_custom_asset", "venue_id", "account_name"]
_NUMBER = "duplicate_no"
_AMOUNT = ["bucket", "state", "amount_text"]


@dataclass(frozen=True, slots=True)
class RepeatedAccounts:
    """The accounts of a venue that are listed more than once with the same amounts.

    `share` is how much of the venue's list they are, 0 to 1 as text. `totals` are the amounts that
    count more than once, by asset; `first` is one of the accounts.
    """

    venue_id: str
    accounts: int
    share: str
    totals: Mapping[str, str]
    first: str


def find(accounts: Path, balances: Path) -> list[RepeatedAccounts]:
    """Return the repeated accounts of each venue, from the Parquet of one night."""
    numbers = pq.read_table(accounts, columns=[_NUMBER])[_NUMBER]
    if not pc.any(pc.greater(numbers, 0)).as_py():
        return []
    listings = Counter(pq.read_table(accounts, columns=["venue_id"])["venue_id"].to_pylist())
    repeated, rows = Counter[str](), Counter[str]()
    firsts: dict[str, str] = {}
    totals: defaultdict[str, defaultdict[str, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    for (key, stated), count in sorted(_equal_accounts(accounts, balances).items()):
        portfolio_id, asset_id, is_custom, venue_id, name = key
        asset = asset_id + (" (custom)" if is_custom else "")
        for _, _, amount in stated:
            totals[venue_id][asset] = EXACT.add(totals[venue_id][asset], amount)
        repeated[venue_id] += 1
        rows[venue_id] += count
        firsts.setdefault(venue_id, f"account {name} of portfolio {portfolio_id}")
    return [
        RepeatedAccounts(
            venue_id=venue_id,
            accounts=count,
            share=str((Decimal(rows[venue_id]) / listings[venue_id]).quantize(Decimal("0.0001"))),
            totals={asset: plain(total) for asset, total in totals[venue_id].items()},
            first=firsts[venue_id],
        )
        for venue_id, count in sorted(repeated.items())
    ]


_Key = tuple[str, str, bool, str, str]
_Stated = tuple[tuple[str, str, Decimal], ...]


def _equal_accounts(accounts: Path, balances: Path) -> Counter[tuple[_Key, _Stated]]:
    """Count the accounts that hold money by key and amounts; only those that occur again."""
    rows = pq.read_table(accounts, columns=[*_KEY, _NUMBER])
    several = rows.filter(pc.greater(rows[_NUMBER], 0)).group_by(_KEY).aggregate([])
    columns = [*_KEY, _NUMBER, *_AMOUNT]
    stated = pq.read_table(balances, columns=columns).join(several, _KEY, join_type="left semi")
    amounts_by_account: defaultdict[tuple[_Key, int], list[tuple[str, str, Decimal]]] = defaultdict(
        list
    )
    for *key, number, bucket, state, text in zip(
        *(stated[name].to_pylist() for name in columns), strict=True
    ):
        # Two notations of one amount are the same money.
        amount = amounts.parse(text) or Decimal(0)
        amounts_by_account[tuple(key), number].append((bucket, state, amount))
    counted = Counter(
        (key, tuple(sorted(stated)))
        for (key, _), stated in amounts_by_account.items()
        if any(amount for _, _, amount in stated)
    )
    return Counter({same: count for same, count in counted.items() if count > 1})
