"""The lock of the landing zone, its owner, and files that a killed night left."""

import contextlib
import fcntl
import json
import os
import pwd
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from warehouse.storage.layout import FILE_MODE, Layout, make_directory


class WrongOwner(Exception):
    """Somebody else's home."""

    exit_code = 2

    def __init__(self, layout: Layout, owner: int, doing: str) -> None:
        me = name_of(os.geteuid())
        super().__init__(
            f"{layout.home} belongs to {name_of(owner)}, and you are {me}: {doing} did not begin, "
            f"and nothing was written, for {name_of(owner)} could not write again what {me} had "
            f"written. Do it as {name_of(owner)} (sudo -u {name_of(owner)} nightbook ...), or give "
            f"the whole home to {me} first: chown -R {me} {layout.home}"
        )


def require_owner(layout: Layout, doing: str) -> None:
    """Raise `WrongOwner` where what is written here would be another's than what is here."""
    owner = _owner(layout)
    if owner not in (None, os.geteuid()) and owner != _owner_of_new(layout.home):
        raise WrongOwner(layout, int(owner or 0), doing)


def name_of(user: int) -> str:
    """Return a user's name, or its number where it has none, as in a container."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def machine_name() -> str:
    """Return the name of this machine, to be stored with what is decided on it."""
    return socket.gethostname()


def _owner(layout: Layout) -> int | None:
    """Return who wrote here; None where nothing is, or root made it for somebody."""
    written = (layout.lock, layout.landing, layout.dagster, layout.warehouse, layout.lake)
    for path in written:
        if os.path.lexists(path):
            return path.lstat().st_uid
    owner = layout.home.stat().st_uid if layout.home.exists() else None
    # A volume may be root's, and be written by its group.
    return owner or (0 if owner == 0 and os.geteuid() == 0 else None)


def _owner_of_new(folder: Path) -> int | None:
    """Return who owns a new file there: a network disk may give all to one user."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            return os.fstat(file.fileno()).st_uid
    except OSError:
        return None


STEP = 1.0
TOLD_AGAIN = 60.0
NOTHING = "This run wrote nothing."


class WriterBusy(Exception):
    """Another run is writing in this home; `done` says what this one did before it gave up."""

    def __init__(self, layout: Layout, holder: str, done: str = NOTHING) -> None:
        self.layout, self.holder = layout, holder
        super().__init__(
            f"Another run is writing in {layout.home}: {holder}. {done} Wait for it to end, or "
            "stop it; a run that died holds nothing."
        )


class PullRunning(WriterBusy):
    """Another run is taking the night at this moment."""


class HomeReadOnly(Exception):
    """A home in which nothing can be written."""

    exit_code = 2

    def __init__(self, layout: Layout, doing: str, error: OSError) -> None:
        super().__init__(
            f"{layout.home} cannot be written ({error.strerror}): {doing} did not begin, and "
            "nothing was changed. It is to be a folder of the user who runs nightbook, on a disk "
            "that can be written: mend that, or choose another by NIGHTBOOK_HOME or --home."
        )


@dataclass(frozen=True, slots=True)
class LockTimeout:
    """How many seconds to wait for a lock, how a second passes, and who hears for whom."""

    seconds: float = 0.0
    pause: Callable[[float], None] = lambda _: None
    tell: Callable[[str], object] = lambda _: None


NO_WAIT = LockTimeout()


@dataclass(frozen=True, slots=True)
class HomeLock:
    """A lock that this process holds, in whose file stands for what."""

    descriptor: int
    since: datetime

    def note(self, doing: str) -> None:
        """Say what is being done now; a full disk must not keep it from being done."""
        since = self.since.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        note = json.dumps({"doing": doing, "pid": os.getpid(), "since": since})
        with contextlib.suppress(OSError):
            os.ftruncate(self.descriptor, 0)
            os.pwrite(self.descriptor, note.encode(), 0)


def hold_writer_lock(
    layout: Layout, doing: str, now: datetime, timeout: LockTimeout = NO_WAIT
) -> AbstractContextManager[HomeLock]:
    """Be the only writer of a home while the `with` lasts; raises as `hold_lock` does."""
    return hold_lock(layout, layout.lock, doing, now, timeout)


def hold_pull_lock(layout: Layout, doing: str, now: datetime) -> AbstractContextManager[HomeLock]:
    """Be the only pull of a home while the `with` lasts; raises as `hold_lock` does."""
    return hold_lock(layout, layout.pull_lock, doing, now)


