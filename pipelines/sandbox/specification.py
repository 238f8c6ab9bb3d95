"""The operations and the fields of the resources, declared once, as data (2, 4).

The router, the filters, the description of this server in OpenAPI and the tests of the world all
read it from here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

PREFIX = "/edge/v1beta"


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field of a resource; `kind` is a basic type or the name of another resource."""

    name: str
    kind: str = "text"  # text, uuid, date-time, amount, boolean, or a key of RESOURCES
    required: bool = True
    many: bool = False
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
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


_ID = FieldSpec("id")
_UUID = FieldSpec("id", "uuid")
_TIMES = (FieldSpec("createdAt", "date-time"), FieldSpec("updatedAt", "date-time"))
_INSTRUMENT_TYPE = FieldSpec("type", values=("spot", "future"))
_LOCKED = FieldSpec("locked", "amount")
_FREE_LOCKED = (FieldSpec("free", "amount"), _LOCKED)

RESOURCES: Mapping[str, tuple[FieldSpec, ...]] = {
    "Portfolio": (  # 2.1
        _UUID,
        FieldSpec("resource", values=("portfolio",)),
        FieldSpec("name"),
        FieldSpec("integrations", "Integration", required=False, many=True),
        FieldSpec("positions", "Position", many=True),
        *_TIMES,
    ),
    "Integration": (  # 2.2
        _UUID,
        FieldSpec("venueId"),
        FieldSpec("integrationStatus", values=("requested", "verified")),
    ),
    "Position": (  # 2.3
        FieldSpec("assetId"),
        FieldSpec("isCustomAsset", "boolean"),
        FieldSpec("accounts", "Account", many=True),
    ),
    "Account": (FieldSpec("venueId"), FieldSpec("name"), FieldSpec("balance", "Balance")),  # 2.4
    "Balance": (  # 2.5
        FieldSpec("trading", "TradingBalance", required=False),
        FieldSpec("margin", "MarginBalance", required=False),
        FieldSpec("staking", "StakingBalance", required=False),
        FieldSpec("custody", "CustodyBalance", required=False),
    ),
    "TradingBalance": _FREE_LOCKED,
    "MarginBalance": (_LOCKED,),
    "StakingBalance": (_LOCKED,),
    "CustodyBalance": _FREE_LOCKED,
    "Venue": (  # 2.6
        _ID,
        FieldSpec("resource", values=("venue",)),
        FieldSpec("type", many=True, values=("exchange", "otc", "custodian")),
        FieldSpec("displayName"),
        FieldSpec("tradingStatus", values=("trading", "suspended", "unsupported")),
        FieldSpec("instruments", "VenueInstrument", required=False, many=True),
        *_TIMES,
    ),
    "VenueInstrument": (_ID, _INSTRUMENT_TYPE, FieldSpec("displayName")),  # 2.7
    "Instrument": (  # 2.8
        _ID,
        FieldSpec("resource", values=("instrument",)),
        _INSTRUMENT_TYPE,
        FieldSpec("displayName"),
        FieldSpec("feedId"),
        FieldSpec("venueSymbol"),
        FieldSpec("baseAsset"),
        FieldSpec("termAsset"),
        FieldSpec("tradingConstraints", "TradingConstraints", required=False),
        FieldSpec("expiration", "date-time", required=False),
        *_TIMES,
    ),
    "TradingConstraints": tuple(
        FieldSpec(name, "amount", required=False)
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
