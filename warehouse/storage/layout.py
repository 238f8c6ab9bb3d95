"""The paths under `NIGHTBOOK_HOME`, and file writes that a crash cannot corrupt.

Directories have mode 0750, files 0640 and published database files 0440.
"""

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from io import BufferedRandom
from pathlib import Path
from typing import Any

import msgspec

DIRECTORY_MODE = 0o750
FILE_MODE = 0o640
PUBLISHED_MODE = 0o440
UMASK = 0o777 & ~DIRECTORY_MODE
DATABASE = "nightbook.duckdb"
_NOT_SUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
DIGESTS = "digests.json"
NOTE = ".rejected.txt"
"""The end of the name of a note next to a file that shows a rejected night."""
# The storage version, which is the oldest DuckDB version that can read the database.
STORAGE_VERSION = "v1.2.0"
# Disable metadata reuse, which leaves pointers in the file that DuckDB 1.2 and 1.3 cannot follow.
STORAGE_SETTINGS = {"experimental_metadata_reuse": "false"}
BLOCK = 1 << 20
HASHERS = 2


@dataclass(frozen=True, slots=True)
class Layout:
    """All paths in a home. They contain dates and our own IDs, but never names from the API.

    `staged_in` is the folder for staged nights. If it is None, they are staged in a folder of the
    lake.
    """

    home: Path
    staged_in: Path | None = None

    @property
    def landing(self) -> Path:
        """The response bodies as received: `landing/<snapshot_date>/<snapshot_id>/`."""
        return self.home / "landing"

    @property
    def lake(self) -> Path:
        """The Parquet files: `lake/<table>/snapshot_date=YYYY-MM-DD/<snapshot_id>.parquet`."""
        return self.home / "lake"

    @property
    def manifests(self) -> Path:
        """The lake's manifests: `lake/manifests/<snapshot_id>.json`."""
        return self.lake / "manifests"

    @property
    def warehouse(self) -> Path:
        """The versions of the database, and the link to the current version."""
        return self.home / "warehouse"

    @property
    def database(self) -> Path:
        """The published database, which users open."""
        return self.warehouse / "current" / DATABASE

    @property
    def exports(self) -> Path:
        """The folder for exported workbooks and CSV files."""
        return self.home / "exports"

    @property
    def reports(self) -> Path:
        """The folder for morning reports."""
        return self.home / "reports"

    @property
    def dagster(self) -> Path:
        """The folder for Dagster's own data (`DAGSTER_HOME`)."""
        return self.home / "dagster"

    @property
    def runs(self) -> Path:
        """The folder for the logs of runs by commands."""
        return self.home / "runs"

    @property
    def work(self) -> Path:
        """A temporary folder on the same file system. Interrupted runs may leave files in it."""
        return self.home / ".work"

    @property
    def briefs(self) -> Path:
        """The file with summaries of all nights' manifests. It is rebuilt if it is lost."""
        return self.home / ".briefs"

    @property
    def lock(self) -> Path:
        """The lock that allows only one writer at a time."""
        return self.home / ".lock"

    @property
    def pull_lock(self) -> Path:
        """The lock that allows only one pull at a time."""
        return self.home / ".pull"

    def snapshot(self, snapshot_date: date, snapshot_id: str) -> Path:
        """Return the landing folder of one snapshot."""
        return self.landing / snapshot_date.isoformat() / snapshot_id

    def parquet(self, table: str, snapshot_date: date, snapshot_id: str) -> Path:
        """Return the lake's Parquet file for one table and snapshot."""
        return Path(f"{self.home}/lake/{table}/snapshot_date={snapshot_date}/{snapshot_id}.parquet")

    def staging(self, snapshot_id: str) -> Path:
        """Return the folder of an unaccepted snapshot: a dot folder, which query engines skip."""
        return (self.staged_in or self.lake / ".staged") / snapshot_id

    def staged_file(self, table: str, snapshot_id: str) -> Path:
        """Return the Parquet file for one table of a snapshot that is not a book yet."""
        return self.staging(snapshot_id) / f"{table}.parquet"

    def part(self, part: str, snapshot_id: str) -> Path:
        """Return the file with counts and notes about one flattened part of a snapshot."""
        return self.staged_file(part, snapshot_id).with_suffix(".json")

    def manifest(self, snapshot_id: str) -> Path:
        """Return the lake's manifest for one snapshot."""
        return self.manifests / f"{snapshot_id}.json"


