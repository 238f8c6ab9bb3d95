"""The assets of the world: their symbols, decimals and usual sizes, and the names of accounts."""

from dataclasses import dataclass

from pipelines.sandbox.world.randomness import draw


@dataclass(frozen=True, slots=True)
class Asset:
    """Something to hold. `digits` is how many digits stand before the point of a usual amount."""

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

# One text, for a hundred quoted symbols would be a hundred lines.
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