@contextlib.contextmanager
def hold_lock(
    layout: Layout, lock: Path, doing: str, now: datetime, timeout: LockTimeout = NO_WAIT
) -> Iterator[HomeLock]:
    """Hold one lock of a home while the `with` lasts.

    Raises `WriterBusy` after `timeout` (`PullRunning` for the lock of pulls), `WrongOwner` in
    somebody else's home, and `HomeReadOnly` where nobody could write here.
    """
    descriptor = _open(layout, lock, doing)
    try:
        try:
            _wait(layout, descriptor, timeout)
        except WriterBusy as busy:
            if lock == layout.pull_lock:
                raise PullRunning(layout, busy.holder) from None
            raise
        held = HomeLock(descriptor, now)
        held.note(doing)
        yield held
        # The lock goes with the descriptor, also when the process dies; the note is only for
        # people.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def require_writable(layout: Layout, doing: str) -> None:
    """Raise as `hold_lock` does where nothing could be written, whoever holds the lock."""
    os.close(_open(layout, layout.lock, doing))


@contextlib.contextmanager
def without_writers(layout: Layout, doing: str, now: datetime) -> Iterator[None]:
    """Keep writers away while a home is only read; one that cannot be written has none.

    For who may read a home and not write it, and for a disk that has become read-only. Raises
    `WriterBusy` where a writer is at work.
    """
    try:
        require_writable(layout, doing)
    except Exception:  # noqa: BLE001 - whatever keeps us from writing, reading is all that is wanted
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(FileNotFoundError):
                descriptor = os.open(layout.lock, os.O_RDONLY)
                stack.callback(os.close, descriptor)
                _wait(layout, descriptor, NO_WAIT)
            yield
    else:
        with hold_writer_lock(layout, doing, now):
            yield


@contextlib.contextmanager
def acquire_if_free(lock: Path) -> Iterator[bool]:
    """Whether nobody holds a lock; while the `with` lasts nobody takes it then."""
    try:
        descriptor = os.open(lock, os.O_RDWR)
    except FileNotFoundError:
        yield True
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(descriptor)


def _open(layout: Layout, lock: Path, doing: str) -> int:
    try:
        require_owner(layout, doing)
        make_directory(layout.home)
        return os.open(lock, os.O_RDWR | os.O_CREAT, FILE_MODE)
    except OSError as error:
        raise HomeReadOnly(layout, doing, error) from error


def _wait(layout: Layout, descriptor: int, timeout: LockTimeout) -> None:
    """Take the lock, or raise `WriterBusy` when timeout is at its end."""
    waited, next_told, last_holder = 0.0, 0.0, ""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(descriptor)
        else:
            return
        if waited >= timeout.seconds:
            raise WriterBusy(layout, holder)
        if holder != last_holder or waited >= next_told:
            so_long = f" ({waited:.0f} s so far)" if waited else ""
            timeout.tell(f"waiting for: {holder}{so_long}")
            last_holder, next_told = holder, waited + TOLD_AGAIN
        timeout.pause(STEP)
        waited += STEP


def _holder(descriptor: int) -> str:
    try:
        note = json.loads(os.pread(descriptor, 4096, 0))
        return f"{note['doing']}, process {note['pid']}, since {note['since']}"
    except (ValueError, KeyError, TypeError):
        return "who it is has not been written yet"


def sweep(layout: Layout) -> list[Path]:
    """Remove what a dead run left half pulled, and its scratch; returns what was removed."""
    # The caller is the writer; what a living pull is reading is left to it.
    with acquire_if_free(layout.pull_lock) as is_dead:
        left = sweep_pulls(layout) if is_dead else []
    halves = (half for root in (layout.landing, layout.lake) for half in _halves(str(root)))
    return left + _remove([*halves, *layout.work.glob("*")])


def _halves(folder: str) -> Iterator[Path]:
    """Yield the files below a folder that were not written to their end."""
    # Names alone, no path for each: ten years are fifty thousand folders, and `rglob` takes twice
    # as long (1.2 CPU s).
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _halves(entry.path)
            elif entry.name.startswith(".") and entry.name.endswith(".aside"):
                yield Path(entry.path)


def sweep_pulls(layout: Layout) -> list[Path]:
    """Remove what dead pulls left, for the caller is the only one."""
    return _remove(list(layout.landing.glob("*/.*.pulling")))


def _remove(left: list[Path]) -> list[Path]:
    for path in left:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return left
