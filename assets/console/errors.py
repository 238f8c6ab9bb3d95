"""Error messages. Disk errors get advice, and this project's errors print their own message."""

import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

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
    # Search error messages too, because libraries copy the system's message into their own errors.
    for cause in _causes(error):
        number = cause.errno if isinstance(cause, OSError) else _errno_in(str(cause))
        if number in DISK_ERRORS:
            name = cause.filename if isinstance(cause, OSError) and cause.filename else home
            return _disk_message(
                number, os.fsdecode(name) if isinstance(name, bytes) else str(name)
            )
    return None


def helping_command(error: BaseException) -> str:
    """Return the command that shows or fixes an error's cause."""
    numbers = [cause.errno for cause in _causes(error) if isinstance(cause, OSError)]
    if FULL.intersection(numbers) or any(_errno_in(str(cause)) in FULL for cause in _causes(error)):
        return "prune"
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


def _errno_in(text: str) -> int | None:
    """Find the system's message for a disk error in a string. Return the error number, or None."""
    return next((number for number in DISK_ERRORS if os.strerror(number) in text), None)


def _disk_message(number: int, name: str) -> str:
    if number in FULL:
        return (
            f"The disk with {name} is full. {UNCHANGED}. Make room: nightbook prune --keep DAYS "
            "deletes old versions of the warehouse first and then old nights (--dry-run lists "
            "them)."
        )
    if number == errno.EROFS:
        return (
            f"{name} is on a read-only disk. {UNCHANGED}. The system makes a failing disk "
            "read-only, so back up to another disk first (nightbook backup FILE, which does not "
            "write to this disk). Then check the system log (dmesg), and mount the disk for "
            "writing."
        )
    if number == errno.EFBIG:
        return (
            f"A file in {name} would be larger than the file size limit. {UNCHANGED}. Raise the "
            "limit of this session or service (ulimit -f, LimitFSIZE=), or move the home to a "
            "disk that allows larger files, and run the command again."
        )
    if number in NO_ACCESS:
        user = name_of(os.geteuid())
        return (
            f"{user} cannot read or write {name}: {os.strerror(number)}{_owner(name)}. "
            f"{UNCHANGED}. Run the command as that user, or give {user} access."
        )
    return (
        f"The disk with {name} failed ({os.strerror(number)}). {UNCHANGED}. Check the system log "
        "(dmesg), back up to another disk (nightbook backup FILE), and run nightbook "
        "verify to list damaged files."
    )


def _owner(name: str) -> str:
    """Return a phrase that names a file's owner, or the owner of its nearest existing folder."""
    for path in (Path(name), *Path(name).parents):
        try:
            return f"; {path} belongs to {name_of(path.stat().st_uid)}"
        except OSError:
            continue
    return ""
