"""A world that is small enough for an archive in the repository, the same for old and new code.

It imports only the sandbox's world, which has not changed since the first of these homes.
"""

from dataclasses import replace
from datetime import date

from pipelines.sandbox.world.world import LivingWorld, World

FEWEST, MOST, INSTRUMENTS = 2, 12, 2


class SmallWorld:
    """The portfolios with 2 to 12 positions, all venues, and two instruments of each venue."""

    def at(self, day: date, /) -> World:
        """Return the world of a day."""
        world = LivingWorld().at(day)
        listed = world.instruments or {}
        return replace(
            world,
            portfolios=tuple(
                portfolio
                for portfolio in world.portfolios
                if FEWEST <= len(portfolio["positions"]) <= MOST
            ),
            instruments={venue: some[:INSTRUMENTS] for venue, some in listed.items()},
        )
