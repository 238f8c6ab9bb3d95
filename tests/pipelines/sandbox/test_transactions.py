"""Tests of the invented transactions: they explain the world, and each error in them is found."""

import csv
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from pipelines.sandbox.world.transactions import COLUMNS, transactions
from pipelines.sandbox.world.world import LivingWorld, World
from tests.support.books import Amount
from tests.support.priced_books import ask, publish, read_at

FIRST = date(2026, 11, 1)
NIGHTS = 10
Row = dict[str, str]


def world(number: int) -> World:
    """Return the world on the nth night."""
    return LivingWorld().at(FIRST + timedelta(days=number))


def amounts(given: World) -> Iterator[Amount]:
    """Yield all amounts of a world."""
    for portfolio in given.portfolios:
        for position in portfolio["positions"]:
            for account in position["accounts"]:
                for bucket, states in account["balance"].items():
                    for state, text in states.items():
                        yield Amount(
                            text,
                            portfolio["id"],
                            position["assetId"],
                            account["venueId"],
                            account["name"],
                            bucket,
                            state,
                            position["isCustomAsset"],
                        )


def read_time(number: int) -> datetime:
    """Return the time at which the nth night was read."""
    day = FIRST + timedelta(days=number)
    return datetime(day.year, day.month, day.day, 2, 15, tzinfo=UTC)


def between(number: int) -> list[Row]:
    """Return the transactions from the nth night to the next."""
    start, end = read_time(number), read_time(number + 1)
    minute = timedelta(minutes=1)
    return list(transactions(world(number), world(number + 1), start + minute, end - minute))


def key(row: Row) -> tuple[str, ...]:
    """Return the account and asset of a transaction."""
    return tuple(row[name] for name in ("portfolio", "venue", "account", "asset_id"))


def plant(nights: list[list[Row]]) -> set[tuple[object, ...]]:
    """Make ten transactions wrong. Return the night and key of each difference, with its state."""
    found = set[tuple[object, ...]]()

    def wrong(number: int, place: int, state: str = "unexplained", **changes: str) -> Row:
        row = nights[number][place]
        found.add((number, *key(row), state))
        row.update(changes)
        found.add((number, *key(row), state))
        return row

    fee = next(place for place, row in enumerate(nights[8]) if row["kind"] == "fee")
    amount = nights[2][30]["amount_text"]
    cut, later = (read_time(6) + timedelta(seconds=n) for n in (0, 1))
    wrong(0, 10)
    del nights[0][10]
    nights[1].append(dict(wrong(1, 20)))
    wrong(2, 30, amount_text=amount[1:] if amount.startswith("-") else f"-{amount}")
    wrong(3, 40, account="Nobody's")
    wrong(4, 50, amount_text=f"{Decimal(nights[4][50]['amount_text']) * 1000:f}")
    wrong(5, 60, "at_the_cut", time=cut.isoformat())
    # One second too late is in the next movement, so that two movements differ.
    found.add((6, *key(wrong(5, 90, time=later.isoformat())), "unexplained"))
    wrong(6, 70, asset_id="NEW-ASSET")
    wrong(8, fee)
    del nights[8][fee]
    custom = next(row for row in nights[7] if row["is_custom_asset"] == "false")
    found.add((7, *key(custom), "unexplained"))
    custom["is_custom_asset"] = "true"
    return found


def test_the_transactions_add_up_to_the_difference() -> None:
    """The transactions of each account and asset add up to its change, between the reads."""
    rows = between(0)
    assert {"trade", "transfer", "fee", "reward"} <= {row["kind"] for row in rows}
    assert len({row["reference"] for row in rows}) == len(rows)
    start, end = (read_time(number).isoformat() for number in (0, 1))
    assert all(start < row["time"] < end for row in rows)
    assert all(tuple(row) == COLUMNS for row in rows)


@pytest.mark.torture
def test_ten_wrong_transactions_are_found_and_nothing_else(tmp_path: Path) -> None:
    """Of thousands of transactions of ten nights, the movement names the ten that are wrong."""
    nights = [between(number) for number in range(NIGHTS - 1)]
    expected = plant(nights)
    folder = tmp_path / "reference" / "transactions"
    folder.mkdir(parents=True)
    for number, rows in enumerate(nights):
        with (folder / f"{number}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
    assert sum(map(len, nights)) > 5000
    books = [
        read_at(f"{read_time(number):%Y%m%dT%H%M%SZ}", amounts(world(number)))
        for number in range(NIGHTS)
    ]
    layout = publish(tmp_path, books)
    found = {
        (number, *row)
        for number in range(NIGHTS - 1)
        for row in ask(
            layout,
            "select portfolio_id, venue_id, account_name, asset_id, state from movement_between("
            f"'{read_time(number).date()}', '{read_time(number + 1).date()}') "
            "where state <> 'explained'",
        )
    }
    assert found == expected
