"""Choices where the API specification is ambiguous or silent, grouped by section.

Each field's default is this server's normal behaviour. Other values simulate other services that
the document also allows. Rules that the document defines are not choices, except for the length
of the time window, because tests shorten it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, get_args, get_origin

import msgspec

_KINDS = {
    "<class 'str'>": "string",
    "<class 'int'>": "number",
    "<class 'bool'>": "true | false",
    "int | None": "number | null",
    "str | None": "string | null",
    "typing.Tuple[int, str]": "[status, code]",
    "tuple[int, str]": "[status, code]",
}
Check = Literal["timestamp", "authentication"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """A decision for each point that the API document leaves open."""

    # Authentication, section 5.3:
    window_ms: int = 30_000  # maximum age of a timestamp (§5.3: 30 s, but tests shorten it)
    window_inclusive: bool = True  # whether a timestamp that is exactly 30 s old is valid
    future_window_ms: int | None = 30_000  # maximum lead of a caller's clock in ms (None: no limit)
    # The order of the checks matters, because only the first failed check is reported.
    checks: tuple[Check, ...] = ("timestamp", "authentication")
    # The status and error code if the key or the signature is missing.
    missing_key: tuple[int, str] = (401, "AUTHENTICATION_FAILED")
    missing_timestamp: tuple[int, str] = (400, "TIMESTAMP_INVALID")
    hex_case: Literal["either", "lower", "upper"] = "either"  # required letter case of signatures
    # Whether callers sign a percent-encoded path as sent or after decoding it (§5.2).
    signed_path: Literal["as-sent", "decoded", "either"] = "as-sent"
    gateway: str = ""  # a prefix before /edge/v1beta, like `/gateway` (§1)
    gateway_is_signed: bool = False  # whether the gateway prefix is part of the signed path (§5.2)
    denied_status: int = 400  # for ACCESS_DENIED, the document shows both 400 and 401 (§7)

    # Envelopes and encodings, sections 2, 2.9 and 2.10:
    meta: Mapping[str, object] = field(default_factory=dict)
    content_type: str = "application/json"
    integrations_without_include: bool = True  # whether integrations are sent by default (§2.10)
    # Whether venues embed their instruments by default (§2.6).
    instruments_without_include: bool = False
    optional_as_null: bool = False  # whether missing optional fields are sent as null
    amounts: Literal["as-made", "padded", "exponent"] = "as-made"  # format of amounts (§2.10)
    datetimes: Literal["as-made", "offset", "nanoseconds"] = "as-made"  # format of timestamps (§2)

    # Lists, sections 4.1, 4.6 and 8:
    order: Literal["shuffled", "sorted", "reversed"] = "shuffled"
    page_size: int | None = None  # truncate longer lists to this size, with a cursor in `meta`
    max_ids: int | None = None  # `id` lists with more IDs than this are rejected
    unknown_ids: Literal["drop", "empty", "refuse"] = "drop"  # treatment of unknown IDs in a list
    empty_id: Literal["none", "all", "refuse"] = "none"  # treatment of an empty `id=`
    repeated_parameter: Literal["refuse", "first", "last"] = "refuse"
    uuid_any_case: bool = True  # whether UUIDs in paths and lists may be upper case

    # Errors, sections 4.6 and 7:
    # Status for an unknown ID in a path. The document only mentions 200, 400 and 401.
    missing_status: int = 400
    missing_code: str = "RESOURCE_NOT_FOUND"
    # Whether other callers' portfolios are reported as not found.
    inaccessible_is_missing: bool = False
    unknown_path_status: int = 404
    method_status: int = 405
    server_error_status: int = 500
    invalid_value_code: Literal["PARAMETER_VALUE_INVALID", "PARAMETER_INVALID"] = (
        "PARAMETER_VALUE_INVALID"
    )
    all_errors: bool = False  # whether all invalid parameters are reported, not only the first

    # Limits and versions, sections 8 and 9:
    # The limit for requests per second. Above the limit, the response is 429 with Retry-After.
    requests_per_second: int | None = None
    rate_limit_code: str = "INTERNAL_SERVER_ERROR"  # the specification has no code for rate limits
    deprecated_since: str | None = None  # an HTTP date, sent in Deprecation and Sunset headers


def describe_choices() -> Iterator[tuple[str, str, str]]:
    """Yield the name, the allowed values and the default (as JSON) of each choice."""
    default = Choices()
    for choice in fields(Choices):
        options = get_args(choice.type) if get_origin(choice.type) is Literal else ()
        kind = _KINDS.get(str(choice.type), "JSON")
        value = json.dumps(getattr(default, choice.name), default=dict)
        yield choice.name, " | ".join(options) or kind, value


def parse_choices(texts: Iterable[str]) -> Choices:
    """Parse choices such as `missing_status=404`. All other choices keep their defaults.

    A value is JSON or a plain string. Raises ValueError if a name is unknown or a value is invalid.
    """
    values = {}
    names = [choice.name for choice in fields(Choices)]
    for text in texts:
        name, _, value = text.partition("=")
        if name not in names:
            raise ValueError(
                f"There is no choice named {name!r}. The choices are: {', '.join(names)}."
            )
        try:
            values[name] = json.loads(value)
        except ValueError:
            values[name] = value
    try:
        return msgspec.convert(values, Choices)
    except msgspec.ValidationError as error:
        raise ValueError(f"The value of a choice is invalid: {error}.") from error
