"""Faults in the world that the sandbox serves."""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from pipelines.sandbox.faults import FAULTS, Fault, FaultKind, target
from pipelines.sandbox.world.world import Record, World

Change = Callable[[World, Fault], World]

NOBODYS_VENUE = "a-venue-that-nobody-knows"
_KEPT_OF_FIVE = 2

HOSTILE_IDS = (
    "a/b?c#d",
    "100%41",
    "ünïcode",
    "=1+1",
    "with space",
    "semi;colon&amp=x",
    "quote'\"back\\slash",
    "..",
    ".",
    "emoji🦊",
    "tab\there",
    "+plus",
)
HOSTILE_NAMES = (
    "=cmd|' /C calc'!A0",
    "@SUM(1+1)*cmd",
    "'; drop table portfolios; --",
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "right\u202eto left",
    "nul\x00byte",
    "line\r\nbreak\u2028and another",
    "bell\x07 and escape\x1b[31m",
    "long " * 800,
    "",
    " ",
    "{{7*7}}${7*7}%s%n",
    "\ufeffmark",
)


def _accounts(portfolios: tuple[Record, ...]) -> Iterator[tuple[Record, Record]]:
    """Yield each account in the portfolios, together with its position."""
    for portfolio in portfolios:
        for position in portfolio["positions"]:
            for account in position["accounts"]:
                yield position, account


def _halve_accounts(world: World, _fault: Fault) -> World:
    portfolios = copy.deepcopy(world.portfolios)
    for number, (position, account) in enumerate(list(_accounts(portfolios))):
        if number % 2:
            position["accounts"] = [
                account_ for account_ in position["accounts"] if account_ is not account
            ]
    return replace(world, portfolios=portfolios)


def _remove_bucket(world: World, _fault: Fault) -> World:
    portfolios = copy.deepcopy(world.portfolios)
    for _, account in _accounts(portfolios):
        account["balance"].pop("trading", None)
    return replace(world, portfolios=portfolios)


