"""Strict checks of success and error bodies (§2.9, §7), without decoding their records.

A body is valid only if it is a single UTF-8 JSON document in the documented envelope, and no
envelope key occurs twice. Records are only checked to be JSON. Their fields are checked by `models`
and during flattening.

Small bodies are decoded in one pass, which is faster. Large bodies are scanned step by step, so
that their memory pages can be released along the way. A step costs 2 microseconds, which is
negligible for a portfolio, but too much for each of a thousand small records.
"""

import codecs
import json
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from mmap import mmap
from typing import Any, NoReturn

import msgspec

from pipelines.edge.errors import ErrorEntry, MalformedResponseError
from pipelines.edge.response.body import release_pages

# These limits prevent a hostile body from using up all memory.
MAX_MEMBERS = 64  # maximum number of members in an envelope (the API sends two)
MAX_RECORDS = 250_000  # maximum number of records in a list
# Maximum size of a record in bytes, because each record is decoded in memory.
MAX_RECORD_SIZE = 1 << 27
# Maximum size in bytes of each member of a large body, except for `data`.
MAX_MEMBER_SIZE = 1 << 21
# Maximum size in bytes of each decoded member (all members except `data`).
_MAX_DECODED_MEMBER = 1 << 20

_CHUNK = 1 << 20
_MIN_WALKED = 1 << 24  # bodies with more bytes than this are scanned step by step
_RELEASE_INTERVAL = 1 << 25  # number of bytes to scan before releasing memory pages
# If the average record has more bytes than this, slice the records instead of scanning them again.
_MIN_SLICED = 4096
_SPACE = re.compile(rb"[ \t\n\r]*")
_TRAILING = re.compile(r"trailing characters \(byte ([0-9]+)\)")


@dataclass(frozen=True, slots=True)
class Envelope:
    """The undecoded members of a success body (§2.9). They refer to the body's buffer.

    `other_members` are the members that the document does not define. If the body was scanned step
    by step, `spans` contains the start and end offset of each record in turn, relative to the start
    of `data`.
    """

    data: msgspec.Raw
    meta: msgspec.Raw
    is_list: bool
    spans: "array[int] | None" = field(default=None, repr=False)
    other_members: Mapping[str, msgspec.Raw] = field(default_factory=dict)


