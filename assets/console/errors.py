"""How an error is shown: our own in its own words, a disk's with what to do about it."""

import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from assets.console.declaration import FAILED
from assets.nightbook import Nightbook
from pipelines.edge.errors import (
    AccessRefused,
    ClockRefused,
    CredentialRefused,
    KeyRefused,
    OriginRefused,
    RedirectRefused,
)
from pipelines.landing.lock import PullRunning, name_of
from pipelines.settings import InvalidSettings
from warehouse.query.printable import printable_lines

BUSY = "status"
"""The command after an error that only says that another run is taking the night."""
_OF_SETTINGS = (
    *(AccessRefused, ClockRefused, CredentialRefused, KeyRefused, OriginRefused),
    *(RedirectRefused, InvalidSettings),
)
OURS = {"assets", "pipelines", "warehouse"}
STANDS = "What was not finished leaves nothing, and the last published warehouse stands"
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
SHUT = frozenset({errno.EACCES, errno.EPERM})
DISK_ERRORS = (*FULL, *SHUT, errno.EROFS, errno.EIO, errno.EFBIG)


def report_error(error: Exception, nightbook: Nightbook) -> int:
    """Print an error as one paragraph on standard error; return the exit code."""
    message = str(error) if is_ours(error) else disk_message(error, nightbook.layout.home)
    # Raised by our own code without a number, with a sentence of its own.
    if isinstance(error, FileNotFoundError | PermissionError) and error.errno is None:
        message = message or str(error)
    if message is None:
        message = (
            f"nightbook stopped at something it did not expect ({type(error).__name__}: {error}). "
            "The last published warehouse stands. Run it again with --debug before the command to "
            "see where."
        )
    print(printable_lines(message), file=sys.stderr)
    return getattr(error, "exit_code", FAILED) if is_ours(error) else FAILED


def is_ours(error: BaseException) -> bool:
    """Whether an error is one of this project, so that its text may be shown as it is."""
    return type(error).__module__.partition(".")[0] in OURS


def disk_message(error: BaseException, home: Path) -> str | None:
    """Return what to say of an error of the disk: which file, and what to do; None for others."""
    # Libraries write what the system said into errors of their own, so texts are searched too.
    for cause in _causes(error):
        number = cause.errno if isinstance(cause, OSError) else _errno_in(str(cause))
        if number in DISK_ERRORS:
            name = cause.filename if isinstance(cause, OSError) and cause.filename else home
            return _disk_message(
                number, os.fsdecode(name) if isinstance(name, bytes) else str(name)
            )
    return None


def helping_command(error: BaseException) -> str:
    """Return the command that helps after an error: the one that says or mends what is wrong."""
    numbers = [cause.errno for cause in _causes(error) if isinstance(cause, OSError)]
    if FULL.intersection(numbers) or any(_errno_in(str(cause)) in FULL for cause in _causes(error)):
        return "prune"
    if isinstance(error, PullRunning):
        return BUSY
    return "doctor" if isinstance(error, _OF_SETTINGS) else "run"


def _causes(error: BaseException) -> Iterator[BaseException]:
    visited: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in visited:
        visited.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _errno_in(text: str) -> int | None:
    """Return the disk error that a library's text names in the system's own words."""
    return next((number for number in DISK_ERRORS if os.strerror(number) in text), None)


def _disk_message(number: int, name: str) -> str:
    if number in FULL:
        return (
            f"The disk of {name} is full. {STANDS}. Make room: nightbook prune --keep DAYS lets "
            "old versions of the warehouse go first and then old nights (--dry-run says which)."
        )
    if number == errno.EROFS:
        return (
            f"{name} lies on a disk that can only be read. {STANDS}. Disks become so when they "
            "fail: take a backup to another one (nightbook backup FILE, which writes nothing "
            "here), then see what the system says of it (dmesg), and mount it to be written."
        )
    if number == errno.EFBIG:
        return (
            f"A file in {name} would be larger than files may be here. {STANDS}. Lift the limit of "
            "this session or service (ulimit -f, LimitFSIZE=), or move the home to a disk whose "
            "files may be larger, and run it again."
        )
    if number in SHUT:
        me = name_of(os.geteuid())
        return (
            f"{name} may not be read or written by {me}: {os.strerror(number)}{_owner(name)}. "
            f"{STANDS}. Do it as that user, or have it opened for {me}."
        )
    return (
        f"The disk of {name} failed ({os.strerror(number)}). {STANDS}. See what the system says of "
        "it (dmesg), take a backup to another one (nightbook backup FILE), and let nightbook "
        "verify say what is damaged."
    )


def _owner(name: str) -> str:
    """Say who owns a file, or the nearest folder above it that can be looked at."""
    for path in (Path(name), *Path(name).parents):
        try:
            return f"; {path} belongs to {name_of(path.stat().st_uid)}"
        except OSError:
            continue
    return ""
