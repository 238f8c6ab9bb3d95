"""The creation of a home: only a person creates one, so an unmounted disk is never a first night.

A folder is a home if it contains one of the folders `landing`, `lake` or `warehouse`.
"""

import os
import sys
from pathlib import Path

from warehouse.contract.model import and_more
from warehouse.storage.layout import Layout, make_directory

MAX_NAMED = 3
ONLY_HOME = "nightbook install --only-home"


class HomeNotCreated(Exception):
    """The folder is not a home, and no person asked nightbook to create one there."""

    exit_code = 2

    def __init__(self, layout: Layout, doing: str) -> None:
        super().__init__(
            f"{layout.home} is not a nightbook home: {reason_for_no_home(layout)}. {doing} "
            "did not start. Nothing was read, and nothing was created. If you have a home, check "
            "that its disk is mounted, and check NIGHTBOOK_HOME and the working folder. "
            "nightbook creates a home only if a person asks for it: type nightbook run in a "
            f"terminal, nightbook install, or {ONLY_HOME} (without systemd)."
        )


def is_home(layout: Layout) -> bool:
    """Return whether a folder is a home. Raises `PermissionError` if it cannot be read."""
    # Do not count the folders `alerts`, `dagster`, `metrics` and `runs`. If a disk is not mounted,
    # a daemon or a container may create them in the empty mount point.
    return any(folder.is_dir() for folder in (layout.landing, layout.lake, layout.warehouse))


def is_person() -> bool:
    """Return whether a person at a terminal started this command."""
    streams = (sys.stdin, sys.stdout)
    # Python sets a stream to None if it was closed when the process started.
    return all(stream is not None and not stream.closed and stream.isatty() for stream in streams)


def refuse_missing_home(layout: Layout, doing: str, *, may_create: bool = False) -> None:
    """Raise `HomeNotCreated` unless the folder is a home or the caller may create it."""
    if not (may_create or is_home(layout)):
        raise HomeNotCreated(layout, doing)


def create_home(layout: Layout) -> bool:
    """Create a home. Return whether it is new. Its files belong to the owner of its folder."""
    if is_home(layout):
        return False
    make_directory(layout.landing)
    if os.geteuid() == 0:
        # Root may create the home of a service, whose user could not write to a folder of root.
        owner = layout.home.stat()
        os.chown(layout.landing, owner.st_uid, owner.st_gid)
    return True


def reason_for_no_home(layout: Layout) -> str:
    """Return why a folder is not a home, as a clause."""
    home: Path = layout.home
    if not os.path.lexists(home):
        return "that folder does not exist"
    if not home.is_dir():
        return "that is not a folder"
    names = sorted(path.name for path in home.iterdir() if not path.name.startswith("."))
    if not names:
        return "that folder is empty"
    return f"it contains {and_more(names, MAX_NAMED)}, but no nights"
