"""Tests of the guards over months of simulated nights, both normal ones and disasters.

Two homes are simulated with fixed seeds: a trading desk (sixteen portfolios, eight venues, forty
assets, a tenth of all its holdings traded every day) and a small home (three portfolios, three
venues, five assets). The facts are computed from the holdings by code in this file.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.lake import guards, measures
from pipelines.lake.facts import Facts
from pipelines.lake.slices import find_moved_slices
from tests.support.books import fits

FEW = 12
Key = tuple[str, str, str]  # portfolio, venue, asset


@dataclass(slots=True)
class Home:
    """A simulated home: amounts by portfolio, venue and asset, and its daily activity."""

    seed: int
    portfolios: int
    venues: int
    assets: int
    traded: float
    held: dict[Key, Decimal] = field(default_factory=dict)
    instruments: int = 0

    def __post_init__(self) -> None:
        random = Random(self.seed)
        self.instruments = 40 * self.venues
        for portfolio in range(self.portfolios):
            for asset in range(self.assets):
                for venue in random.sample(range(self.venues), 2):
                    if random.random() < 0.5:
                        key = (f"p{portfolio}", f"v{venue}", f"a{asset}")
                        self.held[key] = _amount(random)

    def live(self, random: Random) -> None:
        """Simulate a day: trades, assets that are sold out or bought, a sweep and listings."""
        for key in list(self.held):
            if random.random() < self.traded:
                self.held[key] *= Decimal(str(round(random.uniform(0.7, 1.4), 6)))
        places = sorted(self.held)
        if random.random() < 0.3 and len(places) > FEW:
            del self.held[random.choice(places)]
        for _ in range(random.randrange(3)):
            portfolio, venue, asset = random.choice(places)
            other = random.choice(places)[2] if random.random() < 0.5 else asset
            key = (portfolio, venue, other)
            self.held[key] = self.held[key] * 2 if key in self.held else _amount(random)
        if random.random() < 0.1 and len(places) > FEW:
            swept = random.choice(places)[2]
            for key in [one for one in self.held if one[2] == swept][1:]:
                del self.held[key]
        self.instruments += random.randrange(-3, 5)


def _amount(random: Random) -> Decimal:
    return Decimal(random.randrange(1, 10**9)) / Decimal(10) ** random.randrange(8)


def night(held: dict[Key, Decimal], name: str, instruments: int = 300) -> Facts:
    """Return the facts about the holdings of a night."""
    totals: dict[str, Decimal] = {}
    for (_, _, asset), amount in held.items():
        totals[asset] = totals.get(asset, Decimal(0)) + amount
    accounts = Counter(asset for _, _, asset in held)
    return Facts(
        counts={
            "accounts": len(held),
            "instruments": instruments,
            "venues": 8,
            "positions": len({(portfolio, asset) for portfolio, _, asset in held}),
        },
        totals={asset: str(total) for asset, total in totals.items()},
        money={portfolio: True for portfolio, _, _ in held},
        drops={},
        accounts=accounts,
        snapshot_id=name,
    )


def write_balances(held: dict[Key, Decimal], path: Path) -> None:
    """Write holdings to a file of balances, which the slices are computed from."""
    names = ("portfolio_id", "venue_id", "asset_id")
    columns = {
        name: pa.array([key[place] for key in held], pa.string())
        for place, name in enumerate(names)
    }
    columns["bucket"] = pa.array(["trading"] * len(held), pa.string())
    columns["is_custom_asset"] = pa.array([False] * len(held), pa.bool_())
    texts = [str(amount) for amount in held.values()]
    columns["amount"] = pa.array([fits(text) for text in texts], pa.decimal128(38, 18))
    columns["amount_text"] = pa.array(texts, pa.string())
    pq.write_table(pa.table(columns), path)


@dataclass(slots=True)
class Past:
    """The accepted nights of a home. `folder` contains a file of balances for each night."""

    folder: Path
    facts: list[Facts] = field(default_factory=list)

    def reasons(self, held: dict[Key, Decimal], instruments: int = 300) -> tuple[str, ...]:
        """Return the reasons to hold a night with these holdings, and add the night to the past.

        A night that is held counts as accepted by hand, so it is suspect.
        """
        name = f"{len(self.facts):04}"
        facts = night(held, name, instruments)
        write_balances(held, self.folder / name)
        compared = measures.bases(self.facts)
        moved = {
            one.snapshot_id: find_moved_slices(self.folder / one.snapshot_id, self.folder / name)
            for one in compared
        }
        facts = replace(facts, slices=moved)
        drops = [measures.drops(facts, one) for one in compared]
        least = min(drops, key=lambda one: max(map(Decimal, one.values())), default={})
        found = tuple(one.words for one in guards.find_reasons(facts, self.facts))
        self.facts.append(replace(facts, drops=least, is_suspect=bool(found)))
        return found


HOMES = {"a trading desk": Home(1, 16, 8, 40, 0.1), "a small home": Home(2, 3, 3, 5, 0.3)}


@pytest.mark.parametrize("name", HOMES)
def test_no_night_of_normal_trading_is_held(tmp_path: Path, name: str) -> None:
    """The guards hold no night in two hundred nights of trades, sales, sweeps and listings."""
    home, past, random = HOMES[name], Past(tmp_path), Random(7)
    held = {}
    for number in range(200):
        if found := past.reasons(home.held, home.instruments):
            held[number] = found
        home.live(random)
    assert held == {}


def _venue(held: dict[Key, Decimal], factor: str) -> dict[Key, Decimal]:
    return {
        key: amount * Decimal(factor) if key[1] == "v1" else amount for key, amount in held.items()
    }


Spoil = Callable[[dict[Key, Decimal]], dict[Key, Decimal]]
DISASTERS: dict[str, Spoil] = {
    "all is gone": lambda _: {},
    "a portfolio is gone": lambda held: {key: held[key] for key in held if key[0] != "p1"},
    "a venue is gone": lambda held: {key: held[key] for key in held if key[1] != "v1"},
    "half of all accounts": lambda held: {key: held[key] for key in list(held)[::2]},
    "all a thousandfold": lambda held: {key: amount * 1000 for key, amount in held.items()},
    "all a thousandth": lambda held: {key: amount / 1000 for key, amount in held.items()},
    "all doubled": lambda held: {key: amount * 2 for key, amount in held.items()},
    "all a third less": lambda held: {key: amount * 2 / 3 for key, amount in held.items()},
    "all signs turned": lambda held: {key: -amount for key, amount in held.items()},
    "a venue a thousandfold": lambda held: _venue(held, "1000"),
    "a venue tenfold": lambda held: _venue(held, "10"),
    "a venue in cents": lambda held: _venue(held, "0.01"),
    "a portfolio a thousandfold": lambda held: {
        key: amount * 1000 if key[0] == "p1" else amount for key, amount in held.items()
    },
    "half of the assets": lambda held: {key: held[key] for key in held if int(key[2][1:]) % 2},
}


@pytest.mark.parametrize("nights", [1, 30])
@pytest.mark.parametrize("name", DISASTERS)
def test_every_disaster_is_held_but_no_good_night(tmp_path: Path, name: str, nights: int) -> None:
    """Each disaster is held, on the second night and after a month, but not the nights after it.

    The limits do not rise if a person accepts the disaster.
    """
    home, past, random = Home(3, 12, 6, 20, 0.1), Past(tmp_path), Random(11)
    for _ in range(nights):
        assert past.reasons(home.held, home.instruments) == ()
        home.live(random)
    limits = {
        measure: measures.limit(measure, past.facts) for measure in ("accounts", "assets fallen")
    }
    assert past.reasons(DISASTERS[name](home.held), home.instruments)
    for _ in range(3):
        home.live(random)
        assert past.reasons(home.held, home.instruments) == ()
    assert all(measures.limit(measure, past.facts) <= most for measure, most in limits.items())


def test_a_true_change_holds_only_one_night(tmp_path: Path) -> None:
    """If half of the book is sold, only that night is held, and no later night."""
    home, past, random = Home(4, 12, 6, 20, 0.1), Past(tmp_path), Random(13)
    for _ in range(15):
        assert past.reasons(home.held) == ()
        home.live(random)
    home.held = {key: amount / 2 for key, amount in home.held.items()}
    assert past.reasons(home.held)
    for _ in range(10):
        home.live(random)
        assert past.reasons(home.held) == ()