class _Key:
    """A key that is never equal to another key, so that a dictionary keeps duplicate keys."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def read_envelope(body: bytes | mmap | memoryview, *, single: bool) -> Envelope:
    """Read and strictly check a success body (§2.9), without decoding its records.

    Raises `MalformedResponseError`.
    """
    commas = _check_encoding(body)
    # Every record except the last is followed by a comma, so `commas` also limits the number of
    # records. Scan a body with many commas record by record, because decoding a long list of `{}`
    # would create millions of objects.
    walk = _Walk(body) if len(body) > _MIN_WALKED or commas > MAX_RECORDS else None
    members = walk.members if walk else _read_members(body)
    if "data" not in members:
        raise MalformedResponseError(f"the envelope has no `data`, only {_list_names(members)}")
    if "meta" not in members:
        raise MalformedResponseError(f"the envelope has no `meta`, only {_list_names(members)}")
    for name, raw in members.items():
        if name != "data":
            _require_strict_member(name, raw)
    if "errors" in members and msgspec.json.decode(members["errors"]):
        raise MalformedResponseError("the envelope has both `data` and `errors`")
    _require_opening("data", members["data"], b"{" if single else b"[")
    _require_opening("meta", members["meta"], b"{")
    return Envelope(
        data=members["data"],
        meta=members["meta"],
        is_list=not single,
        spans=walk.spans if walk else None,
        other_members={name: raw for name, raw in members.items() if name not in {"data", "meta"}},
    )


def raw_records(envelope: Envelope) -> list[msgspec.Raw]:
    """Return a list of all undecoded records, or of the single record. May raise RecursionError."""
    if not envelope.is_list:
        return [envelope.data]
    # If the positions of the records are known and the records are large, slice the body instead of
    # scanning it again.
    view, spans = memoryview(envelope.data), envelope.spans
    if spans is not None and len(spans) // 2 * _MIN_SLICED < len(view):
        return [
            msgspec.Raw(view[start:end]) for start, end in zip(spans[::2], spans[1::2], strict=True)
        ]
    return msgspec.json.decode(envelope.data, type=list[msgspec.Raw])


def read_errors(body: bytes | mmap | memoryview) -> tuple[ErrorEntry, ...] | None:
    """Return the entries of an error body (§7), or None for any other body."""
    try:
        members = _read_members(body)
        entries = msgspec.json.decode(members["errors"], type=list[dict[str, Any]])
    except (
        MalformedResponseError,
        KeyError,
        msgspec.MsgspecError,
        UnicodeDecodeError,
        RecursionError,
    ):
        return None
    return tuple(
        ErrorEntry(_string_or_empty(entry.get("error")), _string_or_empty(entry.get("message")))
        for entry in entries
    )


# Detection of ambiguous JSON


def require_strict(records: Iterable[msgspec.Raw]) -> None:
    """Raise `MalformedResponseError` if a record has a duplicate key or a number out of range."""
    for index, record in enumerate(records):
        if defect := find_record_defect(record):
            raise MalformedResponseError(f"record {index} of `data` is not strict JSON: {defect}")


def find_record_defect(record: bytes | msgspec.Raw) -> str | None:
    """Describe why a record is ambiguous (duplicate key, number out of range), or return None."""
    # Decoding is exact but slow, because it builds objects. Use it only for small values, or for
    # values that are decoded anyway.
    try:
        json.loads(
            bytes(record).decode(),
            object_pairs_hook=_parse_object,
            parse_constant=_refuse_constant,
            parse_float=_parse_float,
        )
    except (ValueError, RecursionError) as error:
        return str(error)[:200] or type(error).__name__
    return None


def _parse_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        [(key, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key `{key[:40]}` occurs twice")
    return record


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _parse_float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:20]} is out of range")
    return number


# Small bodies


def _read_members(body: bytes | mmap | memoryview) -> dict[str, msgspec.Raw]:
    """Read the outermost object's members in one pass, which also checks that the body is JSON."""
    count = 0

    # With duplicate keys, a dictionary would silently keep only the last value. `_Key` objects are
    # never equal, so duplicates are found in the same pass.
    def make_key(_: type, text: Any) -> _Key:
        nonlocal count
        count += 1
        if count > MAX_MEMBERS:
            raise ValueError(f"more than {MAX_MEMBERS} members")
        return _Key(text)

    try:
        pairs = msgspec.json.decode(body, type=dict[_Key, msgspec.Raw], dec_hook=make_key)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
    else:
        members: dict[str, msgspec.Raw] = {}
        for key, raw in pairs.items():
            _require_new(key.text, members)
            members[key.text] = raw
        return members
    raise MalformedResponseError(f"not a JSON object with the envelope's structure: {reason}")


def _check_encoding(body: bytes | mmap | memoryview) -> int:
    """Check that a body is UTF-8 and not padded with white space. Return the number of commas.

    This is necessary because msgspec does not check the encoding of strings that it skips. Raises
    `MalformedResponseError`.
    """
    commas = 0
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(body), _CHUNK):
            # If the body is `bytes` and fits in one chunk, neither the slice nor `bytes` copies it.
            chunk = bytes(body[start : start + _CHUNK])
            commas += chunk.count(b",")
            # ASCII needs no decoding, unless the previous chunk ended in the middle of a character.
            if not chunk.isascii() or decoder.getstate()[0]:
                decoder.decode(chunk)
            if len(chunk) == _CHUNK and chunk.isspace():
                raise MalformedResponseError("a megabyte of white space")
            if start % _MIN_WALKED == 0:
                release_pages(body)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise MalformedResponseError(f"not UTF-8: {error.reason}") from None
    return commas


def _require_new(key: str, members: Mapping[str, msgspec.Raw]) -> None:
    if key in members:
        raise MalformedResponseError(f"the envelope has the key `{key[:40]}` twice")


def _require_strict_member(name: str, raw: msgspec.Raw) -> None:
    if len(memoryview(raw)) > _MAX_DECODED_MEMBER:
        raise MalformedResponseError(
            f"`{name[:40]}` in the envelope is larger than {_MAX_DECODED_MEMBER:,} bytes"
        )
    if defect := find_record_defect(raw):
        raise MalformedResponseError(f"`{name[:40]}` in the envelope is not strict JSON: {defect}")


