"""Keys and values of an answer as they may stand in a message: quoted where need be, and short."""

import re
from typing import Any

import msgspec

_LONGEST = 120


def plain_key(key: str) -> str:
    """Return a key as part of a path; one that would read as path itself is put in quotes."""
    return key if re.fullmatch(r"[\w-]{1,64}", key) else msgspec.json.encode(key[:64]).decode()


def shorten(value: Any) -> str:
    """Return a value as JSON text, cut to what an example may have."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
