"""Faults in responses: status codes, headers and bodies."""

import gzip
import json
import zlib
from collections.abc import Callable, Mapping
from email.utils import formatdate
from functools import lru_cache

from pipelines.sandbox.faults import FAULTS, Fault, FaultKind, Scene, Twist, alter, page, refuse
from pipelines.sandbox.specification import RefusalError, SandboxResponse, encode, error_response

_ELSEWHERE = "http://elsewhere.invalid/edge/v1beta/portfolios"
_AN_HOUR = 3600


def _always(response: SandboxResponse) -> Twist:
    def act(_response: SandboxResponse, _fault: Fault, _scene: Scene) -> SandboxResponse:
        return response

    return act


def _html(status: int, title: str) -> Twist:
    return _always(page(status, title))


def _redirect(status: int) -> Twist:
    return _always(SandboxResponse(status, b"", {"Location": _ELSEWHERE}))


def _retry_after(text: str) -> Twist:
    return _always(page(429, "Too Many Requests", **{"Retry-After": text}))


def _later(status: int, title: str) -> Twist:
    def act(_response: SandboxResponse, fault: Fault, _scene: Scene) -> SandboxResponse:
        return page(status, title, **{"Retry-After": f"{fault.seconds_or(2):g}"})

    return act


def _throttled_date(_response: SandboxResponse, fault: Fault, scene: Scene) -> SandboxResponse:
    until = scene.clock() / 1000 + fault.seconds_or(5)
    return page(429, "Too Many Requests", **{"Retry-After": formatdate(until, usegmt=True)})


def _cached_timestamp_error(
    _response: SandboxResponse, _fault: Fault, scene: Scene
) -> SandboxResponse:
    old = formatdate(scene.clock() / 1000 - _AN_HOUR, usegmt=True)
    headers = {"Date": old, "Age": str(_AN_HOUR)}
    error = ("TIMESTAMP_INVALID", "A simulated TIMESTAMP_INVALID.")
    return error_response(RefusalError(400, error, headers=headers), {})


_TWO_ERRORS = RefusalError(
    400, ("PARAMETER_INVALID", "One thing."), ("AUTHENTICATION_FAILED", "And another.")
)
_EMPTY_ERRORS = SandboxResponse(400, b'{"errors":[],"meta":{}}')
_NO_ENVELOPE = SandboxResponse(400, b'{"message":"bad request"}')

