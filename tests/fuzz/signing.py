"""The signer of the fuzzer, written from the specification (5.2).

It runs in the side environment `fuzz`. A request with intentionally wrong headers is sent
unchanged.
"""

import hashlib
import hmac
import os
import time
from typing import Any

import schemathesis  # type: ignore[import-not-found]  # only in the side environment
from requests.auth import AuthBase
from schemathesis.core.parameters import (  # type: ignore[import-not-found]  # the same
    ParameterLocation,
)

KEY, SECRET = os.environ["FUZZ_KEY"], os.environ["FUZZ_SECRET"]


class Signature(AuthBase):
    """The three headers, computed over the path as it is sent."""

    def __call__(self, request: Any) -> Any:
        """Sign a request that is about to be sent."""
        at = str(time.time_ns() // 1_000_000)
        path = request.path_url.partition("?")[0]
        body = request.body or b""
        content = body.encode() if isinstance(body, str) else body
        text = f"{request.method}{path}".encode() + content + at.encode()
        request.headers["SVC-API-KEY"] = KEY
        request.headers["SVC-API-TIMESTAMP"] = at
        digest = hmac.new(SECRET.encode(), text, hashlib.sha384).hexdigest()
        request.headers["SVC-API-SIGNATURE"] = digest
        return request


@schemathesis.auth()
class Signing:
    """The hook that signs every request, except requests with wrong headers."""

    def get(self, _case: Any, _context: Any) -> Signature:
        """Return the signer."""
        return Signature()

    def set(self, case: Any, signature: Signature, _context: Any) -> None:
        """Set the signer of a request, unless its headers are wrong on purpose."""
        if case.meta is None or not case.meta.is_negative_at(ParameterLocation.HEADER):
            case._auth = signature
