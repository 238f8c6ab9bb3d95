"""What a request asks for: its operation, its path id and its parameters, checked (4, 7).

Routing is over the raw path, because an id may hold an encoded slash.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote_to_bytes

from pipelines.sandbox.errors import RefusalError, shorten
from pipelines.sandbox.options import Choices
from pipelines.sandbox.specification import OPERATIONS, PREFIX, Operation

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class Query:
    """A request that is understood: which operation, which id, which parameters."""

    operation: Operation
    path_id: str | None
    parameters: Mapping[str, str]

    @property
    def has_include(self) -> bool:
        """Does the caller ask for the expansion of this operation."""
        return "include" in self.parameters

    @property
    def ids(self) -> list[str] | None:
        """The identifiers of the `id` list, or None where there is no such list (4.1, 4.3)."""
        text = self.parameters.get("id")
        return None if text is None else text.split(",")


def find(path: bytes, choices: Choices) -> tuple[Operation, bytes | None]:
    """Find the operation of a raw path, and its encoded id; raises RefusalError."""
    base = (choices.gateway + PREFIX).encode()
    if path.startswith(base + b"/"):
        segments = path[len(base) + 1 :].split(b"/")
        for operation in OPERATIONS:
            if _fits(operation, segments):
                return operation, segments[1] if len(segments) > 1 else None
    text = shorten(path.decode("latin-1"))
    message = f"Nothing is served at the path {text}."
    raise RefusalError(choices.unknown_path_status, ("RESOURCE_NOT_FOUND", message))


def _fits(operation: Operation, segments: list[bytes]) -> bool:
    return len(segments) == len(operation.path) and all(
        bool(segment) if name == "{id}" else segment == name.encode()
        for name, segment in zip(operation.path, segments, strict=True)
    )


def check_method(method: str, choices: Choices) -> None:
    """Only GET is defined (1, 4)."""
    if method != "GET":
        message = f"The method {shorten(method)} is not supported: every operation is a GET."
        error = ("METHOD_UNSUPPORTED", message)
        raise RefusalError(choices.method_status, error, headers={"Allow": "GET"})


def understand(operation: Operation, raw_id: bytes | None, query: bytes, choices: Choices) -> Query:
    """Return the request's parameters, each known and with a value it may have (7)."""
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


def _pairs(query: bytes, choices: Choices) -> list[tuple[str, str]]:
    try:
        if _BROKEN_ESCAPE.search(query):
            raise ValueError("an escape without its two digits")  # noqa: TRY301 - told as the others
        text = query.decode("ascii")
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError as error:
        message = "The query is not percent-encoded UTF-8 text of at most 100 parameters."
        raise RefusalError(400, (choices.invalid_value_code, message)) from error


def _unsupported_parameters(
    operation: Operation, pairs: list[tuple[str, str]]
) -> list[tuple[str, str]]:
    return [
        ("PARAMETER_UNSUPPORTED", f"The query parameter {shorten(name)} is unsupported here.")
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
    ids = parameters.get("id", "").split(",")
    if choices.max_ids is not None and len(ids) > choices.max_ids:
        errors.append((code, f"The list 'id' holds more than {choices.max_ids} identifiers."))
    return errors


def _decoded_id(operation: Operation, raw_id: bytes, choices: Choices) -> str:
    path_id = unquote_to_bytes(raw_id).decode(errors="replace")
    if _BROKEN_ESCAPE.search(raw_id) or unquote_to_bytes(raw_id) != path_id.encode():
        message = "The path parameter 'id' is not percent-encoded UTF-8 text."
        raise RefusalError(400, (choices.invalid_value_code, message))
    if operation.resource != "Portfolio":
        return path_id
    normal = path_id.lower() if choices.uuid_any_case else path_id
    if not _UUID.fullmatch(normal):
        message = f"The path parameter 'id' {shorten(path_id)} is not a uuid."
        raise RefusalError(400, (choices.invalid_value_code, message))
    return normal
