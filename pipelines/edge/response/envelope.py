"""Success and error bodies (2.9, 7), read strictly and without building their records.

A body counts only if it is UTF-8, one JSON document, in the documented envelope, with no key of
the envelope given twice. The insides of records are proved to be JSON; that they keep their
contract is for `models` and the flattening.
"""

import codecs
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from mmap import mmap
from typing import Any

import msgspec
import numpy as np

from pipelines.edge.errors import ApiError, Misread
from pipelines.edge.response.body import give_back
from pipelines.edge.response.scan import MEMBERS, RECORDS, Scan
from pipelines.edge.response.strict import record_defect

_CHUNK = 1 << 20
_SMALL = 1 << 20  # what stands beside `data` is read into objects, so it must be small
_LARGE = 1 << 24  # bodies above this are walked, so that their pages are given back on the way
_COMMA = ord(",")
# What stands before a list and between it and `meta`, which is looked for in so many last bytes.
_OPENING, _BETWEEN, _TAIL = b'{"data":', b',"meta":', 4096
_RECORD = 4096  # records above this are cut out one by one instead of being scanned again


@dataclass(frozen=True, slots=True)
class Envelope:
    """A success body, taken apart but not copied: the raw `data` and the raw `meta` (2.9).

    Both are views into the buffer they were read from, which they keep open.
    """

    data: msgspec.Raw
    meta: msgspec.Raw
    is_list: bool
    # Where the records are, for a body that was too large to be read in one pass.
    spans: "array[int] | None" = field(default=None, repr=False)
    # The members that the document does not have, as they came (2.9).
    others: Mapping[str, msgspec.Raw] = field(default_factory=dict)
    # Its records, where they were read in the same pass.
    records: list[msgspec.Raw] | None = field(default=None, repr=False)


