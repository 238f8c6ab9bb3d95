"""The world that the sandbox serves: everything the API could tell on one day.

A world is a function of a seed and a date, so that any night can be served again. It is legal to
the letter of the specification and awkward where that is legal; what is illegal or undocumented
is a fault, and lives elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any, Protocol

from pipelines.sandbox.world.portfolios import MANDATES, portfolio
from pipelines.sandbox.world.venues import HOUSES, instruments, venue

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class World:
    """One day, as the records that the API sends; a world by itself is the same on every day.

    Portfolios carry their integrations. Venues carry no instruments: those stand in
    `instruments`, by venue id, and are embedded when a caller asks for them.
    """

    portfolios: tuple[Record, ...] = ()
    venues: tuple[Record, ...] = ()
    instruments: Mapping[str, tuple[Record, ...]] | None = None

    def at(self, _day: date) -> "World":
        """Return this world: it stands still."""
        return self


class Calendar(Protocol):
    """Whatever knows the world of a day."""

    def at(self, day: date, /) -> World:
        """Return the world of a day."""
        ...


@dataclass(frozen=True, slots=True)
class LivingWorld:
    """A world that changes from day to day; `scale` is how many times its size it has."""

    seed: str = "nightbook"
    scale: int = 1

    def at(self, day: date, /) -> World:
        """Return the world of a day: the same records for the same seed, scale and day."""
        return _world(self.seed, self.scale, day)


@lru_cache(maxsize=4)
def _world(seed: str, scale: int, day: date) -> World:
    marks = [f" #{copy + 1}" if copy else "" for copy in range(scale)]
    portfolios = [portfolio(plan, (seed,), mark, day) for mark in marks for plan in MANDATES]
    return World(
        portfolios=tuple(record for record in portfolios if record is not None),
        venues=tuple(venue(house, mark, day) for mark in marks for house in HOUSES),
        instruments={
            house.id + mark: instruments(house, mark, day) for mark in marks for house in HOUSES
        },
    )