_ANSWERS: Mapping[str, tuple[str, Twist]] = {
    "500": ("500 with an HTML page", _html(500, "Internal Server Error")),
    "502": ("502 with an HTML page", _html(502, "Bad Gateway")),
    "503": ("503 with an HTML page", _html(503, "Service Unavailable")),
    "503-retry-after": (
        "503 with Retry-After: 2 (or `seconds`)",
        _later(503, "Service Unavailable"),
    ),
    "504": ("504 with an HTML page", _html(504, "Gateway Timeout")),
    "408": ("408 with an HTML page", _html(408, "Request Timeout")),
    "429-date": (
        "429 with Retry-After as a date that is 5 s (or `seconds`) in the future",
        _throttled_date,
    ),
    "429-day": ("429 with Retry-After: 86400", _retry_after("86400")),
    "429-garbage": ("429 with the invalid header Retry-After: soon", _retry_after("soon")),
    "429-negative": ("429 with Retry-After: -1", _retry_after("-1")),
    "429-exponent": ("429 with Retry-After: 1e9", _retry_after("1e9")),
    "429-bare": ("429 without Retry-After", _html(429, "Too Many Requests")),
    "internal-error-400": (
        "400 with INTERNAL_SERVER_ERROR in an envelope",
        refuse(400, "INTERNAL_SERVER_ERROR"),
    ),
    "internal-error-200": (
        "200 with INTERNAL_SERVER_ERROR in an envelope",
        refuse(200, "INTERNAL_SERVER_ERROR"),
    ),
    "parameter-unsupported": ("400 PARAMETER_UNSUPPORTED", refuse(400, "PARAMETER_UNSUPPORTED")),
    "parameter-value-invalid": (
        "400 PARAMETER_VALUE_INVALID, the undeclared code",
        refuse(400, "PARAMETER_VALUE_INVALID"),
    ),
    "parameter-invalid": (
        "400 PARAMETER_INVALID, the declared code",
        refuse(400, "PARAMETER_INVALID"),
    ),
    "access-denied-400": ("400 ACCESS_DENIED", refuse(400, "ACCESS_DENIED")),
    "access-denied-401": ("401 ACCESS_DENIED", refuse(401, "ACCESS_DENIED")),
    "not-found-400": ("400 RESOURCE_NOT_FOUND", refuse(400, "RESOURCE_NOT_FOUND")),
    "not-found-404": ("404 RESOURCE_NOT_FOUND", refuse(404, "RESOURCE_NOT_FOUND")),
    "method-unsupported": ("405 METHOD_UNSUPPORTED", refuse(405, "METHOD_UNSUPPORTED")),
    "unknown-code": ("400 with the unknown code BRAND_NEW", refuse(400, "BRAND_NEW")),
    "errors-two": (
        "400 with two errors, the second more serious than the first",
        _always(error_response(_TWO_ERRORS, {})),
    ),
    "errors-empty": ("400 with an empty error list", _always(_EMPTY_ERRORS)),
    "error-bare": ("400 without the envelope", _always(_NO_ENVELOPE)),
    "forbidden": ("403 with an HTML page, as from a firewall", _html(403, "Forbidden")),
    "redirect-301": ("301 to another host", _redirect(301)),
    "redirect-302": ("302 to another host", _redirect(302)),
    "redirect-307": ("307 to another host", _redirect(307)),
    "redirect-308": ("308 to another host", _redirect(308)),
    "no-content": ("204 without a body", _always(SandboxResponse(204, b""))),
    "not-modified": ("304 without a body", _always(SandboxResponse(304, b""))),
    "timestamp-invalid": (
        "TIMESTAMP_INVALID for every request",
        refuse(400, "TIMESTAMP_INVALID"),
    ),
    "timestamp-invalid-no-date": (
        "TIMESTAMP_INVALID without a Date header",
        refuse(400, "TIMESTAMP_INVALID", {"Date": ""}),
    ),
    "timestamp-invalid-cached": (
        "TIMESTAMP_INVALID from a cache, with an old Date and an Age header",
        _cached_timestamp_error,
    ),
    "html-200": ("200 with an HTML page", _html(200, "Welcome")),
    "cached": (
        "an answer of a cache that is 25 hours old",
        alter(Age="90000", X_Cache="HIT"),
    ),
    "cached-date": (
        "an answer of a cache that repeats the date of its first answer",
        alter(Date="Fri, 20 Nov 2026 02:15:00 GMT"),
    ),
    "as-of": (
        "`meta` says that the data is from an earlier day",
        alter(lambda body: body.replace(b'"meta":{', b'"meta":{"asOf":"2024-01-01T00:00:00Z"', 1)),
    ),
    "text-plain": ("valid JSON as text/plain", alter(Content_Type="text/plain")),
    "set-cookie": ("the response sets a cookie", alter(Set_Cookie="visit=1; Path=/")),
    "no-content-type": ("valid JSON without a Content-Type", alter(Content_Type="")),
}


_MIB = 1024 * 1024
_DEPTH = 200_000


def _only(body: bytes) -> Twist:
    return alter(lambda _: body)


def _in_meta(literal: bytes) -> Twist:
    """Return a fault that adds a literal to `meta`, which only a strict JSON parser notices."""
    return alter(lambda body: body.replace(b'"meta":{', b'"meta":{"x":' + literal, 1))


def _without_meta(body: bytes) -> bytes:
    document = json.loads(body)
    return encode({name: value for name, value in document.items() if name != "meta"})


def _with_errors(body: bytes) -> bytes:
    error = {"error": "INTERNAL_SERVER_ERROR", "message": "Half of it failed."}
    return encode({**json.loads(body), "errors": [error]})


def _with_two_data_keys(body: bytes) -> bytes:
    return b'{"data":[],' + body[1:]


def _first_ten(body: bytes) -> bytes:
    document = json.loads(body)
    data = document.get("data")
    return encode({**document, "data": data[:10]}) if isinstance(data, list) else body


def _pack(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)


def _bad_sum(body: bytes) -> bytes:
    packed = _pack(body)
    return packed[:-8] + bytes([packed[-8] ^ 1]) + packed[-7:]


