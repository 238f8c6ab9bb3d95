"""Seeded, believable bodies in the shapes of the specification, written as they are made."""

import json
import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, getcontext
from pathlib import Path

getcontext().prec = 100  # sums of these bodies have at most forty digits
ASSETS = 400
VENUES = 40
BUCKETS = (
    ("trading", ("free", "locked")),
    ("custody", ("free", "locked")),
    ("margin", ("locked",)),
    ("staking", ("locked",)),
)


@dataclass(frozen=True, slots=True)
class Scale:
    """How many portfolios, positions in each, accounts in each of those."""

    name: str
    portfolios: int
    positions: int
    accounts: int

    @property
    def rows(self) -> int:
        """How many accounts in all."""
        return self.portfolios * self.positions * self.accounts


SCALES = {
    "S": Scale("S", 50, 100, 3),
    "M": Scale("M", 500, 200, 3),
    "L": Scale("L", 2000, 500, 3),
}


def amount(rng: random.Random) -> str:
    """An amount with 0 to 18 decimals and up to 9 integer digits."""
    decimals = rng.choice((0, 2, 6, 8, 8, 12, 18))
    digits = rng.randrange(10 ** rng.randrange(1, 10 + min(decimals, 9)))
    return format(Decimal(digits).scaleb(-decimals), "f")


def balance(rng: random.Random) -> dict[str, dict[str, str]]:
    """A balance: trading nearly always, the others now and then."""
    shares = (0.95, 0.3, 0.15, 0.15)
    return {
        bucket: {state: amount(rng) for state in states}
        for (bucket, states), share in zip(BUCKETS, shares, strict=True)
        if rng.random() < share
    }


def portfolios(scale: Scale, seed: int) -> Iterator[dict[str, object]]:
    """The portfolios of a scale, always the same for a seed."""
    rng = random.Random(seed)  # noqa: S311 - repeatable, guards nothing
    stamp = "2026-11-20T02:15:00.123Z"
    for number in range(scale.portfolios):
        assets = rng.sample(range(max(ASSETS, scale.positions)), scale.positions)
        yield {
            "id": str(uuid.UUID(int=rng.getrandbits(128), version=4)),
            "resource": "portfolio",
            "name": f"Portfolio {number}",
            "integrations": [],
            "positions": [
                {
                    "assetId": f"ASSET{asset}",
                    "isCustomAsset": asset % 50 == 0,
                    "accounts": [
                        {
                            "venueId": f"venue-{rng.randrange(VENUES)}",
                            "name": f"Account {account}",
                            "balance": balance(rng),
                        }
                        for account in range(scale.accounts)
                    ],
                }
                for asset in assets
            ],
            "createdAt": stamp,
            "updatedAt": stamp,
        }


def write_portfolios(path: Path, scale: Scale, seed: int = 7) -> dict[str, str]:
    """Write the body of `GET /portfolios`; returns the exact sum of each asset and bucket."""
    sums: dict[str, Decimal] = {}
    with path.open("w", encoding="utf-8") as file:
        file.write('{"data":[')
        for number, portfolio in enumerate(portfolios(scale, seed)):
            file.write(("," if number else "") + json.dumps(portfolio, separators=(",", ":")))
            _add(sums, portfolio)
        file.write('],"meta":{}}')
    return {key: format(value, "f") for key, value in sorted(sums.items())}


def _add(sums: dict[str, Decimal], portfolio: dict[str, object]) -> None:
    positions = portfolio["positions"]
    assert isinstance(positions, list)
    for position in positions:
        for account in position["accounts"]:
            for bucket, parts in account["balance"].items():
                key = f"{position['assetId']} {bucket}"
                sums[key] = sums.get(key, Decimal(0)) + sum(map(Decimal, parts.values()))
