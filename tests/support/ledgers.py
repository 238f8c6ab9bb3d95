"""Ledgers for the book of a home, which are correct except for the keys that a test chooses."""

import csv
from pathlib import Path

from tests.support.operator_home import Keeper

HEAD = ("portfolio", "asset", "venue", "account", "amount")
Key = tuple[str, ...]


def rows(keeper: Keeper) -> dict[Key, str]:
    """Return the rows of a correct ledger: the book's exact balances, except for zeros."""
    found = keeper.ask(
        "select portfolio_id, asset_id || if(is_custom_asset, ' (custom)', ''), venue_id, "
        "account_name, total_text from account_balances where total_text <> '0' order by all"
    )
    return {tuple(map(str, key)): str(amount) for *key, amount in found}


def reconciled(keeper: Keeper, *wrong: Key) -> int:
    """Reconcile the book with a ledger that is wrong only for some keys. Return the exit code."""
    with inbox(keeper).open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, delimiter=";")
        lines.writerow(HEAD)
        for key, amount in rows(keeper).items():
            lines.writerow((*key, f"1{amount}" if key in wrong else amount))
    return keeper("reconcile", "run").code


def inbox(keeper: Keeper) -> Path:
    """Return the path of the ledger, and create its folder."""
    path = keeper.home / "reconcile" / "inbox" / "ledger.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
