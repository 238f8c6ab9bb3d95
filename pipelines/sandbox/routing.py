"""Request routing, parameter validation and record selection."""

import random
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

from pipelines.sandbox.authentication import Caller
from pipelines.sandbox.options import Choices
from pipelines.sandbox.specification import (
    OPERATIONS,
    PREFIX,
    RESOURCES,
    Operation,
    RefusalError,
    shorten,
)
from pipelines.sandbox.world.world import Record, World

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")

_FRACTION_AND_ZONE = re.compile(r"(?:\.(\d+))?(Z|[+-]\d\d:\d\d)$")


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed request: its operation, the ID in its path, and its valid parameters."""

    operation: Operation
    path_id: str | None
    parameters: Mapping[str, str]

    @property
    def has_include(self) -> bool:
        """True if the request has the parameter `include`."""
        return "include" in self.parameters


def find(path: bytes, choices: Choices) -> tuple[Operation, bytes | None]:
    """Return a path's operation and encoded ID. Raises RefusalError if the path is unknown."""
    base = (choices.gateway + PREFIX).encode()
    if path.startswith(base + b"/"):
        segments = path[len(base) + 1 :].split(b"/")
        for operation in OPERATIONS:
            if _fits(operation, segments):
                return operation, segments[1] if len(segments) > 1 else None
    text = shorten(path.decode("latin-1"))
    message = f"Nothing is served at the path {text}."
    raise RefusalError(choices.unknown_path_status, ("RESOURCE_NOT_FOUND", message))


def check_method(method: str, choices: Choices) -> None:
    """Raise RefusalError unless the method is GET (§1, §4)."""
    if method != "GET":
        message = f"The method {shorten(method)} is not supported: every operation is a GET."
        error = ("METHOD_UNSUPPORTED", message)
        raise RefusalError(choices.method_status, error, headers={"Allow": "GET"})


def understand(operation: Operation, raw_id: bytes | None, query: bytes, choices: Choices) -> Query:
    """Parse a request's parameters. Raises RefusalError if a parameter is invalid (§7)."""
    pairs = _pairs(query, choices)
    errors = [*_unsupported_parameters(operation, pairs), *_repeated_parameters(pairs, choices)]
    if choices.repeated_parameter == "first":
        pairs.reverse()
    parameters = dict(pairs)
    errors += _invalid(operation, parameters, choices)
    path_id = None if raw_id is None else _decoded_id(operation, raw_id, choices)
    if errors:
        raise RefusalError(400, *(errors if choices.all_errors else errors[:1]))
    return Query(operation, path_id, parameters)


def read(query: Query, world: World, caller: Caller, choices: Choices) -> list[Record]:
    """Return the requested records, as a list even if a single portfolio or venue is requested.

    Raises RefusalError if access is denied or the ID in the path is unknown.
    """
    _check_scope(query, caller, choices)
    if query.operation.resource == "Portfolio":
        return _portfolios(query, world, caller, choices)
    if query.operation.resource == "Venue":
        return _venues(query, world, choices)
    _one(query, list(world.venues), "venue", choices)
    listed = (world.instruments or {}).get(query.path_id or "", ())
    wanted = query.parameters.get("type")
    return [record for record in listed if wanted in {None, record["type"]}]


def shuffle_lists(value: Any, choices: Choices, rng: random.Random) -> Any:
    """Reorder all lists in a JSON value, because clients must not rely on their order (§4.6)."""
    if isinstance(value, dict):
        return {name: shuffle_lists(item, choices, rng) for name, item in value.items()}
    if not isinstance(value, list):
        return value
    items = [shuffle_lists(item, choices, rng) for item in value]
    if choices.order == "shuffled":
        rng.shuffle(items)
    else:
        items.sort(key=repr, reverse=choices.order == "reversed")
    return items


