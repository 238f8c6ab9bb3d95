"""The operations and the fields of the resources, declared once, as data (2, 4).

The router, the filters, the description of this server in OpenAPI and the tests of the world all
read it from here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

PREFIX = "/edge/v1beta"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a resource; `kind` is a basic type or the name of another resource."""

    name: str
    kind: str = "text"  # text, uuid, date-time, amount, boolean, or a key of RESOURCES
    required: bool = True
    many: bool = False
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """One GET: its path below the prefix, what it returns, and the parameters it takes.

    A parameter with no values takes any text; a parameter that is not named is unsupported (7).
    """

    section: str
    path: tuple[str, ...]
    summary: str
    resource: Literal["Portfolio", "Venue", "Instrument"]
    many: bool
    parameters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


_ID = Field("id")
_UUID = Field("id", "uuid")
_TIMES = (Field("createdAt", "date-time"), Field("updatedAt", "date-time"))
_INSTRUMENT_TYPE = Field("type", values=("spot", "future"))
_LOCKED = Field("locked", "amount")
_FREE_LOCKED = (Field("free", "amount"), _LOCKED)

RESOURCES: Mapping[str, tuple[Field, ...]] = {
    "Portfolio": (  # 2.1
        _UUID,
        Field("resource", values=("portfolio",)),
        Field("name"),
        Field("integrations", "Integration", required=False, many=True),
        Field("positions", "Position", many=True),
        *_TIMES,
    ),
    "Integration": (  # 2.2
        _UUID,
        Field("venueId"),
        Field("integrationStatus", values=("requested", "verified")),
    ),
    "Position": (  # 2.3
        Field("assetId"),
        Field("isCustomAsset", "boolean"),
        Field("accounts", "Account", many=True),
    ),
    "Account": (Field("venueId"), Field("name"), Field("balance", "Balance")),  # 2.4
    "Balance": (  # 2.5
        Field("trading", "TradingBalance", required=False),
        Field("margin", "MarginBalance", required=False),
        Field("staking", "StakingBalance", required=False),
        Field("custody", "CustodyBalance", required=False),
    ),
    "TradingBalance": _FREE_LOCKED,
    "MarginBalance": (_LOCKED,),
    "StakingBalance": (_LOCKED,),
    "CustodyBalance": _FREE_LOCKED,
    "Venue": (  # 2.6
        _ID,
        Field("resource", values=("venue",)),
        Field("type", many=True, values=("exchange", "otc", "custodian")),
        Field("displayName"),
        Field("tradingStatus", values=("trading", "suspended", "unsupported")),
        Field("instruments", "VenueInstrument", required=False, many=True),
        *_TIMES,
    ),
    "VenueInstrument": (_ID, _INSTRUMENT_TYPE, Field("displayName")),  # 2.7
    "Instrument": (  # 2.8
        _ID,
        Field("resource", values=("instrument",)),
        _INSTRUMENT_TYPE,
        Field("displayName"),
        Field("feedId"),
        Field("venueSymbol"),
        Field("baseAsset"),
        Field("termAsset"),
        Field("tradingConstraints", "TradingConstraints", required=False),
        Field("expiration", "date-time", required=False),
        *_TIMES,
    ),
    "TradingConstraints": tuple(
        Field(name, "amount", required=False)
        for name in (
            "minBaseQty",
            "maxBaseQty",
            "minBaseIncrement",
            "minTermQty",
            "minPrice",
            "maxPrice",
            "minTick",
        )
    ),
}

_INTEGRATIONS = ("integrations",)
_INSTRUMENTS = ("instruments",)

OPERATIONS = (
    Operation(
        section="4.1",
        path=("portfolios",),
        summary="The portfolios the caller may access",
        resource="Portfolio",
        many=True,
        parameters={"id": (), "include": _INTEGRATIONS},
    ),
    Operation(
        section="4.2",
        path=("portfolios", "{id}"),
        summary="One portfolio",
        resource="Portfolio",
        many=False,
        parameters={"include": _INTEGRATIONS},
    ),
    Operation(
        section="4.3",
        path=("venues",),
        summary="The venues available for trading",
        resource="Venue",
        many=True,
        parameters={"id": (), "include": _INSTRUMENTS},
    ),
    Operation(
        section="4.4",
        path=("venues", "{id}"),
        summary="One venue",
        resource="Venue",
        many=False,
        parameters={"include": _INSTRUMENTS},
    ),
    Operation(
        section="4.5",
        path=("venues", "{id}", "instruments"),
        summary="The instruments available for trading on a venue",
        resource="Instrument",
        many=True,
        parameters={"type": ("spot", "future")},
    ),
)
