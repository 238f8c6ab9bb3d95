"""The API client's errors, grouped by the action they require.

    EdgeError
    ├── ConnectionFailed          wait, or fix the network, the address or the certificate
    ├── ApiResponseError          the API answered with an error
    │   ├── TimestampRefused      set this machine's clock             (TIMESTAMP_INVALID)
    │   ├── AuthenticationFailed  get a working key and secret         (AUTHENTICATION_FAILED)
    │   ├── AccessDenied          ask for access to this resource      (ACCESS_DENIED, 400 and 401)
    │   ├── InvalidRequestError        fix our request                      (PARAMETER_*,
    │   │                                                               METHOD_UNSUPPORTED)
    │   ├── ResourceNotFound      check the ID of the resource         (RESOURCE_NOT_FOUND)
    │   ├── ServerError           wait, because the service is failing (INTERNAL_SERVER_ERROR, 5xx)
    │   └── UndocumentedError     ask the owner of the API
    ├── MalformedResponseError         ask the owner of the API
    ├── ResponseTooLarge          raise the limit if the response is genuine
    ├── UnexpectedRedirect        set the service's new address
    ├── DeadlineExceeded          give the pull more time, or find the slow part
    ├── CircuitBreakerOpen        wait until the service is up, then run again
    ├── ClientClosed              create a new client
    ├── SpoolFailed               make room on the disk
    ├── InvalidId                 correct the ID; nothing was sent
    ├── InvalidCredential         correct the key or the secret; nothing was sent
    └── InvalidOrigin             correct the API address; nothing was sent

An error is built from its fields, which are also its `args`, so errors can be pickled. No error
contains a key, a secret, a signature or request headers.
"""

from dataclasses import dataclass, field, fields, replace
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class ErrorEntry:
    """One entry in an error body: the API's error code and message (§7)."""

    code: str
    message: str


@dataclass(eq=False, repr=False)
class EdgeError(Exception):
    """Base class for all errors from the API client.

    `request_line` is, for example, `GET /edge/v1beta/venues`. `attempts` is the number of requests
    sent for the call.
    """

    def __post_init__(self) -> None:
        self.args = tuple(getattr(self, item.name) for item in fields(self) if not item.kw_only)

    def copy_with(self, **changes: Any) -> Self:
        """Return a copy with some fields changed and without a traceback. Ignore unknown fields."""
        # Do not copy the traceback, because the frames in it contain the request with the key.
        names = {item.name for item in fields(self)}
        return replace(self, **{name: value for name, value in changes.items() if name in names})


@dataclass(eq=False, repr=False)
class ConnectionFailed(EdgeError):
    """No response: connection refused or lost, timeout, unknown host name or TLS failure.

    `is_permanent` is True if a retry cannot help, for example if the certificate is not trusted.
    """

    request_line: str
    reason: str
    attempts: int = 1
    is_permanent: bool = field(default=False, kw_only=True)

    def __str__(self) -> str:
        return (
            f"{self.request_line}: no response {_count_attempts(self.attempts)} ({self.reason}). "
            "Nothing was read. Check the address (NIGHTBOOK_API_URL), the network and the "
            "service's certificate, then run again."
        )


@dataclass(eq=False, repr=False)
class ApiResponseError(EdgeError):
    """An error response from the API (§7). Each subclass represents one kind of error."""

    advice = "Nothing was read."
    request_line: str
    status: int
    errors: tuple[ErrorEntry, ...] = ()
    attempts: int = 1
    note: str = ""

    def __str__(self) -> str:
        entries = "; ".join(
            f"{quote_text(e.code, 60)}: {quote_text(e.message)}" for e in self.errors[:3]
        )
        more_count = len(self.errors) - 3
        more = f" and {more_count} more" if more_count > 0 else ""
        result = f"with {entries}{more}" if entries else "without an error code"
        note = f" {self.note}" if self.note else ""
        return (
            f"{self.request_line}: the API answered {self.status} {result} "
            f"{_count_attempts(self.attempts)}.{note} {self.advice}"
        )


class TimestampRefused(ApiResponseError):
    """The timestamp was outside the 30-second window, even after a clock correction (§5.3)."""

    advice = "Nothing was read. Set this machine's clock (is NTP running?), then run again."


class AuthenticationFailed(ApiResponseError):
    """The API rejected the key or the signature (§5.3), so the client sends no more requests."""

    advice = (
        "Nothing was read, and no more requests were sent, because the service might lock the "
        "key. Check NIGHTBOOK_API_KEY and NIGHTBOOK_API_SECRET, which are generated together on "
        "the service's web platform."
    )


class AccessDenied(ApiResponseError):
    """The key is valid but may not read this resource (§7: ACCESS_DENIED with 400 or 401)."""

    advice = "Nothing was read. Ask the key's owner for access to this resource."


class InvalidRequestError(ApiResponseError):
    """The API rejected a parameter or the method, so the request itself is wrong (§7)."""

    advice = "Nothing was read. Correct the request before you send it again."


class ResourceNotFound(ApiResponseError):
    """The path names a resource that does not exist (§7: RESOURCE_NOT_FOUND with any status)."""

    advice = "Nothing was read. The resource was deleted or never existed. Check its ID."


class ServerError(ApiResponseError):
    """The service failed or is overloaded, and no retries are left."""

    advice = "Nothing was read. The service is failing or overloaded. Wait, then run again."


class UndocumentedError(ApiResponseError):
    """The API answered with an error that the API document does not describe."""

    advice = "The API document does not list this error. Nothing was read. Ask the API's owner."


