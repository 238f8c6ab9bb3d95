"""What the specification does not show: each point one field here, with its section beside it.

A field's default is what this server does; another value is another service that the same
document allows. Nothing that the document does show is a choice, but for the width of the
window, which tests shorten.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, get_args, get_origin

import msgspec

_KINDS = {
    "<class 'str'>": "text",
    "<class 'int'>": "number",
    "<class 'bool'>": "true | false",
    "int | None": "number | null",
    "str | None": "text | null",
    "typing.Tuple[int, str]": "[status, code]",
    "tuple[int, str]": "[status, code]",
}
Check = Literal["timestamp", "authentication"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """One answer to every question that the document leaves open."""

    # Authentication, section 5.3:
    window_ms: int = 30_000  # shown: older than 30 seconds is rejected; tests shorten it
    window_inclusive: bool = True  # is exactly 30 s still inside the window
    future_window_ms: int | None = 30_000  # how far ahead a caller's clock may be; None: any
    checks: tuple[Check, ...] = ("timestamp", "authentication")  # which is told when both fail
    missing_key: tuple[int, str] = (401, "AUTHENTICATION_FAILED")  # no key, or no signature
    missing_timestamp: tuple[int, str] = (400, "TIMESTAMP_INVALID")
    hex_case: Literal["either", "lower", "upper"] = "either"  # case of the signature's digits
    signed_path: Literal["as-sent", "decoded", "either"] = "as-sent"  # of an encoded path (5.2)
    gateway: str = ""  # a prefix before /edge/v1beta, like `/gateway` (1)
    gateway_is_signed: bool = False  # is that prefix part of the signed path (5.2)
    denied_status: int = 400  # ACCESS_DENIED is shown with 400 and with 401 (7)

    # Envelopes and encodings, section 2, 2.9, 2.10:
    meta: Mapping[str, object] = field(default_factory=dict)
    content_type: str = "application/json"
    integrations_without_include: bool = True  # shown responses contain them (2.10)
    instruments_without_include: bool = False  # the same question for venues (2.6)
    optional_as_null: bool = False  # an absent optional field is sent as null
    amounts: Literal["as-made", "padded", "exponent"] = "as-made"  # numeric format (2.10)
    datetimes: Literal["as-made", "offset", "nanoseconds"] = "as-made"  # form of ISO 8601 (2)

    # Lists, section 4.1, 4.6, 8:
    order: Literal["shuffled", "sorted", "reversed"] = "shuffled"
    page_size: int | None = None  # longer lists end here, and `meta` holds a cursor
    max_ids: int | None = None  # identifiers in one `id` list; more are an invalid value
    unknown_ids: Literal["drop", "empty", "refuse"] = "drop"  # beside known ones in one list
    empty_id: Literal["none", "all", "refuse"] = "none"  # what `id=` asks for
    repeated_parameter: Literal["refuse", "first", "last"] = "refuse"
    uuid_any_case: bool = True  # is an upper-case uuid the same identifier, in a path or a list

    # Errors, section 4.6, 7:
    missing_status: int = 400  # a path id names nothing; every endpoint answers 200, 400 or 401
    missing_code: str = "RESOURCE_NOT_FOUND"
    inaccessible_is_missing: bool = False  # is somebody else's portfolio told as not found
    unknown_path_status: int = 404
    method_status: int = 405
    server_error_status: int = 500
    invalid_value_code: Literal["PARAMETER_VALUE_INVALID", "PARAMETER_INVALID"] = (
        "PARAMETER_VALUE_INVALID"
    )
    all_errors: bool = False  # one error for each wrong parameter, instead of the first

    # Limits and versions, section 8, 9:
    requests_per_second: int | None = None  # more are answered with 429 and Retry-After
    rate_limit_code: str = "INTERNAL_SERVER_ERROR"  # no declared code fits a rate limit
    deprecated_since: str | None = None  # an HTTP date: sent as Deprecation and Sunset headers


def describe_choices() -> Iterator[tuple[str, str, str]]:
    """Yield every choice by its name, with what it may be and what this server does, as JSON."""
    default = Choices()
    for choice in fields(Choices):
        options = get_args(choice.type) if get_origin(choice.type) is Literal else ()
        kind = _KINDS.get(str(choice.type), "JSON")
        value = json.dumps(getattr(default, choice.name), default=dict)
        yield choice.name, " | ".join(options) or kind, value


def parse_choices(texts: Iterable[str]) -> Choices:
    """Return the choices that texts like `missing_status=404` make, the others as they are.

    A value is JSON or bare text. Raises ValueError with the names, or with what a value may be.
    """
    values = {}
    names = [choice.name for choice in fields(Choices)]
    for text in texts:
        name, _, value = text.partition("=")
        if name not in names:
            raise ValueError(f"There is no choice called {name!r}. There are: {', '.join(names)}.")
        try:
            values[name] = json.loads(value)
        except ValueError:
            values[name] = value
    try:
        return msgspec.convert(values, Choices)
    except msgspec.ValidationError as error:
        raise ValueError(f"A choice cannot have the value it was given: {error}.") from error
