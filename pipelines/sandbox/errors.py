"""What the server says when it does not answer with data: codes, envelopes, one exception (7)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

DECLARED_CODES = (
    "ACCESS_DENIED",
    "AUTHENTICATION_FAILED",
    "INTERNAL_SERVER_ERROR",
    "METHOD_UNSUPPORTED",
    "PARAMETER_INVALID",
    "PARAMETER_UNSUPPORTED",
    "RESOURCE_NOT_FOUND",
    "TIMESTAMP_INVALID",
)
# Shown in error bodies, but not in the declared list (7, notes).
UNDECLARED_CODES = ("PARAMETER_VALUE_INVALID",)


@dataclass(frozen=True, slots=True)
class SandboxResponse:
    """One response, whole: status, headers beside content type and date, and the body's bytes."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class RefusalError(Exception):
    """A request that is answered with an error envelope: a status, and one or more errors."""

    def __init__(
        self, status: int, *errors: tuple[str, str], headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__("; ".join(f"{code}: {message}" for code, message in errors))
        self.status = status
        self.errors = errors
        self.headers = dict(headers or {})


def encode(document: object) -> bytes:
    """Return the JSON text of a document, UTF-8, without spaces."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def error_answer(refusal: RefusalError, meta: Mapping[str, object]) -> SandboxResponse:
    """Return the error envelope of a refusal (2.9)."""
    errors = [{"error": code, "message": message} for code, message in refusal.errors]
    body = encode({"errors": errors, "meta": dict(meta)})
    return SandboxResponse(refusal.status, body, refusal.headers)


def shorten(text: str, limit: int = 80) -> str:
    """Return a caller's text, quoted and cut, so that an error message stays one paragraph."""
    return repr(text if len(text) <= limit else text[:limit] + "…")
