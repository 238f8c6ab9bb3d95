"""Faults of whole answers: other statuses, codes, headers and redirects, in good HTTP."""

from collections.abc import Callable, Mapping
from email.utils import formatdate

from pipelines.sandbox.errors import RefusalError, SandboxResponse, error_answer
from pipelines.sandbox.faults.scope import Fault

# An answer, the fault, and the server's clock in milliseconds. A header whose value is empty is
# left out of the response.
Twist = Callable[[SandboxResponse, Fault, int], SandboxResponse]

_HTML = {"Content-Type": "text/html; charset=utf-8"}
_ELSEWHERE = "http://elsewhere.invalid/edge/v1beta/portfolios"
_AN_HOUR = 3600


def _page(status: int, title: str, **headers: str) -> SandboxResponse:
    text = f"<!doctype html><html><head><title>{title}</title></head><body>{title}</body></html>"
    return SandboxResponse(status, text.encode(), _HTML | headers)


def _always(reply: SandboxResponse) -> Twist:
    def act(_answer: SandboxResponse, _fault: Fault, _now: int) -> SandboxResponse:
        return reply

    return act


def _html(status: int, title: str) -> Twist:
    return _always(_page(status, title))


def _error(status: int, code: str, headers: Mapping[str, str] | None = None) -> Twist:
    refusal = RefusalError(status, (code, f"A rehearsed {code}."), headers=headers)
    return _always(error_answer(refusal, {}))


def _redirect(status: int) -> Twist:
    return _always(SandboxResponse(status, b"", {"Location": _ELSEWHERE}))


def _retry_after(text: str) -> Twist:
    return _always(_page(429, "Too Many Requests", **{"Retry-After": text}))


def _later(status: int, title: str) -> Twist:
    def act(_answer: SandboxResponse, fault: Fault, _now: int) -> SandboxResponse:
        return _page(status, title, **{"Retry-After": f"{fault.seconds_or(2):g}"})

    return act


def _throttled_date(_answer: SandboxResponse, fault: Fault, now: int) -> SandboxResponse:
    until = now / 1000 + fault.seconds_or(5)
    return _page(429, "Too Many Requests", **{"Retry-After": formatdate(until, usegmt=True)})


def _cache_timestamp(_answer: SandboxResponse, _fault: Fault, now: int) -> SandboxResponse:
    old = formatdate(now / 1000 - _AN_HOUR, usegmt=True)
    headers = {"Date": old, "Age": str(_AN_HOUR)}
    error = ("TIMESTAMP_INVALID", "A rehearsed TIMESTAMP_INVALID.")
    return error_answer(RefusalError(400, error, headers=headers), {})


