"""The API's specification: resources, operations and error codes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

PREFIX = "/edge/v1beta"

_INTEGRATIONS = ("integrations",)
_INSTRUMENTS = ("instruments",)

DECLARED_CODES = (
    "ACCESS_DENIED",
    "AUTHENTICATION_FAILED",
    "INTERNAL_SERVER_ERROR",
    "METHOD_UNSUPPORTED",
    "PARAMETER_INVALID",
    "PARAMETER_UNSUPPORTED",
    "RESOURCE_NOT_FOUND",
    "TIMESTAMP_INVALID",
)
# The API document uses this code in error bodies, but does not declare it (§7, notes).
UNDECLARED_CODES = ("PARAMETER_VALUE_INVALID",)


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A field of an API resource. `kind` is a basic type or the name of another resource."""

    name: str
    kind: str = "text"  # text, uuid, date-time, amount, boolean or a key of RESOURCES
    required: bool = True
    many: bool = False
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An API operation (GET): its path after the prefix, its resource and its parameters.

    A parameter without listed values accepts any string. Unlisted parameters are unsupported (§7).
    """

    section: str
    path: tuple[str, ...]
    resource: Literal["Portfolio", "Venue", "Instrument"]
    many: bool
    parameters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SandboxResponse:
    """A sandbox response: status, body, and all headers except `Content-Type` and `Date`."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class RefusalError(Exception):
    """The sandbox refuses a request, with this status and these errors in the envelope."""

    def __init__(
        self, status: int, *errors: tuple[str, str], headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__("; ".join(f"{code}: {message}" for code, message in errors))
        self.status = status
        self.errors = errors
        self.headers = dict(headers or {})


_ID = FieldSpec("id")
_UUID = FieldSpec("id", "uuid")
_TIMES = (FieldSpec("createdAt", "date-time"), FieldSpec("updatedAt", "date-time"))
_INSTRUMENT_TYPE = FieldSpec("type", values=("spot", "future"))
_LOCKED = FieldSpec("locked", "amount")
_FREE_LOCKED = (FieldSpec("free", "amount"), _LOCKED)

RESOURCES: Mapping[str, tuple[FieldSpec, ...]] = {
    "Portfolio": (  # §2.1
        _UUID,
        FieldSpec("resource", values=("portfolio",)),
        FieldSpec("name"),
        FieldSpec("integrations", "Integration", required=False, many=True),
        FieldSpec("positions", "Position", many=True),
        *_TIMES,
    ),
    "Integration": (  # §2.2
        _UUID,
        FieldSpec("venueId"),
        FieldSpec("integrationStatus", values=("requested", "verified")),
    ),
    "Position": (  # §2.3
        FieldSpec("assetId"),
        FieldSpec("isCustomAsset", "boolean"),
        FieldSpec("accounts", "Account", many=True),
    ),
    "Account": (FieldSpec("venueId"), FieldSpec("name"), FieldSpec("balance", "Balance")),  # §2.4
    "Balance": (  # §2.5
        FieldSpec("trading", "TradingBalance", required=False),
        FieldSpec("margin", "MarginBalance", required=False),
        FieldSpec("staking", "StakingBalance", required=False),
        FieldSpec("custody", "CustodyBalance", required=False),
    ),
    "TradingBalance": _FREE_LOCKED,
    "MarginBalance": (_LOCKED,),
    "StakingBalance": (_LOCKED,),
    "CustodyBalance": _FREE_LOCKED,
    "Venue": (  # §2.6
        _ID,
        FieldSpec("resource", values=("venue",)),
        FieldSpec("type", many=True, values=("exchange", "otc", "custodian")),
        FieldSpec("displayName"),
        FieldSpec("tradingStatus", values=("trading", "suspended", "unsupported")),
        FieldSpec("instruments", "VenueInstrument", required=False, many=True),
        *_TIMES,
    ),
    "VenueInstrument": (_ID, _INSTRUMENT_TYPE, FieldSpec("displayName")),  # §2.7
    "Instrument": (  # §2.8
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

OPERATIONS = (
    Operation(
        section="4.1",
        path=("portfolios",),
        resource="Portfolio",
        many=True,
        parameters={"id": (), "include": _INTEGRATIONS},
    ),
    Operation(
        section="4.2",
        path=("portfolios", "{id}"),
        resource="Portfolio",
        many=False,
        parameters={"include": _INTEGRATIONS},
    ),
    Operation(
        section="4.3",
        path=("venues",),
        resource="Venue",
        many=True,
        parameters={"id": (), "include": _INSTRUMENTS},
    ),
    Operation(
        section="4.4",
        path=("venues", "{id}"),
        resource="Venue",
        many=False,
        parameters={"include": _INSTRUMENTS},
    ),
    Operation(
        section="4.5",
        path=("venues", "{id}", "instruments"),
        resource="Instrument",
        many=True,
        parameters={"type": ("spot", "future")},
    ),
)


def encode(document: object) -> bytes:
    """Encode a document as compact JSON in UTF-8."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def error_response(refusal: RefusalError, meta: Mapping[str, object]) -> SandboxResponse:
    """Return the error envelope for a refusal (§2.9)."""
    errors = [{"error": code, "message": message} for code, message in refusal.errors]
    body = encode({"errors": errors, "meta": dict(meta)})
    return SandboxResponse(refusal.status, body, refusal.headers)


def shorten(text: str, limit: int = 80) -> str:
    """Shorten and quote a string from a caller, so that error messages stay short."""
    return repr(text if len(text) <= limit else text[:limit] + "…")
