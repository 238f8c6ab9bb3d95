"""Who writes, and on which machine: files of another user could not be written again.

One `sudo nightbook run` in a service's home leaves files of root, and every night after it fails.
"""

import os
import pwd
import socket
import tempfile
from pathlib import Path

from warehouse.storage.layout import Layout


class NotTheOwner(Exception):
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
    """Raise `NotTheOwner` where what is written here would be another's than what is here."""
    owner = _owner(layout)
    if owner not in (None, os.geteuid()) and owner != _owner_of_new(layout.home):
        raise NotTheOwner(layout, int(owner or 0), doing)


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
