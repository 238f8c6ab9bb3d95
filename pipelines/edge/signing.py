"""Signing at the moment of sending, and the one place that holds the key and the secret."""

import hashlib
import hmac
import json
import re
from itertools import takewhile
from operator import eq
from typing import NoReturn
from urllib.parse import quote

from pipelines.edge.errors import CredentialRefused
from pipelines.edge.letters import has_unseen, is_visible_ascii

_HIDDEN = "•••"
# Whole, or cut short at the end of a text.
_SIGNATURE = re.compile("[0-9a-fA-F]{96}|[0-9a-fA-F]{32,}(?=…?$)")
_CUT = 16  # letters of a longer one that are no chance either
_TELLING = 6  # a shorter text is found by chance; no real key is so short


def payload(method: str, path: str, body: str, timestamp: int) -> bytes:
    """Return the bytes that are signed: method, path without query, body and milliseconds (5.2)."""
    return f"{method}{path}{body}{timestamp}".encode()


def signature(secret: str, payload: bytes) -> str:
    """Return the lower-case hex HMAC-SHA-384 of a payload, keyed with the secret (5.2)."""
    return hmac.new(secret.encode(), payload, hashlib.sha384).hexdigest()


class Credentials:
    """An API key and its secret (5); never shown, never pickled, compared only by identity."""

    __slots__ = ("_key", "_secret")

    def __init__(self, key: str, secret: str) -> None:
        _require_visible("key", key)
        _require_text("secret", secret)
        self._key, self._secret = key, secret

    def __repr__(self) -> str:
        return f"Credentials(key={_HIDDEN}, secret={_HIDDEN})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "credentials are not pickled or copied: they would be on disk in plain text"
        )

    def headers(self, method: str, path: str, timestamp: int) -> dict[str, str]:
        """Return the three headers of a request without a body (5.1); never log or keep them."""
        return {
            "SVC-API-KEY": self._key,
            "SVC-API-TIMESTAMP": str(timestamp),
            "SVC-API-SIGNATURE": signature(self._secret, payload(method, path, "", timestamp)),
        }

    def scrub(self, text: str) -> str:
        """Take key, secret and signatures out of a text, should a server echo them."""
        # Also where a long one was cut short, as names in an envelope are.
        for value in (*_forms(self._secret), *_forms(self._key)):
            if len(value) >= _TELLING:
                text = _without(value, text)
        return _SIGNATURE.sub(_HIDDEN, text)


def _without(value: str, text: str) -> str:
    text = text.replace(value, _HIDDEN)
    # A name that was cut to some letters shows only the beginning of the secret: whatever continues
    # as the secret does is taken out.
    while (start := text.find(value[:_CUT])) >= 0:
        length = len(list(takewhile(bool, map(eq, value, text[start:]))))
        text = f"{text[:start]}{_HIDDEN}{text[start + length :]}"
    return text


def _forms(value: str) -> dict[str, None]:
    """Return a text as it is, and as JSON, an address and a Latin-1 reader would show it."""
    forms = (
        value,
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        quote(value, safe=""),
        quote(value),
        value.encode().decode("latin-1"),
    )
    return dict.fromkeys(sorted(forms, key=len, reverse=True))


def _require_text(name: str, value: str) -> None:
    """Raise unless it is visible text of one line: a secret stands in no header (5.2.6)."""
    if not value.strip():
        raise CredentialRefused(name, "is empty")
    if has_unseen(value):
        raise CredentialRefused(name, "holds a line end, or a letter that cannot be seen")


def _require_visible(name: str, value: str) -> None:
    if not value:
        raise CredentialRefused(name, "is empty")
    if not is_visible_ascii(value):
        raise CredentialRefused(name, "holds spaces, line ends or characters outside ASCII")
