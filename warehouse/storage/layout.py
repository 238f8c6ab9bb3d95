"""Where things lie under `NIGHTBOOK_HOME`, and how a file is put there so that no crash tears it.

Directories are 0750 and files 0640, published database files 0440.
"""

import contextlib
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
DIGESTS = "digests.json"
STORAGE_VERSION = "v1.2.0"  # the oldest DuckDB that can read the database
# With metadata reuse, DuckDB leaves pointers in the file that 1.2 and 1.3 cannot follow.
STORAGE_SETTINGS = {"experimental_metadata_reuse": "false"}
BLOCK = 1 << 20
HASHERS = 2


@dataclass(frozen=True, slots=True)
class Layout:
    """Every path of one home; ids and dates in them are ours, no name from the wire is in one.

    `staged_in` is where nights are staged that are flattened apart from the lake; without it they
    are staged in the lake.
    """

    home: Path
    staged_in: Path | None = None

    @property
    def landing(self) -> Path:
        """Bodies as they came: `landing/<snapshot_date>/<snapshot_id>/`."""
        return self.home / "landing"

    @property
    def lake(self) -> Path:
        """Parquet: `lake/<table>/snapshot_date=YYYY-MM-DD/<snapshot_id>.parquet`."""
        return self.home / "lake"

    @property
    def manifests(self) -> Path:
        """What the lake holds: `lake/manifests/<snapshot_id>.json`."""
        return self.lake / "manifests"

    @property
    def warehouse(self) -> Path:
        """Versions of the database, and the link to the current one."""
        return self.home / "warehouse"

    @property
    def database(self) -> Path:
        """The path that people open."""
        return self.warehouse / "current" / DATABASE

    @property
    def exports(self) -> Path:
        """Workbooks and CSV files."""
        return self.home / "exports"

    @property
    def reports(self) -> Path:
        """Morning reports."""
        return self.home / "reports"

    @property
    def dagster(self) -> Path:
        """`DAGSTER_HOME`."""
        return self.home / "dagster"

    @property
    def work(self) -> Path:
        """Scratch on the same file system: all in it is left over from a dead run."""
        return self.home / ".work"

    @property
    def briefs(self) -> Path:
        """What is known of every night's manifests: made again wherever it is lost."""
        return self.home / ".briefs"

    @property
    def lock(self) -> Path:
        """The lock of the one writer."""
        return self.home / ".lock"

    @property
    def pull_lock(self) -> Path:
        """The lock of the one pull."""
        return self.home / ".pull"

    def snapshot(self, snapshot_date: date, snapshot_id: str) -> Path:
        """Return the landed folder of one snapshot."""
        return self.landing / snapshot_date.isoformat() / snapshot_id

    def parquet(self, table: str, snapshot_date: date, snapshot_id: str) -> Path:
        """Return the Parquet file of one table and snapshot in the lake."""
        return Path(f"{self.home}/lake/{table}/snapshot_date={snapshot_date}/{snapshot_id}.parquet")

    def staging(self, snapshot_id: str) -> Path:
        """Return what a snapshot is made of before it is accepted: engines skip dot folders."""
        return (self.staged_in or self.lake / ".staged") / snapshot_id

    def staged_file(self, table: str, snapshot_id: str) -> Path:
        """Return the Parquet file of one table and snapshot, as long as that is no book."""
        return self.staging(snapshot_id) / f"{table}.parquet"

    def part(self, part: str, snapshot_id: str) -> Path:
        """Return what was counted and noted while a part of a snapshot was flattened."""
        return self.staged_file(part, snapshot_id).with_suffix(".json")

    def manifest(self, snapshot_id: str) -> Path:
        """Return the lake's manifest of one snapshot."""
        return self.manifests / f"{snapshot_id}.json"


def make_directory(path: Path) -> None:
    """Make a directory and its parents, 0750, and see them on disk."""
    if path.is_dir():
        return
    make_directory(path.parent)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=DIRECTORY_MODE)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """See a directory's entries on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def private_files() -> Iterator[None]:
    """Let new files be 0640 and folders 0750 whoever makes them: DuckDB, SQLite, Dagster, us."""
    before = os.umask(UMASK)
    try:
        yield
    finally:
        os.umask(before)


@contextlib.contextmanager
def written_aside(path: Path, mode: int = FILE_MODE) -> Iterator[BufferedRandom]:
    """Open a file that appears at `path` whole or not at all."""
    # Written under another name and seen on disk before the rename, and the folder after it: a
    # crash at any instant leaves the old file or the new one, whole. Without the first fsync the
    # rename could reach the disk before the bytes do.
    make_directory(path.parent)
    aside = path.with_name(f".{path.name}.aside")
    descriptor = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with open(descriptor, "w+b", closefd=False) as file:
            yield file
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            aside.unlink()
        raise
    finally:
        os.close(descriptor)
    aside.replace(path)
    sync_directory(path.parent)


def write_json(path: Path, content: Any, mode: int = FILE_MODE) -> None:
    """Write a manifest: whole or not at all."""
    with written_aside(path, mode) as file:
        file.write(json_bytes(content))


def json_bytes(content: Any) -> bytes:
    """Return a manifest as it is written: sorted keys, one final newline."""
    # The bytes of `json.dumps`, but for floats with an exponent, which no manifest has; its own
    # encoder is Python wherever it indents, and took a tenth of a small night.
    return msgspec.json.format(msgspec.json.encode(content, order="sorted"), indent=1) + b"\n"


def read_json(path: Path) -> Any:
    """Read what `write_json` wrote."""
    return json.loads(path.read_bytes())


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def edition(path: Path | str) -> tuple[int, int, int]:
    """Return what a file written anew does not share with the one before; zeros for none."""
    try:
        status = os.stat(path)  # noqa: PTH116 - years of nights are looked at, and a Path costs more
    except FileNotFoundError:
        return 0, 0, 0
    return status.st_ino, status.st_size, status.st_mtime_ns


def block_digests(path: Path, blocks: Iterable[int] | None = None) -> tuple[str, ...]:
    """Return the SHA-256 of each `BLOCK` of a file, or of the blocks named; two at a time."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        count = -(-os.fstat(descriptor).st_size // BLOCK)

        # Hashing releases the interpreter, so two threads hash two blocks at a time; pread needs no
        # position that they would share.
        def digest(block: int) -> str:
            return hashlib.sha256(os.pread(descriptor, BLOCK, block * BLOCK)).hexdigest()

        with ThreadPoolExecutor(HASHERS, "hash") as pool:
            return tuple(pool.map(digest, range(count) if blocks is None else blocks))
    finally:
        os.close(descriptor)


def digest_of_blocks(digests: Iterable[str]) -> str:
    """Return one digest for a file of many blocks: the SHA-256 of their digests in hex.

    A night changes few blocks of a database, so the others need not be read twice to be proved.
    """
    return hashlib.sha256("".join(digests).encode()).hexdigest()
