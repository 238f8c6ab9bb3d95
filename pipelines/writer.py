"""One writer at a time: a lock that a crash releases, and that says who holds it."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from warehouse.layout import FILE_MODE, Layout, make_directory


class WriterBusy(Exception):
    """Another run is writing in this home."""

    def __init__(self, layout: Layout, holder: str) -> None:
        super().__init__(
            f"Another run is writing in {layout.home}: {holder}. This run wrote nothing. Wait for "
            "it to end, or stop it; a run that died holds nothing."
        )


class HomeReadOnly(Exception):
    """A home in which nothing can be written."""

    exit_code = 2

    def __init__(self, layout: Layout, doing: str, error: OSError) -> None:
        super().__init__(
            f"{layout.home} cannot be written ({error.strerror}): {doing} did not begin, and "
            "nothing was changed. It is to be a folder of the user who runs nightbook, on a disk "
            "that can be written: mend that, or choose another by NIGHTBOOK_HOME or --home."
        )


@contextlib.contextmanager
def the_writer(layout: Layout, doing: str, now: datetime) -> Iterator[None]:
    """Be the only writer of a home while the `with` lasts; raises as `only_one` does."""
    with only_one(layout, layout.lock, doing, now):
        yield


@contextlib.contextmanager
def only_one(layout: Layout, lock: Path, doing: str, now: datetime) -> Iterator[None]:
    """Hold one lock of a home while the `with` lasts.

    Raises `WriterBusy` at once, and `HomeReadOnly` where nobody could write here.
    """
    try:
        make_directory(layout.home)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, FILE_MODE)
    except OSError as error:
        raise HomeReadOnly(layout, doing, error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise WriterBusy(layout, _holder(descriptor)) from None
        since = now.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        note = json.dumps({"doing": doing, "pid": os.getpid(), "since": since})
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, note.encode(), 0)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    try:
        note = json.loads(os.pread(descriptor, 4096, 0))
        return f"{note['doing']}, process {note['pid']}, since {note['since']}"
    except (ValueError, KeyError, TypeError):
        return "who it is has not been written yet"
