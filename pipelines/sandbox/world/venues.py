"""The world's venues and their instruments on a given day (§2.6 to §2.8).

They change from night to night. One venue is suspended for two of four nights, and one changes its
name. Instruments are listed and delisted. Dated futures expire and are replaced by new ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from pipelines.sandbox.world.assets import amount, draw, instant

Record = dict[str, Any]

_EXCHANGE, _OTC, _CUSTODIAN = ("exchange",), ("otc",), ("custodian",)

_BASES = (
    *("BTC", "ETH", "SOL", "XRP", "ADA", "DOGE", "LINK"),
    *("AVAX", "DOT", "LTC", "UNI", "AAVE", "ATOM", "NEAR"),
)
_TERMS = ("USDC", "USD", "EUR", "BTC")
# The number of decimal places and a factor for each trading constraint. The constraint's value is
# one to nine times the factor, in units of the last decimal place.
_CONSTRAINTS = {
    "minBaseQty": (4, 1),
    "maxBaseQty": (0, 10**4),
    "minBaseIncrement": (8, 1),
    "minTermQty": (0, 5),
    "minPrice": (2, 1),
    "maxPrice": (2, 10**8),
    "minTick": (5, 10),
}
_MONTHS = "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC"
_FRIDAY = 4
_OPENED = date(2021, 3, 1)


@dataclass(frozen=True, slots=True)
class VenuePlan:
    """The plan for an invented venue, which cycles through `names` and `statuses` nightly."""

    id: str
    types: tuple[str, ...]
    names: tuple[str, ...]
    statuses: tuple[str, ...] = ("trading",)
    spots: int = 0
    perpetuals: int = 0
    dated: int = 0  # number of base assets with dated futures
    symbols: str = "{base}{term}"


HOUSES = (
    VenuePlan("kestrel", _EXCHANGE, ("Kestrel Exchange",), spots=40, perpetuals=8, dated=2),
    VenuePlan("meridian", _EXCHANGE, ("Meridian Spot",), spots=32, symbols="{base}/{term}"),
    VenuePlan("polaris", _EXCHANGE, ("Polaris Derivatives",), perpetuals=12, dated=3),
    VenuePlan("quillon", ("exchange", "custodian"), ("Quillon Markets",), spots=24, perpetuals=4),
    VenuePlan("harbour-otc", _OTC, ("Harbour OTC",), spots=10, symbols="{base}-{term}"),
    VenuePlan(
        "north sea/otc desk", _OTC, ("North Sea, OTC Desk",), spots=6, symbols="{base} {term}"
    ),
    VenuePlan("ironkeep", _CUSTODIAN, ("Ironkeep Trust Company",)),
    VenuePlan("vaultline", ("otc", "custodian"), ('Vaultline "Deep Cold"',), spots=4),
    VenuePlan(
        "bridgewell",
        ("exchange", "otc", "custodian"),
        ("Bridgewell Prime", "Bridgewell Prime", "Bridgewell Prime (Europe)"),
        spots=20,
        dated=1,
    ),
    VenuePlan(
        "lanternfish",
        ("exchange", "otc"),
        ("Lanternfish",),
        ("trading", "suspended", "suspended", "trading"),
        spots=16,
        perpetuals=3,
    ),
    VenuePlan("tidewater", _EXCHANGE, ("Tidewater Futures",), ("suspended",), dated=2),
    VenuePlan("old-granite", _EXCHANGE, ("Old Granite Börse",), ("unsupported",), spots=3),
)


def turn(options: tuple[str, ...], day: date) -> str:
    """Return the option for a date. Each day uses the next option, and the cycle repeats."""
    return options[day.toordinal() % len(options)]


def venue(house: VenuePlan, mark: str, day: date) -> Record:
    """Return a venue without its instruments. The suffix `mark` distinguishes copies of a venue."""
    changes = len(house.names) > 1 or len(house.statuses) > 1
    return {
        "id": house.id + mark,
        "resource": "venue",
        "type": list(house.types),
        "displayName": turn(house.names, day) + mark,
        "tradingStatus": turn(house.statuses, day),
        "createdAt": instant(_OPENED + timedelta(days=draw(house.id) % 700), house.id, "made"),
        "updatedAt": instant(day if changes else date(2024, 5, 6), house.id, "changed"),
    }


def instruments(house: VenuePlan, mark: str, day: date) -> tuple[Record, ...]:
    """Return all instruments listed at a venue on a day."""
    venue_id = house.id + mark
    listed = [
        _instrument(house, venue_id, ("spot", base, term, ""), None, day)
        for base, term in _pairs(house, day)
    ]
    listed += [
        _instrument(house, venue_id, ("future", base, "USDC", "PERP"), None, day)
        for base in _BASES[: house.perpetuals]
    ]
    listed += [
        _instrument(house, venue_id, ("future", base, "USD", _symbol(expiry)), expiry, day)
        for base in _BASES[: house.dated]
        for expiry in _expiries(day)
    ]
    return tuple(listed)


def _pairs(house: VenuePlan, day: date) -> Iterator[tuple[str, str]]:
    """Yield a venue's spot pairs. Every eleventh pair is missing on every third night."""
    pairs = [(base, term) for base in _BASES for term in _TERMS if base != term]
    for number, pair in enumerate(pairs[: house.spots]):
        if number and number % 11 == 0 and (day.toordinal() + number) % 3 == 0:
            continue
        yield pair


