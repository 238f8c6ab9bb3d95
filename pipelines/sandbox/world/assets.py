"""The invented assets, and functions for reproducible random values."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from hashlib import blake2b
from typing import TypeVar
from uuid import UUID

T = TypeVar("T")

# This is a single string, because a list of a hundred quoted symbols would need a hundred lines.
_OTHERS = """
    AAVE ALGO APE APT ARB ATOM AXS BAL BAT BCH BNB CELO CHZ COMP CRO CRV CVX DAI DASH DYDX EGLD
    ENJ ENS EOS ETC FET FIL FLOW FTM FXS GALA GBP GLM GMX GNO GRT HBAR ICP IMX INJ JTO JUP KAVA
    KSM LDO LRC LUNA MANA MATIC MINA MKR MNT NEAR NEO OCEAN OP ORDI OSMO PAXG PENDLE PEPE PYTH
    QNT RNDR ROSE RPL RUNE SAND SEI SNX STETH STRK STX SUI SUSHI TAO THETA TIA TON TRX TUSD UNI
    VET WBTC WLD XLM XMR XTZ YFI ZEC ZIL ZRX
"""

_CUSTOM = (
    ("SAFT-2023-A", 0, 6),
    ("SAFT-2024-B", 4, 6),
    ("Warrants Blackthorn 2027", 0, 5),
    ("Loan note #7, 8 %", 2, 7),
    ('"Genesis" carry', 12, 4),
    ("Kapitalrücklage", 2, 6),
)

ACCOUNT_NAMES = (
    "Main",
    "Trading 1",
    "Trading 2",
    "Cold storage",
    "Staking pool",
    "Sub-account 07",
    "Isolated margin",
    "Treasury ops",
    'Desk "A", EMEA',
    "=Hedge",
    "Rücklage",
    "🧊 vault",
)


@dataclass(frozen=True, slots=True)
class Asset:
    """An asset. `digits` is the number of digits before the decimal point in a typical amount."""

    symbol: str
    decimals: int
    digits: int
    custom: bool = False


_MAJORS = (
    Asset("BTC", 8, 3),
    Asset("ETH", 18, 4),
    Asset("USDC", 6, 7),
    Asset("USDT", 6, 7),
    Asset("SOL", 9, 5),
    Asset("EUR", 2, 6),
    Asset("USD", 2, 7),
    Asset("XRP", 6, 6),
    Asset("JPY", 0, 9),
    Asset("LINK", 18, 5),
    Asset("ADA", 6, 7),
    Asset("DOGE", 8, 8),
    Asset("SHIB", 18, 12),
    Asset("AVAX", 18, 4),
    Asset("DOT", 10, 5),
    Asset("LTC", 8, 4),
)


def draw(*seed: object) -> int:
    """Return an integer from 0 to 2**64 - 1, always the same for the same seed."""
    return int.from_bytes(_hash(seed, 8))


def _hash(seed: tuple[object, ...], size: int) -> bytes:
    # Seeds never contain the separator, so ("ab", "c") and ("a", "bc") have different hashes.
    return blake2b("\x1f".join(map(str, seed)).encode(), digest_size=size).digest()


def _assets() -> tuple[Asset, ...]:
    others = tuple(
        Asset(symbol, (6, 8, 12, 18)[draw("decimals", symbol) % 4], 4 + draw("size", symbol) % 4)
        for symbol in _OTHERS.split()
    )
    custom = tuple(Asset(name, decimals, digits, custom=True) for name, decimals, digits in _CUSTOM)
    staked = tuple(Asset(f"{a.symbol}.S", a.decimals, a.digits) for a in (*_MAJORS, *others))
    pools = tuple(
        Asset(f"LP-{a.symbol}-USDC", 18, 4) for a in (*_MAJORS, *others) if a.symbol != "USDC"
    )
    return (*_MAJORS, *custom, *others, *staked, *pools)


ASSETS = _assets()
CUSTOM_ASSETS = tuple(asset for asset in ASSETS if asset.custom)


def pick(options: Sequence[T], *seed: object) -> T:
    """Choose one of the options, always the same for the same seed."""
    return options[draw(*seed) % len(options)]


def identity(*seed: object) -> str:
    """Return a version 4 UUID, always the same for the same seed."""
    return str(UUID(bytes=_hash(seed, 16), version=4))


def amount(units: int, decimals: int, *, padded: bool = False) -> str:
    """Format an amount, given in its smallest unit, as an exact decimal string.

    With `padded`, keep trailing zeros: `1.500000` instead of `1.5`.
    """
    sign, digits = ("-" if units < 0 else ""), str(abs(units)).rjust(decimals + 1, "0")
    whole, fraction = digits[: len(digits) - decimals], digits[len(digits) - decimals :]
    fraction = fraction if padded else fraction.rstrip("0")
    return f"{sign}{whole}.{fraction}" if fraction else sign + whole


def instant(day: date, *seed: object) -> str:
    """Return a random time in the last six hours before a date (UTC), in one of three formats."""
    # The time is before the start of the day, because a day's world must not contain future events.
    second = draw("instant", *seed) % (6 * 3600)
    hours, seconds_left = divmod(18 * 3600 + second, 3600)
    minutes, seconds = divmod(seconds_left, 60)
    eve = (day - timedelta(days=1)).isoformat()
    form = draw("form", *seed) % 16
    if form == 0:
        return f"{eve}T{hours:02}:{minutes:02}:{seconds:02}Z"
    if form == 1:
        micros = draw("micros", *seed) % 1_000_000
        return f"{eve}T{hours - 5:02}:{minutes:02}:{seconds:02}.{micros:06}-05:00"
    return f"{eve}T{hours:02}:{minutes:02}:{seconds:02}.{second % 1000:03}Z"
