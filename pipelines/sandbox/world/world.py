"""The invented world that the sandbox serves: all of the API's records on one day.

A world depends only on a seed and a date, so any night can be served again. It follows the
specification exactly, including unusual cases that the specification allows. Invalid and
undocumented responses are faults, which are in the package `faults`.
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
    """All records of the invented world on one day. It also serves as a constant `Calendar`.

    Portfolios include their integrations. Venues do not include their instruments. `instruments`
    maps venue IDs to instruments, which are embedded if a caller requests them.
    """

    portfolios: tuple[Record, ...] = ()
    venues: tuple[Record, ...] = ()
    instruments: Mapping[str, tuple[Record, ...]] | None = None

    def at(self, _day: date) -> "World":
        """Return this world, regardless of the day."""
        return self


class Calendar(Protocol):
    """A source of worlds that returns one world for each day."""

    def at(self, day: date, /) -> World:
        """Return the world on a day."""
        ...


@dataclass(frozen=True, slots=True)
class LivingWorld:
    """A source of worlds that change every day and contain `scale` copies of all records."""

    seed: str = "nightbook"
    scale: int = 1

    def at(self, day: date, /) -> World:
        """Return the world on a day, which depends only on the seed, the scale and the day."""
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