@lru_cache(maxsize=2)
def _zeros(size: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = packer.compress(b'{"data":[],"meta":{"x":"')
    blocks = (packer.compress(b"0" * _MIB) for _ in range(size // _MIB))
    return head + b"".join(blocks) + packer.flush()


def _bomb(mib: int) -> Twist:
    def act(response: SandboxResponse, _fault: Fault, _scene: Scene) -> SandboxResponse:
        headers = {**response.headers, "Content-Encoding": "gzip"}
        return SandboxResponse(200, _zeros(mib * _MIB), headers)

    return act


def _large(mib: int) -> Twist:
    return alter(lambda body: body + b" " * (mib * _MIB))


_BODIES: Mapping[str, tuple[str, Twist]] = {
    "empty-200": ("200 with an empty body", _only(b"")),
    "json-null": ("the document is `null`", _only(b"null")),
    "json-list": ("the document is a list", _only(b"[]")),
    "meta-missing": ("`meta` is missing", alter(_without_meta)),
    "data-and-errors": ("the response has both data and errors", alter(_with_errors)),
    "data-ten": ("lists are truncated to ten records, without a notice", alter(_first_ten)),
    "nan": ("the document contains NaN", _in_meta(b"NaN")),
    "infinity": ("the document contains -Infinity", _in_meta(b"-Infinity")),
    "exponent-huge": ("the document contains the number 1e999", _in_meta(b"1e999")),
    "integer-huge": ("the document contains a number with 5,000 digits", _in_meta(b"9" * 5000)),
    "duplicate-keys": ("the document has two `data` keys", alter(_with_two_data_keys)),
    "bad-utf-8": ("a string contains a byte that is not valid UTF-8", _in_meta(b'"\xff"')),
    "lone-surrogate": ("a string contains half a surrogate pair", _in_meta(b'"\\ud800"')),
    "surrogate-pair": ("a string contains a surrogate pair (valid)", _in_meta(b'"\\ud83e\\udd8a"')),
    "bom": ("the body begins with a byte order mark", alter(lambda body: b"\xef\xbb\xbf" + body)),
    "utf-16": ("the document is UTF-16", alter(lambda body: body.decode().encode("utf-16"))),
    "nesting": ("200,000 nested lists", _in_meta(b"[" * _DEPTH + b"]" * _DEPTH)),
    "two-documents": ("a second document follows the first", alter(lambda body: body + body)),
    "gzip": ("gzip (valid)", alter(_pack, Content_Encoding="gzip")),
    "gzip-cut": (
        "gzip truncated in the middle, with a matching Content-Length",
        alter(lambda body: _pack(body)[: len(_pack(body)) // 2], Content_Encoding="gzip"),
    ),
    "gzip-no-trailer": (
        "gzip without its last eight bytes",
        alter(lambda body: _pack(body)[:-8], Content_Encoding="gzip"),
    ),
    "gzip-bad-sum": ("gzip with a wrong checksum", alter(_bad_sum, Content_Encoding="gzip")),
    "gzip-garbage": (
        "gzip followed by other bytes",
        alter(lambda body: _pack(body) + b"garbage", Content_Encoding="gzip"),
    ),
    "gzip-twice": (
        "gzip in gzip, with the matching header",
        alter(lambda body: _pack(_pack(body)), Content_Encoding="gzip, gzip"),
    ),
    "gzip-unsaid": ("gzip without a header", alter(_pack)),
    "gzip-not": (
        "plain JSON labelled as Content-Encoding gzip",
        alter(lambda body: body, Content_Encoding="gzip"),
    ),
    "gzip-bomb": ("a gzip body that unpacks to 300 MiB or `mib` MiB of zeros", _bomb(300)),
    "brotli": ("Content-Encoding br, which no client accepts", alter(_pack, Content_Encoding="br")),
    "large": ("64 MiB or `mib` MiB of spaces follow the document", _large(64)),
}

ANSWER_FAULTS: Mapping[str, FaultKind] = {
    name: FAULTS[name] for name in ("429", "internal-error", "authentication-failed")
} | {
    name: FaultKind(description=words, response=twist) for name, (words, twist) in _ANSWERS.items()
}
BODY_FAULTS: Mapping[str, FaultKind] = {
    name: FAULTS[name] for name in ("json-cut", "meta-cursor")
} | {name: FaultKind(description=words, response=twist) for name, (words, twist) in _BODIES.items()}
# Faults with a size, which the scope `mib=N` sets.
SIZED: Mapping[str, Callable[[int], Twist]] = {"gzip-bomb": _bomb, "large": _large}