def alter(change: Callable[[bytes], bytes] = bytes, **headers: str) -> Twist:
    """Change the bytes of a body, and set headers."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    def act(answer: SandboxResponse, _fault: Fault, _now: int) -> SandboxResponse:
        return SandboxResponse(answer.status, change(answer.body), {**answer.headers, **named})

    return act


_TWO_ERRORS = RefusalError(
    400, ("PARAMETER_INVALID", "One thing."), ("AUTHENTICATION_FAILED", "And another.")
)
_EMPTY_ERRORS = SandboxResponse(400, b'{"errors":[],"meta":{}}')
_NO_ENVELOPE = SandboxResponse(400, b'{"message":"bad request"}')

ANSWER_FAULTS: Mapping[str, tuple[str, Twist]] = {
    "500": ("500 with an HTML page", _html(500, "Internal Server Error")),
    "502": ("502 with an HTML page", _html(502, "Bad Gateway")),
    "503": ("503 with an HTML page", _html(503, "Service Unavailable")),
    "503-retry-after": ("503 with Retry-After, 2 or `seconds`", _later(503, "Service Unavailable")),
    "504": ("504 with an HTML page", _html(504, "Gateway Timeout")),
    "408": ("408 with an HTML page", _html(408, "Request Timeout")),
    "429": ("429 with Retry-After in seconds, 2 or `seconds`", _later(429, "Too Many Requests")),
    "429-date": ("429 with Retry-After as a date, 5 s or `seconds` ahead", _throttled_date),
    "429-day": ("429 with Retry-After: 86400", _retry_after("86400")),
    "429-garbage": ("429 with Retry-After: soon", _retry_after("soon")),
    "429-negative": ("429 with Retry-After: -1", _retry_after("-1")),
    "429-exponent": ("429 with Retry-After: 1e9", _retry_after("1e9")),
    "429-bare": ("429 without Retry-After", _html(429, "Too Many Requests")),
    "internal-error": (
        "INTERNAL_SERVER_ERROR in its envelope with 500",
        _error(500, "INTERNAL_SERVER_ERROR"),
    ),
    "internal-error-400": (
        "INTERNAL_SERVER_ERROR in its envelope with 400",
        _error(400, "INTERNAL_SERVER_ERROR"),
    ),
    "internal-error-200": (
        "INTERNAL_SERVER_ERROR in its envelope with 200",
        _error(200, "INTERNAL_SERVER_ERROR"),
    ),
    "parameter-unsupported": ("400 PARAMETER_UNSUPPORTED", _error(400, "PARAMETER_UNSUPPORTED")),
    "parameter-value-invalid": (
        "400 PARAMETER_VALUE_INVALID, the undeclared code",
        _error(400, "PARAMETER_VALUE_INVALID"),
    ),
    "parameter-invalid": (
        "400 PARAMETER_INVALID, the declared code",
        _error(400, "PARAMETER_INVALID"),
    ),
    "authentication-failed": ("401 AUTHENTICATION_FAILED", _error(401, "AUTHENTICATION_FAILED")),
    "access-denied-400": ("400 ACCESS_DENIED", _error(400, "ACCESS_DENIED")),
    "access-denied-401": ("401 ACCESS_DENIED", _error(401, "ACCESS_DENIED")),
    "not-found-400": ("400 RESOURCE_NOT_FOUND", _error(400, "RESOURCE_NOT_FOUND")),
    "not-found-404": ("404 RESOURCE_NOT_FOUND", _error(404, "RESOURCE_NOT_FOUND")),
    "method-unsupported": ("405 METHOD_UNSUPPORTED", _error(405, "METHOD_UNSUPPORTED")),
    "unknown-code": ("400 with the code BRAND_NEW", _error(400, "BRAND_NEW")),
    "errors-two": (
        "400 with two errors, the second of them worse",
        _always(error_answer(_TWO_ERRORS, {})),
    ),
    "errors-empty": ("400 with an empty list of errors", _always(_EMPTY_ERRORS)),
    "error-bare": ("400 without the envelope", _always(_NO_ENVELOPE)),
    "forbidden": ("403 with an HTML page, as a firewall does", _html(403, "Forbidden")),
    "redirect-301": ("301 to another host", _redirect(301)),
    "redirect-302": ("302 to another host", _redirect(302)),
    "redirect-307": ("307 to another host", _redirect(307)),
    "redirect-308": ("308 to another host", _redirect(308)),
    "no-content": ("204 without a body", _always(SandboxResponse(204, b""))),
    "not-modified": ("304 without a body", _always(SandboxResponse(304, b""))),
    "timestamp-invalid": ("TIMESTAMP_INVALID, whatever is sent", _error(400, "TIMESTAMP_INVALID")),
    "timestamp-invalid-no-date": (
        "TIMESTAMP_INVALID without a Date header",
        _error(400, "TIMESTAMP_INVALID", {"Date": ""}),
    ),
    "timestamp-invalid-cached": (
        "TIMESTAMP_INVALID with a Date from a cache, and its Age",
        _cache_timestamp,
    ),
    "html-200": ("200 with an HTML page", _html(200, "Welcome")),
    "text-plain": ("good JSON as text/plain", alter(Content_Type="text/plain")),
    "set-cookie": ("a cookie is set", alter(Set_Cookie="visit=1; Path=/")),
    "no-content-type": ("good JSON without a Content-Type", alter(Content_Type="")),
}
