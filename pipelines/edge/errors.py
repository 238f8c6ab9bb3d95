"""What can go wrong between us and the API, grouped by what the reader should do about it.

    EdgeError
    ├── Unreachable          wait, or mend the network, the address or the certificate
    ├── Refused              the API said no, in its own code and words
    │   ├── ClockRefused     set this machine's clock              (TIMESTAMP_INVALID)
    │   ├── KeyRefused       get a working key and secret          (AUTHENTICATION_FAILED)
    │   ├── AccessRefused    ask for access to this resource       (ACCESS_DENIED, 400 and 401)
    │   ├── RequestRefused   mend our request: a defect of ours    (PARAMETER_*, METHOD_UNSUPPORTED)
    │   ├── NotFound         the resource is gone, or never was    (RESOURCE_NOT_FOUND)
    │   ├── ServerFailed     wait; the service itself is in trouble (INTERNAL_SERVER_ERROR, 5xx)
    │   └── UnknownRefusal   ask the API's owner: the answer is not in the document
    ├── Misread              ask the API's owner: the answer breaks the document
    ├── TooLarge             raise the limit if the answer is honest
    ├── RedirectRefused      set the address the service really has
    ├── DeadlinePassed       give the pull more time, or find what was slow
    ├── BreakerOpen          the service is down: run again when it is back
    ├── Stopped              nothing: the client was closed by its user
    ├── SpoolFailed          make room on the disk
    ├── IdRefused            an id that no request can carry exactly; nothing was sent
    ├── CredentialRefused    a key or secret that no header can carry; nothing was sent
    └── OriginRefused        an address that would show the key to others; nothing was sent

Every error is made from facts (they are its `args`, so it survives pickling) and writes its own
sentence. None of them ever holds a key, a secret, a signature or a request's headers.
"""

from dataclasses import dataclass, field, fields, replace
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class ApiError:
    """One entry of an error body: the API's code and its message (7)."""

    code: str
    message: str


def quote_text(text: str, length: int = 200) -> str:
    """Quote a text from outside: short, on one line, with nothing a terminal would act on."""
    cut = text if len(text) <= length else text[:length] + "…"
    plain = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
    return f"'{plain}'"


def _times(attempts: int) -> str:
    return "after 1 attempt" if attempts == 1 else f"after {attempts} attempts"


def _last(text: str) -> str:
    return f" The last thing seen was: {text}" if text else ""


@dataclass(eq=False, repr=False)
class EdgeError(Exception):
    """Anything that keeps an answer of the API from us; the fields of each kind are its facts."""

    def __post_init__(self) -> None:
        self.args = tuple(getattr(self, fact.name) for fact in fields(self) if not fact.kw_only)

    def anew(self, **facts: Any) -> Self:
        """Return the same error with some facts changed, where it has them, and no traceback."""
        # The frames of a traceback would hold the request, and with it the key.
        names = {fact.name for fact in fields(self)}
        return replace(self, **{name: fact for name, fact in facts.items() if name in names})


@dataclass(eq=False, repr=False)
class Unreachable(EdgeError):
    """No answer came: connection refused or lost, time-out, name not found, TLS failure.

    A `lasting` failure cannot be helped by trying again: a certificate that is not trusted.
    """

    where: str
    reason: str
    attempts: int = 1
    lasting: bool = field(default=False, kw_only=True)

    def __str__(self) -> str:
        return (
            f"{self.where}: no answer {_times(self.attempts)} ({self.reason}). An answer of the "
            "API was expected; nothing was read. Check the address (NIGHTBOOK_API_URL), the "
            "network and the certificate of the service, then run again."
        )


@dataclass(eq=False, repr=False)
class Refused(EdgeError):
    """The API answered with an error (7); the class below says which kind."""

    advice = "Nothing was read."
    where: str
    status: int
    errors: tuple[ApiError, ...] = ()
    attempts: int = 1
    note: str = ""

    def __str__(self) -> str:
        entries = "; ".join(
            f"{quote_text(e.code, 60)}: {quote_text(e.message)}" for e in self.errors[:3]
        )
        more_count = len(self.errors) - 3
        more = f" and {more_count} more" if more_count > 0 else ""
        answer = f"with {entries}{more}" if entries else "without an error code"
        note = f" {self.note}" if self.note else ""
        return (
            f"{self.where}: the API answered {self.status} {answer} "
            f"{_times(self.attempts)}.{note} {self.advice}"
        )


class ClockRefused(Refused):
    """The timestamp was outside the 30-second window and one correction did not help (5.3)."""

    advice = "Nothing was read. Set this machine's clock (is NTP running?), then run again."


class KeyRefused(Refused):
    """The API does not know the key, or the signature does not fit it (5.3); every call stops."""

    advice = (
        "Nothing more was sent, so that the key is not locked. Check NIGHTBOOK_API_KEY and "
        "NIGHTBOOK_API_SECRET, which are made together on the service's web platform."
    )


class AccessRefused(Refused):
    """The key is good but may not read this resource (7: ACCESS_DENIED with 400 and with 401)."""

    advice = "Nothing was read. Ask the owner of the key for access to this resource."


