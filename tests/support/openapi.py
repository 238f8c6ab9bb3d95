"""The OpenAPI document of the sandbox, made from its specification.

Tests compare the sandbox's responses with this document, and a fuzzer reads it.
"""

from typing import Any

from pipelines.sandbox.options import Choices
from pipelines.sandbox.specification import (
    DECLARED_CODES,
    OPERATIONS,
    PREFIX,
    RESOURCES,
    UNDECLARED_CODES,
    FieldSpec,
    Operation,
)

Schema = dict[str, Any]

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
        "summary": f"GET /{'/'.join(operation.path)} ({operation.section})",
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
