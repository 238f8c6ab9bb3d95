"""The API credentials, which sign requests and remove the key and secret from strings."""

import hashlib
import hmac
import json
import re
from itertools import takewhile
from operator import eq
from typing import NoReturn
from urllib.parse import quote

from pipelines.edge.access import has_invisible, is_visible_ascii
from pipelines.edge.errors import InvalidCredential

_HIDDEN = "•••"
# Matches a complete signature, or the beginning of a signature at the end of a truncated string.
_SIGNATURE = re.compile("[0-9a-fA-F]{96}|[0-9a-fA-F]{32,}(?=…?$)")
# The first 16 characters of a key or secret do not occur in a string by chance.
_MIN_PREFIX = 16
# A key or secret shorter than this may occur in a string by chance, so it is not removed. Real keys
# are longer.
_MIN_LENGTH = 6


class Credentials:
    """An API key and its secret (§5). The `repr` hides both, and pickling or copying is refused.

    Raises `InvalidCredential` if the key or the secret is empty, or contains characters that cannot
    be sent or seen.
    """

    __slots__ = ("_key", "_secret")

    def __init__(self, key: str, secret: str) -> None:
        if not key:
            raise InvalidCredential("key", "is empty")
        if not is_visible_ascii(key):
            raise InvalidCredential("key", "contains spaces, line breaks or non-ASCII characters")
        # The secret is not sent in a header, so every visible character is allowed (5.2.6).
        if not secret.strip():
            raise InvalidCredential("secret", "is empty")
        if has_invisible(secret):
            raise InvalidCredential("secret", "contains a line break or an invisible character")
        self._key, self._secret = key, secret

    def __repr__(self) -> str:
        return f"Credentials(key={_HIDDEN}, secret={_HIDDEN})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "credentials cannot be pickled or copied, because that could write them to disk in "
            "plain text"
        )

    def headers(self, method: str, path: str, timestamp: int) -> dict[str, str]:
        """Return the three authentication headers (§5.1) for a request without a body.

        Never log or store these headers, because they contain the key and a valid signature.
        """
        return {
            "SVC-API-KEY": self._key,
            "SVC-API-TIMESTAMP": str(timestamp),
            "SVC-API-SIGNATURE": signature(self._secret, payload(method, path, "", timestamp)),
        }

    def scrub(self, text: str) -> str:
        """Hide the key, the secret and signatures in a string, in case a server sent them back.

        This includes the beginning of a truncated value, because long names in an envelope are
        truncated.
        """
        for value in (*_encodings(self._secret), *_encodings(self._key)):
            if len(value) >= _MIN_LENGTH:
                text = _remove(value, text)
        return _SIGNATURE.sub(_HIDDEN, text)


def payload(method: str, path: str, body: str, timestamp: int) -> bytes:
    """Return the bytes to sign (§5.2). `path` has no query. `timestamp` is in milliseconds."""
    return f"{method}{path}{body}{timestamp}".encode()


def signature(secret: str, payload: bytes) -> str:
    """Compute a payload's HMAC-SHA-384 with the secret, in lower-case hex (§5.2)."""
    return hmac.new(secret.encode(), payload, hashlib.sha384).hexdigest()


def _remove(value: str, text: str) -> str:
    text = text.replace(value, _HIDDEN)
    # A truncated string may end in the middle of the secret, so also remove the longest matching
    # prefix.
    while (start := text.find(value[:_MIN_PREFIX])) >= 0:
        length = len(list(takewhile(bool, map(eq, value, text[start:]))))
        text = f"{text[:start]}{_HIDDEN}{text[start + length :]}"
    return text


def _encodings(value: str) -> dict[str, None]:
    """Return all encoded forms of a string (plain, JSON, URL, read as Latin-1), longest first."""
    forms = (
        value,
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        quote(value, safe=""),
        quote(value),
        value.encode().decode("latin-1"),
    )
    return dict.fromkeys(sorted(forms, key=len, reverse=True))