class RequestRefused(Refused):
    """The API does not accept a parameter or the method: the request itself is wrong (7)."""

    advice = "Nothing was read. Mend the request: sending it again cannot help."


class NotFound(Refused):
    """The path names no existing resource (7: RESOURCE_NOT_FOUND, whatever the status)."""

    advice = "Nothing was read. The resource is gone, or was never there: check its id."


class ServerFailed(Refused):
    """The service failed or is overloaded, and trying again was given up."""

    advice = "Nothing was read. The service is in trouble: wait, then run again."


class UnknownRefusal(Refused):
    """The answer is an error that the document does not describe."""

    advice = "Nothing was read. The document has no such answer: ask the owner of the API."


@dataclass(eq=False, repr=False)
class Misread(EdgeError):
    """The answer came, but breaks the document: not strict JSON, not the envelope, not its kind."""

    found: str
    where: str = "the body"
    attempts: int = 1

    def __str__(self) -> str:
        return (
            f"{self.where}: the answer cannot be taken as true {_times(self.attempts)}: "
            f"{self.found}. Strict JSON in the documented envelope was expected; nothing of it "
            "was used. Ask the owner of the API, or whoever runs the proxy in between."
        )


@dataclass(eq=False, repr=False)
class TooLarge(EdgeError):
    """The answer is larger than the limit, on the wire or after decompression (bytes)."""

    where: str
    limit: int
    stage: str

    def __str__(self) -> str:
        return (
            f"{self.where}: the answer is larger than {self.limit:,} bytes {self.stage}. It was "
            "dropped and nothing of it was kept. If the book really is that large, raise the limit."
        )


@dataclass(eq=False, repr=False)
class RedirectRefused(EdgeError):
    """The answer is a redirect: following it would hand the key to another address."""

    where: str
    status: int
    target: str

    def __str__(self) -> str:
        return (
            f"{self.where}: the answer is {self.status}, a redirect to {quote_text(self.target)}. "
            "It was not followed, because the key would go there. If the service has moved, set "
            "NIGHTBOOK_API_URL to its new address."
        )


@dataclass(eq=False, repr=False)
class DeadlinePassed(EdgeError):
    """No time is left for this call: the deadline comes before its next attempt.

    `cause` is the reason in a sentence without its full stop, for example an outage and its start.
    """

    where: str
    last: str = ""
    cause: str = ""

    def __str__(self) -> str:
        cause = self.cause or "The deadline of the pull has passed"
        return (
            f"{cause}. {self.where} was given up, because no time is left for another attempt, and "
            "nothing was read. Run again when the API answers. If it was only slow, give the pull "
            f"more time (NIGHTBOOK_DEADLINE).{_last(self.last)}"
        )


@dataclass(eq=False, repr=False)
class BreakerOpen(EdgeError):
    """So many calls failed in a row that the service counts as down; no more are sent."""

    where: str
    failures: int
    last: str = ""

    def __str__(self) -> str:
        return (
            f"{self.where}: not sent, because the {self.failures} requests before it all failed. "
            f"The service counts as down; run again when it is back.{_last(self.last)}"
        )


@dataclass(eq=False, repr=False)
class Stopped(EdgeError):
    """The client was closed, or the reader of its answers went away."""

    where: str

    def __str__(self) -> str:
        return f"{self.where}: not sent, because the client was closed. Make a new one."


@dataclass(eq=False, repr=False)
class SpoolFailed(EdgeError):
    """The body could not be put on disk while it was read."""

    where: str
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.where}: the body could not be kept on disk while it was read ({self.reason}). "
            "Nothing of it was kept. Make room for it, then run again."
        )


@dataclass(eq=False, repr=False)
class IdRefused(EdgeError, ValueError):
    """An id that no request could carry exactly as it is; nothing was sent."""

    exit_code = 2

    value: str
    reason: str

    def __str__(self) -> str:
        return (
            f"the id {quote_text(self.value, 60)} {self.reason}, so no request can name it "
            "exactly. Nothing was sent."
        )


@dataclass(eq=False, repr=False)
class CredentialRefused(EdgeError, ValueError):
    """A key or secret that cannot be used; its value is never shown."""

    name: str
    reason: str

    def __str__(self) -> str:
        return (
            f"the API {self.name} {self.reason} (its value is not shown). Visible ASCII characters "
            "without spaces were expected; nothing was sent. Copy it again from the service's "
            "web platform."
        )


@dataclass(eq=False, repr=False)
class OriginRefused(EdgeError, ValueError):
    """An address of the service that must not be used, because it could leak the key."""

    reason: str

    def __str__(self) -> str:
        return f"the address of the API {self.reason} Nothing was sent. Set NIGHTBOOK_API_URL."


def describe_problem(error: EdgeError | None) -> str:
    """Return the state of the API that a failure shows, as a sentence without its full stop."""
    match error:
        case Unreachable() if "connection refused" in error.reason.lower():
            return "The API refuses connections"
        case Unreachable():
            return f"The API cannot be reached ({error.reason})"
        case ServerFailed():
            return f"The API answers with status {error.status}"
        case Misread():
            return "The responses of the API cannot be read"
        case _:
            return ""
