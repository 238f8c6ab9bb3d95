"""Reading one reference file in a child process with limits.

This module does not import the readers, so a night without reference files does not wait for them.
"""

from datetime import datetime

import msgspec

from warehouse.isolation import (
    ChildKilled,
    ChildLimits,
    ChildNotStarted,
    ChildOutOfMemory,
    ChildStopped,
    ChildTimedOut,
    run_in_child,
)

LIMITS = ChildLimits(seconds=30, memory_bytes=4 * 1024**3)
ENDINGS = (".csv", ".parquet", ".xlsx")


class UnusedLine(msgspec.Struct, array_like=True, frozen=True):
    """A row or file that was not used. `line` is None if the whole file was not used."""

    code: str
    reason: str
    value: str = ""
    line: int | None = None


class ReadRequest(msgspec.Struct, array_like=True, frozen=True):
    """A file to read: its table, name, time of receipt, digest and bytes."""

    table: str
    file: str
    received_at: datetime
    sha256: str
    content: bytes


class FileRows(msgspec.Struct, array_like=True, frozen=True):
    """The rows of a file as Parquet, and the first rejects.

    `is_final` is false if reading the file again may give a different result.
    """

    parquet: bytes = b""
    rows: int = 0
    rejects: tuple[UnusedLine, ...] = ()
    reject_count: int = 0
    is_final: bool = True


def read_file(request: ReadRequest) -> FileRows:
    """Read a file in a child process. A file that cannot be read is one reject."""
    try:
        content = msgspec.msgpack.encode(request)
        reply = run_in_child("warehouse.reference.reader:read_in_child", content, LIMITS)
        return msgspec.msgpack.decode(reply, type=FileRows)
    except ChildTimedOut:
        return refuse("too_slow", f"reading the file took longer than {LIMITS.seconds:g} seconds")
    except ChildOutOfMemory:
        return refuse("too_much_memory", "reading the file needed too much memory")
    except (ChildNotStarted, ChildKilled) as error:
        reason = f"the process that reads files could not start or was killed. {error}"
        return msgspec.structs.replace(refuse("not_started", reason.strip()), is_final=False)
    except ChildStopped as error:
        return refuse("unreadable", f"the program that reads the file crashed: {error}")


def refuse(code: str, reason: str) -> FileRows:
    """Return the result for a file that was not used."""
    return FileRows(rejects=(UnusedLine(code, reason),), reject_count=1)
