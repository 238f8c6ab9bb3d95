"""Seeded, realistic bodies in the shapes of the specification, written in a stream."""

import json
import random
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, getcontext
from pathlib import Path
from typing import Any

getcontext().prec = 100  # sums of these bodies have at most fifty digits
ASSETS = 400
VENUES = 40
# Each balance kind, its states, and the share of accounts that have it: 4.2 amounts per account.
BUCKETS = (
    ("trading", ("free", "locked"), 0.95),
    ("custody", ("free", "locked"), 0.6),
    ("margin", ("locked",), 0.55),
    ("staking", ("locked",), 0.55),
)
LARGE_SHARE = 0.015  # share of the amounts in balances that are from 1e12
CONSTRAINTS = {
    "minBaseQty": "min_base_qty",
    "maxBaseQty": "max_base_qty",
    "minBaseIncrement": "min_base_increment",
    "minTermQty": "min_term_qty",
    "minPrice": "min_price",
    "maxPrice": "max_price",
    "minTick": "min_tick",
}
STAMP = "2026-11-20T02:15:00.123Z"


@dataclass(frozen=True, slots=True)
class Scale:
    """The number of portfolios, of positions per portfolio, and of accounts per position."""

    name: str
    portfolios: int
    positions: int
    accounts: int

    @property
    def rows(self) -> int:
        """Return the number of accounts in all."""
        return self.portfolios * self.positions * self.accounts


SCALES = {
    "S": Scale("S", 50, 100, 3),
    "M": Scale("M", 500, 200, 3),
    "L": Scale("L", 2000, 500, 3),
}
INSTRUMENTS_EACH = 1500


@dataclass(frozen=True, slots=True)
class Truth:
    """The content of a body: the number of rows by table, and exact sums by their key."""

    rows: dict[str, int]
    sums: dict[str, Decimal]


def amount(rng: random.Random, *, large_share: float = 0) -> str:
    """Return an amount with 0 to 18 decimals, 7.7 on average, and up to 6 integer digits.

    The large ones are from 1e12 to 1e24, like positions in tokens, and a quarter of them is
    negative. DECIMAL(38,18) cannot hold the amounts from 1e20.
    """
    decimals = rng.choice((0, 2, 6, 8, 8, 12, 18))
    is_large = rng.random() < large_share
    digits = rng.randrange(13, 25) if is_large else rng.randrange(1, 7)
    whole = rng.randrange(10 ** (digits - 1) if is_large else 0, 10**digits)
    sign = "-" if is_large and rng.random() < 0.25 else ""
    fraction = f".{rng.randrange(10**decimals):0{decimals}}" if decimals else ""
    return f"{sign}{whole}{fraction}"


def balance(rng: random.Random) -> dict[str, dict[str, str]]:
    """Return a balance: nearly always with trading, and often with the other kinds."""
    return {
        bucket: {state: amount(rng, large_share=LARGE_SHARE) for state in states}
        for bucket, states, share in BUCKETS
        if rng.random() < share
    }


def portfolios(scale: Scale, seed: int) -> Iterator[dict[str, object]]:
    """Yield the portfolios of a scale, which are always the same for a seed."""
    rng = random.Random(seed)
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
            "createdAt": STAMP,
            "updatedAt": STAMP,
        }


def write_portfolios(path: Path, scale: Scale, seed: int = 7) -> Truth:
    """Write the body of `GET /portfolios`. The truth has the sum of each asset and bucket."""
    rows: Counter[str] = Counter()
    sums: dict[str, Decimal] = {}
    with path.open("w", encoding="utf-8") as file:
        file.write('{"data":[')
        for number, portfolio in enumerate(portfolios(scale, seed)):
            file.write(("," if number else "") + json.dumps(portfolio, separators=(",", ":")))
            _add(rows, sums, portfolio)
        file.write('],"meta":{}}')
    return Truth(dict(rows), sums)


def _add(rows: Counter[str], sums: dict[str, Decimal], portfolio: dict[str, Any]) -> None:
    rows["portfolios"] += 1
    for position in portfolio["positions"]:
        rows["positions"] += 1
        for account in position["accounts"]:
            rows["accounts"] += 1
            for bucket, parts in account["balance"].items():
                rows["balances"] += len(parts)
                key = f"{position['assetId']} {bucket}"
                sums[key] = sums.get(key, Decimal(0)) + sum(map(Decimal, parts.values()))


def instruments(rng: random.Random, kind: str, count: int) -> Iterator[dict[str, Any]]:
    """Yield instruments of one venue and type. Each constraint is present nine times of ten."""
    for number in range(count):
        base, term = f"ASSET{rng.randrange(ASSETS)}", rng.choice(("USD", "USDT", "EUR", "BTC"))
        record: dict[str, Any] = {
            "id": f"{kind}-{number}",
            "resource": "instrument",
            "type": kind,
            "displayName": f"{base}/{term}",
            "feedId": f"feed-{number}",
            "venueSymbol": f"{base}{term}",
            "baseAsset": base,
            "termAsset": term,
            "tradingConstraints": {name: amount(rng) for name in CONSTRAINTS if rng.random() < 0.9},
            "createdAt": STAMP,
            "updatedAt": STAMP,
        }
        yield record if kind == "spot" else record | {"expiration": STAMP}


def write_instruments(folder: Path, seed: int = 7) -> Truth:
    """Write a body for each venue and type, `VENUE.TYPE.json`. Sums are by constraint."""
    rng = random.Random(seed)
    sums = dict.fromkeys(CONSTRAINTS.values(), Decimal(0))
    folder.mkdir()
    for venue in range(VENUES):
        for kind in ("spot", "future"):
            data = list(instruments(rng, kind, INSTRUMENTS_EACH))
            for record in data:
                for name, text in record["tradingConstraints"].items():
                    sums[CONSTRAINTS[name]] += Decimal(text)
            text = json.dumps({"data": data, "meta": {}}, separators=(",", ":"))
            (folder / f"venue-{venue}.{kind}.json").write_text(text, encoding="utf-8")
    return Truth({"instruments": VENUES * 2 * INSTRUMENTS_EACH}, sums)