class _Key:
    """A key of an object that equals no other key, so that a dictionary keeps repeated ones."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def read_envelope(
    body: bytes | mmap | memoryview,
    *,
    single: bool,
    is_ascii: bool = False,
    with_records: bool = False,
) -> Envelope:
    """Read a success body strictly (2.9), without building its records; raises `Misread`.

    `is_ascii` says that all of its bytes are known to be ASCII, which then is not looked at again.
    A list is split into its records in the same pass `with_records`, where that can be done.
    """
    commas = _require_text(body, is_ascii=is_ascii)
    # Small bodies are read in one pass, which is quicker. Large ones, and those that may hold very
    # many records, go step by step, so that pages can be given back and a body of `{}` cannot make
    # millions of objects; each record has at least one comma behind it, but the last.
    walk = Scan(body) if len(body) > _LARGE or commas > RECORDS else None
    if with_records and not walk and (envelope := _list_and_meta(body)):
        return envelope
    members = walk.members if walk else _members(body)
    if "data" not in members:
        raise Misread(f"the envelope has no `data`, only {_names(members)}")
    if "meta" not in members:
        raise Misread(f"the envelope has no `meta`, only {_names(members)}")
    for name, raw in members.items():
        if name != "data":
            _require_strict(name, raw)
    if "errors" in members and msgspec.json.decode(members["errors"]):
        raise Misread("the envelope has both `data` and `errors`")
    _require_opening("data", members["data"], b"{" if single else b"[")
    _require_opening("meta", members["meta"], b"{")
    spans = walk.spans if walk else None
    others = {name: raw for name, raw in members.items() if name not in {"data", "meta"}}
    return Envelope(
        data=members["data"], meta=members["meta"], is_list=not single, spans=spans, others=others
    )


def raw_records(envelope: Envelope) -> list[msgspec.Raw]:
    """Return the elements of `data` as they came, or its one record; may raise RecursionError."""
    if not envelope.is_list:
        return [envelope.data]
    if envelope.records is not None:
        return envelope.records
    # Where the scan has found them already, large records are cut out and not scanned once more.
    view, spans = memoryview(envelope.data), envelope.spans
    if spans is not None and len(spans) // 2 * _RECORD < len(view):
        return [
            msgspec.Raw(view[first:end]) for first, end in zip(spans[::2], spans[1::2], strict=True)
        ]
    return msgspec.json.decode(envelope.data, type=list[msgspec.Raw])


def _list_and_meta(body: bytes | mmap | memoryview) -> Envelope | None:
    """Read a body that has nothing but a list and then `meta`; None for any other."""
    # All that stands around the two is known byte for byte, and each is seen to be one value: so
    # there is no other member, and no key twice.
    view, tail = memoryview(body), bytes(body[-_TAIL:])
    end = len(view) - len(tail) + tail.rfind(_BETWEEN)
    data, meta = view[len(_OPENING) : end], view[end + len(_BETWEEN) : -1]
    if bytes(view[: len(_OPENING)]) != _OPENING or _BETWEEN not in tail or tail[-1:] != b"}":
        return None
    try:
        records = msgspec.json.decode(data, type=list[msgspec.Raw])
        envelope = Envelope(msgspec.Raw(data), msgspec.Raw(meta), is_list=True, records=records)
        _require_strict("meta", envelope.meta)
        _require_opening("meta", envelope.meta, b"{")
    except (Misread, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None  # what is wrong is told by who reads every body
    return envelope


def read_errors(body: bytes | mmap | memoryview) -> tuple[ApiError, ...] | None:
    """Return the entries of an error body (7), or None where the body is no error body at all."""
    try:
        members = _members(body)
        entries = msgspec.json.decode(members["errors"], type=list[dict[str, Any]])
    except (Misread, KeyError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return tuple(
        ApiError(_text(entry.get("error")), _text(entry.get("message"))) for entry in entries
    )


def _members(body: bytes | mmap | memoryview) -> dict[str, msgspec.Raw]:
    """Read the members of the outermost object in one pass, which proves the whole is JSON."""
    count = 0

    # A dictionary would keep the last of two equal keys in silence. Keys that equal nothing keep
    # both, so a repeated one is seen in the same pass.
    def key(_: type, text: Any) -> _Key:
        nonlocal count
        count += 1
        if count > MEMBERS:
            raise ValueError(f"more than {MEMBERS} members")
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


def _require_text(body: bytes | mmap | memoryview, *, is_ascii: bool) -> int:
    """Raise Misread unless all is UTF-8 (msgspec skips over strings) and no long blank.

    Returns the number of commas, on which the number of records cannot be more than one above; of
    a body that is walked anyway they are not counted.
    """
    commas = 0
    is_large = len(body) > _LARGE
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(body), _CHUNK):
            if is_large and is_ascii and not bytes(body[start : start + 1]).isspace():
                continue
            chunk = bytes(body[start : start + _CHUNK])  # bytes of one chunk are not copied
            commas += 0 if is_large else _count_commas(chunk)
            # ASCII need not be decoded, unless a character before it is still open.
            if not (is_ascii or (chunk.isascii() and not decoder.getstate()[0])):
                decoder.decode(chunk)
            if len(chunk) == _CHUNK and chunk.isspace():
                raise Misread("a megabyte of white space")
            if start % _LARGE == 0:
                give_back(body)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise Misread(f"not UTF-8: {error.reason}") from None
    return commas


def _count_commas(chunk: bytes) -> int:
    # `bytes.count` goes from one to the next and takes three times as long.
    return int(np.count_nonzero(np.frombuffer(chunk, np.uint8) == _COMMA))


def _require_strict(name: str, raw: msgspec.Raw) -> None:
    if len(memoryview(raw)) > _SMALL:
        raise Misread(f"`{name[:40]}` in the envelope is larger than {_SMALL:,} bytes")
    if defect := record_defect(raw):
        raise Misread(f"`{name[:40]}` in the envelope is not strict JSON: {defect}")


def _require_opening(name: str, raw: msgspec.Raw, opening: bytes) -> None:
    if bytes(memoryview(raw)[:1]) != opening:
        kind = "a list" if opening == b"[" else "an object"
        raise Misread(f"`{name}` is not {kind}")


def _names(members: dict[str, msgspec.Raw]) -> str:
    return ", ".join(f"`{name[:40]}`" for name in list(members)[:5]) or "nothing"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
