"""The world's portfolios, with their integrations, positions and balances (§2.1 to §2.5).

They change from night to night. Balances change slightly every few nights. Small accounts and one
small position appear and disappear. One portfolio is renamed, and an empty one is replaced by a new
one. Integrations are requested, verified and replaced. Most of the money never disappears, so
guards with reasonable limits never hold one of this world's nights.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Literal

from pipelines.sandbox.world.assets import (
    ACCOUNT_NAMES,
    ASSETS,
    CUSTOM_ASSETS,
    Asset,
    amount,
    draw,
    identity,
    instant,
    pick,
)
from pipelines.sandbox.world.venues import turn

Record = dict[str, Any]
Size = Literal["core", "usual", "dust"]

_TRADING = ("kestrel", "meridian", "polaris", "quillon", "bridgewell")
_SAFE = ("ironkeep", "vaultline", "bridgewell")
_ALL = (*_TRADING, *_SAFE[:2], "harbour-otc", "north sea/otc desk", "lanternfish", "tidewater")

_BUCKETS: Mapping[str, tuple[str, ...]] = {
    "trading": ("free", "locked"),
    "margin": ("locked",),
    "staking": ("locked",),
    "custody": ("free", "locked"),
}
# The buckets of a balance, as a bit mask in the order of `_BUCKETS`. Most balances have only
# `trading`.
_USUAL_SHAPES = (1, 1, 1, 1, 3, 5, 7, 8, 8, 9, 4, 15)
_COPY_OF_A_SHAPE = 16
_CYCLE = 3


@dataclass(frozen=True, slots=True)
class PortfolioPlan:
    """The plan for an invented portfolio, which cycles through its `names` night by night."""

    key: str
    names: tuple[str, ...]
    assets: Sequence[Asset] = ()
    accounts: int = 1  # maximum number of accounts per position
    # Venues at which the portfolio may have accounts, with one integration for each.
    venues: Sequence[str] = ()
    passing: bool = False  # missing on every third night, and new on the next night


MANDATES = (
    PortfolioPlan("treasury", ("Treasury Reserve",), ASSETS[:300], 4, _ALL),
    PortfolioPlan("halcyon", ("Halcyon Macro Fund LP",), ASSETS[:40], 3, _TRADING),
    PortfolioPlan("vega", ('Blackthorn "Vega" Options, Class B',), ASSETS[:12], 3, _TRADING[:3]),
    PortfolioPlan("stiftung", ("Müller & Söhne Familienstiftung",), ASSETS[:8], 2, _SAFE),
    PortfolioPlan("alpha", ("=Alpha+Beta Arbitrage",), ASSETS[:16], 3, _TRADING),
    PortfolioPlan("foxglove", ("🦊 Foxglove Market Making",), ASSETS[:10], 4, _ALL[-5:]),
    PortfolioPlan("yield", ("Northlight\nYield Sleeve",), ASSETS[:6], 2, ("vaultline", "quillon")),
    PortfolioPlan(
        "renamed",
        ("Ostrava Growth", "Ostrava Growth", "Ostrava Growth (closed to new money)"),
        ASSETS[:5],
        2,
        _TRADING[1:4],
    ),
    PortfolioPlan("plan", ("Employee Token Plan",), CUSTOM_ASSETS, 2, _SAFE[:1]),
    PortfolioPlan("ladder", ("Operations Cash Ladder",), ASSETS[2:3], 16, (*_ALL, "old-granite")),
    PortfolioPlan("wound-down", ("Wind-down 2023",), ASSETS[:3], 0, ("old-granite",)),
    PortfolioPlan("onboarding", ("Onboarding, no positions yet",), (), 0, _TRADING[:4]),
    PortfolioPlan("empty", ("Empty",)),
    PortfolioPlan("pilot", ("Pilot Mandate",), passing=True),
)


def portfolio(
    mandate: PortfolioPlan, seed: tuple[object, ...], mark: str, day: date
) -> Record | None:
    """Return a portfolio with its integrations, or None if it does not exist on that day."""
    # Count days from the year 1, so that the result does not depend on which night is pulled first.
    round_, phase = divmod(day.toordinal(), _CYCLE)
    if mandate.passing and phase == _CYCLE - 1:
        return None
    seed = (*seed, mandate.key, mark, round_ if mandate.passing else "")
    created = date(2021, 6, 1) + timedelta(days=draw("made", *seed) % 900)
    moved = mandate.assets and mandate.accounts
    return {
        "id": identity("portfolio", *seed),
        "resource": "portfolio",
        "name": turn(mandate.names, day) + mark,
        "integrations": list(_integrations(mandate, seed, mark, day)),
        "positions": list(_positions(mandate, seed, mark, day)),
        "createdAt": instant(created, *seed, "made"),
        "updatedAt": instant(day if moved else created + timedelta(days=30), *seed, "changed"),
    }


def _integrations(
    mandate: PortfolioPlan, seed: tuple[object, ...], mark: str, day: date
) -> Iterator[Record]:
    """Yield one integration per venue. Every three nights, a fifth of the integrations are new."""
    for number, venue_id in enumerate(mandate.venues):
        status, round_ = "verified", 0
        if number % 5 == 1:
            round_, phase = divmod(day.toordinal() + number, _CYCLE)
            status = "requested" if phase == 0 else "verified"
        elif number and number % 5 == 0:
            status = "requested"
        yield {
            "id": identity("integration", *seed, venue_id, round_),
            "venueId": venue_id + mark,
            "integrationStatus": status,
        }


def _positions(
    mandate: PortfolioPlan, seed: tuple[object, ...], mark: str, day: date
) -> Iterator[Record]:
    for number, asset in enumerate(mandate.assets):
        passing = mandate.key == "halcyon" and number == len(mandate.assets) - 1
        if passing and (day.toordinal() + 1) % _CYCLE == 0:
            continue
        accounts = _accounts(mandate, (*seed, asset.symbol), number, mark, day)
        size: Size = "dust" if passing else "core"
        yield {
            "assetId": asset.symbol,
            "isCustomAsset": asset.custom,
            "accounts": [
                {
                    "venueId": mandate.venues[(number + index) % len(mandate.venues)] + mark,
                    "name": name,
                    "balance": _balance(asset, key, shape, size if index == 0 else kind, day),
                }
                for index, (name, key, shape, kind) in enumerate(accounts)
            ],
        }


def _accounts(
    mandate: PortfolioPlan, seed: tuple[object, ...], number: int, mark: str, day: date
) -> Iterator[tuple[str, tuple[object, ...], int, Size]]:
    """Yield the name, seed, balance buckets and size of each account of a position on a day."""
    if mandate.accounts == _COPY_OF_A_SHAPE:
        for shape in range(16):
            yield f"Rung {shape + 1}", (*seed, shape), shape, "usual"
        return
    count = mandate.accounts and 1 + draw("accounts", *seed) % mandate.accounts
    for index in range(count):
        name = pick(ACCOUNT_NAMES, "name", *seed, index)
        shape = pick(_USUAL_SHAPES, "shape", *seed, index)
        yield name, (*seed, index), shape, "usual"
    # On two out of three nights, every seventh position has an extra account with a tiny amount.
    if count and number % 7 == 1 and (day.toordinal() + number) % _CYCLE:
        yield f"Sweep {number}{mark}", (*seed, "sweep"), 1, "dust"


def _balance(asset: Asset, seed: tuple[object, ...], shape: int, size: Size, day: date) -> Record:
    return {
        bucket: {
            state: _amount(asset, (*seed, bucket, state), size, day) for state in _BUCKETS[bucket]
        }
        for bit, bucket in enumerate(_BUCKETS)
        if shape >> bit & 1
    }


def _amount(asset: Asset, seed: tuple[object, ...], size: Size, day: date) -> str:
    padded = draw("padded", *seed) % 3 == 0
    if size == "usual" and draw("zero", *seed) % 8 == 0:
        return amount(0, asset.decimals, padded=padded)
    if size == "dust":
        return amount(1 + draw("dust", *seed) % 999, asset.decimals, padded=padded)
    top = 10 ** (asset.digits + asset.decimals)
    # Round some amounts, so that they look like amounts that people type.
    grain = 10 ** (asset.decimals * (draw("grain", *seed) % 4) // 4)
    units = (
        top // 10 + (draw("size", *seed) << 64 | draw("more", *seed)) % (top - top // 10)
    ) // grain
    return amount(_amount_on_day(units, seed, day) * grain, asset.decimals, padded=padded)


def _amount_on_day(units: int, seed: tuple[object, ...], day: date) -> int:
    """Vary an amount by up to two percent. The amount changes every one to five nights."""
    period = 1 + draw("period", *seed) % 5
    step = draw("step", *seed, (day.toordinal() + draw("start", *seed)) // period) % 41 - 20
    return units * (1000 + step) // 1000