def _expiries(day: date) -> list[date]:
    """Return expiry dates: tomorrow, three Fridays, and the last Friday of two quarters."""
    friday = day + timedelta(days=(_FRIDAY - day.weekday() - 1) % 7 + 1)
    weekly = [friday + timedelta(weeks=week) for week in range(3)]
    first_month = 3 * ((day.month - 1) // 3)
    quarterly = [_last_friday(day.year, first_month + months) for months in (3, 6)]
    ahead = {day + timedelta(days=1), *weekly, *quarterly}
    return sorted(expiry for expiry in ahead if expiry > day)


def _last_friday(year: int, months: int) -> date:
    """Return the last Friday of a month. Months after 12 are in the next year, so 15 is March."""
    first_after = date(year + months // 12, months % 12 + 1, 1)
    return first_after - timedelta(days=(first_after.weekday() - _FRIDAY - 1) % 7 + 1)


def _instrument(
    house: VenuePlan,
    venue_id: str,
    listing: tuple[str, str, str, str],
    expiry: date | None,
    day: date,
) -> Record:
    kind, base, term, suffix = listing
    # The API document links an instrument to its venue only through the request path, so venues may
    # share instrument IDs.
    identifier = "-".join(part for part in (base, term, suffix) if part)
    seed = (venue_id, identifier)
    born = expiry - timedelta(days=200) if expiry else date(2023, 1, 2)
    changed = min(day, born + timedelta(days=1 + draw("age", *seed) % 90))
    record: Record = {
        "id": identifier,
        "resource": "instrument",
        "type": kind,
        "displayName": f"{base}/{term}" + (f" {suffix.title()}" if suffix else ""),
        "feedId": f"{venue_id}:{kind}:{identifier}".lower(),
        "venueSymbol": house.symbols.format(base=base, term=term) + suffix,
        "baseAsset": base,
        "termAsset": term,
        "createdAt": instant(born, seed, "made"),
        "updatedAt": instant(changed, seed, "changed"),
    }
    if expiry:
        record["expiration"] = f"{expiry.isoformat()}T08:00:00Z"
    limits = _limits(seed)
    if limits is not None:
        record["tradingConstraints"] = limits
    return record


def _symbol(expiry: date) -> str:
    """Format an expiry date as venues do (`25DEC26`), regardless of the machine's locale."""
    return (
        f"{expiry.day:02}{_MONTHS[3 * expiry.month - 3 : 3 * expiry.month]}{expiry.year % 100:02}"
    )


def _limits(seed: tuple[str, str]) -> Record | None:
    """Return trading constraints, which may be complete, partial, empty or missing (§2.8)."""
    values = {
        name: amount(
            (1 + draw("limit", name, *seed) % 9) * units,
            decimals,
            padded=draw("padded", name, *seed) % 4 == 0,
        )
        for name, (decimals, units) in _CONSTRAINTS.items()
    }
    form = draw("limits", *seed) % 8
    if form == 0:
        return None
    if form == 1:
        return {}
    if form in {2, 3}:
        return {name: value for name, value in values.items() if draw(name, *seed) % 2}
    return values
