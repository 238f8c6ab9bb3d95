"""Faults of bodies: JSON that is none, and compression that is broken."""

import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from pipelines.sandbox.errors import SandboxResponse, encode
from pipelines.sandbox.faults.answers import Twist, alter
from pipelines.sandbox.faults.scope import Fault

_MIB = 1024 * 1024
_DEPTH = 200_000


def _just(body: bytes) -> Twist:
    return alter(lambda _: body)


def _in_meta(literal: bytes) -> Twist:
    """Put a literal into `meta`, where no contract looks at it but the parser does."""
    return alter(lambda body: body.replace(b'"meta":{', b'"meta":{"x":' + literal, 1))


def _page(body: bytes) -> bytes:
    document = json.loads(body)
    return encode({**document, "meta": {"nextCursor": "bmV4dA==", "total": 1000}})


def _without_meta(body: bytes) -> bytes:
    document = json.loads(body)
    return encode({name: value for name, value in document.items() if name != "meta"})


def _both(body: bytes) -> bytes:
    error = {"error": "INTERNAL_SERVER_ERROR", "message": "Half of it failed."}
    return encode({**json.loads(body), "errors": [error]})


def _duplicate(body: bytes) -> bytes:
    return b'{"data":[],' + body[1:]


def _first_ten(body: bytes) -> bytes:
    document = json.loads(body)
    data = document.get("data")
    return encode({**document, "data": data[:10]}) if isinstance(data, list) else body


def _pack(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)


def _bad_sum(body: bytes) -> bytes:
    packed = _pack(body)
    return packed[:-8] + bytes([packed[-8] ^ 1]) + packed[-7:]


@lru_cache(maxsize=2)
def _zeros(size: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = packer.compress(b'{"data":[],"meta":{"x":"')
    blocks = (packer.compress(b"0" * _MIB) for _ in range(size // _MIB))
    return head + b"".join(blocks) + packer.flush()


def _bomb(answer: SandboxResponse, fault: Fault, _now: int) -> SandboxResponse:
    body = _zeros(fault.bytes_or(300))
    return SandboxResponse(200, body, {**answer.headers, "Content-Encoding": "gzip"})


def _large(answer: SandboxResponse, fault: Fault, _now: int) -> SandboxResponse:
    return replace(answer, body=answer.body + b" " * fault.bytes_or(64))


BODY_FAULTS: Mapping[str, tuple[str, Twist]] = {
    "empty-200": ("200 without a byte", _just(b"")),
    "json-null": ("the document is `null`", _just(b"null")),
    "json-list": ("the document is a list", _just(b"[]")),
    "json-cut": ("the document ends in its middle", alter(lambda body: body[: len(body) // 2])),
    "meta-missing": ("there is no `meta`", alter(_without_meta)),
    "meta-cursor": ("`meta` holds a cursor and a total", alter(_page)),
    "data-and-errors": ("an answer with data has errors as well", alter(_both)),
    "data-ten": ("lists end after ten records, silently", alter(_first_ten)),
    "nan": ("a NaN stands in the document", _in_meta(b"NaN")),
    "infinity": ("an Infinity stands in the document", _in_meta(b"-Infinity")),
    "exponent-huge": ("the number 1e999 stands in the document", _in_meta(b"1e999")),
    "integer-huge": ("a number of 5,000 digits stands there", _in_meta(b"9" * 5000)),
    "duplicate-keys": ("`data` stands twice in the document", alter(_duplicate)),
    "bad-utf-8": ("a byte that is no UTF-8 stands in a text", _in_meta(b'"\xff"')),
    "lone-surrogate": ("half a surrogate pair stands in a text", _in_meta(b'"\\ud800"')),
    "surrogate-pair": ("a good surrogate pair, which is legal", _in_meta(b'"\\ud83e\\udd8a"')),
    "bom": ("a byte order mark comes first", alter(lambda body: b"\xef\xbb\xbf" + body)),
    "utf-16": ("the document is UTF-16", alter(lambda body: body.decode().encode("utf-16"))),
    "nesting": ("lists 200,000 deep", _in_meta(b"[" * _DEPTH + b"]" * _DEPTH)),
    "two-documents": ("a second document follows the first", alter(lambda body: body + body)),
    "gzip": ("good gzip, which is legal", alter(_pack, Content_Encoding="gzip")),
    "gzip-cut": (
        "gzip ends in its middle, and the length agrees",
        alter(lambda body: _pack(body)[: len(_pack(body)) // 2], Content_Encoding="gzip"),
    ),
    "gzip-no-trailer": (
        "gzip without its last eight bytes",
        alter(lambda body: _pack(body)[:-8], Content_Encoding="gzip"),
    ),
    "gzip-bad-sum": ("gzip with a wrong check sum", alter(_bad_sum, Content_Encoding="gzip")),
    "gzip-garbage": (
        "bytes that are none follow the gzip",
        alter(lambda body: _pack(body) + b"garbage", Content_Encoding="gzip"),
    ),
    "gzip-twice": (
        "gzip in gzip, said so",
        alter(lambda body: _pack(_pack(body)), Content_Encoding="gzip, gzip"),
    ),
    "gzip-unsaid": ("gzip that no header tells", alter(_pack)),
    "gzip-not": ("plain JSON, called gzip", alter(lambda body: body, Content_Encoding="gzip")),
    "gzip-bomb": ("gzip of 300 MiB, or `mib`, of zeros", _bomb),
    "brotli": ("called br, which nobody asked for", alter(_pack, Content_Encoding="br")),
    "large": ("64 MiB, or `mib`, of spaces follow the document", _large),
}
