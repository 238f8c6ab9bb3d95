"""The rules of the API without any I/O: calls, signatures, envelopes and error bodies.

The sections of the specification are in parentheses. Calls are written in `calls`, bodies in
`envelope`; they are offered here, so that one import has all the rules.
"""

import hashlib
import hmac

from pipelines.edge.requests import (
    PREFIX,
    Call,
    get_portfolio,
    get_venue,
    list_instruments,
    list_portfolios,
    list_venues,
    raw_call,
)
from pipelines.edge.response.envelope import Envelope, read_envelope, read_errors, records, split
from pipelines.edge.response.strict import record_defect

__all__ = [
    "PREFIX",
    "Call",
    "Envelope",
    "get_portfolio",
    "get_venue",
    "list_instruments",
    "list_portfolios",
    "list_venues",
    "payload",
    "raw_call",
    "read_envelope",
    "read_errors",
    "record_defect",
    "records",
    "signature",
    "split",
]


def payload(method: str, path: str, body: str, timestamp: int) -> bytes:
    """The bytes that are signed: method, path without query, body and milliseconds (5.2)."""
    return f"{method}{path}{body}{timestamp}".encode()


def signature(secret: str, payload: bytes) -> str:
    """The lower-case hex HMAC-SHA-384 of a payload, keyed with the secret (5.2)."""
    return hmac.new(secret.encode(), payload, hashlib.sha384).hexdigest()
