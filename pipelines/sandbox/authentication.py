"""Request authentication: the three headers, the time window and the signature (§5)."""

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

from pipelines.sandbox.options import Choices
from pipelines.sandbox.specification import RefusalError, shorten

KEY_HEADER = "svc-api-key"
TIMESTAMP_HEADER = "svc-api-timestamp"
SIGNATURE_HEADER = "svc-api-signature"

_INTEGER = re.compile(r"-?[0-9]{1,19}")
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Caller:
    """A sandbox client that owns an API key, with the key's secret and permissions.

    `portfolios` contains the IDs that the caller may access, or is None if all are allowed.
    `resources` contains the first path segments that the key may use (`portfolios`, `venues`), or
    is None if all are allowed. The API document does not mention such scopes (§5.3), but a service
    may have them.
    """

    secret: str = field(repr=False)
    portfolios: frozenset[str] | None = None
    resources: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class SignedParts:
    """The parts of a request that its signature covers, and its headers, exactly as received."""

    method: str
    path: bytes
    body: bytes
    headers: Sequence[tuple[str, str]]


def payload(method: str, path: bytes, body: bytes, timestamp: str) -> bytes:
    """Return the bytes to sign: method, path, body and timestamp without separators (§5.2)."""
    return method.encode() + path + body + timestamp.encode()


def digest(secret: str, text: bytes) -> str:
    """Return the HMAC-SHA-384 of bytes, keyed with a secret, as 96 lower-case hex digits (§5.2)."""
    return hmac.new(secret.encode(), text, hashlib.sha384).hexdigest()


def authenticate(
    request: SignedParts, keys: Mapping[str, Caller], now_ms: int, choices: Choices
) -> Caller:
    """Return the caller who signed the request. Raises RefusalError if a check fails (§5.3)."""
    key = _header(request, KEY_HEADER)
    timestamp = _header(request, TIMESTAMP_HEADER)
    signature = _header(request, SIGNATURE_HEADER)
    caller = None
    for check in choices.checks:
        if check == "timestamp":
            _check_timestamp(timestamp, now_ms, choices)
        else:
            caller = _check_signature(request, keys, (key, timestamp, signature), choices)
    if caller is None:
        message = "Choices.checks must include 'authentication', or every request is refused."
        raise ValueError(message)
    return caller


def _header(request: SignedParts, name: str) -> str | None:
    """Return a header's value, or None if the header is absent or repeated."""
    values = [value for header, value in request.headers if header == name]
    return values[0] if len(values) == 1 else None


def _check_timestamp(timestamp: str | None, now_ms: int, choices: Choices) -> None:
    if timestamp is None:
        status, code = choices.missing_timestamp
        raise RefusalError(status, (code, "The SVC-API-TIMESTAMP header is missing or repeated."))
    if not _INTEGER.fullmatch(timestamp) or abs(int(timestamp)) > _INT64_MAX:
        text = shorten(timestamp)
        message = f"The timestamp {text} is invalid: expected Unix time in milliseconds."
        raise RefusalError(400, ("TIMESTAMP_INVALID", message))
    age = now_ms - int(timestamp)
    edge = 0 if choices.window_inclusive else 1
    late = age > choices.window_ms - edge
    early = choices.future_window_ms is not None and -age > choices.future_window_ms - edge
    if late or early:
        message = f"The timestamp is outside the window of {choices.window_ms} ms."
        raise RefusalError(400, ("TIMESTAMP_INVALID", message))


def _check_signature(
    request: SignedParts,
    keys: Mapping[str, Caller],
    headers: tuple[str | None, str | None, str | None],
    choices: Choices,
) -> Caller:
    key, timestamp, signature = headers
    if key is None or signature is None or timestamp is None:
        status, code = choices.missing_key
        message = "The SVC-API-KEY and SVC-API-SIGNATURE headers must each be sent exactly once."
        raise RefusalError(status, (code, message))
    caller = keys.get(key)
    # Treat an unknown key like a wrong signature, with the same work and the same message, so that
    # a caller cannot find out which keys exist.
    secret = caller.secret if caller else "no such key"
    sent = _normal_case(signature, choices)
    # Check all accepted forms of the path, and compare signatures in constant time, so that the
    # response time does not reveal how much of a signature is correct.
    matches = [
        hmac.compare_digest(
            digest(secret, payload(request.method, path, request.body, timestamp)).encode(),
            sent.encode(),
        )
        for path in _signed_paths(request.path, choices)
    ]
    if caller is None or not any(matches):
        message = "The server failed to authenticate the request."
        raise RefusalError(401, ("AUTHENTICATION_FAILED", message))
    return caller


def _normal_case(signature: str, choices: Choices) -> str:
    wrong_case = {"lower": signature.lower(), "upper": signature.upper()}.get(choices.hex_case)
    if wrong_case is not None and wrong_case != signature:
        return ""
    return signature.lower()


def _signed_paths(path: bytes, choices: Choices) -> list[bytes]:
    decoded = unquote_to_bytes(path)
    return {"as-sent": [path], "decoded": [decoded], "either": [path, decoded]}[choices.signed_path]
