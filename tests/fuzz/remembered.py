"""What a home must hold, remembered in plain dictionaries: the model of the stateful test.

It knows the design (parts 3, 4 and 6) and none of the code: a date's book is its newest accepted
snapshot, what is held, rejected or pruned is nowhere to be seen, and sums are Python's decimals.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal, localcontext
from typing import Any

COMPLETE, ACCEPTED, HELD, REJECTED, PRUNED = (
    *("complete", "accepted", "held", "rejected", "pruned"),
)
# Portfolio, asset, account, bucket and state: where an amount stands.
Place = tuple[str, str, str, str, str]
World = dict[Place, str]
Row = tuple[Any, ...]
# The one venue of these worlds, at which all of its money lies.
VENUE = {
    "id": "v",
    "resource": "venue",
    "type": ["exchange"],
    "displayName": "V",
    "tradingStatus": "trading",
    "instruments": [],
    "createdAt": "2024-01-01T00:00:00Z",
    "updatedAt": "2024-01-01T00:00:00Z",
}
TIMES = dict.fromkeys(["createdAt", "updatedAt"], "2024-01-01T00:00:00Z")
# A night may move a little, and most of its assets must not lose most; between the two the guards
# decide by what they have learned, which is not remembered here.
LITTLE, MOST, FEWEST = Decimal("0.15"), Decimal("0.75"), 2
DIGITS = 200


@dataclass(slots=True)
class Night:
    """A landed snapshot: what the API said, and what became of it."""

    snapshot_id: str
    taken: datetime
    world: World
    state: str = COMPLETE
    decided_by_hand: datetime | None = None

    @property
    def day(self) -> date:
        """Its business date; the time zone is UTC."""
        return self.taken.date()

    def is_accepted_at(self, moment: datetime) -> bool:
        """Whether it counted as accepted when a night was taken; a person may decide later."""
        is_known = self.decided_by_hand is None or self.decided_by_hand <= moment
        return self.state == ACCEPTED and is_known

    def rows(self) -> Iterator[Row]:
        """Its amounts, as `balances` has them."""
        for place, text in self.world.items():
            yield (self.day, *place, text)


@dataclass(slots=True)
class Remembered:
    """All nights by id, and whether a person has accepted one that the guards held."""

    nights: dict[str, Night] = field(default_factory=dict)
    has_taught: bool = False

    def books(self) -> dict[date, Night]:
        """The book of each date."""
        chosen = {}
        for _, night in sorted(self.nights.items()):
            if night.state == ACCEPTED:
                chosen[night.day] = night
        return chosen

    def shown(self) -> tuple[list[Row], list[Row]]:
        """What people see: the rows of `main.balances`, and of `history.balances`."""
        books = self.books()
        newest = sorted(books[max(books)].rows()) if books else []
        return newest, sorted(row for night in books.values() for row in night.rows())

    def before(self, night: Night) -> Night | None:
        """The night it is compared with."""
        earlier = [
            one
            for snapshot_id, one in sorted(self.nights.items())
            if snapshot_id < night.snapshot_id and one.is_accepted_at(night.taken)
        ]
        return earlier[-1] if earlier else None

    def judged(self, night: Night) -> set[str]:
        """The states that a night may be given."""
        before = self.before(night)
        if before is None:
            return {ACCEPTED}
        was, now = sums(before.world), sums(night.world)
        if not _moved(was, now) and not _fewer(before.world, night.world):
            return {ACCEPTED}
        # A book that a person accepted is not the only one it is compared with.
        is_sure = before.decided_by_hand is None
        is_gone = bool(portfolios(before.world) - portfolios(night.world))
        # One asset or one place alone is a finding of the report, and holds no night.
        fallen = sum(lost > MOST for lost in _lost(was, now))
        is_slice = fallen > 1 and Decimal(fallen) / len(was) > MOST
        is_sparse = _fewer(before.world, night.world) > MOST and len(before.world) > FEWEST
        if is_sure and (is_gone or is_slice or is_sparse):
            return {HELD}
        return {ACCEPTED, HELD}

    def of(self, *states: str) -> list[str]:
        """The ids of the nights in these states, oldest first."""
        return sorted(one for one, night in self.nights.items() if night.state in states)


def sums(world: World) -> dict[str, Decimal]:
    """The exact total of every asset."""
    totals: dict[str, Decimal] = defaultdict(Decimal)
    with localcontext(prec=DIGITS):
        for (_, asset, *_), text in world.items():
            totals[asset] += Decimal(text)
    return dict(totals)


def portfolios(world: World) -> set[str]:
    """The portfolios with money; every amount of these worlds is more than nothing."""
    return {portfolio for portfolio, *_ in world}


def _lost(before: dict[str, Decimal], now: dict[str, Decimal]) -> list[Decimal]:
    with localcontext(prec=DIGITS):
        return [1 - now.get(asset, Decimal(0)) / total for asset, total in before.items()]


def _moved(before: dict[str, Decimal], now: dict[str, Decimal]) -> bool:
    """Whether any total moved by more than a night may without a look at the nights before."""
    with localcontext(prec=DIGITS):
        return before.keys() != now.keys() or any(
            abs(now[asset] - total) > LITTLE * total for asset, total in before.items()
        )


def _fewer(before: World, now: World) -> Decimal:
    counts = [len({place[:3] for place in world}) for world in (before, now)]
    return 1 - Decimal(counts[1]) / counts[0] if counts[0] else Decimal(0)


def listed(world: World) -> list[dict[str, Any]]:
    """The world as the API lists it."""
    tree: dict[str, Any] = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
    for (portfolio, asset, account, bucket, state), text in world.items():
        tree[portfolio][asset][account].setdefault(bucket, {})[state] = text
    return [
        {
            "id": portfolio,
            "resource": "portfolio",
            "name": portfolio,
            "integrations": [],
            "positions": [
                {
                    "assetId": asset,
                    "isCustomAsset": False,
                    "accounts": [
                        {"venueId": "v", "name": account, "balance": balance}
                        for account, balance in accounts.items()
                    ],
                }
                for asset, accounts in assets.items()
            ],
            **TIMES,
        }
        for portfolio, assets in tree.items()
    ]