def make_directory(path: Path) -> None:
    """Create a directory and its parents with mode 0750, and flush them to disk."""
    if path.is_dir():
        return
    make_directory(path.parent)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=DIRECTORY_MODE)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Flush a directory's entries to disk, if its file system can do that."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with _tolerating(*_NOT_SUPPORTED):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def change_mode(file: Path | int, mode: int) -> None:
    """Set the mode of a file that we created, if its file system has modes."""
    with _tolerating(*_NOT_SUPPORTED, errno.EPERM):
        os.chmod(file, mode)  # noqa: PTH101 - a path or a descriptor


@contextlib.contextmanager
def _tolerating(*numbers: int) -> Iterator[None]:
    """Ignore system errors with these numbers. `nightbook doctor` reports their cause."""
    try:
        yield
    except OSError as error:
        if error.errno not in numbers:
            raise


@contextlib.contextmanager
def private_files() -> Iterator[None]:
    """Give new files mode 0640 and folders 0750, including those of DuckDB, SQLite and Dagster."""
    before = os.umask(UMASK)
    try:
        yield
    finally:
        os.umask(before)


@contextlib.contextmanager
def written_aside(path: Path, mode: int = FILE_MODE) -> Iterator[BufferedRandom]:
    """Open a file for an atomic write, so that it appears at `path` complete or not at all."""
    # Write the file under a temporary name, flush it, rename it, and flush the folder. A crash then
    # leaves either the complete old file or the complete new file. Without the first flush, the
    # rename could reach the disk before the content.
    make_directory(path.parent)
    temporary = path.with_name(f".{path.name}.aside")
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with open(descriptor, "w+b", closefd=False) as file:
            yield file
        change_mode(descriptor, mode)
        os.fsync(descriptor)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        raise
    finally:
        os.close(descriptor)
    temporary.replace(path)
    # The note was about the file that has just been replaced.
    with contextlib.suppress(OSError):
        path.with_name(f"{path.name}{NOTE}").unlink()
    sync_directory(path.parent)


def write_bytes(path: Path, content: bytes, mode: int = FILE_MODE) -> None:
    """Write a file atomically."""
    with written_aside(path, mode) as file:
        file.write(content)


def write_json(path: Path, content: Any, mode: int = FILE_MODE) -> None:
    """Write a manifest as JSON, atomically."""
    write_bytes(path, json_bytes(content), mode)


def json_bytes(content: Any) -> bytes:
    """Return the bytes of a manifest: JSON with sorted keys and one final newline."""
    # The output is the same as from `json.dumps`, except for floats with an exponent, which
    # manifests do not contain. Do not use `json.dumps` with an indent, because it is slow and took
    # a tenth of the run time of a small night.
    return msgspec.json.format(msgspec.json.encode(content, order="sorted"), indent=1) + b"\n"


def read_json(path: Path) -> Any:
    """Read a file written by `write_json`."""
    return json.loads(path.read_bytes())


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def edition(path: Path | str) -> tuple[int, int, int]:
    """Return a file's inode, size and modification time (ns), to detect a changed file.

    Return zeros if there is no file.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - faster than a Path, for years of nights
    except FileNotFoundError:
        return 0, 0, 0
    return status.st_ino, status.st_size, status.st_mtime_ns


def block_digests(path: Path, blocks: Iterable[int] | None = None) -> tuple[str, ...]:
    """Return the SHA-256 of each `BLOCK` in a file, or only of the blocks with these numbers."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        count = -(-os.fstat(descriptor).st_size // BLOCK)

        # Hash two blocks at the same time in two threads, because hashing releases the interpreter
        # lock. Read with `pread`, because it does not move the shared file position.
        def digest(block: int) -> str:
            return hashlib.sha256(os.pread(descriptor, BLOCK, block * BLOCK)).hexdigest()

        with ThreadPoolExecutor(HASHERS, "hash") as pool:
            return tuple(pool.map(digest, range(count) if blocks is None else blocks))
    finally:
        os.close(descriptor)


def digest_of_blocks(digests: Iterable[str]) -> str:
    """Return one digest for a file: the SHA-256 of its hexadecimal block digests.

    A night changes few blocks of a database, so the unchanged blocks need not be read again.
    """
    return hashlib.sha256("".join(digests).encode()).hexdigest()
