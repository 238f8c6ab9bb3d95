"""The inputs of a comparison, which its steps share."""

from dataclasses import dataclass

from duckdb import DuckDBPyConnection

from warehouse.query.book import OpenBook
from warehouse.reconcile.book import Names, Reference
from warehouse.reconcile.model import Key, Ledger
from warehouse.reconcile.settings.config import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchInputs:
    """A book and the ledgers to compare with it, the settings, and the names that are known."""

    source: OpenBook
    ledger: Ledger
    config: Config
    reference: Reference

    @property
    def connection(self) -> DuckDBPyConnection:
        """The connection to the book, which also has the tables of the comparison."""
        return self.source.connection

    @property
    def fields(self) -> Key:
        """The fields of a key."""
        return self.ledger.fields

    def names(self, field: str) -> Names:
        """Return the names in a field, including the aliases from recon.toml."""
        known, aliases = self.reference.names.get(field, {}), self.config.aliases.get(field, {})
        return Names(field, known, aliases)