def apply_forms(records: Iterable[Record], resource: str, choices: Choices) -> list[Record]:
    """Format missing fields, amounts and timestamps according to the choices (§2)."""
    if not choices.optional_as_null and choices.amounts == choices.datetimes == "as-made":
        return list(records)
    return [_apply_form(record, resource, choices) for record in records]


def _fits(operation: Operation, segments: list[bytes]) -> bool:
    return len(segments) == len(operation.path) and all(
        bool(segment) if name == "{id}" else segment == name.encode()
        for name, segment in zip(operation.path, segments, strict=True)
    )


def _pairs(query: bytes, choices: Choices) -> list[tuple[str, str]]:
    try:
        if _BROKEN_ESCAPE.search(query):
            raise ValueError("an incomplete escape")  # noqa: TRY301 - same message as below
        text = query.decode("ascii")
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError as error:
        message = "The query is not percent-encoded UTF-8 with at most 100 parameters."
        raise RefusalError(400, (choices.invalid_value_code, message)) from error


def _unsupported_parameters(
    operation: Operation, pairs: list[tuple[str, str]]
) -> list[tuple[str, str]]:
    return [
        (
            "PARAMETER_UNSUPPORTED",
            f"The query parameter {shorten(name)} is not supported by this operation.",
        )
        for name in dict(pairs)
        if name not in operation.parameters
    ]


def _repeated_parameters(pairs: list[tuple[str, str]], choices: Choices) -> list[tuple[str, str]]:
    if choices.repeated_parameter != "refuse" or len(dict(pairs)) == len(pairs):
        return []
    return [(choices.invalid_value_code, "A query parameter was given more than once.")]


def _invalid(
    operation: Operation, parameters: Mapping[str, str], choices: Choices
) -> list[tuple[str, str]]:
    code = choices.invalid_value_code
    errors: list[tuple[str, str]] = [
        (code, f"The value {shorten(parameters[name])} of {name!r} is invalid: use {allowed}.")
        for name, values in operation.parameters.items()
        if name in parameters and values and parameters[name] not in values
        for allowed in [" or ".join(values)]
    ]
    if choices.max_ids is not None and len(parameters.get("id", "").split(",")) > choices.max_ids:
        errors.append((code, f"The list 'id' has more than {choices.max_ids} identifiers."))
    return errors


def _decoded_id(operation: Operation, raw_id: bytes, choices: Choices) -> str:
    path_id = unquote_to_bytes(raw_id).decode(errors="replace")
    if _BROKEN_ESCAPE.search(raw_id) or unquote_to_bytes(raw_id) != path_id.encode():
        message = "The path parameter 'id' is not percent-encoded UTF-8."
        raise RefusalError(400, (choices.invalid_value_code, message))
    if operation.resource != "Portfolio":
        return path_id
    normal = path_id.lower() if choices.uuid_any_case else path_id
    if not _UUID.fullmatch(normal):
        message = f"The path parameter 'id' {shorten(path_id)} is not a uuid."
        raise RefusalError(400, (choices.invalid_value_code, message))
    return normal


def _check_scope(query: Query, caller: Caller, choices: Choices) -> None:
    if caller.resources is not None and query.operation.path[0] not in caller.resources:
        message = f"The API key has no access to {query.operation.path[0]}."
        raise RefusalError(choices.denied_status, ("ACCESS_DENIED", message))


def _portfolios(query: Query, world: World, caller: Caller, choices: Choices) -> list[Record]:
    own = [
        record
        for record in world.portfolios
        if caller.portfolios is None or record["id"] in caller.portfolios
    ]
    if query.path_id is not None:
        exists = any(record["id"] == query.path_id for record in world.portfolios)
        accessible = any(record["id"] == query.path_id for record in own)
        if exists and not accessible and not choices.inaccessible_is_missing:
            message = "Access to the portfolio is refused."
            raise RefusalError(choices.denied_status, ("ACCESS_DENIED", message))
        portfolios = _one(query, own, "portfolio", choices)
    else:
        portfolios = _filter_by_id(query, own, choices)
    if query.has_include or choices.integrations_without_include:
        return portfolios
    return [{k: v for k, v in record.items() if k != "integrations"} for record in portfolios]


