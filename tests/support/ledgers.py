"""Ledgers of the book of a home, right but for what a test wants wrong."""

import csv
from pathlib import Path

from tests.support.operator_home import Keeper

HEAD = ("portfolio", "asset", "venue", "account", "amount")
Key = tuple[str, ...]


def rows(keeper: Keeper) -> dict[Key, str]:
    """The book as a ledger would have it: what is held, exactly."""
    found = keeper.ask(
        "select portfolio_id, asset_id || if(is_custom_asset, ' (custom)', ''), venue_id, "
        "account_name, total_text from account_balances where total_text <> '0' order by all"
    )
    return {tuple(map(str, key)): str(amount) for *key, amount in found}


def reconciled(keeper: Keeper, *wrong: Key) -> int:
    """Hold the book against a ledger that is right but for some keys; the exit code."""
    with inbox(keeper).open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, delimiter=";")
        lines.writerow(HEAD)
        for key, amount in rows(keeper).items():
            lines.writerow((*key, f"1{amount}" if key in wrong else amount))
    return keeper("reconcile", "run").code


def inbox(keeper: Keeper) -> Path:
    """Where the ledger lies."""
    path = keeper.home / "reconcile" / "inbox" / "ledger.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
