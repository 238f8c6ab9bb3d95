"""Response bodies: size limits, framing, decompression and storage.

httpx 0.28 accepts truncated bodies and nested encodings, ignores all gzip members after the first,
and unpacks zip bombs into memory. So bodies are read undecoded, and decoded here in small pieces.
"""

import contextlib
import hashlib
import mmap
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pipelines.edge.errors import MalformedResponseError, ResponseTooLarge, quote_text

# A body larger than this (in bytes) is stored in a file.
MAX_IN_MEMORY = 1 << 20

# The maximum output of one decompression step, in bytes. The total size is checked after each step,
# so a zip bomb cannot fill the memory.
_MAX_STEP = 1 << 16
# 15 selects zlib's largest window. Adding 16 makes zlib expect gzip and check the gzip trailer.
_GZIP_WINDOW = 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on a response's size and duration.

    `wire` and `decoded` are bytes. `connect`, `read` and `attempt` are seconds. `attempt` limits
    the whole attempt, but every `pace` bytes received add one second. So a large body has enough
    time, but a server that trickles single bytes still times out.
    """

    wire: int = 2 << 30
    decoded: int = 2 << 30
    connect: float = 5.0
    read: float = 20.0
    attempt: float = 30.0
    pace: int = 1 << 16


class Body:
    """The decoded bytes of a response body. They are written once, then read through `buffer`."""

    # A large body is stored in an unnamed file, so nothing remains after a crash.

    def __init__(self, spool_dir: Path | None = None) -> None:
        self._spool_dir = spool_dir
        self._memory = bytearray()
        self._file: IO[bytes] | None = None
        self._map: mmap.mmap | None = None
        self._digest = hashlib.sha256()
        self._is_closed = False
        self.size = 0

    @property
    def sha256(self) -> str:
        """The SHA-256 of the decoded body, in lower-case hex."""
        return self._digest.hexdigest()

    @property
    def folder(self) -> str:
        """The folder of the temporary file of a large body, with the mount of its disk."""
        folder = Path(self._spool_dir or tempfile.gettempdir()).absolute()
        mount = next(path for path in (folder, *folder.parents) if path.is_mount())
        return f"{folder} (on the disk mounted at {mount})"

    def write(self, chunk: bytes) -> None:
        """Append bytes to the body. Raises `OSError` if the disk is full or fails."""
        self._digest.update(chunk)
        self.size += len(chunk)
        if self._file is None and self.size <= MAX_IN_MEMORY:
            self._memory += chunk
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._spool_dir)  # noqa: SIM115 - closed by us
            self._file.write(self._memory)
            self._memory = bytearray()
        self._file.write(chunk)

    def flush(self) -> None:
        """Write buffered bytes to the file. Raises `OSError` if the disk is full or fails."""
        if self._file is not None:
            self._file.flush()

    def buffer(self) -> bytes | mmap.mmap:
        """Return the body's bytes. For a large body, this is a memory map, valid until `close`."""
        if self._is_closed:
            raise ValueError("the body is closed, so its bytes are no longer available")
        if self._file is None:
            return bytes(self._memory)
        if self._map is None:
            self.flush()
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return self._map

    def release_pages(self) -> None:
        """Release the memory of a large body. Its bytes can be read from the file again."""
        release_pages(self._map)

    def close(self) -> None:
        """Free the body's memory and file, except for parts that an envelope still uses."""
        self._is_closed = True
        self._memory = bytearray()
        if self._map is not None:
            # Closing the memory map raises BufferError if a record still refers to the map. In that
            # case, the map is freed together with the last such record.
            with contextlib.suppress(BufferError):
                self._map.close()
            self._map = None
        if self._file is not None:
            # Closing the file writes buffered bytes, which fails on a full disk. That does not
            # matter, because the body is no longer needed.
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None


def require_framing(headers: Mapping[str, str], version: str) -> None:
    """Raise `MalformedResponseError` if the body has no `Content-Length` and is not chunked.

    In such a body, nothing marks the end, so a truncated body would look complete. `version` is the
    HTTP version.
    """
    is_chunked = headers.get("transfer-encoding", "").strip().lower() == "chunked"
    if not is_chunked and "content-length" not in headers:
        raise MalformedResponseError(
            f"the body has neither a length nor chunks ({version}), so its end is unknown"
        )


def decode_body(
    raw: Iterable[bytes],
    headers: Mapping[str, str],
    limits: Limits,
    scrub: Callable[[str], str] = lambda text: text,
) -> Iterator[bytes]:
    """Decode a body (gzip or no content encoding) and yield it in pieces of limited size.

    Raises `MalformedResponseError` and `ResponseTooLarge`. `scrub` removes the key, the secret and
    signatures from the `Content-Encoding` header before an error quotes it.
    """
    # Call `scrub` before `lower`, because `scrub` would not find a key that is in lower case.
    encoding = scrub(headers.get("content-encoding", "")).strip().lower()
    received = _limit_size(raw, limits.wire, "on the wire")
    if encoding in {"", "identity"}:
        decoded: Iterator[bytes] = received
    elif encoding in {"gzip", "x-gzip"}:
        decoded = _gunzip(received)
    else:
        raise MalformedResponseError(
            f"the content encoding is {quote_text(encoding, 60)}, but only gzip or none is accepted"
        )
    return _limit_size(decoded, limits.decoded, "after decompression")


def release_pages(buffer: object) -> None:
    """Free the physical memory of a memory map, if the system can. Ignore all other buffers."""
    if isinstance(buffer, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        buffer.madvise(mmap.MADV_DONTNEED)


def _limit_size(pieces: Iterable[bytes], limit: int, stage: str) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > limit:
            raise ResponseTooLarge("the body", limit, stage)
        yield piece


def _gunzip(raw: Iterable[bytes]) -> Iterator[bytes]:
    """Decompress one or more gzip members. Each must end with its checksum and length."""
    member = zlib.decompressobj(_GZIP_WINDOW)
    is_started = False
    defect = ""
    try:
        for piece in raw:
            compressed = piece
            while compressed:
                if member.eof:
                    member = zlib.decompressobj(_GZIP_WINDOW)
                is_started = True
                yield member.decompress(compressed, _MAX_STEP)
                compressed = member.unused_data if member.eof else member.unconsumed_tail
    except zlib.error as error:
        defect = f"the gzip stream is damaged ({error})"
    # zlib verifies the checksum and length at the end of a member. If that end is missing, the body
    # was truncated, even if the decompressed part happens to be complete JSON.
    if not defect and not (is_started and member.eof):
        defect = "the gzip stream was cut short"
    if defect:
        raise MalformedResponseError(defect)
