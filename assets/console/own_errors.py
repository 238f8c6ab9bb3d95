"""Whose words an error has: ours are one paragraph for the reader; a disk's are made one."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from pipelines.landing.owner import name_of

OURS = {"assets", "pipelines", "warehouse"}
STANDS = "What was not finished leaves nothing, and the last published warehouse stands"
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
SHUT = frozenset({errno.EACCES, errno.EPERM})
TROUBLES = (*FULL, *SHUT, errno.EROFS, errno.EIO)


def is_ours(error: BaseException) -> bool:
    """Whether an error is one of this project, so that its text may be shown as it is."""
    return type(error).__module__.partition(".")[0] in OURS


def disk_words(error: BaseException, home: Path) -> str | None:
    """An error of the disk in words, with the file and what to do; None where it is none.

    Libraries write what the system said into their own errors, so their texts are looked at too.
    """
    for cause in _causes(error):
        number = cause.errno if isinstance(cause, OSError) else _errno_of(str(cause))
        if number in TROUBLES:
            name = cause.filename if isinstance(cause, OSError) and cause.filename else home
            return _words(number, os.fsdecode(name) if isinstance(name, bytes) else str(name))
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _errno_of(text: str) -> int | None:
    """The trouble of which a library's text tells, by the system's own words for it."""
    return next((number for number in TROUBLES if os.strerror(number) in text), None)


def _words(number: int, name: str) -> str:
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
    if number in SHUT:
        me = name_of(os.geteuid())
        return (
            f"{name} may not be read or written by {me}: {os.strerror(number)}{_whose(name)}. "
            f"{STANDS}. Do it as that user, or have it opened for {me}."
        )
    return (
        f"The disk of {name} failed ({os.strerror(number)}). {STANDS}. See what the system says of "
        "it (dmesg), take a backup to another one (nightbook backup FILE), and let nightbook "
        "verify say what is damaged."
    )


def _whose(name: str) -> str:
    """Whose it is, or the nearest folder that can be looked at."""
    for path in (Path(name), *Path(name).parents):
        try:
            return f"; {path} belongs to {name_of(path.stat().st_uid)}"
        except OSError:
            continue
    return ""


def count_of(number: int, thing: str) -> str:
    """A number of things, as one says it."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
