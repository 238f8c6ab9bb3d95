"""The value of breaks: its currency, and the limits that depend on it."""

from decimal import Decimal

import msgspec

from warehouse.exact import exact, plain
from warehouse.reconcile.settings.toml import TomlTable


class Materiality(msgspec.Struct, frozen=True, kw_only=True):
    """The table `[materiality]` in recon.toml: the currency of the values, and their limits."""

    currency: str
    accept_below: Decimal | None = None
    second_person_above: Decimal | None = None

    def is_small(self, value: str | None) -> bool:
        """Return whether breaks of this value are accepted by rule. An unknown value is not."""
        limit = self.accept_below
        return limit is not None and value is not None and exact(value) < limit

    def is_large(self, value: str | None) -> bool:
        """Return whether two people must accept breaks of this value, which may be unknown."""
        limit = self.second_person_above
        return limit is not None and (value is None or exact(value) > limit)

    @property
    def description(self) -> str:
        """The limits on one line."""
        below, above = self.accept_below, self.second_person_above
        limits = (
            "" if below is None else f"accepted by rule below {plain(below)} {self.currency}",
            "" if above is None else f"second person above {plain(above)} {self.currency}",
        )
        return ", ".join(filter(None, limits)) or f"values in {self.currency}"


def materiality_of(file: TomlTable) -> Materiality | None:
    """Parse the table `[materiality]`. Without it, breaks have no values."""
    table = file.table("materiality")
    if not table.values:
        return None
    table.refuse_unknown("currency accept_below second_person_above")
    names = ("accept_below", "second_person_above")
    below, above = (table.amount(name) if name in table.values else None for name in names)
    currency = table.choice("currency")
    if not currency.strip():
        table.complaints.append('materiality needs a currency, like currency = "USD"')
    if below is not None and above is not None and below > above:
        table.complaints.append("materiality accept_below is larger than second_person_above")
    return Materiality(currency=currency, accept_below=below, second_person_above=above)
