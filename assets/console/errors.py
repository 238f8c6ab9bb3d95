"""Error messages. Disk errors get advice, and this project's errors print their own message."""

import errno
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from assets.console import disks
from assets.console.exit_codes import FAILED
from assets.nightbook import Nightbook
from pipelines.edge.errors import (
    AccessDenied,
    AuthenticationFailed,
    InvalidCredential,
    InvalidOrigin,
    TimestampRefused,
    UnexpectedRedirect,
)
from pipelines.landing.lock import PullRunning, name_of
from pipelines.settings import InvalidSettings
from warehouse.query.formats import printable_lines

BUSY = "status"
"""The command to suggest if the only problem is that another run is pulling the night."""
_SETTINGS_ERRORS = (
    *(AccessDenied, TimestampRefused, InvalidCredential, AuthenticationFailed, InvalidOrigin),
    *(UnexpectedRedirect, InvalidSettings),
)
OUR_PACKAGES = {"assets", "pipelines", "warehouse"}
UNCHANGED = "All unfinished work was discarded, and the last published warehouse was not changed"
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
NO_ACCESS = frozenset({errno.EACCES, errno.EPERM})
NETWORK = {"httpx", "httpcore", "apprise", "requests", "urllib3"}
ABOUT_DATA = {"ValueError", "TypeError", "LookupError", "DataError", "ProgrammingError"}
"""Names of error classes whose messages may quote data."""
DISK_ERRORS = (*FULL, *NO_ACCESS, errno.EROFS, errno.EIO, errno.EFBIG)


def report_error(error: Exception, nightbook: Nightbook) -> int:
    """Print an error as one paragraph on standard error. Return the exit code."""
    message = str(error) if is_ours(error) else disk_message(error, nightbook.layout.home)
    # If an error has no error number, our own code raised it with a message for the user.
    if isinstance(error, FileNotFoundError | PermissionError) and error.errno is None:
        message = message or str(error)
    if message is None:
        reason = str(error).partition("\n\nPossible solutions")[0]  # without DuckDB's own advice
        message = (
            f"nightbook stopped at an unexpected error ({type(error).__name__}: {reason}). The "
            "last published warehouse was not changed. To see the traceback, run "
            "`nightbook --debug COMMAND`."
        )
    print(printable_lines(message), file=sys.stderr)
    return getattr(error, "exit_code", FAILED) if is_ours(error) else FAILED


def is_ours(error: BaseException) -> bool:
    """Return whether an error's class belongs to this project.

    The messages of such errors are written for the user.
    """
    return type(error).__module__.partition(".")[0] in OUR_PACKAGES


def disk_message(error: BaseException, home: Path) -> str | None:
    """Describe a disk error with its file and a remedy. Return None for other errors."""
    for cause in _causes(error):
        number = _errno_of(cause)
        if number in FULL:
            return _full_message(disks.full_folder(cause, home), home)
        if number in DISK_ERRORS:
            return _disk_message(number, str(disks.path_of(cause) or home))
    return None


def helping_command(error: BaseException, home: Path) -> str:
    """Return the command that shows or fixes an error's cause."""
    full = (cause for cause in _causes(error) if _errno_of(cause) in FULL)
    if (cause := next(full, None)) is not None:
        # The command prune makes room only on the disk of the home.
        return "prune" if disks.is_same_disk(disks.full_folder(cause, home), home) else "doctor"
    if isinstance(error, PullRunning):
        return BUSY
    return "doctor" if isinstance(error, _SETTINGS_ERRORS) else "run"


def _causes(error: BaseException) -> Iterator[BaseException]:
    visited: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in visited:
        visited.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _errno_of(cause: BaseException) -> int | None:
    """Return the number of a disk error, or None.

    Libraries copy the system's message into their own errors, so search their messages. Do not
    search messages that may quote the API or a ledger.
    """
    if isinstance(cause, OSError) and cause.errno is not None:
        return cause.errno
    names = {parent.__name__ for parent in type(cause).__mro__}
    is_foreign = type(cause).__module__.partition(".")[0] in NETWORK
    if is_ours(cause) or is_foreign or names & ABOUT_DATA:
        return None
    text = str(cause)
    return next((number for number in DISK_ERRORS if os.strerror(number) in text), None)


def _full_message(full: Path, home: Path) -> str:
    head = f"The disk with {full} is full. {UNCHANGED}."
    if disks.is_same_disk(full, home):
        return (
            f"{head} Make room: nightbook prune --keep DAYS deletes old versions of the warehouse "
            "first and then old nights (--dry-run lists them)."
        )
    temporary = Path(tempfile.gettempdir())
    if full.is_relative_to(temporary) or disks.is_same_disk(full, temporary):
        return (
            f"{head} The home ({home}) is on a different disk, which has space. Make room in "
            f"{temporary}, which is the folder for temporary files, or set TMPDIR to a folder on a "
            "larger disk, and run the command again."
        )
    return (
        f"{head} The home ({home}) is on a different disk. Make room on the full disk, or choose "
        "another path, and run the command again."
    )


def _read_only_message(name: str) -> str:
    if disks.is_only_mount_read_only(Path(name)):
        return (
            f"{name} is mounted read-only for this process, but its disk has not failed. "
            f"{UNCHANGED}. A systemd unit can write only to its ReadWritePaths, and "
            "a container only to its writable volumes. Add this folder there, or use a folder that "
            "is already writable (NIGHTBOOK_HOME, TMPDIR)."
        )
    return (
        f"{name} is on a read-only disk. {UNCHANGED}. It was mounted read-only, or the system made "
        "it read-only because it is failing: check the mount options (findmnt) and the system log "
        "(dmesg). If it is failing, back up to another disk first (nightbook backup FILE, which "
        "does not write to this disk). Then mount the disk for writing."
    )


def _disk_message(number: int, name: str) -> str:
    if number == errno.EROFS:
        return _read_only_message(name)
    if number == errno.EFBIG:
        return (
            f"A file in {name} would be larger than the file size limit. {UNCHANGED}. Raise the "
            "limit of this session or service (ulimit -f, LimitFSIZE=), or move the home to a "
            "disk that allows larger files, and run the command again."
        )
    if number in NO_ACCESS:
        user = name_of(os.geteuid())
        if _is_own(Path(name)):
            return (
                f"{user} cannot read or write {name}: {os.strerror(number)}, although it belongs "
                f"to {user}. {UNCHANGED}. Its permissions, or the options of its disk (network "
                "and USB disks), do not allow it. Check them with ls -ld and findmnt. nightbook "
                "doctor tests the file system of the home."
            )
        return (
            f"{user} cannot read or write {name}: {os.strerror(number)}{_owner(name)}. "
            f"{UNCHANGED}. Run the command as that user, or give {user} access."
        )
    return (
        f"The disk with {name} failed ({os.strerror(number)}). {UNCHANGED}. Check the system log "
        "(dmesg), back up to another disk (nightbook backup FILE), and run nightbook "
        "verify to list damaged files."
    )


def _is_own(path: Path) -> bool:
    try:
        return path.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _owner(name: str) -> str:
    """Return a phrase that names a file's owner, or the owner of its nearest existing folder."""
    for path in (Path(name), *Path(name).parents):
        try:
            return f"; {path} belongs to {name_of(path.stat().st_uid)}"
        except OSError:
            continue
    return ""
