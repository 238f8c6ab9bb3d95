"""What reading a ledger depends on besides its own cells."""

from dataclasses import dataclass, field
from datetime import date

from warehouse.reconcile.ledger.header.known_names import KnownNames
from warehouse.reconcile.ledger.header.words import Words, words_of
from warehouse.reconcile.settings.config import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingContext:
    """The settings, what was settled by headers before, the day of the book, and its names.

    `remembered` has by the print of a header what a run found out; a reading adds to it. `sources`
    are the organisations of a firm.
    """

    config: Config
    day: date
    remembered: dict[str, dict[str, str]] = field(default_factory=dict)
    known: KnownNames = field(default_factory=KnownNames)
    sources: frozenset[str] = frozenset()

    @property
    def words(self) -> Words:
        """The words of titles and cells, with those that the person added."""
        return words_of(self.config.own_words)
