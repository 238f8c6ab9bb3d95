"""The API's specification: resources, operations, error codes and the OpenAPI document."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pipelines.sandbox.options import Choices

PREFIX = "/edge/v1beta"


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

_INTEGRATIONS = ("integrations",)
_INSTRUMENTS = ("instruments",)

OPERATIONS = (
    Operation(
        section="4.1",
        path=("portfolios",),
        summary="The portfolios that the caller may access",
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


Schema = dict[str, Any]

PATH = "/openapi.json"

_KINDS: dict[str, Schema] = {
    "text": {"type": "string"},
    "uuid": {"type": "string", "format": "uuid"},
    "date-time": {"type": "string", "format": "date-time"},
    "amount": {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?(e-?[0-9]+)?$"},
    "boolean": {"type": "boolean"},
}
_META = {"type": "object"}
_ERROR = {
    "type": "object",
    "required": ["error", "message"],
    "properties": {
        "error": {"type": "string", "enum": [*DECLARED_CODES, *UNDECLARED_CODES]},
        "message": {"type": "string"},
    },
}
_ABOUT = (
    "A sandbox version of the service that serves made-up data. Every request is signed: "
    "SVC-API-SIGNATURE is the hex HMAC-SHA-384 of method, path as sent (without query), body and "
    "SVC-API-TIMESTAMP, joined without separators. The HMAC key is the API secret."
)


def description(choices: Choices) -> Schema:
    """Return the OpenAPI document for a server with these choices."""
    schemas = {name: _record(fields, choices) for name, fields in RESOURCES.items()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Portfolio and Venue Read API, sandbox",
            "version": "v1beta",
            "description": _ABOUT,
        },
        "security": [{"key": []}],
        "paths": {
            f"{choices.gateway}{PREFIX}/" + "/".join(operation.path): {
                "get": _operation(operation, choices)
            }
            for operation in OPERATIONS
        },
        "components": {
            "schemas": {**schemas, "Error": _ERROR},
            "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "SVC-API-KEY"}},
        },
    }


def _record(fields: tuple[FieldSpec, ...], choices: Choices) -> Schema:
    return {
        "type": "object",
        "required": [field.name for field in fields if field.required],
        "properties": {field.name: _field(field, choices) for field in fields},
        "additionalProperties": False,
    }


def _field(field: FieldSpec, choices: Choices) -> Schema:
    schema = _KINDS.get(field.kind, {"$ref": f"#/components/schemas/{field.kind}"})
    if field.values:
        schema = {**schema, "enum": list(field.values)}
    if field.many:
        schema = {"type": "array", "items": schema}
    if choices.optional_as_null and not field.required:
        schema = {"anyOf": [schema, {"type": "null"}]}
    return schema


def _operation(operation: Operation, choices: Choices) -> Schema:
    data: Schema = {"$ref": f"#/components/schemas/{operation.resource}"}
    if operation.many:
        data = {"type": "array", "items": data}
    refused = {400, 401, choices.denied_status, choices.missing_status}
    if choices.requests_per_second is not None:
        refused.add(429)
    errors = {"type": "array", "items": {"$ref": "#/components/schemas/Error"}}
    return {
        "operationId": "_".join(part.strip("{}") for part in operation.path),
        "summary": f"{operation.summary} ({operation.section})",
        "parameters": [*_headers(), *_path_parameters(operation), *_query_parameters(operation)],
        "responses": {
            "200": _response("The requested data.", {"data": data}, choices),
            **{
                str(status): _response("The errors.", {"errors": errors}, choices)
                for status in sorted(refused)
            },
        },
    }


def _headers() -> list[Schema]:
    timestamp = {"type": "integer", "format": "int64", "description": "Unix time in milliseconds"}
    signature = {"type": "string", "pattern": "^[0-9a-fA-F]{96}$"}
    return [
        _parameter("SVC-API-TIMESTAMP", "header", timestamp, required=True),
        _parameter("SVC-API-SIGNATURE", "header", signature, required=True),
    ]


def _path_parameters(operation: Operation) -> list[Schema]:
    if "{id}" not in operation.path:
        return []
    kind = _KINDS["uuid"] if operation.resource == "Portfolio" else {"type": "string"}
    return [_parameter("id", "path", {**kind, "minLength": 1}, required=True)]


def _query_parameters(operation: Operation) -> list[Schema]:
    return [
        _parameter(name, "query", {"type": "string", **({"enum": list(values)} if values else {})})
        for name, values in operation.parameters.items()
    ]


def _parameter(name: str, location: str, schema: Schema, *, required: bool = False) -> Schema:
    return {"name": name, "in": location, "required": required, "schema": schema}


def _response(description: str, content: Schema, choices: Choices) -> Schema:
    schema = {
        "type": "object",
        "required": [*content, "meta"],
        "properties": {**content, "meta": _META},
        "additionalProperties": False,
    }
    media = choices.content_type.partition(";")[0]
    return {"description": description, "content": {media: {"schema": schema}}}
