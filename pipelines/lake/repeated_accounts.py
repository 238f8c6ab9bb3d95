"""Accounts that a night lists more than once with the same amounts."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from warehouse.sql.files import open_files

_REPEATED = Path(__file__).with_name("repeated_accounts.sql").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class RepeatedAccounts:
    """The accounts at one venue that are listed more than once with the same amounts.

    `share` is the fraction of the venue's accounts that are repeated, as a decimal string from 0 to
    1. `totals` contains the amounts that are counted more than once, by asset. `first` names one of
    the accounts.
    """

    venue_id: str
    accounts: int
    share: str
    totals: Mapping[str, str]
    first: str


def find_repeated_accounts(accounts: Path, balances: Path) -> list[RepeatedAccounts]:
    """Find the accounts that are listed more than once, in one night's Parquet files."""
    with open_files({"accounts": accounts, "balances": balances}) as connection:
        rows = connection.execute(_REPEATED).fetchall()
    return [
        RepeatedAccounts(
            venue_id=venue_id,
            accounts=count,
            share=str((Decimal(listings) / all_listings).quantize(Decimal("0.0001"))),
            totals=totals,
            first=f"account {name} of portfolio {portfolio_id}",
        )
        for venue_id, count, listings, all_listings, totals, portfolio_id, name in rows
    ]