def _venues(query: Query, world: World, choices: Choices) -> list[Record]:
    venues = list(world.venues)
    if query.path_id is not None:
        chosen = _one(query, venues, "venue", choices)
    else:
        chosen = _filter_by_id(query, venues, choices)
    if not (query.has_include or choices.instruments_without_include):
        return chosen
    short = [field.name for field in RESOURCES["VenueInstrument"]]
    return [
        {
            **record,
            "instruments": [
                {name: instrument[name] for name in short}
                for instrument in (world.instruments or {}).get(record["id"], ())
            ],
        }
        for record in chosen
    ]


def _one(query: Query, records: list[Record], kind: str, choices: Choices) -> list[Record]:
    matches = [record for record in records if record["id"] == query.path_id]
    if not matches:
        message = f"No {kind} has the id {shorten(query.path_id or '')}."
        raise RefusalError(choices.missing_status, (choices.missing_code, message))
    return matches[:1]


def _filter_by_id(query: Query, records: list[Record], choices: Choices) -> list[Record]:
    """Return the records whose IDs are requested, or all records (§4.1, rules 1 and 2)."""
    text = query.parameters.get("id")
    if text is None or (not text and choices.empty_id == "all"):
        return records
    ids = text.split(",")
    if not text and choices.empty_id == "refuse":
        raise RefusalError(400, (choices.invalid_value_code, "The list 'id' is empty."))
    is_portfolio = query.operation.resource == "Portfolio"
    if is_portfolio and choices.uuid_any_case:
        ids = [wanted.lower() for wanted in ids]
    accessible = {record["id"] for record in records}
    unknown = [wanted for wanted in ids if wanted not in accessible]
    if unknown and is_portfolio and len(ids) == 1:
        return []  # a single unknown ID selects no records (section 4.1, rule 2)
    if unknown and choices.unknown_ids == "refuse":
        message = f"The list 'id' contains {shorten(unknown[0])}, which is not accessible."
        raise RefusalError(400, (choices.invalid_value_code, message))
    if unknown and choices.unknown_ids == "empty":
        return []
    return [record for record in records if record["id"] in set(ids)]


def _apply_form(record: Mapping[str, Any], resource: str, choices: Choices) -> Record:
    formed: Record = dict(record)
    for field in RESOURCES[resource]:
        if field.name not in formed:
            if choices.optional_as_null and not field.required:
                formed[field.name] = None
        elif field.kind in RESOURCES and field.many:
            formed[field.name] = [
                _apply_form(item, field.kind, choices) for item in formed[field.name]
            ]
        elif field.kind in RESOURCES:
            formed[field.name] = _apply_form(formed[field.name], field.kind, choices)
        elif field.kind == "amount":
            formed[field.name] = _formed_amount(formed[field.name], choices)
        elif field.kind == "date-time":
            formed[field.name] = _formed_instant(formed[field.name], choices)
    return formed


def _formed_amount(text: str, choices: Choices) -> str:
    whole, _, fraction = text.partition(".")
    if choices.amounts == "padded":
        return f"{whole}.{fraction.ljust(18, '0')}"
    if choices.amounts == "exponent":
        return f"{whole}{fraction}e-{len(fraction)}"
    return text


def _formed_instant(text: str, choices: Choices) -> str:
    match = _FRACTION_AND_ZONE.search(text)
    if match is None or choices.datetimes == "as-made":
        return text
    fraction, zone = match.group(1) or "", match.group(2)
    if choices.datetimes == "offset":
        zone = zone.replace("Z", "+00:00")
    else:
        fraction = fraction.ljust(9, "0")
    return text[: match.start()] + (f".{fraction}" if fraction else "") + zone