@dataclass(eq=False, repr=False)
class MalformedResponseError(EdgeError):
    """The response is not strict JSON in the documented envelope, or a value has the wrong type."""

    defect: str
    request_line: str = "the body"
    attempts: int = 1

    def __str__(self) -> str:
        return (
            f"{self.request_line}: the response is malformed {_count_attempts(self.attempts)}: "
            f"{self.defect}. Expected strict JSON in the documented envelope. Nothing in the "
            "response was used. Contact the owner of the API, or of the proxy in front of it."
        )


@dataclass(eq=False, repr=False)
class ResponseTooLarge(EdgeError):
    """The response exceeds a size limit. `stage` is `on the wire` or `after decompression`."""

    request_line: str
    limit: int
    stage: str

    def __str__(self) -> str:
        return (
            f"{self.request_line}: the response is larger than {self.limit:,} bytes {self.stage}. "
            "Nothing in the response was used. If the book really is that large, a developer must "
            "raise the limit."
        )


@dataclass(eq=False, repr=False)
class UnexpectedRedirect(EdgeError):
    """The response is a redirect, and following it would send the key to a different address."""

    request_line: str
    status: int
    target: str

    def __str__(self) -> str:
        return (
            f"{self.request_line}: the response is {self.status}, a redirect to "
            f"{quote_text(self.target)}. It was not followed, because the key would be sent there. "
            "If the service has moved, set NIGHTBOOK_API_URL to its new address."
        )


@dataclass(eq=False, repr=False)
class DeadlineExceeded(EdgeError):
    """The deadline has passed, or will pass before the next attempt could be sent.

    `cause` is the reason as a sentence without a full stop, for example an outage and its start
    time.
    """

    request_line: str
    last_failure: str = ""
    cause: str = ""

    def __str__(self) -> str:
        cause = self.cause or "The deadline for the pull has passed"
        return (
            f"{cause}. {self.request_line} was not completed, and there was no time left for "
            "another attempt. Nothing was read. Run again when the API responds. If the API was "
            f"only slow, increase NIGHTBOOK_DEADLINE.{_describe_last(self.last_failure)}"
        )


@dataclass(eq=False, repr=False)
class CircuitBreakerOpen(EdgeError):
    """The client has stopped sending requests, because too many failed in a row."""

    request_line: str
    failures: int
    last_failure: str = ""

    def __str__(self) -> str:
        return (
            f"{self.request_line}: not sent, because the {self.failures} requests before it all "
            "failed. The service is probably down. Run again when it is back."
            f"{_describe_last(self.last_failure)}"
        )


@dataclass(eq=False, repr=False)
class ClientClosed(EdgeError):
    """The client was closed before or during the call."""

    request_line: str

    def __str__(self) -> str:
        return f"{self.request_line}: not sent, because the client was closed. Create a new one."


@dataclass(eq=False, repr=False)
class SpoolFailed(EdgeError):
    """The body could not be written to disk while it was being received.

    `folder` names the folder of its temporary file and the mount of its disk, if they are known.
    """

    request_line: str
    reason: str
    folder: str = ""

    def __str__(self) -> str:
        return (
            f"{self.request_line}: the body could not be written to {self.folder or 'disk'} while "
            f"it was being received ({self.reason}). Nothing was kept. Free some space on that "
            "disk, or repair it, then run again."
        )


@dataclass(eq=False, repr=False)
class InvalidId(EdgeError, ValueError):
    """The ID cannot be sent unchanged in a request, so nothing was sent."""

    exit_code = 2

    value: str
    reason: str

    def __str__(self) -> str:
        return (
            f"the ID {quote_text(self.value, 60)} {self.reason}, so it cannot be sent "
            "unchanged in a request. Nothing was sent."
        )


@dataclass(eq=False, repr=False)
class InvalidCredential(EdgeError, ValueError):
    """The API key or secret cannot be used. The error never contains the key or the secret."""

    name: str
    reason: str

    def __str__(self) -> str:
        return (
            f"the API {self.name} {self.reason} (its value is not shown). Use only visible ASCII "
            "characters without spaces. Nothing was sent. Copy it again from the service's "
            "web platform."
        )


@dataclass(eq=False, repr=False)
class InvalidOrigin(EdgeError, ValueError):
    """The API's address is invalid, or using it could leak the key."""

    reason: str

    def __str__(self) -> str:
        return f"the API address {self.reason} Nothing was sent. Set NIGHTBOOK_API_URL."


def quote_text(text: str, length: int = 200) -> str:
    """Quote an external string on one line, truncate it, and escape its control characters."""
    shown = text if len(text) <= length else text[:length] + "…"
    escaped = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)
    return f"'{escaped}'"


def describe_problem(error: EdgeError | None) -> str:
    """Describe the API's state after a failure, as a sentence without a full stop.

    Return an empty string if the failure does not indicate a problem with the API.
    """
    match error:
        case ConnectionFailed() if "connection refused" in error.reason.lower():
            return "The API has refused connections"
        case ConnectionFailed():
            return f"The API has been unreachable ({error.reason})"
        case ServerError():
            return f"The API has answered with status {error.status}"
        case MalformedResponseError():
            return "The API's responses have been malformed"
        case _:
            return ""


def _count_attempts(attempts: int) -> str:
    return "after 1 attempt" if attempts == 1 else f"after {attempts} attempts"


def _describe_last(failure: str) -> str:
    return f" The last failure was: {failure}" if failure else ""
