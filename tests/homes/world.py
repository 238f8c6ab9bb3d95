"""A world small enough for a home to be kept in the repository, the same for old code and new.

It imports nothing but the sandbox's world, which has not changed since the first of the homes.
"""

from dataclasses import replace
from datetime import date

from pipelines.sandbox.world.world import LivingWorld, World

FEWEST, MOST, INSTRUMENTS = 2, 12, 2


class SmallWorld:
    """The portfolios with a few positions, all venues, and two instruments of each."""

    def at(self, day: date, /) -> World:
        """The world of a day."""
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