def _require_opening(name: str, raw: msgspec.Raw, opening: bytes) -> None:
    if bytes(memoryview(raw)[:1]) != opening:
        kind = "a list" if opening == b"[" else "an object"
        raise MalformedResponseError(f"`{name}` is not {kind}")


def _list_names(members: dict[str, msgspec.Raw]) -> str:
    return ", ".join(f"`{name[:40]}`" for name in list(members)[:5]) or "nothing"


def _string_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""


# Large bodies


class _Walk:
    """A step-by-step scan of a large body, which finds its members and the records in `data`.

    Raises `MalformedResponseError`. After each step, `_position` is the end of the last token.
    """

    def __init__(self, body: bytes | mmap | memoryview) -> None:
        self._body = body
        self._view = memoryview(body)
        self._position = self._released = 0
        self.members: dict[str, msgspec.Raw] = {}
        self.spans = array("Q")
        self._skip(b"{")
        # An empty object may end here, but after a comma there must be another member.
        while self._peek() != b"}" or self.members:
            self._read_member()
            if self._peek() == b"}":
                break
            self._skip(b",")
        self._skip(b"}")
        if self._peek():
            raise MalformedResponseError(f"data after the document, at byte {self._position}")

    def _read_member(self) -> None:
        if self._peek() != b'"':
            raise MalformedResponseError(f"expected a key at byte {self._position}")
        start, end = self._skip_value(MAX_RECORD_SIZE)
        key: str = msgspec.json.decode(self._view[start:end], type=str)
        _require_new(key, self.members)
        if len(self.members) == MAX_MEMBERS:
            raise MalformedResponseError(f"the envelope has more than {MAX_MEMBERS} members")
        self._skip(b":")
        if key != "data":
            start, end = self._skip_value(MAX_MEMBER_SIZE)
        elif self._peek() == b"[":
            start, end = self._skip_records()
        else:
            start, end = self._skip_value(MAX_RECORD_SIZE)
        self.members[key] = msgspec.Raw(self._view[start:end])

    def _skip_records(self) -> tuple[int, int]:
        start = self._position
        self._position += 1
        while self._peek() != b"]" or self.spans:
            if len(self.spans) == 2 * MAX_RECORDS:
                raise MalformedResponseError(f"`data` has more than {MAX_RECORDS:,} records")
            record_start, record_end = self._skip_value(MAX_RECORD_SIZE)
            self.spans.extend((record_start - start, record_end - start))
            if self._peek() == b"]":
                break
            self._skip(b",")
        self._skip(b"]")
        return start, self._position

    def _skip_value(self, limit: int) -> tuple[int, int]:
        """Skip the next JSON value, of at most `limit` bytes. Return its start and end offsets."""
        self._peek()
        start = self._position
        self._position += _value_length(self._view[start : start + limit], limit)
        if self._position - self._released >= _RELEASE_INTERVAL:
            self._released = self._position
            release_pages(self._body)
        end = self._position
        while self._view[end - 1] in b" \t\n\r":
            end -= 1
        return start, end

    def _peek(self) -> bytes:
        """Skip white space and return the next byte, or `b""` at the end of the body."""
        space = _SPACE.match(self._view, self._position)
        self._position = space.end() if space else self._position
        return bytes(self._view[self._position : self._position + 1])

    def _skip(self, expected: bytes) -> None:
        if (found := self._peek()) != expected:
            shown = repr(found.decode("latin-1")) if found else "the end"
            raise MalformedResponseError(
                f"not a JSON object: expected {expected.decode()}, but found {shown}"
            )
        self._position += 1


def _value_length(view: memoryview, limit: int) -> int:
    """Return the length of the first JSON value in bytes, including the white space after it."""
    # If data follows the first value, msgspec's error contains the position of that data. The error
    # also proves that the value itself is valid.
    try:
        msgspec.json.decode(view, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError) as error:
        message = "nested too deeply" if isinstance(error, RecursionError) else str(error)
    else:
        return len(view)
    if trailing := _TRAILING.search(message):
        return int(trailing[1]) - 1
    if len(view) == limit:
        raise MalformedResponseError(
            f"a record, or a member next to `data`, is larger than {limit:,} bytes"
        )
    raise MalformedResponseError(f"not JSON: {message}")
