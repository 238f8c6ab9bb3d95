"""The resources of the API (2), field for field, and what a record has that they do not.

Required fields have no default. An optional field is `UNSET` where it was absent and None where it
was null: for integrations, absent and empty are different facts. Enum values stay text, because
a value that is not documented yet is kept as it came. The API's camelCase ends here.
"""

from typing import TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from pipelines.edge.errors import Misread

Text = str | UnsetType | None


class Integration(Struct, frozen=True, rename="camel"):
    """A portfolio's link to a venue (2.2)."""

    id: str
    venue_id: str
    integration_status: str


class Trading(Struct, frozen=True, rename="camel"):
    """Money on a trading account, as amount texts (2.5)."""

    free: str
    locked: str


class Margin(Struct, frozen=True, rename="camel"):
    """Money locked as margin, as an amount text (2.5)."""

    locked: str


class Staking(Struct, frozen=True, rename="camel"):
    """Money locked in staking, as an amount text (2.5)."""

    locked: str


class Custody(Struct, frozen=True, rename="camel"):
    """Money in custody, as amount texts (2.5)."""

    free: str
    locked: str


class Balance(Struct, frozen=True, rename="camel"):
    """What an account holds, by bucket; each bucket may be absent (2.5)."""

    trading: Trading | UnsetType | None = UNSET
    margin: Margin | UnsetType | None = UNSET
    staking: Staking | UnsetType | None = UNSET
    custody: Custody | UnsetType | None = UNSET


class Account(Struct, frozen=True, rename="camel"):
    """One account of a position at a venue (2.4)."""

    venue_id: str
    name: str
    balance: Balance


class Position(Struct, frozen=True, rename="camel"):
    """One asset of a portfolio, split over accounts (2.3)."""

    asset_id: str
    is_custom_asset: bool
    accounts: list[Account]


class Portfolio(Struct, frozen=True, rename="camel"):
    """A portfolio with its positions (2.1)."""

    id: str
    resource: str
    name: str
    positions: list[Position]
    created_at: str
    updated_at: str
    integrations: list[Integration] | UnsetType | None = UNSET


class VenueInstrument(Struct, frozen=True, rename="camel"):
    """An instrument as a venue embeds it (2.7)."""

    id: str
    type: str
    display_name: str


class Venue(Struct, frozen=True, rename="camel"):
    """A place to trade or to keep assets (2.6)."""

    id: str
    resource: str
    type: list[str]
    display_name: str
    trading_status: str
    created_at: str
    updated_at: str
    instruments: list[VenueInstrument] | UnsetType | None = UNSET


class TradingConstraints(Struct, frozen=True, rename="camel"):
    """Limits of an instrument, as amount texts; one that does not apply may be absent (2.8)."""

    min_base_qty: Text = UNSET
    max_base_qty: Text = UNSET
    min_base_increment: Text = UNSET
    min_term_qty: Text = UNSET
    min_price: Text = UNSET
    max_price: Text = UNSET
    min_tick: Text = UNSET


class Instrument(Struct, frozen=True, rename="camel"):
    """A tradable instrument of a venue (2.8)."""

    id: str
    resource: str
    type: str
    display_name: str
    feed_id: str
    venue_symbol: str
    base_asset: str
    term_asset: str
    created_at: str
    updated_at: str
    trading_constraints: TradingConstraints | UnsetType | None = UNSET
    expiration: Text = UNSET


# The documented values, by JSON path as `pattern` writes it (2, 3). Others are kept, and are news.
VALUES: dict[type[Struct], dict[str, frozenset[str]]] = {
    Portfolio: {
        "resource": frozenset({"portfolio"}),
        "integrations[].integrationStatus": frozenset({"requested", "verified"}),
    },
    Venue: {
        "resource": frozenset({"venue"}),
        "type[]": frozenset({"exchange", "otc", "custodian"}),
        "tradingStatus": frozenset({"trading", "suspended", "unsupported"}),
        "instruments[].type": frozenset({"spot", "future"}),
    },
    Instrument: {"resource": frozenset({"instrument"}), "type": frozenset({"spot", "future"})},
}

_Decoded = TypeVar("_Decoded")


def decode(raw: bytes | msgspec.Raw, model: type[_Decoded]) -> _Decoded:
    """Return a record or a list as models; raises `Misread` with the JSON path of what is wrong."""
    try:
        return msgspec.json.decode(raw, type=model)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = str(error) or type(error).__name__
    raise Misread(f"a record breaks the document: {reason}")
