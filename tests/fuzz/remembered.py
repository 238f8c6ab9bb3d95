"""The expected contents of a home in plain dictionaries: the model of the stateful test.

The model follows the design (parts 3, 4 and 6) and shares no code with the program. A date's book
is its newest accepted snapshot. Held, rejected and pruned nights are not visible. Sums are Python
decimals.
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
# The key of an amount: portfolio, asset, account, bucket and state.
Place = tuple[str, str, str, str, str]
World = dict[Place, str]
Row = tuple[Any, ...]
# The only venue of these worlds, which has all of their money.
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
# Totals may move by LITTLE, and most assets must not lose MOST. Between these limits, the guards
# decide by the changes of earlier nights, which the model does not evaluate.
LITTLE, MOST, FEWEST = Decimal("0.15"), Decimal("0.75"), 2
DIGITS = 200


@dataclass(slots=True)
class Night:
    """A landed snapshot: the world that the API reported, and the state of the night."""

    snapshot_id: str
    taken: datetime
    world: World
    state: str = COMPLETE
    decided_by_hand: datetime | None = None

    @property
    def day(self) -> date:
        """Return the business date. The time zone is UTC."""
        return self.taken.date()

    def is_accepted_at(self, moment: datetime) -> bool:
        """Return True if the night was already accepted at a moment. A person may decide later."""
        is_known = self.decided_by_hand is None or self.decided_by_hand <= moment
        return self.state == ACCEPTED and is_known

    def rows(self) -> Iterator[Row]:
        """Yield the amounts of the night, as rows of `balances`."""
        for place, text in self.world.items():
            yield (self.day, *place, text)


@dataclass(slots=True)
class Remembered:
    """All nights by ID, and a flag that a person has accepted a night that the guards held."""

    nights: dict[str, Night] = field(default_factory=dict)
    has_taught: bool = False

    def books(self) -> dict[date, Night]:
        """Return the book of each date."""
        chosen = {}
        for _, night in sorted(self.nights.items()):
            if night.state == ACCEPTED:
                chosen[night.day] = night
        return chosen

    def shown(self) -> tuple[list[Row], list[Row]]:
        """Return the rows that people see in `main.balances` and in `history.balances`."""
        books = self.books()
        newest = sorted(books[max(books)].rows()) if books else []
        return newest, sorted(row for night in books.values() for row in night.rows())

    def before(self, night: Night) -> Night | None:
        """Return the earlier night that the guards compare a night with, or None."""
        earlier = [
            one
            for snapshot_id, one in sorted(self.nights.items())
            if snapshot_id < night.snapshot_id and one.is_accepted_at(night.taken)
        ]
        return earlier[-1] if earlier else None

    def judged(self, night: Night) -> set[str]:
        """Return the states that the guards may give a night."""
        before = self.before(night)
        if before is None:
            return {ACCEPTED}
        was, now = sums(before.world), sums(night.world)
        if not _moved(was, now) and not _fewer(before.world, night.world):
            return {ACCEPTED}
        # If a person accepted the book before, the guards may also compare with an earlier book.
        is_sure = before.decided_by_hand is None
        is_gone = bool(portfolios(before.world) - portfolios(night.world))
        # One asset or one amount alone is only a finding of the report, and does not hold a night.
        fallen = sum(lost > MOST for lost in _lost(was, now))
        is_slice = fallen > 1 and Decimal(fallen) / len(was) > MOST
        is_sparse = _fewer(before.world, night.world) > MOST and len(before.world) > FEWEST
        if is_sure and (is_gone or is_slice or is_sparse):
            return {HELD}
        return {ACCEPTED, HELD}

    def of(self, *states: str) -> list[str]:
        """Return the IDs of the nights in these states, oldest first."""
        return sorted(one for one, night in self.nights.items() if night.state in states)


def sums(world: World) -> dict[str, Decimal]:
    """Return the exact total of each asset."""
    totals: dict[str, Decimal] = defaultdict(Decimal)
    with localcontext(prec=DIGITS):
        for (_, asset, *_), text in world.items():
            totals[asset] += Decimal(text)
    return dict(totals)


def portfolios(world: World) -> set[str]:
    """Return the portfolios of a world. Each of them has an amount greater than zero."""
    return {portfolio for portfolio, *_ in world}


def _lost(before: dict[str, Decimal], now: dict[str, Decimal]) -> list[Decimal]:
    with localcontext(prec=DIGITS):
        return [1 - now.get(asset, Decimal(0)) / total for asset, total in before.items()]


def _moved(before: dict[str, Decimal], now: dict[str, Decimal]) -> bool:
    """Return True if a total moved so much that the guards look at the nights before."""
    with localcontext(prec=DIGITS):
        return before.keys() != now.keys() or any(
            abs(now[asset] - total) > LITTLE * total for asset, total in before.items()
        )


def _fewer(before: World, now: World) -> Decimal:
    counts = [len({place[:3] for place in world}) for world in (before, now)]
    return 1 - Decimal(counts[1]) / counts[0] if counts[0] else Decimal(0)


def listed(world: World) -> list[dict[str, Any]]:
    """Return the world as the API lists it."""
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
