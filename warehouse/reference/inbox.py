"""The files in `reference/`: which of them are new, and the archive of all that were received.

`reference/<table>/` contains the files that people drop. `reference/kept/<table>/` has the bytes of
each received file under its SHA-256, and the rows that were read from it as Parquet.
`reference/kept/files.json` lists the files. A file stays received after it is removed.
"""

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from warehouse.contract.reference import POSITIONS
from warehouse.reference.child import ENDINGS, FileRows, ReadRequest, UnusedLine, read_file
from warehouse.reference.dropped_file import display_name, read_file_bytes
from warehouse.storage.layout import digest_of, json_bytes, write_bytes

KEPT = "kept"
INDEX = "files.json"
MAX_BYTES = 64 * 1024**2
# Files that are not read within this time are read at the next publish.
MAX_SECONDS = 60
# Groups of the book, which are not labels.
RESERVED = ("asset", "book", "portfolio", "venue")
_NO_TABLE = "the folder is not a table name: use lower case letters, digits and _"
_CLOSED = "the folder cannot be read, so none of its files was read"
_TABLE = re.compile(r"[a-z][a-z0-9_]{0,62}")


class Acceptance(msgspec.Struct, frozen=True):
    """Who accepted that an old book differs from the first night, with the time and the reason."""

    accepted_by: str
    accepted_at: datetime
    accepted_reason: str
    accepted_night: str


class ReceivedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A received file, with the number of its rows and the rejects."""

    table: str
    file: str
    sha256: str
    received_at: datetime
    size: int
    changed_ns: int
    rows: int
    parquet_sha256: str
    rejects: tuple[UnusedLine, ...]
    reject_count: int
    acceptance: Acceptance | None = None


class Problem(NamedTuple):
    """A row of a received file, or a file that was not received, with the reason."""

    table: str
    file: str
    reject: UnusedLine
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Inbox:
    """The state of `reference/`: all received files in order, and the files that were not read.

    `present` has the table and digest of each received file that is still in its folder.
    """

    received: tuple[ReceivedFile, ...] = ()
    problems: tuple[Problem, ...] = ()
    present: frozenset[tuple[str, str]] = frozenset()

    def file_rows(self) -> list[dict[str, Any]]:
        """Return the rows of `ops.reference_files`."""
        return [
            {
                "table_name": file.table,
                "file": file.file,
                "sha256": file.sha256,
                "received_at": file.received_at,
                "row_count": file.rows,
                "reject_count": file.reject_count,
                "is_present": (file.table, file.sha256) in self.present,
                **dict.fromkeys(Acceptance.__struct_fields__),
                **(msgspec.structs.asdict(file.acceptance) if file.acceptance else {}),
            }
            for file in self.received
        ]

    def reject_rows(self) -> list[dict[str, Any]]:
        """Return the rows of `ops.reference_rejects`."""
        rows = (
            Problem(file.table, file.file, reject, file.sha256)
            for file in self.received
            for reject in file.rejects
        )
        return [
            {"table_name": table, "file": file, "sha256": sha256, **msgspec.structs.asdict(reject)}
            for table, file, reject, sha256 in (*rows, *self.problems)
        ]


class DamagedInboxError(Exception):
    """The list of received files is damaged or missing, so nothing was received."""

    exit_code = 1


class NotImported(Exception):
    """The differences of an old book cannot be accepted, because it was not imported before."""

    exit_code = 2


def received_files(root: Path) -> tuple[ReceivedFile, ...]:
    """Return the received files in order. Raises `DamagedInboxError` if the list is damaged."""
    index = root / KEPT / INDEX
    try:
        return msgspec.json.decode(index.read_bytes(), type=tuple[ReceivedFile, ...])
    except FileNotFoundError:
        if not any((root / KEPT).glob("*/*")):
            return ()
        problem = "is missing"
    except (OSError, msgspec.MsgspecError) as error:
        problem = f"cannot be read ({error})"
    raise DamagedInboxError(
        f"{index} {problem}, so no reference file was read. The tables in the schema reference "
        "were not changed. Restore the folder reference/ from a backup."
    )


def receive(root: Path, now: datetime, *, is_check: bool = False) -> Inbox:
    """Read the new files, archive them, and return all received files.

    With `is_check`, read the files but write nothing. Raises `DamagedInboxError`.
    """
    if not root.is_dir():
        return Inbox()
    before = received_files(root)
    receipt = _Receipt(root, now, before, is_check=is_check)
    for table, path, problem in _files(root):
        if reject := problem or receipt.add(table, path):
            receipt.problems.append(Problem(table, display_name(path), reject))
    if len(receipt.received) > len(before) and not is_check:
        receipt.save()
    return Inbox(tuple(receipt.received), tuple(receipt.problems), frozenset(receipt.present))


def receive_book(
    root: Path,
    now: datetime,
    request: ReadRequest,
    read: Callable[[ReadRequest], FileRows],
    acceptance: Acceptance | None = None,
) -> bool:
    """Receive an old book, or make an earlier book of its day valid. Return whether it changed.

    `read` returns the rows of the file. Raises `NotImported` for an acceptance of a book that was
    not received before, and `DamagedInboxError`.
    """
    receipt = _Receipt(root, now, received_files(root), is_check=False)
    same = [file for file in receipt.received if file.table == request.table]
    before = next((file for file in same if file.sha256 == request.sha256), None)
    if acceptance and before is None:
        raise NotImported(
            f"{request.file} was not imported as {request.table} yet, so nobody has seen its "
            "differences. Nothing was changed. Import it without --accept first."
        )
    if before and before is same[-1] and not acceptance:
        return False
    if before is None:
        request = msgspec.structs.replace(request, received_at=receipt.next_time)
        receipt.keep(request, read(request), 0)
    else:
        receipt.received.remove(before)
        fields = {"received_at": receipt.next_time, "acceptance": acceptance}
        receipt.received.append(msgspec.structs.replace(before, **fields))
    receipt.save()
    return True


class _Receipt:
    """One look at the files in `reference/`, with a time limit for all new files together."""

    def __init__(
        self, root: Path, now: datetime, before: Sequence[ReceivedFile], *, is_check: bool
    ) -> None:
        self.received = list(before)
        self.problems: list[Problem] = []
        self.present: set[tuple[str, str]] = set()
        self._digests = {(file.table, file.sha256) for file in before}
        self._known = {
            (file.table, file.file, file.size, file.changed_ns): file.sha256 for file in before
        }
        # Each file has its own time of receipt, so that there is always a later file.
        latest = max((file.received_at for file in before), default=now)
        self.next_time = max(now, latest + timedelta(microseconds=1))
        self._root, self._is_check = root, is_check
        self._deadline = time.monotonic() + MAX_SECONDS

    def add(self, table: str, path: Path) -> UnusedLine | None:
        """Receive a file if it is new. Return the reason if it cannot be read now."""
        if time.monotonic() > self._deadline:
            reason = f"other files took {MAX_SECONDS} seconds, so it is read at the next publish"
            return UnusedLine("too_late", reason)
        name = display_name(path)
        try:
            info = path.lstat()
        except OSError as error:
            return UnusedLine("unreadable", f"it cannot be opened: {error.strerror}")
        sha256 = self._known.get((table, name, info.st_size, info.st_mtime_ns))
        if sha256 is None:
            content = read_file_bytes(path, ENDINGS, MAX_BYTES)
            if isinstance(content, UnusedLine):
                return content
            sha256 = hashlib.sha256(content).hexdigest()
            if (table, sha256) not in self._digests:
                request = ReadRequest(table, name, self.next_time, sha256, content)
                rows = read_file(request)
                if not rows.is_final:
                    return rows.rejects[0]
                self.keep(request, rows, info.st_mtime_ns)
        self.present.add((table, sha256))
        return None

    def save(self) -> None:
        """Write the list of received files."""
        write_bytes(self._root / KEPT / INDEX, json_bytes(msgspec.to_builtins(self.received)))

    def keep(self, request: ReadRequest, rows: FileRows, changed_ns: int) -> None:
        """Archive a file and its rows, unless this is a check. Then `save` must be called."""
        table, sha256 = request.table, request.sha256
        if not self._is_check:
            if not self.received:
                self.save()  # An archive without a list is damaged, also if this process is killed.
            write_bytes(kept_file(self._root, table, sha256), request.content)
            if rows.parquet:
                write_bytes(kept_rows(self._root, table, sha256), rows.parquet)
        file = ReceivedFile(
            table=table,
            file=request.file,
            sha256=sha256,
            received_at=request.received_at,
            size=len(request.content),
            changed_ns=changed_ns,
            rows=rows.rows,
            parquet_sha256=hashlib.sha256(rows.parquet).hexdigest(),
            rejects=rows.rejects,
            reject_count=rows.reject_count,
        )
        self.received.append(file)
        self._digests.add((table, sha256))
        self.next_time += timedelta(microseconds=1)


def _files(root: Path) -> Iterator[tuple[str, Path, UnusedLine | None]]:
    """Yield the table and path of each file, oldest first, with a reason if it cannot be read."""
    for folder in sorted(root.iterdir()):
        if folder.name.startswith(".") or folder.name == KEPT:
            continue
        name = display_name(folder)
        if folder.is_symlink() or not folder.is_dir():
            reason = "only folders in reference/ are tables: move the file into a folder"
            yield name, folder, UnusedLine("not_a_folder", reason)
        elif not _TABLE.fullmatch(name) or name in RESERVED:
            reason = f"{_NO_TABLE}, but none of these words: {', '.join(RESERVED)}"
            yield name, folder, UnusedLine("wrong_table", reason)
        elif name == POSITIONS.name:
            reason = "old books are imported by name: nightbook reference import FILE --as-of DAY"
            yield name, folder, UnusedLine("not_dropped", reason)
        else:
            try:
                paths = [path for path in folder.iterdir() if not path.name.startswith((".", "~$"))]
                paths.sort(key=lambda path: (path.lstat().st_mtime_ns, path.name))
            except OSError as error:
                yield name, folder, UnusedLine("unreadable", f"{_CLOSED}: {error.strerror}")
                continue
            yield from ((name, path, None) for path in paths)


def kept_file(root: Path, table: str, sha256: str) -> Path:
    """Return the path of a received file in the archive."""
    return root / KEPT / table / sha256


def kept_rows(root: Path, table: str, sha256: str) -> Path:
    """Return the path of the rows that were read from a received file."""
    return root / KEPT / table / f"{sha256}.parquet"


def damaged_files(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield each archived file that is missing or damaged, with the problem."""
    try:
        files: Sequence[ReceivedFile] = received_files(root)
    except DamagedInboxError as error:
        yield root / KEPT / INDEX, str(error)
        return
    for file in files:
        expected = {kept_file(root, file.table, file.sha256): file.sha256}
        if file.rows:
            expected[kept_rows(root, file.table, file.sha256)] = file.parquet_sha256
        for path, sha256 in expected.items():
            if not path.is_file():
                yield path, "is missing"
            elif digest_of(path) != sha256:
                yield path, "has changed"
