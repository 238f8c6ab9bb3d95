"""The landing zone: the exact bytes of each response body, compressed with zstd, and a manifest.

A snapshot is a folder `landing/<snapshot_date>/<snapshot_id>/`. During the pull, its name starts
with a dot. The folder is renamed after the manifest is on disk, so a snapshot is either complete or
absent. A snapshot never contains the API key, the secret or a signature.
"""

import contextlib
import hashlib
import mmap
import shutil
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pyarrow as pa

from pipelines.landing import night_folders
from pipelines.landing.manifest import Manifest, RequestRecord, Window
from pipelines.landing.night_folders import MANIFEST, DamagedFile
from pipelines.landing.notices import ResponseNotice
from warehouse.storage.layout import Layout, make_directory, sync_directory, written_aside

IN_MEMORY = 8 * 1024 * 1024
CHUNK = 1024 * 1024
# Frames can be compressed one by one, because zstd reads consecutive frames as one stream.
FRAME = 4 * CHUNK


class PendingSnapshot:
    """A snapshot that is being pulled. Readers cannot see it until `finish` has run."""

    def __init__(self, layout: Layout, started_at: datetime, timezone: ZoneInfo) -> None:
        self._layout, self._zone = layout, timezone
        self._started_at = started_at
        self.machine_started_at = started_at.astimezone(UTC).replace(microsecond=0)
        self.skew: timedelta | None = None
        self._date(started_at)
        self.follows: str | None = None
        self._aside = self.folder.with_name(f".{self.snapshot_id}.pulling")
        self._stored: dict[str, str] = {}
        shutil.rmtree(self._aside, ignore_errors=True)
        make_directory(self._aside)

    def _date(self, moment: datetime) -> None:
        """Set the snapshot's start time, date, ID and folder."""
        self.started_at = moment.astimezone(UTC).replace(microsecond=0)
        self.snapshot_date = moment.astimezone(self._zone).date()
        self.snapshot_id = night_folders.free_id(self._layout, self.started_at, self.snapshot_date)
        self.folder = self._layout.snapshot(self.snapshot_date, self.snapshot_id)

    def correct(self, ahead_ms: int) -> None:
        """Set the night's date by the server's clock, which is `ahead_ms` ahead of ours."""
        self.skew = timedelta(milliseconds=ahead_ms)
        self._date(self._started_at + self.skew)

    def land(self, name: str, body: bytes | mmap.mmap) -> str:
        """Compress and store a response body. Return the file's name in the snapshot folder."""
        file_name = f"{name}.json.zst"
        digest = hashlib.sha256()
        codec = pa.Codec("zstd", compression_level=1)
        with written_aside(self._aside / file_name) as file, memoryview(body) as view:
            # Compress frame by frame, so that only one frame is in memory. An empty body also has
            # one frame.
            for start in range(0, max(len(view), 1), FRAME):
                frame = codec.compress(view[start : start + FRAME])
                digest.update(frame)
                file.write(frame)
        self._stored[file_name] = digest.hexdigest()
        return file_name

    def finish(
        self,
        finished_at: datetime,
        answers: tuple[RequestRecord, ...],
        *,
        origin: str,
        program_version: str,
        clock_skew_ms: int | None,
        signs: tuple[ResponseNotice, ...] = (),
        window: Window | None = None,
    ) -> Manifest:
        """Write the manifest, then rename the folder, which makes the snapshot visible."""
        manifest = Manifest(
            snapshot_id=self.snapshot_id,
            snapshot_date=self.snapshot_date,
            timezone=str(self._zone),
            started_at=self.started_at.isoformat(),
            finished_at=(finished_at.astimezone(UTC) + (self.skew or timedelta(0))).isoformat(),
            origin=origin,
            program_version=program_version,
            clock_skew_ms=clock_skew_ms,
            notices=tuple(notice.text for notice in signs),
            answers=tuple(sorted(answers, key=lambda answer: answer.request_no)),
            stored=dict(self._stored),
            window=window or Window(),
            machine_started_at=self.machine_started_at.isoformat(),
            signs=signs,
            follows=self.follows,
        )
        night_folders.write(self._aside / MANIFEST, msgspec.to_builtins(manifest))
        make_directory(self.folder.parent)
        # This rename lands the night. The folder is invisible until then.
        self._aside.rename(self.folder)
        sync_directory(self.folder.parent)
        self.abandon()  # If the date was corrected, this deletes the folder of the original date.
        return manifest

    def abandon(self) -> None:
        """Delete the unfinished snapshot. Does nothing if `finish` has already run."""
        shutil.rmtree(self._aside, ignore_errors=True)
        with contextlib.suppress(OSError):  # The date folder stays if it contains other snapshots.
            self._aside.parent.rmdir()


def body(
    layout: Layout,
    manifest: Manifest,
    answer: RequestRecord,
    on_bytes: Callable[[int], object] = int,
) -> bytes | mmap.mmap:
    """Read a landed body and check its SHA-256. A large body is returned as a memory map.

    Calls `on_bytes` with the number of bytes in each read. Raises `DamagedFile` if the body was
    changed.
    """
    path = layout.snapshot(manifest.snapshot_date, manifest.snapshot_id) / str(answer.file)
    expected, size = str(answer.sha256), answer.byte_count
    if size is not None and size > IN_MEMORY:
        return _memory_map(layout, path, expected, on_bytes)
    # Do not use a scratch file for small bodies, so that users without write access can read them.
    # Reading a body in one call takes half as long as streaming it.
    if size is None:
        text = b"".join(_chunks(path, expected))
    else:
        with _reading(path, expected):
            text = pa.Codec("zstd").decompress(path.read_bytes(), size, asbytes=True)
    on_bytes(len(text))
    _check(path, hashlib.sha256(text).hexdigest(), expected)
    return text


def _memory_map(
    layout: Layout, path: Path, expected: str, on_bytes: Callable[[int], object]
) -> mmap.mmap:
    """Decompress a body to an unnamed scratch file, check it, and map it into memory."""
    digest = hashlib.sha256()
    make_directory(layout.work)
    with tempfile.TemporaryFile(dir=layout.work) as file:
        for chunk in _chunks(path, expected):
            digest.update(chunk)
            file.write(chunk)
            on_bytes(len(chunk))
        _check(path, digest.hexdigest(), expected)
        file.flush()
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _check(path: Path, digest: str, expected: str) -> None:
    """Raise `DamagedFile` if a body's SHA-256 is not the expected one."""
    if digest != expected:
        raise DamagedFile(path, f"SHA-256 {digest}", f"SHA-256 {expected}")


def _chunks(path: Path, expected: str) -> Iterator[bytes]:
    """Decompress a landed body, and yield it in chunks."""
    with (
        _reading(path, expected),
        path.open("rb") as file,
        pa.CompressedInputStream(file, "zstd") as source,
    ):
        while chunk := source.read(CHUNK):
            yield chunk


@contextlib.contextmanager
def _reading(path: Path, expected: str) -> Iterator[None]:
    """Convert errors while reading a body to `DamagedFile`, except permission errors."""
    try:
        yield
    except PermissionError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise DamagedFile(path, f"an unreadable body ({error})", f"SHA-256 {expected}") from None
