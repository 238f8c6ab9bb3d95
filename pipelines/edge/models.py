"""Models of the API's resources (§2), with all their fields and the documented enum values.

Required fields have no default. An optional field is `UNSET` if it is absent and None if it is
null, because for integrations, absent and empty mean different things. Enum values are strings, so
that undocumented values are kept unchanged. Field names are camelCase only in JSON.
"""

from typing import TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from pipelines.edge.errors import MalformedResponseError

OptionalText = str | UnsetType | None

_Decoded = TypeVar("_Decoded")


class Integration(Struct, frozen=True, rename="camel"):
    """A portfolio's link to a venue (§2.2)."""

    id: str
    venue_id: str
    integration_status: str


class Trading(Struct, frozen=True, rename="camel"):
    """Money in a trading account, as decimal strings (§2.5)."""

    free: str
    locked: str


class Margin(Struct, frozen=True, rename="camel"):
    """Money locked as margin, as a decimal string (§2.5)."""

    locked: str


class Staking(Struct, frozen=True, rename="camel"):
    """Money locked in staking, as a decimal string (§2.5)."""

    locked: str


class Custody(Struct, frozen=True, rename="camel"):
    """Money in custody, as decimal strings (§2.5)."""

    free: str
    locked: str


class Balance(Struct, frozen=True, rename="camel"):
    """An account's money in up to four buckets: trading, margin, staking, custody (§2.5)."""

    trading: Trading | UnsetType | None = UNSET
    margin: Margin | UnsetType | None = UNSET
    staking: Staking | UnsetType | None = UNSET
    custody: Custody | UnsetType | None = UNSET


class Account(Struct, frozen=True, rename="camel"):
    """An account at a venue, with the part of a position that it holds (§2.4)."""

    venue_id: str
    name: str
    balance: Balance


class Position(Struct, frozen=True, rename="camel"):
    """A portfolio's holding of one asset, divided among its accounts (§2.3)."""

    asset_id: str
    is_custom_asset: bool
    accounts: list[Account]


class Portfolio(Struct, frozen=True, rename="camel"):
    """A portfolio with its positions (§2.1)."""

    id: str
    resource: str
    name: str
    positions: list[Position]
    created_at: str
    updated_at: str
    integrations: list[Integration] | UnsetType | None = UNSET


class VenueInstrument(Struct, frozen=True, rename="camel"):
    """An instrument embedded in a venue (§2.7)."""

    id: str
    type: str
    display_name: str


class Venue(Struct, frozen=True, rename="camel"):
    """An exchange, OTC desk or custodian that trades or holds assets (§2.6)."""

    id: str
    resource: str
    type: list[str]
    display_name: str
    trading_status: str
    created_at: str
    updated_at: str
    instruments: list[VenueInstrument] | UnsetType | None = UNSET


class TradingConstraints(Struct, frozen=True, rename="camel"):
    """An instrument's limits, as decimal strings (§2.8). Limits that do not apply may be absent."""

    min_base_qty: OptionalText = UNSET
    max_base_qty: OptionalText = UNSET
    min_base_increment: OptionalText = UNSET
    min_term_qty: OptionalText = UNSET
    min_price: OptionalText = UNSET
    max_price: OptionalText = UNSET
    min_tick: OptionalText = UNSET


class Instrument(Struct, frozen=True, rename="camel"):
    """An instrument that can be traded at a venue (§2.8)."""

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
    expiration: OptionalText = UNSET


# The documented values of each enum field, by JSON path (§2, §3). An undocumented value is kept and
# reported as drift.
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


def decode(raw: bytes | msgspec.Raw, model: type[_Decoded]) -> _Decoded:
    """Decode a record or a list of records into a model type.

    Raises `MalformedResponseError` with the JSON path of the invalid value.
    """
    try:
        return msgspec.json.decode(raw, type=model)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = str(error) or type(error).__name__
    raise MalformedResponseError(f"a record does not match the API document: {reason}")