def _drop_venues(world: World, _fault: Fault) -> World:
    venues = sorted(world.venues, key=lambda venue: str(venue["id"]))
    return replace(world, venues=tuple(venues[: len(venues) * _KEPT_OF_FIVE // 5]))


def _halve_instruments(world: World, _fault: Fault) -> World:
    listed = world.instruments or {}
    return replace(
        world, instruments={venue: instruments[::2] for venue, instruments in listed.items()}
    )


def _repeat(collection: Literal["portfolios", "venues"], **difference: object) -> Change:
    """Return a world change that adds a copy of the fault's target, with the given differences."""
    resource = {"portfolios": "Portfolio", "venues": "Venue"}[collection]

    def change(world: World, fault: Fault) -> World:
        records: tuple[Record, ...] = getattr(world, collection)
        record = target(list(records), resource, fault)
        # If the copy must be identical, insert the same object twice, so that other faults change
        # both copies.
        repeated = {**record, **difference} if record and difference else record
        changed: Any = (*records, *([repeated] if repeated else []))
        return replace(world, **{collection: changed})

    return change


def _repeat_position(world: World, fault: Fault) -> World:
    portfolios = copy.deepcopy(world.portfolios)
    portfolio = target(list(portfolios), "Portfolio", fault)
    if portfolio is not None and portfolio["positions"]:
        portfolio["positions"].append(copy.deepcopy(portfolio["positions"][0]))
    return replace(world, portfolios=portfolios)


def _repeat_account(**difference: Record) -> Change:
    def change(world: World, fault: Fault) -> World:
        portfolios = copy.deepcopy(world.portfolios)
        portfolio = target(list(portfolios), "Portfolio", fault) or {"positions": []}
        for position in portfolio["positions"][:1]:
            first = position["accounts"][:1]
            position["accounts"] += [{**account, **difference} for account in first]
        return replace(world, portfolios=portfolios)

    return change


def _list_more(make: Callable[[Record], Record]) -> Change:
    """Return a world change that adds a modified copy of each venue's first instrument."""

    def change(world: World, fault: Fault) -> World:
        listed = dict(world.instruments or {})
        for venue, instruments in listed.items():
            if fault.venue in {None, venue}:
                listed[venue] = (*instruments, *map(make, instruments[:1]))
        return replace(world, instruments=listed)

    return change


def _orphan_venue(world: World, fault: Fault) -> World:
    portfolios = copy.deepcopy(world.portfolios)
    portfolio = target(list(portfolios), "Portfolio", fault)
    for record in (
        *(account for _, account in list(_accounts((portfolio,) if portfolio else ()))[:1]),
        *(portfolio or {}).get("integrations", [])[:1],
    ):
        record["venueId"] = NOBODYS_VENUE
    return replace(world, portfolios=portfolios)


def _hostile_names(world: World, _fault: Fault) -> World:
    portfolios, venues = copy.deepcopy(world.portfolios), copy.deepcopy(world.venues)
    for number, record in enumerate(
        (*portfolios, *(account for _, account in _accounts(portfolios)))
    ):
        record["name"] = HOSTILE_NAMES[number % len(HOSTILE_NAMES)]
    for number, venue in enumerate(venues):
        venue["displayName"] = HOSTILE_NAMES[number % len(HOSTILE_NAMES)]
    return replace(world, portfolios=portfolios, venues=venues)


def _hostile_ids(world: World, _fault: Fault) -> World:
    listed = world.instruments or {}
    sample = next((instruments[:1] for instruments in listed.values() if instruments), ())
    more = [{**world.venues[0], "id": venue_id} for venue_id in HOSTILE_IDS] if world.venues else []
    added = {venue["id"]: sample for venue in more}
    return replace(world, venues=(*world.venues, *more), instruments={**listed, **added})


_WORLDS: Mapping[str, tuple[str, Change]] = {
    "accounts-halved": ("every second account is missing", _halve_accounts),
    "bucket-gone": ("no balance has a `trading` bucket", _remove_bucket),
    "venues-empty": (
        "there are no venues at all",
        lambda world, _: replace(world, venues=(), instruments={}),
    ),
    "venues-dropped": ("three of five venues are missing", _drop_venues),
    "instruments-halved": ("every second instrument is missing", _halve_instruments),
    "portfolio-repeated": ("one portfolio appears twice, unchanged", _repeat("portfolios")),
    "portfolio-repeated-different": (
        "one portfolio ID appears twice, with different content",
        _repeat("portfolios", name="Another by the same id", positions=[]),
    ),
    "position-repeated": ("one asset appears twice in a portfolio", _repeat_position),
    "account-repeated": ("one account appears twice in a position, unchanged", _repeat_account()),
    "account-repeated-different": (
        "one account appears twice in a position, with different amounts",
        _repeat_account(balance={"custody": {"free": "0.5", "locked": "0"}}),
    ),
    "venue-repeated": (
        "one venue ID appears twice, with different content",
        _repeat("venues", displayName="Another by the same id"),
    ),
    "instrument-repeated": (
        "one instrument ID appears twice at a venue",
        _list_more(lambda instrument: {**instrument, "feedId": "another-feed"}),
    ),
    "instrument-type-unknown": (
        "venues list an `option`, which no type filter returns",
        _list_more(
            lambda instrument: {**instrument, "id": f"{instrument['id']}-C", "type": "option"}
        ),
    ),
    "orphan-venue": ("an account and an integration refer to an unknown venue", _orphan_venue),
    "hostile-names": ("names with formulas, SQL, NUL, markup or 4,000 characters", _hostile_names),
    "hostile-ids": ("venue IDs that must be escaped in a path", _hostile_ids),
}

WORLD_FAULTS: Mapping[str, FaultKind] = {
    name: FAULTS[name]
    for name in ("portfolios-empty", "portfolio-vanished", "venue-instruments-empty")
} | {name: FaultKind(description=words, world=change) for name, (words, change) in _WORLDS.items()}
