"""What is stored of closed months: each version of a pack, and each restatement of a closed day."""

from datetime import date

import msgspec


class Restatement(msgspec.Struct, frozen=True, kw_only=True):
    """A closed day that was run again: who did so and why, and the result that it had."""

    day: date
    who: str
    why: str
    at: str
    run_before: str
    digest_before: str
    no: int = 0


class ClosedDay(msgspec.Struct, frozen=True, kw_only=True):
    """A day of a closed month with the result that it was closed with."""

    day: date
    run_id: str
    digest: str
    settings: str


class Closing(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a month's pack: `through` is the last day that it closes.

    `basis` is the SHA-256 of what the pack is about, so that nothing is closed twice; `pack` has
    the name of the file, `sha256` and `size` are its own.
    """

    month: str
    version: int
    through: date
    days: tuple[ClosedDay, ...]
    who: str
    at: str
    why: str
    basis: str
    pack: str
    sha256: str
    size: int
    no: int = 0

    @property
    def words(self) -> str:
        """The closing in one line."""
        return (
            f"{self.month} was closed through {self.through} by {self.who} at {self.at}: "
            f"{self.pack}, SHA-256 {self.sha256}"
        )
