"""The locks of a home, checks of the home's owner, and cleanup after killed runs."""

import contextlib
import fcntl
import json
import os
import pwd
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from warehouse.storage.layout import FILE_MODE, Layout, make_directory

WAIT_STEP = 1.0  # seconds between two attempts to acquire a lock
# Seconds to wait for the pull lock, because `acquire_if_free` may hold it for a few milliseconds.
PROBE_TIMEOUT = 1.0
REPORT_INTERVAL = 60.0  # seconds between two messages about the same holder of a lock
NOTHING = "This run wrote nothing."


class WrongOwner(Exception):
    """The nightbook home belongs to a different user."""

    exit_code = 2

    def __init__(self, layout: Layout, owner: int, doing: str) -> None:
        me = name_of(os.geteuid())
        super().__init__(
            f"{layout.home} belongs to {name_of(owner)}, and you are {me}. {doing} did not start, "
            f"and nothing was written, because {name_of(owner)} could not overwrite {me}'s files. "
            f"Run the command as {name_of(owner)} (sudo -u {name_of(owner)} nightbook ...), or "
            f"first give the whole home to {me}: chown -R {me} {layout.home}"
        )


class WriterBusy(Exception):
    """Another run is writing to this home.

    `done` describes what this run wrote before it gave up.
    """

    def __init__(self, layout: Layout, holder: str, done: str = NOTHING) -> None:
        self.layout, self.holder = layout, holder
        super().__init__(
            f"Another run is writing to {layout.home}: {holder}. {done} Wait until the other "
            "run ends, or stop it. Its lock is released even if it is killed."
        )


class LocksUnsupported(Exception):
    """The file system of a home has no locks."""

    exit_code = 2

    def __init__(self, layout: Layout, error: OSError) -> None:
        super().__init__(
            f"The file system of {layout.home} has no file locks ({error.strerror}), so two runs "
            f"could write at the same time. {NOTHING} Network disks (NFS without its lock service, "
            "some SMB) lack locks. Turn them on, or choose a folder on a disk of this machine with "
            "NIGHTBOOK_HOME or --home. nightbook doctor checks a folder."
        )


class PullRunning(WriterBusy):
    """Another run is pulling the night right now."""


class HomeReadOnly(Exception):
    """The nightbook home cannot be written to."""

    exit_code = 2

    def __init__(self, layout: Layout, doing: str, error: OSError) -> None:
        super().__init__(
            f"{layout.home} cannot be written to ({error.strerror}). {doing} did not start, and "
            "nothing was changed. The home must be a folder that nightbook's user can write to. "
            "Fix this, or choose a different folder with NIGHTBOOK_HOME or --home."
        )


@dataclass(frozen=True, slots=True)
class LockTimeout:
    """A time limit for acquiring a lock, with functions that sleep and that report the wait."""

    seconds: float = 0.0
    pause: Callable[[float], None] = lambda _: None
    tell: Callable[[str], object] = lambda _: None


@dataclass(frozen=True, slots=True)
class HomeLock:
    """A lock held by this process. The lock file shows other users what the process is doing."""

    descriptor: int
    since: datetime

    def note(self, doing: str) -> None:
        """Write the current operation to the lock file. Ignore errors, for example a full disk."""
        since = self.since.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        note = json.dumps({"doing": doing, "pid": os.getpid(), "since": since})
        with contextlib.suppress(OSError):
            os.ftruncate(self.descriptor, 0)
            os.pwrite(self.descriptor, note.encode(), 0)


NO_WAIT = LockTimeout()


def require_owner(layout: Layout, doing: str) -> None:
    """Raise `WrongOwner` if files that we create would not belong to the home's owner."""
    owner = _owner(layout)
    if owner not in (None, os.geteuid()) and owner != _owner_of_new(layout.home):
        raise WrongOwner(layout, int(owner or 0), doing)


def name_of(user: int) -> str:
    """Return a user's name, or the user ID if there is no name (for example, in a container)."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def machine_name() -> str:
    """Return the host name, which is stored with each decision."""
    return os.uname().nodename


def hold_writer_lock(
    layout: Layout, doing: str, now: datetime, timeout: LockTimeout = NO_WAIT
) -> AbstractContextManager[HomeLock]:
    """Hold a home's writer lock during the `with` block. Raises the same errors as `hold_lock`."""
    return hold_lock(layout, layout.lock, doing, now, timeout)


def hold_pull_lock(
    layout: Layout, doing: str, now: datetime, pause: Callable[[float], None] = time.sleep
) -> AbstractContextManager[HomeLock]:
    """Hold a home's pull lock during the `with` block. Raises the same errors as `hold_lock`.

    If the lock is taken, retry for a second, because `status` may be holding it for a moment.
    """
    return hold_lock(layout, layout.pull_lock, doing, now, LockTimeout(PROBE_TIMEOUT, pause))


@contextlib.contextmanager
def hold_lock(
    layout: Layout, lock: Path, doing: str, now: datetime, timeout: LockTimeout = NO_WAIT
) -> Iterator[HomeLock]:
    """Hold one of a home's locks during the `with` block.

    Raises `WriterBusy` if the lock is still taken after `timeout` (`PullRunning` for the pull
    lock), `WrongOwner` if the home belongs to a different user, `HomeReadOnly` if it cannot be
    written to, and `LocksUnsupported`.
    """
    descriptor = _open(layout, lock, doing)
    try:
        try:
            _wait_for_lock(layout, descriptor, timeout)
        except WriterBusy as busy:
            if lock == layout.pull_lock:
                raise PullRunning(layout, busy.holder) from None
            raise
        held = HomeLock(descriptor, now)
        held.note(doing)
        yield held
        # Closing the descriptor releases the lock, even if the process dies. The note in the file
        # is only for information.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def require_writable(layout: Layout, doing: str) -> None:
    """Raise `WrongOwner` or `HomeReadOnly` if the home is not writable. Ignore existing locks."""
    os.close(_open(layout, layout.lock, doing))


