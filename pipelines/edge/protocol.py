"""The rules of the API without any I/O: calls, signatures, envelopes and error bodies.

The calls themselves are written in `calls` and offered here with the rest.
Sections of the specification are in parentheses. What is read here is hostile until it has passed:
a body counts only if it is strict UTF-8 JSON, one document, in the documented envelope, with
no key of the envelope given twice. The insides of records are checked for being JSON, not for
their contract: that is `models` and the flattening.
"""

import codecs
import hashlib
import hmac
import json
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap
from typing import Any, NoReturn

import msgspec

from pipelines.edge.calls import (
    PREFIX,
    Call,
    get_portfolio,
    get_venue,
    list_instruments,
    list_portfolios,
    list_venues,
    raw_call,
)
from pipelines.edge.errors import ApiError, Misread

__all__ = [
    "PREFIX",
    "Call",
    "Envelope",
    "get_portfolio",
    "get_venue",
    "list_instruments",
    "list_portfolios",
    "list_venues",
    "paging_hint",
    "payload",
    "raw_call",
    "read_envelope",
    "read_errors",
    "record_defect",
    "signature",
    "split",
]

_CHUNK = 1 << 20
_MEMBERS = 64  # an envelope has two; a body made of keys alone must not fill the memory
_SMALL = 1 << 20  # what stands beside `data` is read into objects, so it must be small
_PAGING = ("next", "previous", "prev", "cursor", "page", "offset", "limit", "total", "more")


def payload(method: str, path: str, body: str, timestamp: int) -> bytes:
    """The bytes that are signed: method, path without query, body and milliseconds (5.2)."""
    return f"{method}{path}{body}{timestamp}".encode()


def signature(secret: str, payload: bytes) -> str:
    """The lower-case hex HMAC-SHA-384 of a payload, keyed with the secret (5.2)."""
    return hmac.new(secret.encode(), payload, hashlib.sha384).hexdigest()


@dataclass(frozen=True, slots=True)
class Envelope:
    """A success body, taken apart but not copied: the raw `data` and the raw `meta` (2.9).

    Both are views into the buffer they were read from, which they keep open.
    """

    data: msgspec.Raw
    meta: msgspec.Raw
    is_list: bool


class _Key:
    """A key of an object that equals no other key, so that a dictionary keeps repeated ones."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def read_envelope(body: bytes | mmap | memoryview, *, single: bool) -> Envelope:
    """Read a success body strictly (2.9), one pass, without building its records.

    Raises:
        Misread: the body is not strict JSON, or not the documented envelope.
    """
    _require_utf8(body)
    members = _members(body)
    if "data" not in members:
        raise Misread(f"the envelope has no `data`, only {_names(members)}")
    if "meta" not in members:
        raise Misread(f"the envelope has no `meta`, only {_names(members)}")
    if "errors" in members and bytes(memoryview(members["errors"])[:9]) != b"[]":
        raise Misread("the envelope has both `data` and `errors`")
    for name, raw in members.items():
        if name != "data":
            _require_strict(name, raw)
    _require_opening("data", members["data"], b"{" if single else b"[")
    _require_opening("meta", members["meta"], b"{")
    return Envelope(members["data"], members["meta"], is_list=not single)


def split(envelope: Envelope) -> list[msgspec.Raw]:
    """The elements of `data`, each as the bytes that came; a single record is a list of one.

    Raises:
        Misread: an element is not an object.
    """
    if not envelope.is_list:
        return [envelope.data]
    elements: list[msgspec.Raw] = msgspec.json.decode(envelope.data, type=list[msgspec.Raw])
    for position, element in enumerate(elements):
        if _opening(element) != b"{":
            raise Misread(f"element {position} of `data` is not an object")
    return elements


def read_errors(body: bytes | mmap | memoryview) -> tuple[ApiError, ...] | None:
    """The entries of an error body (7), or None where the body is no error body at all."""
    try:
        members = _members(body)
        entries = msgspec.json.decode(members["errors"], type=list[dict[str, Any]])
    except (Misread, KeyError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return tuple(
        ApiError(_text(entry.get("error")), _text(entry.get("message"))) for entry in entries
    )


def paging_hint(envelope: Envelope) -> str | None:
    """The key of `meta` that looks like paging, which the document does not have (4.6), or None."""
    meta = msgspec.json.decode(envelope.meta)
    return next(_paging_keys(meta), None)


def record_defect(record: bytes | msgspec.Raw) -> str | None:
    """What makes the inside of a record ambiguous, or None: a repeated key, a number out of range.

    Exact and slow (objects are built); for a record that is already suspected.
    """
    try:
        json.loads(
            bytes(record).decode(),
            object_pairs_hook=_pairs,
            parse_constant=_constant,
            parse_float=_float,
        )
    except (ValueError, RecursionError) as error:
        return str(error)[:200] or type(error).__name__
    return None


def _members(body: bytes | mmap | memoryview) -> dict[str, msgspec.Raw]:
    """The members of the outermost object, in one pass that also proves the whole is JSON."""
    count = 0

    def key(_: type, text: Any) -> _Key:
        nonlocal count
        count += 1
        if count > _MEMBERS:
            raise ValueError(f"more than {_MEMBERS} members")
        return _Key(text)

    try:
        pairs = msgspec.json.decode(body, type=dict[_Key, msgspec.Raw], dec_hook=key)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
    else:
        return _unique(pairs)
    raise Misread(f"not a JSON object in the envelope's shape: {reason}")


def _unique(pairs: dict[_Key, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    members: dict[str, msgspec.Raw] = {}
    for key, raw in pairs.items():
        if key.text in members:
            raise Misread(f"the envelope has the key `{key.text[:40]}` twice")
        members[key.text] = raw
    return members


def _require_utf8(body: bytes | mmap | memoryview) -> None:
    """Raise Misread unless every byte is UTF-8: msgspec does not look into strings it skips."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    found = ""
    with memoryview(body) as view:
        try:
            for start in range(0, len(view), _CHUNK):
                decoder.decode(view[start : start + _CHUNK])
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            found = f"not UTF-8: {error.reason}"
    if found:
        raise Misread(found)


def _require_strict(name: str, raw: msgspec.Raw) -> None:
    if len(memoryview(raw)) > _SMALL:
        raise Misread(f"`{name[:40]}` in the envelope is larger than {_SMALL:,} bytes")
    if defect := record_defect(raw):
        raise Misread(f"`{name[:40]}` in the envelope is not strict JSON: {defect}")


def _require_opening(name: str, raw: msgspec.Raw, opening: bytes) -> None:
    if _opening(raw) != opening:
        kind = "a list" if opening == b"[" else "an object"
        raise Misread(f"`{name}` is not {kind}")


def _opening(raw: msgspec.Raw) -> bytes:
    return bytes(memoryview(raw)[:1])


def _names(members: dict[str, msgspec.Raw]) -> str:
    return ", ".join(f"`{name[:40]}`" for name in list(members)[:5]) or "nothing"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _paging_keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if any(word in key.lower() for word in _PAGING):
                yield key
            yield from _paging_keys(inner)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]  # set.add in a condition
        raise ValueError(f"the key `{twice[:40]}` is given twice")
    return record


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:20]} is out of range")
    return number
