"""Open breaks, and ledgers that could not be used, reach the operator: once for each cause."""

import csv
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from tests.keeper import SECOND, THIRD, Keeper
from tests.operator.conftest import Receiver, Watched, ended

Make = Callable[..., Watched]
FOURTH, LATER = (THIRD + timedelta(days=n) for n in (1, 8))
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


def test_open_breaks_are_told_once(watched: Make, receiver: Receiver) -> None:
    """New breaks are one message, the same a night later none; what is a week old is told again."""
    home = watched()
    keeper = home.keeper
    first, second = list(rows(keeper))[3:5]

    def told() -> list[str]:
        home.look()
        return [title for title in receiver.titles if "was not read" not in title]

    assert reconciled(keeper) == 0, keeper("reconcile", "status").out
    assert told() == []
    assert reconciled(keeper, first) == 3
    home.look()
    [(title, words)] = receiver.alerts
    assert title == "nightbook: 1 break is open"
    assert f"Book against ledger, {SECOND}:" in words
    assert "reconcile status" in words
    assert keeper("status").code == 3
    assert told() == ["1 break is open"]
    home.night(THIRD)
    assert reconciled(keeper, first) == 3
    assert told() == []
    home.night(FOURTH)
    assert reconciled(keeper, first, second) == 3
    assert told() == ["2 breaks are open"]
    home.night(LATER)
    assert reconciled(keeper, first, second) == 3
    assert told() == [f"1 break is open since {SECOND}", f"1 break is open since {FOURTH}"]
    assert reconciled(keeper) == 0
    assert told() == []
    assert keeper("status").code != 3


def test_a_ledger_that_cannot_be_used_is_told_once(watched: Make, receiver: Receiver) -> None:
    """A run whose ledger could not be held against the book says so: by itself or by the sensor."""
    home = watched()
    keeper = home.keeper
    inbox(keeper).write_text("no;ledger\n1;2\n", encoding="utf-8")
    keeper.sandbox.show()
    assert keeper.run(THIRD).code == 0
    ended(keeper)
    [(title, words)] = receiver.alerts
    assert title == f"nightbook: the book of {THIRD} was not reconciled"
    assert "ledger.csv" in words
    assert receiver.fetched == ["/alive"]
