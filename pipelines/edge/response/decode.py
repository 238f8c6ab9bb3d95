"""Reading an answer off the wire: framing, content encoding and size, each bounded and checked.

httpx 0.28 takes a body cut short, a second gzip member or a nested encoding without complaint, and
unpacks a bomb into memory; so bodies are read raw and decoded here, a little at a time.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from pipelines.edge.errors import Misread, TooLarge, quote_text

_STEP = 1 << 16
_GZIP = 31  # zlib's window size plus 16: gzip with header and trailer, both checked


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one answer may be and how long it may take.

    `wire` and `decoded` are bytes. `attempt` is seconds for everything up to the body, and for the
    body on top of what `pace` (bytes a second) allows for its size, so that a large honest body is
    let through and a drip is not.
    """

    wire: int = 2 << 30
    decoded: int = 2 << 30
    connect: float = 5.0
    read: float = 20.0
    attempt: float = 30.0
    pace: int = 1 << 16


def require_framing(headers: Mapping[str, str], version: str) -> None:
    """Raise Misread unless the end of the body is marked, so that a body cut short is seen."""
    chunked = headers.get("transfer-encoding", "").strip().lower() == "chunked"
    if not chunked and "content-length" not in headers:
        raise Misread(f"the body has neither a length nor chunks ({version}): its end is a guess")


def decode_body(
    raw: Iterable[bytes],
    headers: Mapping[str, str],
    limits: Limits,
    scrub: Callable[[str], str] = lambda text: text,
) -> Iterator[bytes]:
    """Return the body without its content encoding (none or gzip), in pieces of bounded size.

    Raises `Misread` and `TooLarge`. `scrub` takes out of a header what no error may show.
    """
    # A key in other letters, or cut short, would no longer be found.
    encoding = scrub(headers.get("content-encoding", "")).strip().lower()
    counted = _limit_size(raw, limits.wire, "on the wire")
    if encoding in {"", "identity"}:
        pieces: Iterator[bytes] = counted
    elif encoding in {"gzip", "x-gzip"}:
        pieces = _gunzip(counted)
    else:
        raise Misread(
            f"the content encoding is {quote_text(encoding, 60)}; gzip or none was asked for"
        )
    return _limit_size(pieces, limits.decoded, "after decompression")


def _limit_size(pieces: Iterable[bytes], limit: int, stage: str) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > limit:
            raise TooLarge("the body", limit, stage)
        yield piece


def _gunzip(raw: Iterable[bytes]) -> Iterator[bytes]:
    """Unpack one or more gzip members; each must be whole, checksum and length included."""
    member = zlib.decompressobj(_GZIP)
    started = False
    defect = ""
    try:
        for piece in raw:
            packed = piece
            while packed:
                if member.eof:
                    member = zlib.decompressobj(_GZIP)
                started = True
                # At most 64 KiB come out of a step: a bomb is stopped by the limit before it fills
                # the memory.
                yield member.decompress(packed, _STEP)
                packed = member.unused_data if member.eof else member.unconsumed_tail
    except zlib.error as error:
        defect = f"the gzip stream is damaged ({error})"
    # The trailer of a member has its checksum and length, which zlib proves at its end: a body that
    # ends before is cut short, even where what came happens to be whole JSON.
    if not defect and not (started and member.eof):
        defect = "the gzip stream is cut short"
    if defect:
        raise Misread(defect)
