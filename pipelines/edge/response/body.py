"""A body as it was received: in memory while small, in an unlinked temporary file above that."""

import contextlib
import hashlib
import mmap
import tempfile
from pathlib import Path
from typing import IO

IN_MEMORY = 1 << 20


class Body:
    """The decoded bytes of one answer, written once and then read through `buffer`."""

    # A large body lies in a file without a name: nothing is left behind, whatever happens.

    def __init__(self, spool_dir: Path | None = None) -> None:
        self._spool_dir = spool_dir
        self._head = bytearray()
        self._file: IO[bytes] | None = None
        self._map: mmap.mmap | None = None
        self._digest = hashlib.sha256()
        self._closed = False
        self.size = 0
        self.is_ascii = True

    @property
    def sha256(self) -> str:
        """The lower-case hex SHA-256 of all bytes."""
        return self._digest.hexdigest()

    def write(self, chunk: bytes) -> None:
        """Add bytes at the end; raises `OSError` where the disk is full or failing."""
        self._digest.update(chunk)
        self.is_ascii = self.is_ascii and chunk.isascii()
        self.size += len(chunk)
        if self._file is None and self.size <= IN_MEMORY:
            self._head += chunk
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._spool_dir)  # noqa: SIM115 - closed by us
            self._file.write(self._head)
            self._head = bytearray()
        self._file.write(chunk)

    def flush(self) -> None:
        """Let the file have what waits in memory; raises `OSError` as `write` does."""
        if self._file is not None:
            self._file.flush()

    def buffer(self) -> bytes | mmap.mmap:
        """Return all bytes; of a large body a read-only memory map, which `close` gives up."""
        if self._closed:
            raise ValueError("the body was closed, its bytes are gone")
        if self._file is None:
            return bytes(self._head)
        if self._map is None:
            self.flush()
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return self._map

    def give_back(self) -> None:
        """Let the system drop the pages that were read; the file still has them."""
        give_back(self._map)

    def close(self) -> None:
        """Free memory and file; views into them, such as an envelope, keep them until they go."""
        self._closed = True
        self._head = bytearray()
        if self._map is not None:
            # Closing a map under a live view raises BufferError, and the view must stay valid.
            # A record may still point into the map: it is freed with the last of them.
            with contextlib.suppress(BufferError):
                self._map.close()
            self._map = None
        if self._file is not None:
            # What a full disk did not take is tried once more here, and nobody wants it any more.
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None


def give_back(buffer: object) -> None:
    """Let the system drop the pages of a memory map, where it can; anything else stays."""
    if isinstance(buffer, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        buffer.madvise(mmap.MADV_DONTNEED)