@contextlib.contextmanager
def without_writers(layout: Layout, doing: str, now: datetime) -> Iterator[None]:
    """Prevent other runs from writing to a home during the `with` block.

    This also works for users who may only read the home, and on a read-only disk, because nobody
    can write there. Raises `WriterBusy` if a writer is active.
    """
    try:
        require_writable(layout, doing)
    except Exception:  # noqa: BLE001 - reading is enough here, whatever prevents writing
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(FileNotFoundError):
                descriptor = os.open(layout.lock, os.O_RDONLY)
                stack.callback(os.close, descriptor)
                _wait_for_lock(layout, descriptor, NO_WAIT)
            yield
    else:
        with hold_writer_lock(layout, doing, now):
            yield


@contextlib.contextmanager
def acquire_if_free(lock: Path) -> Iterator[bool]:
    """Yield True if a lock is free, or False if another process holds it.

    If the lock is free, nobody else can acquire it during the `with` block. This also works for
    users who can only read the home.
    """
    try:
        descriptor = os.open(lock, os.O_RDONLY)
    except FileNotFoundError:
        yield True
        return
    try:
        # A shared lock keeps writers out and needs only read permission, even on NFS.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    except OSError:
        yield True  # without locks, no run can hold one
    else:
        yield True
    finally:
        os.close(descriptor)


def sweep(layout: Layout) -> list[Path]:
    """Delete unfinished files and scratch files left by killed runs, and return their paths."""
    # The caller holds the writer lock, so only the files of a running pull may still be in use.
    with acquire_if_free(layout.pull_lock) as no_pull_runs:
        leftovers = sweep_pulls(layout) if no_pull_runs else []
    unfinished = (
        file for root in (layout.landing, layout.lake) for file in _unfinished_files(str(root))
    )
    return leftovers + _remove([*unfinished, *layout.work.glob("*")])


def sweep_pulls(layout: Layout) -> list[Path]:
    """Delete the folders of pulls that were killed. The caller must hold the pull lock."""
    return _remove(list(layout.landing.glob("*/.*.pulling")))


def _owner(layout: Layout) -> int | None:
    """Return the user ID of the home's owner.

    Return None if nothing was written yet, or if root created the home for another user.
    """
    written = (
        *(layout.lock, layout.landing, layout.runs),
        *(layout.dagster, layout.warehouse, layout.lake),
    )
    for path in written:
        if os.path.lexists(path):
            return path.lstat().st_uid
    owner = layout.home.stat().st_uid if layout.home.exists() else None
    # A folder that root owns may be a volume that other users can write to. So root counts as the
    # home's owner only if root runs this command.
    return owner or (0 if owner == 0 and os.geteuid() == 0 else None)


def _owner_of_new(folder: Path) -> int | None:
    """Return the user ID that would own a new file in `folder`.

    Some network disks assign all files to one user.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            return os.fstat(file.fileno()).st_uid
    except OSError:
        return None


def _open(layout: Layout, lock: Path, doing: str) -> int:
    """Open a lock file. Raises `WrongOwner` or `HomeReadOnly`."""
    try:
        require_owner(layout, doing)
        make_directory(layout.home)
        return os.open(lock, os.O_RDWR | os.O_CREAT, FILE_MODE)
    except OSError as error:
        raise HomeReadOnly(layout, doing, error) from error


def _wait_for_lock(layout: Layout, descriptor: int, timeout: LockTimeout) -> None:
    """Wait until the lock is acquired, or raise `WriterBusy` after the timeout."""
    waited, next_report, reported_holder = 0.0, 0.0, ""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(descriptor)
        except OSError as error:
            raise LocksUnsupported(layout, error) from error
        else:
            return
        if waited >= timeout.seconds:
            raise WriterBusy(layout, holder)
        if holder != reported_holder or waited >= next_report:
            duration = f" ({waited:.0f} s so far)" if waited else ""
            timeout.tell(f"waiting for: {holder}{duration}")
            reported_holder, next_report = holder, waited + REPORT_INTERVAL
        timeout.pause(WAIT_STEP)
        waited += WAIT_STEP


def _holder(descriptor: int) -> str:
    """Describe the run that holds the lock, using the note that it wrote to the lock file."""
    try:
        note = json.loads(os.pread(descriptor, 4096, 0))
        return f"{note['doing']}, process {note['pid']}, since {note['since']}"
    except (ValueError, KeyError, TypeError):
        return "it has not written its details yet"


def _unfinished_files(folder: str) -> Iterator[Path]:
    """Yield the temporary files below a folder that were left by interrupted writes."""
    # Do not use `rglob`. For the 50,000 folders of ten years of nights, it takes twice as long (1.2
    # s of CPU time), because it creates a Path object for each folder.
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _unfinished_files(entry.path)
            elif entry.name.startswith(".") and entry.name.endswith(".aside"):
                yield Path(entry.path)


def _remove(leftovers: list[Path]) -> list[Path]:
    for path in leftovers:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return leftovers
